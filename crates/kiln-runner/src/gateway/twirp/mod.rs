//! The services of GitHub's "results": JSON by Twirp. Names are in snake case, what has its default is
//! left out, large numbers are text.

mod artifacts;
mod caches;

use serde_json::Value;

use super::door::{Door, no_such};
use super::request::{Answer, Reply, Request};
use super::services::{Refusal, Spooled};

pub(crate) use artifacts::check_name as check_artifact_name;
pub(super) use caches::{denied, new, wanted};

pub(super) fn answer(door: &Door, request: &mut Request<'_>, call: &str) -> Answer {
    if request.method() != "POST" {
        return Err(no_such(request));
    }
    let body = request.json()?;
    let reply = match call {
        "CacheService/GetCacheEntryDownloadURL" => caches::find(door, &body),
        "CacheService/CreateCacheEntry" => caches::create(door, &body),
        "CacheService/FinalizeCacheEntryUpload" => caches::finalize(door, &body),
        "ArtifactService/CreateArtifact" => artifacts::create(door, &body),
        "ArtifactService/FinalizeArtifact" => artifacts::finalize(door, &body),
        "ArtifactService/ListArtifacts" => artifacts::list(door, &body),
        "ArtifactService/GetSignedArtifactURL" => artifacts::signed(door, &body),
        "ArtifactService/DeleteArtifact" => artifacts::delete(door, &body),
        _ => return Err(no_such(request)),
    };
    Ok(Reply::json(&reply?))
}

/// A field that must be there.
fn text<'b>(body: &'b Value, name: &str) -> Result<&'b str, Refusal> {
    let found = body[name].as_str().filter(|text| !text.is_empty());
    found.ok_or_else(|| Refusal::invalid(format!("`{name}` is missing")))
}

/// A number, which may be text.
fn number(body: &Value, name: &str) -> Option<u64> {
    body[name].as_u64().or_else(|| body[name].as_str()?.parse().ok())
}

/// What a client says it has sent is what came.
fn check_size(said: Option<u64>, came: &Spooled) -> Result<(), Refusal> {
    match said {
        Some(said) if said != came.size => {
            Err(Refusal::invalid(format!("{said} bytes were to be sent, and {} came", came.size)))
        }
        _ => Ok(()),
    }
}
