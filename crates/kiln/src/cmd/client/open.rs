//! `kiln open`: the page of a run, a job or a repository in the browser, or its address where there is none.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use kiln_core::id::{ArtifactId, JobId, RunId, RunnerId};
use kiln_proto::api::Runner;
use kiln_proto::content::ArtifactDetail;
use reqwest::Url;
use serde_json::json;

use super::print_json;
use crate::Outcome;
use crate::cli::OpenArgs;
use crate::client::Client;
use crate::client::target::{Target, What};
use crate::output::Console;

pub(super) async fn run(args: &OpenArgs, console: &mut Console) -> Result<Outcome> {
    let url = address(args).await?;
    if args.server.json {
        print_json(console, &json!({ "url": url }))?;
        return Ok(Outcome::Clean);
    }
    if !args.print && shown(&url) {
        console.note_line(&format!("opened {url}"));
    } else {
        console.print(&format!("{url}\n"))?;
    }
    Ok(Outcome::Clean)
}

/// Where the page is.
async fn address(args: &OpenArgs) -> Result<String> {
    let Some(text) = args.what.as_deref() else {
        let client = Client::open(&args.server)?;
        let repo = client.repo_meant(None).await?;
        let rest = repo.map(|repo| format!("/{repo}")).unwrap_or_default();
        return Ok(format!("{}{rest}", client.server()));
    };
    // Any page of a server may be pasted, also one that names no run.
    if text.contains("://") {
        let url = Url::parse(text.trim()).with_context(|| format!("`{text}` is no address"))?;
        ensure!(matches!(url.scheme(), "http" | "https"), "`{text}` is no address of a page");
        return Ok(url.into());
    }
    if text.contains('/') {
        let client = Client::open(&args.server)?;
        let repo = client.repo_meant(Some(text)).await?.unwrap_or_else(|| text.to_owned());
        return Ok(format!("{}/{repo}", client.server()));
    }
    if text.starts_with("a-") {
        let id: ArtifactId = text.parse()?;
        let client = Client::open(&args.server)?;
        let found: ArtifactDetail = client.get(&["artifacts", &id.slug()]).json().await?;
        let run = RunId(found.artifact.run_id).slug();
        let run = client.run(&run, None).await?.run;
        return Ok(format!("{}/artifacts/{id}/files", run.url));
    }
    if text.starts_with("n-") {
        let id: RunnerId = text.parse()?;
        let client = Client::open(&args.server)?;
        let found: Runner = client.get(&["runners", &id.to_string()]).json().await?;
        return Ok(format!("{}/runners#{}", client.server(), found.slug));
    }
    let target: Target = text.parse()?;
    let client = Client::open_for(&args.server, &target)?;
    let run = client.run(&target.what.run().to_string(), None).await?.run;
    Ok(match target.what {
        What::Run(_) => run.url,
        What::Job(JobId(id)) => format!("{}/job/{id}", run.url),
    })
}

/// Hands the address to the browser. Says whether there is one.
#[expect(
    clippy::disallowed_methods,
    reason = "a browser outlives this command, and the session names it"
)]
fn shown(url: &str) -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let has_screen = cfg!(target_os = "macos")
        || set("DISPLAY").is_some()
        || set("WAYLAND_DISPLAY").is_some()
        || set("BROWSER").is_some();
    if !has_screen {
        return false;
    }
    let usual = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let program = set("BROWSER").unwrap_or_else(|| usual.to_owned());
    let mut command = std::process::Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Programs that hand it on end at once; a browser itself goes on.
    match command.spawn() {
        Ok(mut child) => !child.try_wait().is_ok_and(|end| end.is_some_and(|end| !end.success())),
        Err(_) => false,
    }
}
