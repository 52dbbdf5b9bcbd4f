//! `kiln login` and `kiln whoami`: which server, and who one is there.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _};

use anyhow::{Context as _, Result, bail};
use kiln_proto::api::{Me, Welcomed};
use reqwest::{Method, Url};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::json;

use super::{context, print_json};
use crate::Outcome;
use crate::cli::{LoginArgs, WhoamiArgs};
use crate::client::Client;
use crate::client::error::{self, Kind};
use crate::client::file::{ClientFile, Login, UNNAMED};
use crate::client::here::pasted;
use crate::client::settings::{self, Asked, Environment, Settings};
use crate::output::Console;

/// No token is longer.
const LONGEST: u64 = 4096;

pub(super) async fn run(args: &LoginArgs, console: &mut Console) -> Result<Outcome> {
    let environment = Environment::read();
    let path = environment.login.clone().context(
        "there is no home directory for `client.toml`; set XDG_CONFIG_HOME, or use KILN_SERVER and KILN_TOKEN",
    )?;
    let link = OneTime::of(&args.url);
    let server = match &link {
        Some(link) => link.server.clone(),
        None => settings::address(&args.url)?,
    };
    let shown = settings::shown(&server);
    let name = args.context.as_deref().unwrap_or(UNNAMED);
    context::check_name(name)?;
    // Contexts of before have no say in this.
    let environment = Environment { context: None, ..environment };
    // The link works once: what it gives must have a place to be kept.
    let mut file = ClientFile::read(&path)?.unwrap_or_default();
    let token = match (&args.token, &link) {
        (Some(_), Some(_)) => bail!("the link brings a token of its own; leave out `--token`"),
        (Some(token), None) => token.clone(),
        (None, Some(link)) => link.redeem(&shown, &environment).await?,
        (None, None) => ask(&shown, console)?,
    };
    let asked = Asked { server: Some(&shown), token: Some(&token), context: None };
    let client = Client::of(Settings::find(asked, &environment)?)?;
    let me: Me = client.get(&["me"]).json().await?;
    if me.kind == "anonymous" {
        console.note_line(&format!("{shown} lets everybody in; the token is kept all the same"));
    }
    // What else was set by hand stays, if it is for this server.
    let old = file.login(name).unwrap_or_default();
    let same =
        old.server.as_deref().and_then(|old| settings::address(old).ok()).as_ref() == Some(&server);
    let rest = if same { old } else { Login::default() };
    file.set(name, Some(Login { server: Some(shown.clone()), token: Some(token), ..rest }));
    file.choose(name);
    file.write(&path)?;
    if args.json {
        let written = path.display().to_string();
        print_json(
            console,
            &json!({"server": shown, "context": name, "name": me.name, "kind": me.kind, "file": written}),
        )?;
    } else {
        console.print(&format!(
            "you are {} at {shown}; kept in `{}`\n",
            who(&me),
            path.display()
        ))?;
    }
    Ok(Outcome::Clean)
}

/// A link that lets somebody in once: `…/welcome/SECRET`, as a first start of a server prints it.
struct OneTime {
    server: Url,
    secret: String,
}

impl OneTime {
    fn of(text: &str) -> Option<Self> {
        let mut url = pasted(text)?;
        let (base, secret) = url.path().trim_end_matches('/').rsplit_once("/welcome/")?;
        let secret = secret.to_owned();
        if secret.is_empty() || secret.contains('/') {
            return None;
        }
        let base = base.to_owned();
        url.set_path(&base);
        Some(Self { server: settings::address(url.as_str()).ok()?, secret })
    }

    /// The token that the server gives for it.
    async fn redeem(&self, server: &str, environment: &Environment) -> Result<String> {
        let asked = Asked { server: Some(server), ..Asked::default() };
        let environment = Environment { token: None, ..environment.clone() };
        let settings = Settings { token: None, ..Settings::find(asked, &environment)? };
        let client = Client::of(settings)?;
        let call = client.github_call(Method::POST, &["welcome", &self.secret]);
        match call.json::<Welcomed>().await {
            Ok(welcomed) => Ok(welcomed.token),
            Err(failed) if error::kind(&failed) == Some(Kind::NotFound) => bail!(
                "{server} does not know this link: it works once, and not for ever; `kiln token create` \
                 makes a token where you are let in already"
            ),
            Err(failed) => Err(failed),
        }
    }
}

/// Asks for the token without showing it, or reads it from a pipe.
fn ask(server: &str, console: &mut Console) -> Result<String> {
    let stdin = io::stdin();
    let mut line = String::new();
    if stdin.is_terminal() {
        console.eprint(&format!("Token for {server} (it is not shown): "));
        let hidden = Hidden::begin();
        let read = stdin.lock().take(LONGEST).read_line(&mut line);
        drop(hidden);
        console.eprint("\n");
        read.context("cannot read the token")?;
    } else {
        stdin.lock().take(LONGEST).read_line(&mut line).context("cannot read the token")?;
    }
    let token = line.trim();
    if token.is_empty() {
        bail!(
            "no token was given; `kiln token create` makes one, and `kiln up` writes one for this machine"
        );
    }
    Ok(token.to_owned())
}

/// The terminal shows nothing of what is typed until this is dropped.
struct Hidden(rustix::termios::Termios);

impl Hidden {
    fn begin() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &quiet).ok()?;
        Some(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // If the terminal is gone, it need not show anything.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

pub(super) async fn whoami(args: &WhoamiArgs, console: &mut Console) -> Result<Outcome> {
    let client = Client::open(&args.server)?;
    let me: Me = client.get(&["me"]).json().await?;
    let source = client.settings.token.as_ref().map(|token| token.source.clone());
    if args.server.json {
        let mut answer = json!({"server": client.server(), "token": source});
        if let (Some(answer), Ok(serde_json::Value::Object(me))) =
            (answer.as_object_mut(), serde_json::to_value(&me))
        {
            answer.extend(me);
        }
        print_json(console, &answer)?;
        return Ok(Outcome::Clean);
    }
    let mut text =
        format!("server   {} (Kiln {})\nyou are  {}\n", client.server(), me.version, who(&me));
    let _ = writeln!(text, "token    {}", source.as_deref().unwrap_or("none"));
    let own = env!("CARGO_PKG_VERSION");
    if me.version != own {
        let _ = writeln!(text, "this is  Kiln {own}");
    }
    console.print(&text)?;
    Ok(Outcome::Clean)
}

fn who(me: &Me) -> String {
    let admin = if me.admin { ", an administrator" } else { "" };
    match me.kind.as_str() {
        "anonymous" => format!("anonymous{admin}"),
        kind => format!("{} ({kind}{admin})", me.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_told_from_the_address_of_a_server() {
        let of =
            |text: &str| OneTime::of(text).map(|link| (settings::shown(&link.server), link.secret));
        let link = |server: &str| Some((server.to_owned(), "kot_a".to_owned()));
        assert_eq!(of("http://127.0.0.1:8420/welcome/kot_a"), link("http://127.0.0.1:8420"));
        assert_eq!(of(" https://ci.example/kiln/welcome/kot_a/ "), link("https://ci.example/kiln"));
        for other in [
            "https://ci.example",
            "ci.example/welcome/kot_a",
            "https://ci.example/welcome/",
            "https://ci.example/welcome/a/b",
            "https://me:x@ci.example/welcome/kot_a",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
