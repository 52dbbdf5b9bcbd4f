//! `kiln cache … --local`: what `kiln run` keeps on this machine. No server is asked.

use anyhow::{Context as _, Result, bail};
use kiln_core::id::CacheId;
use kiln_proto::content;
use kiln_proto::github::Cache;
use serde_json::json;

use super::cache::{full_ref, slug, table};
use super::{print_json, print_list};
use crate::Outcome;
use crate::cli::{CacheCommand, CacheOrder};
use crate::cmd::run::caches_here;
use crate::output::Console;
use crate::output::table::{Cell, Table, whole};
use crate::output::text::size;
use crate::output::time;

/// Whoever uses this machine is one person.
const TRUST: &str = "local";

/// Nothing if a server is meant.
pub(super) fn run(command: &CacheCommand, console: &mut Console) -> Option<Result<Outcome>> {
    match command {
        CacheCommand::Ls { local: true, key, reference, sort, limit, server, .. } => {
            let reference = reference.as_deref().map(full_ref);
            let is_meant = |cache: &Cache| {
                key.as_ref().is_none_or(|key| cache.key.starts_with(key.as_str()))
                    && reference.as_deref().is_none_or(|reference| cache.git_ref == reference)
            };
            Some(list(is_meant, *sort, *limit, server.json, console))
        }
        CacheCommand::Rm { local: true, what, reference, server, .. } => {
            Some(remove(what, reference.as_deref().map(full_ref).as_deref(), server.json, console))
        }
        CacheCommand::Stats { local: true, server, .. } => Some(stats(server.json, console)),
        _ => None,
    }
}

fn shown(cache: content::Cache) -> Cache {
    Cache {
        id: cache.id,
        git_ref: cache.git_ref,
        key: cache.key,
        version: cache.version,
        last_accessed_at: cache.used_at,
        created_at: cache.created_at,
        size_in_bytes: cache.size,
        hits: cache.hits,
        trust: TRUST.to_owned(),
    }
}

fn all() -> Result<Vec<Cache>> {
    let found = caches_here()?.list().context("cannot list the caches of this machine")?;
    Ok(found.into_iter().map(shown).collect())
}

fn list(
    is_meant: impl Fn(&Cache) -> bool,
    order: CacheOrder,
    limit: usize,
    json: bool,
    console: &mut Console,
) -> Result<Outcome> {
    let mut caches = all()?;
    caches.retain(is_meant);
    match order {
        // As they come.
        CacheOrder::Used => {}
        CacheOrder::Created => caches.sort_by(|one, other| other.created_at.cmp(&one.created_at)),
        CacheOrder::Size => caches.sort_by_key(|cache| std::cmp::Reverse(cache.size_in_bytes)),
    }
    caches.truncate(limit);
    let table = |caches: &[Cache]| table(caches, time::now()).text();
    print_list(console, json, &caches, table, "there are no such caches on this machine")
}

fn remove(
    what: &str,
    reference: Option<&str>,
    json: bool,
    console: &mut Console,
) -> Result<Outcome> {
    let id = slug(what);
    let is_meant = |cache: &content::Cache| {
        (cache.key == what || id == Some(CacheId(cache.id)))
            && reference.is_none_or(|reference| cache.git_ref == reference)
    };
    let gone = caches_here()?.remove(is_meant).context("cannot remove caches of this machine")?;
    if gone.is_empty() {
        bail!("this machine has no cache `{what}` of the repository here");
    }
    let gone: Vec<Cache> = gone.into_iter().map(shown).collect();
    if json {
        gone.iter().try_for_each(|cache| print_json(console, cache))?;
        return Ok(Outcome::Clean);
    }
    let (count, bytes) = (gone.len(), gone.iter().map(|cache| cache.size_in_bytes).sum());
    console.note_line(&format!("removed {count} caches of `{what}` with {}", size(bytes)));
    Ok(Outcome::Clean)
}

fn stats(json: bool, console: &mut Console) -> Result<Outcome> {
    let caches = all()?;
    let bytes: u64 = caches.iter().map(|cache| cache.size_in_bytes).sum();
    let hits: u64 = caches.iter().map(|cache| cache.hits).sum();
    let count = caches.len();
    if json {
        let usage = json!({"count": count, "size_in_bytes": bytes, "hits": hits});
        print_json(console, &usage)?;
        return Ok(Outcome::Clean);
    }
    let mut table = Table::new(&[whole("TRUST"), whole("CACHES"), whole("SIZE"), whole("HITS")]);
    table.row([
        Cell::from(TRUST),
        Cell::from(count.to_string()),
        Cell::from(size(bytes)),
        Cell::from(hits.to_string()),
    ]);
    console.print(&table.text())?;
    Ok(Outcome::Clean)
}
