//! `kiln manifests`: what lives and goes away together.

use std::fmt::Write as _;

use anyhow::Result;
use kiln_core::id::{ArtifactId, CacheId, ObjectId, RunId};
use kiln_core::time::Timestamp;
use kiln_proto::manifest::{Claim, Manifest, NewManifest, Resource};
use reqwest::Method;

use super::{named, print_json, print_list};
use crate::Outcome;
use crate::cli::{ManifestsArgs, ManifestsCommand, ServerArgs};
use crate::client::Client;
use crate::output::Console;
use crate::output::table::{Cell, Table, whole};
use crate::output::time::{self, ago};

pub(super) async fn run(args: &ManifestsArgs, console: &mut Console) -> Result<Outcome> {
    let (manifest, server) = match &args.command {
        ManifestsCommand::Ls { owner, limit, server } => {
            return list(owner, *limit, server, console).await;
        }
        ManifestsCommand::Create { owner, run, keep, for_ever, server } => {
            let (client, run) = match run {
                Some(run) => {
                    let (client, run) = named(run, server)?;
                    (client, Some(run.run().slug()))
                }
                None => (Client::open(server)?, None),
            };
            let retention = keep.map(|keep| keep.as_secs());
            let new = NewManifest { owner: owner.clone(), run, retention, for_ever: *for_ever };
            (client.post(&["manifests"]).body(&new).json().await?, server)
        }
        ManifestsCommand::Show { manifest, server } => {
            (Client::open(server)?.get(&["manifests", manifest]).json().await?, server)
        }
        ManifestsCommand::Add { manifest, resource, priority, server } => {
            let (kind, id) = (resource.kind.clone(), resource.id);
            let new = Resource { kind, id, cleanup_priority: *priority };
            let client = Client::open(server)?;
            (client.post(&["manifests", manifest, "resources"]).body(&new).json().await?, server)
        }
        ManifestsCommand::Drop { manifest, resource, server } => {
            let id = resource.id.to_string();
            let path = ["manifests", manifest, "resources", &resource.kind, &id];
            (Client::open(server)?.call(Method::DELETE, &path).json().await?, server)
        }
        ManifestsCommand::Seal { manifest, server } => {
            (Client::open(server)?.post(&["manifests", manifest, "seal"]).json().await?, server)
        }
        ManifestsCommand::Claim { manifest, resource, from, server } => {
            let (kind, id) = (resource.kind.clone(), resource.id);
            let wish = Claim { from: from.clone(), kind, id };
            let client = Client::open(server)?;
            (client.post(&["manifests", manifest, "claim"]).body(&wish).json().await?, server)
        }
    };
    show(&manifest, server.json, console)
}

async fn list(
    owner: &str,
    limit: usize,
    server: &ServerArgs,
    console: &mut Console,
) -> Result<Outcome> {
    let client = Client::open(server)?;
    let found: Vec<Manifest> = client.get(&["manifests"]).query("owner", owner).list(limit).await?;
    let table = |found: &[Manifest]| table(found, time::now()).text();
    print_list(console, server.json, &found, table, "there are no manifests")
}

fn show(manifest: &Manifest, json: bool, console: &mut Console) -> Result<Outcome> {
    if json {
        print_json(console, manifest)?;
        return Ok(Outcome::Clean);
    }
    console.print(&table(std::slice::from_ref(manifest), time::now()).text())?;
    console.print(&owned(manifest))?;
    Ok(Outcome::Clean)
}

fn table(manifests: &[Manifest], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        whole("MANIFEST"),
        whole("STATE"),
        whole("RUN"),
        whole("AGE"),
        whole("EXPIRES"),
    ]);
    for one in manifests {
        let run = one.run_id.map_or_else(|| "-".to_owned(), |run| RunId(run).slug());
        let expires = match (&one.expires_at, one.retention) {
            (Some(at), _) => at.clone(),
            (None, None) => "never".to_owned(),
            (None, Some(seconds)) => format!("{seconds} s after the seal"),
        };
        table.row([
            Cell::from(&one.slug),
            Cell::from(&one.state),
            Cell::from(run),
            Cell::from(ago(&one.created_at, now)),
            Cell::from(expires),
        ]);
    }
    table
}

/// What it owns, a line for each.
fn owned(manifest: &Manifest) -> String {
    let mut text = String::new();
    for one in &manifest.resources {
        let slug = match one.kind.as_str() {
            "artifact" => ArtifactId(one.id).slug(),
            "cache" => CacheId(one.id).slug(),
            _ => ObjectId(one.id).slug(),
        };
        let priority = one.cleanup_priority.map_or(String::new(), |it| format!(", priority {it}"));
        let _ = writeln!(text, "  {} {slug}{priority}", one.kind);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_shown_with_what_it_owns() {
        let manifest = Manifest {
            id: 4,
            slug: "m-4".to_owned(),
            run_id: Some(12_345),
            own: false,
            state: "DRAFT".to_owned(),
            retention: Some(60),
            created_at: "2026-11-16T05:28:15Z".to_owned(),
            released_at: None,
            expires_at: None,
            resources: vec![Resource {
                kind: "cache".to_owned(),
                id: 9,
                cleanup_priority: Some(65),
            }],
        };
        let now = time::parse("2026-11-16T05:31:15.000Z").unwrap();
        let text = table(std::slice::from_ref(&manifest), now).text();
        assert_eq!(
            anstream::adapter::strip_str(&text).to_string(),
            "MANIFEST  STATE  RUN    AGE  EXPIRES\n\
             m-4       DRAFT  r-9ix  3m   60 s after the seal\n"
        );
        assert_eq!(owned(&manifest), "  cache c-9, priority 65\n");
    }
}
