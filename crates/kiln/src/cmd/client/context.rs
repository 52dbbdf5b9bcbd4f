//! `kiln context`: the servers that `kiln login` remembers, by name.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::print_json;
use crate::Outcome;
use crate::cli::{ContextArgs, ContextCommand};
use crate::client::file::ClientFile;
use crate::client::settings::{Environment, no_context};
use crate::output::Console;
use crate::output::table::{Cell, Table, cut, whole};

/// The longest name.
const LONGEST: usize = 64;

pub(super) fn run(args: &ContextArgs, console: &mut Console) -> Result<Outcome> {
    let path = Environment::read().login.context(
        "there is no home directory for `client.toml`; set XDG_CONFIG_HOME, or use KILN_SERVER and KILN_TOKEN",
    )?;
    let mut file = ClientFile::read(&path)?.unwrap_or_default();
    let (said, done, json) = match &args.command {
        ContextCommand::List { json } => return list(&file, *json, console),
        ContextCommand::Use { name, json } => {
            known(&file, name)?;
            file.choose(name);
            (format!("`{name}` counts now"), json!({ "used": name }), *json)
        }
        ContextCommand::Rename { old, new, json } => {
            known(&file, old)?;
            check_name(new)?;
            ensure!(
                file.login(new).is_none(),
                "there is a context `{new}` already; remove it first"
            );
            let was_current = file.current() == Some(old);
            let login = file.login(old);
            file.set(old, None);
            file.set(new, login);
            if was_current {
                file.choose(new);
            }
            (format!("`{old}` is `{new}` now"), json!({ "renamed": old, "name": new }), *json)
        }
        ContextCommand::Remove { name, json } => {
            known(&file, name)?;
            let was_current = file.current() == Some(name);
            file.set(name, None);
            if was_current {
                file.context = None;
            }
            let said =
                format!("`{name}` is forgotten; its token stays good until `kiln token revoke`");
            (said, json!({ "removed": name }), *json)
        }
    };
    file.write(&path)?;
    if json {
        print_json(console, &done)?;
    } else {
        console.note_line(&said);
    }
    Ok(Outcome::Clean)
}

fn known(file: &ClientFile, name: &str) -> Result<()> {
    if file.login(name).is_some() { Ok(()) } else { Err(no_context(name, &file.names())) }
}

/// Names are typed often, and stand in commands.
pub(super) fn check_name(name: &str) -> Result<()> {
    let plain = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    ensure!(
        !name.is_empty()
            && name.len() <= LONGEST
            && name.chars().all(plain)
            && !name.starts_with('-'),
        "`{}` is no name of a context; expected up to {LONGEST} letters, digits, `-`, `_` or `.`",
        name.escape_default()
    );
    Ok(())
}

fn list(file: &ClientFile, json: bool, console: &mut Console) -> Result<Outcome> {
    let current = file.current();
    let mut table = Table::new(&[whole(""), whole("NAME"), cut("SERVER", 40), whole("TOKEN")]);
    for name in file.names() {
        let login = file.login(name).unwrap_or_default();
        let (is_current, has_token) = (current == Some(name), login.token.is_some());
        let server = login.server.unwrap_or_default();
        if json {
            print_json(
                console,
                &json!({"name": name, "server": server, "current": is_current, "token": has_token}),
            )?;
        } else {
            let mark = if is_current { "*" } else { "" };
            let kept = if has_token { "kept" } else { "none" };
            table.row([Cell::from(mark), Cell::from(name), Cell::from(server), Cell::from(kept)]);
        }
    }
    if file.names().is_empty() {
        console.note_line("no server is remembered; `kiln login URL` does so, with `--context NAME` for more than one");
    } else if !json {
        console.print(&table.text())?;
    }
    Ok(Outcome::Clean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::file::UNNAMED;

    #[test]
    fn names_are_plain() {
        for good in ["work", "a", "ci.example.com", "me_2", UNNAMED] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "-x", "a/b", "ä", "a\nb", &"x".repeat(65)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
