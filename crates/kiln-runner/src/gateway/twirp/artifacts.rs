//! `ArtifactService`: artifacts of the fourth kind and later.

use kiln_proto::content::{Artifact, NewArtifact};
use serde_json::{Value, json};

use super::super::door::Door;
use super::super::grants::{Entry, Grant};
use super::super::services::Refusal;
use super::{check_size, number, text};

/// The name of a file, at most.
const LONGEST_NAME: usize = 200;
/// A type and a subtype, at most.
const LONGEST_TYPE: usize = 200;

pub(super) fn create(door: &Door, body: &Value) -> Result<Value, Refusal> {
    own_run(door, body)?;
    let name = text(body, "name")?;
    check_name(name)?;
    let content_type = body["mime_type"].as_str().filter(|kind| is_content_type(kind));
    let new = NewArtifact {
        name: name.to_owned(),
        content_type: content_type.map(str::to_owned),
        expires_at: body["expires_at"].as_str().map(str::to_owned),
        overwrite: false,
    };
    let entry = Entry::Artifact(new.clone());
    // What this job began and did not complete is begun anew.
    let id = match door.grants.pending(&entry) {
        Some(pending) => pending.id,
        None => door.services.reserve_artifact(&new)?,
    };
    let pending = door.grants.begin(entry, id)?;
    let address = door.address(&door.grants.give(Grant::Write(pending))?);
    Ok(json!({"ok": true, "signed_upload_url": address}))
}

pub(super) fn finalize(door: &Door, body: &Value) -> Result<Value, Refusal> {
    own_run(door, body)?;
    let name = text(body, "name")?;
    let entry = Entry::Artifact(NewArtifact { name: name.to_owned(), ..NewArtifact::default() });
    let pending = door.grants.pending(&entry);
    let pending =
        pending.ok_or_else(|| Refusal::not_found(format!("no artifact `{name}` was begun")))?;
    let Entry::Artifact(new) = &pending.entry else {
        return Err(Refusal::invalid("this is no artifact"));
    };
    let bytes = pending.upload.whole();
    let bytes = bytes.ok_or_else(|| Refusal::invalid(format!("no bytes of `{name}` were sent")))?;
    check_size(number(body, "size"), &bytes)?;
    let said = body["hash"].as_str().and_then(|hash| hash.strip_prefix("sha256:"));
    if said.is_some_and(|said| !said.eq_ignore_ascii_case(&bytes.hash)) {
        let message = format!("the bytes of `{name}` that came are not those that were sent");
        return Err(Refusal::invalid(message));
    }
    let id = door.services.complete_artifact(pending.id, new, &bytes)?;
    door.grants.end(&entry);
    Ok(json!({"ok": true, "artifact_id": id.to_string()}))
}

pub(super) fn list(door: &Door, body: &Value) -> Result<Value, Refusal> {
    own_run(door, body)?;
    let (name, id) = (body["name_filter"].as_str(), number(body, "id_filter"));
    let fits = |artifact: &Artifact| {
        name.is_none_or(|name| name == artifact.name)
            && id.is_none_or(|id| i64::try_from(id) == Ok(artifact.id))
    };
    let artifacts = door.services.artifacts()?;
    let artifacts: Vec<Value> = artifacts
        .iter()
        .filter(|artifact| fits(artifact))
        .map(|artifact| {
            json!({
                "workflow_run_backend_id": door.tokens.run,
                "workflow_job_run_backend_id": door.tokens.job,
                "database_id": artifact.id.to_string(), "name": artifact.name,
                "size": artifact.size.to_string(), "created_at": artifact.created_at,
                "digest": format!("sha256:{}", artifact.hash),
            })
        })
        .collect();
    Ok(json!({"artifacts": artifacts}))
}

pub(super) fn signed(door: &Door, body: &Value) -> Result<Value, Refusal> {
    own_run(door, body)?;
    let artifact = named(door, text(body, "name")?)?;
    Ok(json!({"signed_url": door.download_artifact(&artifact)?}))
}

pub(super) fn delete(door: &Door, body: &Value) -> Result<Value, Refusal> {
    own_run(door, body)?;
    let artifact = named(door, text(body, "name")?)?;
    door.services.delete_artifact(artifact.id)?;
    Ok(json!({"ok": true, "artifact_id": artifact.id.to_string()}))
}

fn named(door: &Door, name: &str) -> Result<Artifact, Refusal> {
    let mut artifacts = door.services.artifacts()?.into_iter();
    let found = artifacts.find(|artifact| artifact.name == name);
    found.ok_or_else(|| Refusal::not_found(format!("the run has no artifact `{name}`")))
}

/// The token is for one run; what names another one is refused.
fn own_run(door: &Door, body: &Value) -> Result<(), Refusal> {
    if text(body, "workflow_run_backend_id")? == door.tokens.run {
        return Ok(());
    }
    Err(Refusal::not_found("the token of this job is for another run"))
}

/// What GitHub's own clients allow, and what is a name of a file on every system.
pub(crate) fn check_name(name: &str) -> Result<(), Refusal> {
    let is_odd = |c: char| c.is_control() || "\":<>|*?\\/".contains(c);
    let is_good = (1..=LONGEST_NAME).contains(&name.len())
        && !name.contains(is_odd)
        && name != "."
        && name != "..";
    if is_good {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "the name of an artifact has 1 to {LONGEST_NAME} bytes and none of \" : < > | * ? \\ /"
    )))
}

fn is_content_type(text: &str) -> bool {
    text.len() <= LONGEST_TYPE
        && text.contains('/')
        && text.bytes().all(|byte| (32..127).contains(&byte))
}
