//! `kiln pause` and `kiln resume`: nothing is handed out, or it is again.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail};
use kiln_core::id::QueueId;
use kiln_proto::api::{Pause, Paused};
use reqwest::Method;
use serde_json::json;

use super::print_json;
use crate::Outcome;
use crate::cli::{PauseArgs, PauseScope, ResumeArgs, ServerArgs};
use crate::client::Client;
use crate::client::here::split;
use crate::output::{Console, one_line};

pub(super) async fn run(args: &PauseArgs, console: &mut Console) -> Result<Outcome> {
    if args.list {
        let client = Client::open(&args.server)?;
        let paused: Paused = client.get(&["pause"]).json().await?;
        if args.server.json {
            print_json(console, &paused)?;
        } else {
            console.print(&list(&paused))?;
        }
        return Ok(Outcome::Clean);
    }
    let reason = args.reason.clone().context("`--reason` is missing")?;
    if reason.trim().is_empty() {
        bail!("`--reason` is empty; say why, for those who wait");
    }
    let (client, path, what) = place(&args.scope, &args.server).await?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    client.call(Method::PUT, &path).body(&Pause { reason: reason.clone() }).done().await?;
    if args.server.json {
        print_json(console, &json!({"paused": what, "reason": reason}))?;
    } else {
        console.print(&format!(
            "paused {what}: what runs goes on, nothing new starts until `kiln resume`\n"
        ))?;
    }
    Ok(Outcome::Clean)
}

pub(super) async fn resume(args: &ResumeArgs, console: &mut Console) -> Result<Outcome> {
    let (client, path, what) = place(&args.scope, &args.server).await?;
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    client.call(Method::DELETE, &path).done().await?;
    if args.server.json {
        print_json(console, &json!({"resumed": what}))?;
    } else {
        console.print(&format!("resumed {what}\n"))?;
    }
    Ok(Outcome::Clean)
}

/// Where the pause is, and what it is of.
async fn place(scope: &PauseScope, server: &ServerArgs) -> Result<(Client, Vec<String>, String)> {
    let path = |parts: &[&str]| parts.iter().map(|&part| part.to_owned()).collect();
    let (client, repo) = Client::open_named(server, scope.repo.as_deref()).await?;
    Ok(match (repo, &scope.queue) {
        (Some(name), _) => {
            let (owner, repo) = split(&name)?;
            (client, path(&["repos", owner, repo, "pause"]), name)
        }
        (None, Some(queue)) => {
            let queue: QueueId = queue.parse()?;
            let what = format!("queue {}", queue.slug());
            (client, path(&["queues", &queue.to_string(), "pause"]), what)
        }
        (None, None) => (client, path(&["pause"]), "the server".to_owned()),
    })
}

fn list(paused: &Paused) -> String {
    let mut text = String::new();
    if let Some(reason) = &paused.server {
        let _ = writeln!(text, "the server: {}", one_line(reason));
    }
    for repo in &paused.repos {
        let reason = repo.paused.as_deref().unwrap_or_default();
        let _ = writeln!(text, "{}/{}: {}", repo.owner, repo.name, one_line(reason));
    }
    for queue in &paused.queues {
        let reason = queue.paused.as_deref().unwrap_or_default();
        let slug = QueueId(queue.id).slug();
        let (what, reason) = (one_line(&queue.requirements), one_line(reason));
        let _ = writeln!(text, "queue {slug} ({what}): {reason}");
    }
    if text.is_empty() {
        text.push_str("nothing is paused\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_paused_is_listed_with_its_reason() {
        assert_eq!(list(&Paused::default()), "nothing is paused\n");
        let queue = kiln_proto::api::Queue {
            id: 7,
            requirements: "gpu".to_owned(),
            waiting: 1,
            runners: 0,
            paused: Some("new ones come".to_owned()),
        };
        let paused =
            Paused { server: Some("moving".to_owned()), queues: vec![queue], repos: Vec::new() };
        assert_eq!(list(&paused), "the server: moving\nqueue q-7 (gpu): new ones come\n");
    }
}
