//! `kiln runners`: who runs jobs, and who may.

use anyhow::{Context as _, Result, bail};
use kiln_core::id::RunnerId;
use kiln_core::time::Timestamp;
use kiln_proto::api::{NewRegistrationKey, RegistrationKey, Runner};
use reqwest::{Method, Url};
use serde_json::json;

use super::{MOST, print_json, print_list, runner};
use crate::Outcome;
use crate::cli::{RunnerArgs, RunnersArgs, RunnersCommand, ServerArgs};
use crate::client::Client;
use crate::client::here::pasted;
use crate::output::Console;
use crate::output::table::{Cell, Table, cut, whole};
use crate::output::text::{BAD, CALM, GOOD, QUIET};
use crate::output::time::{self, ago, until};

pub(super) async fn run(args: &RunnersArgs, console: &mut Console) -> Result<Outcome> {
    match &args.command {
        None => {
            let runners = list(&Client::open(&args.server)?).await?;
            let nothing = "there are no runners yet; `kiln runners key` shows how to start one";
            let table = |runners: &[Runner]| table(runners, time::now()).text();
            print_list(console, args.server.json, &runners, table, nothing)
        }
        Some(RunnersCommand::Show(args)) => runner::show(args, console).await,
        Some(RunnersCommand::Key { pool, owner, shared, uses, expires, server }) => {
            let wish = NewRegistrationKey {
                pool: pool.clone(),
                owner: owner.clone(),
                shared: *shared,
                expires_in: *expires,
                uses: *uses,
            };
            key(&wish, server, console).await
        }
        Some(RunnersCommand::Drain(args)) => {
            change(args, Method::POST, Some("drain"), "ends its jobs and takes no more", console)
                .await
        }
        Some(RunnersCommand::Undrain(args)) => {
            change(args, Method::POST, Some("undrain"), "takes jobs again", console).await
        }
        Some(RunnersCommand::Remove(args)) => {
            change(args, Method::DELETE, None, "is forgotten", console).await
        }
        Some(RunnersCommand::Revoke(args)) => {
            change(args, Method::POST, Some("revoke"), "is locked out", console).await
        }
    }
}

async fn list(client: &Client) -> Result<Vec<Runner>> {
    client.get(&["runners"]).list(MOST).await
}

async fn key(
    wish: &NewRegistrationKey,
    server: &ServerArgs,
    console: &mut Console,
) -> Result<Outcome> {
    let client = Client::open(server)?;
    let made: RegistrationKey = client.post(&["registration-keys"]).body(wish).json().await?;
    if server.json {
        print_json(console, &made)?;
        return Ok(Outcome::Clean);
    }
    let key = made.key.as_deref().context("the server made a key but did not show it")?;
    let uses = match made.uses_left {
        None | Some(0) => "any number of runners".to_owned(),
        Some(1) => "one runner".to_owned(),
        Some(uses) => format!("{uses} runners"),
    };
    let expires = until(&made.expires_at, time::now());
    let whose = match &made.owner {
        Some(owner) => format!("of `{owner}`"),
        None => "that all organizations share".to_owned(),
    };
    let only = if made.single_use_only {
        " Such a pool takes runners of a single job, unless the server has `allow_shared_host = true`."
    } else {
        ""
    };
    console.note_line(&format!(
        "lets {uses} into the pool `{}` {whose}, expires {expires}; it is shown this once.{only} On the machine of \
         the runner:",
        made.pool
    ));
    console.print(&format!("{}\n", command(&client.server(), key, made.single_use_only)))?;
    Ok(Outcome::Clean)
}

/// What is typed on the machine of a runner.
fn command(server: &str, key: &str, once: bool) -> String {
    let once = if once { " --once" } else { "" };
    format!("kiln runner --server {server} --key {key}{once}")
}

async fn change(
    args: &RunnerArgs,
    method: Method,
    word: Option<&str>,
    what: &str,
    console: &mut Console,
) -> Result<Outcome> {
    let page = pasted(&args.runner);
    let client = Client::open_at(&args.server, page.as_ref())?;
    let id = match page.as_ref().map(of_page) {
        Some(id) => id?.to_string(),
        None => find(&client, &args.runner).await?.to_string(),
    };
    let path: Vec<&str> = ["runners", &id].into_iter().chain(word).collect();
    client.call(method, &path).done().await?;
    if args.server.json {
        let done = word.unwrap_or("remove");
        print_json(console, &json!({"runner": args.runner, "id": id, "done": done}))?;
    } else {
        console.print(&format!("{} {what}\n", args.runner))?;
    }
    Ok(Outcome::Clean)
}

/// The runner that a page is about.
pub(crate) fn of_page(page: &Url) -> Result<RunnerId> {
    let parts: Vec<&str> = page.path_segments().map(Iterator::collect).unwrap_or_default();
    let at = parts.iter().rposition(|part| *part == "runners");
    let named = at.and_then(|at| parts.get(at + 1).copied()).or_else(|| page.fragment());
    let id = named.and_then(|text| text.parse().ok());
    id.with_context(|| {
        format!("`{page}` is not the address of a runner; name it as `kiln runners` does")
    })
}

/// By name, slug or number. A name counts first: runners may be called `42`.
pub(crate) async fn find(client: &Client, wanted: &str) -> Result<RunnerId> {
    let runners = list(client).await?;
    let named: Vec<&Runner> = runners.iter().filter(|runner| runner.name == wanted).collect();
    match named[..] {
        [one] => return Ok(RunnerId(one.id)),
        [] => {}
        _ => {
            let slugs: Vec<&str> = named.iter().map(|runner| runner.slug.as_str()).collect();
            bail!("several runners are called `{wanted}`: name one of {}", slugs.join(", "));
        }
    }
    let id: Option<RunnerId> = wanted.parse().ok();
    match id.filter(|id| runners.iter().any(|runner| runner.id == id.0)) {
        Some(id) => Ok(id),
        None => bail!("there is no runner `{wanted}`; `kiln runners` lists them"),
    }
}

fn table(runners: &[Runner], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        cut("NAME", 10),
        whole("STATUS"),
        whole("JOBS"),
        cut("LABELS", 10),
        whole("SEEN"),
        whole("RUNNER"),
        cut("TROUBLE", 10),
    ]);
    for runner in runners {
        let style = match runner.status.as_str() {
            "idle" | "busy" => GOOD,
            "draining" => CALM,
            "offline" => BAD,
            _ => QUIET,
        };
        table.row([
            Cell::from(&runner.name),
            Cell::styled(&runner.status, style),
            Cell::from(format!("{}/{}", runner.jobs, runner.max_parallel)),
            Cell::from(runner.labels.join(", ")),
            Cell::from(ago(&runner.last_seen_at, now)),
            Cell::from(&runner.slug),
            Cell::styled(runner.trouble.as_deref().unwrap_or_default(), CALM),
        ]);
    }
    table
}

/// What a server might answer, for unit tests.
#[cfg(test)]
pub(super) fn sample(name: &str, status: &str, trouble: Option<&str>) -> Runner {
    Runner {
        id: 7,
        slug: "n-7".to_owned(),
        name: name.to_owned(),
        pool: "default".to_owned(),
        owner: None,
        status: status.to_owned(),
        labels: ["self-hosted", "linux", "x64", "ubuntu-latest"].map(str::to_owned).to_vec(),
        os: "linux".to_owned(),
        architecture: "x64".to_owned(),
        cores: 8,
        memory_mb: 16_000,
        disk_mb: 100_000,
        max_parallel: 4,
        single_use: false,
        version: "0.0.0".to_owned(),
        jobs: 2,
        completed: 10,
        failed: 1,
        speed: 1.0,
        last_seen_at: "2026-11-16T05:31:00.000Z".to_owned(),
        trouble: trouble.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::text::width;

    #[test]
    fn runners_are_shown_with_what_ails_them() {
        let now = time::parse("2026-11-16T05:31:15.000Z").unwrap();
        let runners = [
            sample("builder-1", "busy", None),
            sample("builder-2", "offline", Some("its disk is full: 1 GB of 100 GB is free")),
        ];
        let bare = |room| {
            let text = table(&runners, now).within(room);
            anstream::adapter::strip_str(&text).to_string()
        };
        assert!(bare(None).contains(
            "builder-1  busy     2/4   self-hosted, linux, x64, ubuntu-latest  15s   n-7"
        ));
        for line in bare(Some(80)).lines() {
            assert!(width(line) <= 80, "{line}");
        }
        assert!(bare(Some(80)).contains("its disk"), "{}", bare(Some(80)));
    }
}
