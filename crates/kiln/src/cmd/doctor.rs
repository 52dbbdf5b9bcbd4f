//! `kiln doctor`: what is wrong, and what to do.

mod one;

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kiln_core::time::Timestamp;
use kiln_proto::api::{Checkup, Me};
use kiln_store::{Options, Store};

use super::server::settings::Told;
use crate::Outcome;
use crate::cli::{DoctorArgs, SettingArgs};
use crate::client::Client;
use crate::client::error::{ClientError, Kind};
use crate::output::Console;
use crate::output::time::{self, lasted};

/// Clocks that differ by more confuse people.
const CLOCKS: Duration = Duration::from_secs(5);
/// The database of this machine must answer in this time.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &DoctorArgs, console: &mut Console) -> Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start")?;
    let found = runtime.block_on(async {
        match &args.what {
            Some(what) => Ok((one::examine(what, &args.server).await?, true)),
            None => examine(args).await,
        }
    });
    runtime.shutdown_background();
    let (findings, complete) = found?;
    for finding in &findings {
        let text = if args.server.json {
            format!("{}\n", serde_json::to_string(finding).context("cannot write JSON")?)
        } else {
            shown(finding)
        };
        console.print_raw(&text)?;
    }
    let well = findings.iter().all(|finding| finding.level == "ok");
    Ok(match (complete, well) {
        (false, _) => Outcome::Trouble,
        (true, true) => Outcome::Clean,
        (true, false) => Outcome::Errors,
    })
}

fn shown(finding: &Checkup) -> String {
    let mark = match finding.level.as_str() {
        "ok" => "✓",
        "warning" => "!",
        _ => "✗",
    };
    let mut text = format!("{mark} {}: {}\n", finding.what, finding.finding);
    if let Some(advice) = &finding.advice {
        let _ = writeln!(text, "    {advice}");
    }
    text
}

fn finding(level: &str, what: &str, finding: String, advice: Option<&str>) -> Checkup {
    let (level, what) = (level.to_owned(), what.to_owned());
    Checkup { level, what, finding, advice: advice.map(str::to_owned) }
}

/// What was found, and whether everything could be looked at.
async fn examine(args: &DoctorArgs) -> Result<(Vec<Checkup>, bool)> {
    let client = Client::open(&args.server)?;
    let server = client.server();
    let asked = time::now();
    let me = client.get(&["me"]).json::<Me>().await;
    let answered = time::now();
    let mut findings = Vec::new();
    let me = match me {
        Ok(me) => me,
        Err(error) if is_away(&error) => {
            let advice = Some("start it with `kiln up` or `kiln server`");
            findings.push(finding("error", "server", format!("{error:#}"), advice));
            // Somebody who asks about a server elsewhere does not mean this machine.
            if client.settings.is_local() {
                local(&mut findings).await?;
            }
            return Ok((findings, false));
        }
        Err(error) => {
            let advice = Some("`kiln login` takes a new token; `--token` gives one for once");
            findings.push(finding("error", "token", format!("{error:#}"), advice));
            return Ok((findings, false));
        }
    };
    let version = format!("{server} answers, Kiln {}", me.version);
    findings.push(finding("ok", "server", version, None));
    if me.version != env!("CARGO_PKG_VERSION") {
        let ours = env!("CARGO_PKG_VERSION");
        let text = format!("this command line is Kiln {ours}, the server {}", me.version);
        findings.push(finding("warning", "version", text, Some("use the same version of both")));
    }
    let whose = match &client.settings.token {
        Some(token) => format!("you are `{}`, by the token from {}", me.name, token.source),
        None => format!("you are `{}`, without a token", me.name),
    };
    findings.push(finding("ok", "token", whose, None));
    if let Some(theirs) = me.time.as_deref().and_then(time::parse) {
        findings.push(clocks(asked, theirs, answered));
    }
    match client.get(&["doctor"]).json::<Vec<Checkup>>().await {
        Ok(theirs) => findings.extend(theirs),
        Err(error) => {
            let advice = Some("ask with the token of an administrator");
            let text = format!("the server does not tell how it does: {error:#}");
            findings.push(finding("error", "server", text, advice));
            return Ok((findings, false));
        }
    }
    Ok((findings, true))
}

/// Compares the clock of this machine with the server's, which answered somewhere between two moments.
fn clocks(asked: Timestamp, theirs: Timestamp, answered: Timestamp) -> Checkup {
    let (difference, word) = if theirs < asked {
        (asked.since(theirs), "ahead of")
    } else if theirs > answered {
        (theirs.since(answered), "behind")
    } else {
        (Duration::ZERO, "")
    };
    if difference < CLOCKS {
        let text = "this machine and the server agree about the time".to_owned();
        return finding("ok", "clock", text, None);
    }
    let text = format!("the clock of this machine is {} {word} the server's", lasted(difference));
    let advice =
        Some("let both take the time from the network (NTP): ages and tokens depend on it");
    finding("warning", "clock", text, advice)
}

fn is_away(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ClientError>().is_some_and(|error| error.kind == Kind::Away)
}

/// What can be seen without a server.
async fn local(findings: &mut Vec<Checkup>) -> Result<()> {
    let told = Told::of(&SettingArgs::default())?;
    for problem in &told.problems {
        let advice = Some("`kiln config check` lists all that is wrong");
        findings.push(finding("error", "settings", problem.to_string(), advice));
    }
    let data = &told.config.data;
    if !data.exists() {
        let text = format!("there is no folder `{}` yet", data.display());
        findings.push(finding("warning", "data", text, Some("the first `kiln up` makes it")));
        return Ok(());
    }
    if let Some(process) = holder(data) {
        let text = format!("process {process} uses `{}`, but does not answer", data.display());
        let advice = Some("does it listen elsewhere? its first line and its log say where");
        findings.push(finding("warning", "data", text, advice));
    }
    findings.push(database(&told.config.database).await);
    Ok(())
}

/// The process that has the folder.
fn holder(data: &Path) -> Option<u32> {
    let file = std::fs::File::open(data.join("lock")).ok()?;
    match file.try_lock() {
        Err(std::fs::TryLockError::WouldBlock) => {
            let text = std::io::read_to_string(&file).unwrap_or_default();
            Some(text.trim().parse().unwrap_or_default())
        }
        _ => None,
    }
}

async fn database(options: &Options) -> Checkup {
    let look = async {
        let store = match options {
            Options::Sqlite { path } => Store::open_read_only(path)?,
            Options::Postgres { .. } => Store::open(options)?,
        };
        store.describe().await
    };
    match tokio::time::timeout(PATIENCE, look).await {
        Ok(Ok(about)) => {
            let text = format!("`{options}` can be read, schema {}", about.version);
            finding("ok", "database", text, None)
        }
        Ok(Err(error)) => {
            let text = format!("`{options}` cannot be read: {error}");
            finding("error", "database", text, Some("`kiln db status` says more"))
        }
        Err(_) => {
            let text = format!("`{options}` does not answer");
            finding("error", "database", text, Some("is it running, and the address right?"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_differ_are_named_with_how_and_how_far() {
        let check = |theirs: u64, expect: &str| {
            let found = clocks(Timestamp(100_000), Timestamp(theirs), Timestamp(103_000));
            let shown = format!("{}: {}", found.level, found.finding);
            assert!(shown.contains(expect), "{shown}");
        };
        for agree in [95_001, 100_000, 102_000, 107_999] {
            check(agree, "ok: this machine and the server agree");
        }
        check(95_000, "warning: the clock of this machine is 5s ahead of the server's");
        check(403_000, "warning: the clock of this machine is 5m 0s behind the server's");
    }
}
