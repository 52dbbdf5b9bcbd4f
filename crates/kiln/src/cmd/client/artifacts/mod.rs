//! `kiln artifacts`: what runs handed to people.

mod browse;
mod download;
mod remote;

use anyhow::{Context as _, Result, bail};
use kiln_core::id::ArtifactId;
use kiln_core::time::Timestamp;
use kiln_proto::content::{ArtifactDetail, KeepArtifact, RunArtifacts};
use reqwest::{Method, Url};

use super::{named_or_latest, print_json, print_list};
use crate::Outcome;
use crate::cli::{Artifact, ArtifactsArgs, ArtifactsCommand, ServerArgs};
use crate::client::Client;
use crate::output::Console;
use crate::output::table::{Cell, Table, cut, whole};
use crate::output::text::size;
use crate::output::time::{self, ago, until};

pub(super) async fn run(args: &ArtifactsArgs, console: &mut Console) -> Result<Outcome> {
    match &args.command {
        ArtifactsCommand::List { artifact, server } => {
            let (_, found) = find(artifact, server).await?;
            let table = |found: &[ArtifactDetail]| table(found, time::now()).text();
            print_list(console, server.json, &found, table, "the run has no such artifacts")
        }
        ArtifactsCommand::Download { artifact, dir, zip, max_size, server } => {
            let (client, found) = find_some(artifact, server).await?;
            let how = download::How { folder: dir, keep_archives: *zip, most: *max_size };
            for one in &found {
                let path = download::one(&client, one, &how).await?;
                if server.json {
                    print_json(
                        console,
                        &serde_json::json!({ "name": one.artifact.name, "path": path }),
                    )?;
                } else {
                    let (name, size) = (&one.artifact.name, size(one.artifact.size));
                    console.note_line(&format!("`{name}` ({size}) is in {}", path.display()));
                }
            }
            Ok(Outcome::Clean)
        }
        ArtifactsCommand::Browse { what, file, name, output, server } => {
            let artifact =
                Artifact { what: Some(what.clone()), name: name.iter().cloned().collect() };
            let (client, found) = find_some(&artifact, server).await?;
            let one = single(&found)?;
            match file {
                Some(file) => browse::file(&client, one, file, output.as_deref(), console).await,
                None => browse::list(&client, one, server.json, console).await,
            }
        }
        ArtifactsCommand::Keep { artifact, off, server } => {
            let (client, found) = find_some(artifact, server).await?;
            keep(&client, &found, !off, server.json, console).await
        }
        ArtifactsCommand::Delete { artifact, server } => {
            let (client, found) = find_some(artifact, server).await?;
            for one in &found {
                client.call(Method::DELETE, &["artifacts", &one.slug]).done().await?;
                console.note_line(&format!("removed `{}` ({})", one.artifact.name, one.slug));
            }
            Ok(Outcome::Clean)
        }
    }
}

async fn keep(
    client: &Client,
    found: &[ArtifactDetail],
    keep: bool,
    json: bool,
    console: &mut Console,
) -> Result<Outcome> {
    for one in found {
        let call = client.call(Method::PUT, &["artifacts", &one.slug, "keep"]);
        let kept: ArtifactDetail = call.body(&KeepArtifact { keep }).json().await?;
        if json {
            print_json(console, &kept)?;
        } else {
            let what = if keep { "stays" } else { "goes when its time is over" };
            console.note_line(&format!("`{}` ({}) {what}", kept.artifact.name, kept.slug));
        }
    }
    Ok(Outcome::Clean)
}

/// An artifact that was named by itself, with the address that it was pasted with.
fn of_itself(text: &str) -> Option<(ArtifactId, Option<Url>)> {
    let text = text.trim();
    if text.starts_with("a-") {
        return text.parse().ok().map(|id| (id, None));
    }
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let parts: Vec<&str> = url.path_segments()?.collect();
    let at = parts.iter().rposition(|part| *part == "artifacts")?;
    let id = parts.get(at + 1)?.parse().ok()?;
    Some((id, Some(url.clone())))
}

/// The artifacts that are meant.
async fn find(asked: &Artifact, server: &ServerArgs) -> Result<(Client, Vec<ArtifactDetail>)> {
    if let Some((id, url)) = asked.what.as_deref().and_then(of_itself) {
        let client = Client::open_at(server, url.as_ref())?;
        let one = client.get(&["artifacts", &id.slug()]).json().await?;
        return Ok((client, vec![one]));
    }
    let (client, target) = named_or_latest(asked.what.as_deref(), server).await?;
    let run = target.what.run().slug();
    let all: RunArtifacts = client.get(&["runs", &run, "artifacts"]).json().await?;
    let fits =
        |one: &ArtifactDetail| asked.name.is_empty() || asked.name.contains(&one.artifact.name);
    for name in &asked.name {
        if !all.artifacts.iter().any(|one| one.artifact.name == *name) {
            bail!("the run {run} has no artifact `{name}`; `kiln artifacts list {run}` lists them");
        }
    }
    Ok((client, all.artifacts.into_iter().filter(fits).collect()))
}

/// At least one.
async fn find_some(asked: &Artifact, server: &ServerArgs) -> Result<(Client, Vec<ArtifactDetail>)> {
    let found = find(asked, server).await?;
    if found.1.is_empty() {
        bail!("the run has no artifacts");
    }
    Ok(found)
}

fn single(found: &[ArtifactDetail]) -> Result<&ArtifactDetail> {
    match found {
        [one] => Ok(one),
        _ => {
            let names: Vec<&str> = found.iter().map(|one| one.artifact.name.as_str()).collect();
            let first = names.first().context("there is none")?;
            bail!(
                "the run has {} artifacts ({}); choose one, as with `--name {first}`",
                found.len(),
                names.join(", ")
            )
        }
    }
}

fn table(found: &[ArtifactDetail], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        whole("ARTIFACT"),
        cut("NAME", 16),
        whole("SIZE"),
        whole("AGE"),
        whole("EXPIRES"),
        whole("TRUST"),
    ]);
    for one in found {
        let artifact = &one.artifact;
        let expires = match &artifact.expires_at {
            _ if artifact.keep => "kept".to_owned(),
            _ if one.expired => "now".to_owned(),
            Some(at) => until(at, now),
            None => "never".to_owned(),
        };
        table.row([
            Cell::from(&one.slug),
            Cell::from(&artifact.name),
            Cell::from(size(artifact.size)),
            Cell::from(ago(&artifact.created_at, now)),
            Cell::from(expires),
            Cell::from(&artifact.trust),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn artifacts_are_named_by_slug_and_by_address() {
        let check = |text: &str, expect: Option<i64>| {
            assert_eq!(of_itself(text).map(|(id, _)| id.0), expect, "{text}");
        };
        check("a-4", Some(4));
        check("https://ci.example/me/app/actions/runs/7/artifacts/12", Some(12));
        check("https://ci.example/repos/me/app/actions/artifacts/12/zip", Some(12));
        check("https://ci.example/me/app/actions/runs/7", None);
        for other in ["12", "r-4", "a-", "ftp://x/artifacts/1", "artifacts/1"] {
            check(other, None);
        }
    }
}
