//! The calls of GitHub's REST interface that actions cannot do without.

use kiln_proto::content::Artifact;
use serde_json::{Value, json};

use super::door::{Door, no_such};
use super::request::{Answer, Reply, Request, decode};
use super::services::{Reason, Refusal};

/// Where the interface is, without a slash at the end.
pub(super) const BASE: &str = "api/v3";
/// What one page has, at most and unless said otherwise.
const PAGE: usize = 100;
const USUAL_PAGE: usize = 30;

pub(super) fn answer(door: &Door, request: &Request<'_>, rest: &str) -> Answer {
    let parts: Option<Vec<String>> = rest.split('/').map(decode).collect();
    let parts = parts.ok_or_else(|| no_such(request))?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let [kind, owner, name, rest @ ..] = &parts[..] else { return Err(no_such(request)) };
    if *kind != "repos" {
        return Err(no_such(request));
    }
    let own = &door.facts.repository;
    if !format!("{owner}/{name}").eq_ignore_ascii_case(own) {
        let message = format!("the token of this job is for `{own}`, not for `{owner}/{name}`");
        return Err(Refusal::not_found(message).into());
    }
    match (request.method(), rest) {
        ("GET", []) => Ok(Reply::json(&repository(door))),
        ("GET", ["actions", "runs", run, "artifacts"]) => {
            if *run != door.facts.run {
                let message = format!(
                    "the token of this job sees the artifacts of its own run, not of {run}"
                );
                return Err(Refusal::not_found(message).into());
            }
            list(door, request)
        }
        ("GET", ["actions", "artifacts"]) => list(door, request),
        ("GET", ["actions", "artifacts", id]) => {
            Ok(Reply::json(&shown(door, &numbered(door, id)?)))
        }
        ("GET", ["actions", "artifacts", id, "zip"]) => {
            let address = door.download_artifact(&numbered(door, id)?)?;
            Ok(Reply::empty("302 Found").header("Location", address))
        }
        ("DELETE", ["actions", "artifacts", id]) => {
            if !door.facts.may_write_actions {
                let message = "the job lacks `actions: write` in its `permissions`";
                return Err(Refusal::new(Reason::Forbidden, message).into());
            }
            door.services.delete_artifact(numbered(door, id)?.id)?;
            Ok(Reply::empty("204 No Content"))
        }
        _ => Err(no_such(request)),
    }
}

fn repository(door: &Door) -> Value {
    let full = &door.facts.repository;
    let (owner, name) = full.split_once('/').unwrap_or(("", full));
    json!({
        "name": name, "full_name": full, "owner": {"login": owner},
        "default_branch": door.facts.default_branch,
        "url": format!("{}/repos/{full}", door.address(BASE)),
    })
}

fn list(door: &Door, request: &Request<'_>) -> Answer {
    let count = |name: &str| request.parameter(name).and_then(|text| text.parse::<usize>().ok());
    let size = count("per_page").unwrap_or(USUAL_PAGE).clamp(1, PAGE);
    let page = count("page").unwrap_or(1).max(1);
    let name = request.parameter("name");
    let mut all = door.services.artifacts()?;
    all.retain(|artifact| name.as_ref().is_none_or(|name| *name == artifact.name));
    // The newest first, as with GitHub.
    all.reverse();
    let skipped = (page - 1).saturating_mul(size);
    let artifacts: Vec<Value> =
        all.iter().skip(skipped).take(size).map(|artifact| shown(door, artifact)).collect();
    Ok(Reply::json(&json!({"total_count": all.len(), "artifacts": artifacts})))
}

fn numbered(door: &Door, id: &str) -> Result<Artifact, Refusal> {
    let wanted: Option<i64> = id.parse().ok();
    let mut artifacts = door.services.artifacts()?.into_iter();
    let found = artifacts.find(|artifact| Some(artifact.id) == wanted);
    found.ok_or_else(|| Refusal::not_found(format!("the run has no artifact {id}")))
}

fn shown(door: &Door, artifact: &Artifact) -> Value {
    let repository = &door.facts.repository;
    let url =
        format!("{}/repos/{repository}/actions/artifacts/{}", door.address(BASE), artifact.id);
    json!({
        "id": artifact.id, "node_id": artifact.id.to_string(), "name": artifact.name,
        "size_in_bytes": artifact.size, "archive_download_url": format!("{url}/zip"), "url": url,
        "expired": false, "created_at": artifact.created_at, "updated_at": artifact.created_at,
        "expires_at": artifact.expires_at, "digest": format!("sha256:{}", artifact.hash),
        "workflow_run": {"id": artifact.run_id},
    })
}
