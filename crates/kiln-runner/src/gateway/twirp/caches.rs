//! `CacheService`: the second version of caches.

use kiln_proto::content::{FindCache, NewCache};
use serde_json::{Value, json};

use super::super::door::Door;
use super::super::grants::{Entry, Grant};
use super::super::services::{Reason, Refusal, Stored};
use super::{check_size, number, text};

/// What a key may have, as with GitHub.
const LONGEST_KEY: usize = 512;
const LONGEST_VERSION: usize = 512;
/// The key and those that will do instead.
const MOST_KEYS: usize = 10;

pub(super) fn find(door: &Door, body: &Value) -> Result<Value, Refusal> {
    let others = body["restore_keys"].as_array().map_or(&[][..], Vec::as_slice);
    let others = others.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let wanted = wanted(text(body, "key")?, others, text(body, "version")?)?;
    Ok(match door.services.find_cache(&wanted)? {
        None => json!({"ok": false}),
        Some(cache) => {
            let address =
                door.download(Stored::from(&cache), "application/octet-stream", "cache")?;
            json!({"ok": true, "signed_download_url": address, "matched_key": cache.key})
        }
    })
}

pub(super) fn create(door: &Door, body: &Value) -> Result<Value, Refusal> {
    let new = new(text(body, "key")?, text(body, "version")?)?;
    let pending = door.begin_cache(&new)?;
    let address = door.address(&door.grants.give(Grant::Write(pending))?);
    Ok(json!({"ok": true, "signed_upload_url": address}))
}

pub(super) fn finalize(door: &Door, body: &Value) -> Result<Value, Refusal> {
    let new = new(text(body, "key")?, text(body, "version")?)?;
    let entry = Entry::Cache(new.clone());
    let pending = door.grants.pending(&entry);
    let pending = pending.ok_or_else(|| Refusal::not_found("no cache of this key was begun"))?;
    let bytes = pending.upload.whole();
    let bytes = bytes.ok_or_else(|| Refusal::invalid("the bytes of the cache were not sent"))?;
    check_size(number(body, "size_bytes"), &bytes)?;
    let id = door.services.complete_cache(pending.id, &new, &bytes)?;
    door.grants.end(&entry);
    Ok(json!({"ok": true, "entry_id": id.to_string()}))
}

/// Keys within their bounds.
pub(in super::super) fn wanted(
    key: &str,
    restore_keys: Vec<String>,
    version: &str,
) -> Result<FindCache, Refusal> {
    let NewCache { key, version } = new(key, version)?;
    if restore_keys.len() >= MOST_KEYS {
        return Err(Refusal::invalid(format!("there are more than {MOST_KEYS} keys")));
    }
    for other in &restore_keys {
        check_key(other)?;
    }
    Ok(FindCache { key, restore_keys, version })
}

pub(in super::super) fn new(key: &str, version: &str) -> Result<NewCache, Refusal> {
    check_key(key)?;
    if version.is_empty() || version.len() > LONGEST_VERSION {
        return Err(Refusal::invalid("the version of a cache has 1 to 512 characters"));
    }
    Ok(NewCache { key: key.to_owned(), version: version.to_owned() })
}

fn check_key(key: &str) -> Result<(), Refusal> {
    let is_good =
        !key.is_empty() && key.chars().count() <= LONGEST_KEY && !key.contains([',', '\0']);
    if is_good {
        return Ok(());
    }
    Err(Refusal::invalid("the key of a cache has 1 to 512 characters and no comma"))
}

/// The words by which clients know that this is a rule and no fault.
pub(in super::super) fn denied(refusal: Refusal) -> Refusal {
    const WORDS: &str = "cache write denied:";
    if refusal.reason != Reason::Forbidden || refusal.message.starts_with(WORDS) {
        return refusal;
    }
    Refusal { message: format!("{WORDS} {}", refusal.message), ..refusal }
}
