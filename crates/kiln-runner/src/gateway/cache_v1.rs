//! The first version of caches, which older clients speak: REST, with pieces at any place.

use std::sync::Arc;

use serde_json::json;

use super::door::{Door, no_such};
use super::grants::{Entry, Pending};
use super::request::{Answer, Reply, Request};
use super::services::{Refusal, Stored};
use super::spool::MOST_BYTES;
use super::twirp;

pub(super) fn answer(door: &Door, request: &mut Request<'_>, rest: &str) -> Answer {
    let id = rest.strip_prefix("caches/").and_then(|id| id.parse::<i64>().ok());
    match (request.method(), rest, id) {
        ("GET", "cache", _) => find(door, request),
        // Clients ask for this only to say more when there was nothing.
        ("GET", "caches", _) => Ok(Reply::json(&json!({"totalCount": 0, "artifactCaches": []}))),
        ("POST", "caches", _) => reserve(door, request),
        ("PATCH", _, Some(id)) => send(door, request, id),
        ("POST", _, Some(id)) => commit(door, request, id),
        _ => Err(no_such(request)),
    }
}

fn find(door: &Door, request: &Request<'_>) -> Answer {
    let missing = || Refusal::invalid("`keys` and `version` are needed");
    let keys = request.parameter("keys").ok_or_else(missing)?;
    let version = request.parameter("version").ok_or_else(missing)?;
    let mut keys = keys.split(',').map(str::to_owned);
    let key = keys.next().unwrap_or_default();
    let wanted = twirp::wanted(&key, keys.collect(), &version)?;
    let Some(cache) = door.services.find_cache(&wanted)? else {
        return Ok(Reply::empty("204 No Content"));
    };
    let address = door.download(Stored::from(&cache), "application/octet-stream", "cache")?;
    Ok(Reply::json(&json!({
        "cacheKey": cache.key, "cacheVersion": cache.version, "scope": cache.git_ref,
        "creationTime": cache.created_at, "archiveLocation": address,
    })))
}

fn reserve(door: &Door, request: &mut Request<'_>) -> Answer {
    let body = request.json()?;
    let text = |name: &str| body[name].as_str().unwrap_or_default();
    let new = twirp::new(text("key"), text("version"))?;
    if body["cacheSize"].as_u64().is_some_and(|size| size > MOST_BYTES) {
        return Err(Refusal::invalid(format!("a cache may have {} GiB", MOST_BYTES >> 30)).into());
    }
    let pending = door.begin_cache(&new)?;
    Ok(Reply::json_with("201 Created", &json!({"cacheId": pending.id})))
}

fn pending(door: &Door, id: i64) -> Result<Arc<Pending>, Refusal> {
    let nothing = || Refusal::not_found(format!("no cache {id} was begun in this job"));
    door.grants.numbered(id).ok_or_else(nothing)
}

fn send(door: &Door, request: &mut Request<'_>, id: i64) -> Answer {
    let pending = pending(door, id)?;
    let range = request.head.header("content-range").and_then(content_range);
    let wrong = || Refusal::invalid("`Content-Range: bytes FROM-TO/*` is needed");
    let (from, to) = range.ok_or_else(wrong)?;
    let mut file = pending.upload.writer_at(from, &door.spool)?;
    let came = request.save(&mut file, to - from)?;
    if came != to - from {
        return Err(Refusal::invalid("fewer bytes came than the range has").into());
    }
    pending.upload.wrote(from, to)?;
    Ok(Reply::empty("204 No Content"))
}

fn commit(door: &Door, request: &mut Request<'_>, id: i64) -> Answer {
    let pending = pending(door, id)?;
    let size = request.json()?["size"].as_u64();
    let size = size.ok_or_else(|| Refusal::invalid("`size` is missing"))?;
    let bytes = pending.upload.close(size)?;
    door.send_on(request.stream, &bytes)?;
    if let Entry::Cache(new) = &pending.entry {
        door.services.complete_cache(pending.id, new, &bytes)?;
    }
    door.grants.end(&pending.entry);
    Ok(Reply::empty("204 No Content"))
}

/// The first byte, and the one after the last.
fn content_range(text: &str) -> Option<(u64, u64)> {
    let (range, _) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (from, last) = range.split_once('-')?;
    let (from, last) = (from.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
    (from <= last && last < MOST_BYTES).then(|| (from, last + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_uploads_have_a_first_and_a_last_byte() {
        let check = |text: &str, expect: Option<(u64, u64)>| {
            assert_eq!(content_range(text), expect, "{text}");
        };
        check("bytes 0-0/*", Some((0, 1)));
        check("bytes 33554432-67108863/*", Some((33_554_432, 67_108_864)));
        for wrong in ["", "bytes */*", "bytes 5-4/*", "bytes 0-18446744073709551615/*", "0-1/*"] {
            check(wrong, None);
        }
    }
}
