//! `kiln cache`: what jobs left for later ones.

use anyhow::Result;
use kiln_core::id::CacheId;
use kiln_core::time::Timestamp;
use kiln_proto::github::{Cache, CacheTrust, CacheUsage, Caches};
use reqwest::Method;

use super::place::Place;
use super::{cache_key, cache_local, print_json, print_list};
use crate::Outcome;
use crate::cli::{CacheArgs, CacheCommand, CacheOrder};
use crate::output::Console;
use crate::output::table::{Cell, Table, cut, whole};
use crate::output::text::size;
use crate::output::time::{self, ago};

/// How many one answer brings.
const PAGE: usize = 100;

pub(super) async fn run(args: &CacheArgs, console: &mut Console) -> Result<Outcome> {
    if let Some(outcome) = cache_local::run(&args.command, console) {
        return outcome;
    }
    match &args.command {
        CacheCommand::Ls { repo, key, reference, sort, limit, server, .. } => {
            let place = Place::find(server, repo.as_deref()).await?;
            let reference = reference.as_deref().map(full_ref);
            let caches = place.list(key.as_deref(), reference.as_deref(), *sort, *limit).await?;
            let table = |caches: &[Cache]| table(caches, time::now()).text();
            print_list(console, server.json, &caches, table, "there are no such caches")
        }
        CacheCommand::Rm { what, repo, reference, server, .. } => {
            let place = Place::find(server, repo.as_deref()).await?;
            remove(&place, what, reference.as_deref().map(full_ref), server.json, console).await
        }
        CacheCommand::Key(args) => cache_key::run(args, console),
        CacheCommand::Stats { repo, server, .. } => {
            let place = Place::find(server, repo.as_deref()).await?;
            let usage: CacheUsage =
                place.call(Method::GET, &["actions", "cache", "usage"]).json().await?;
            if server.json {
                print_json(console, &usage)?;
            } else {
                console.print(&stats(&usage).text())?;
                console.print(&looks(&usage))?;
            }
            Ok(Outcome::Clean)
        }
    }
}

impl Place {
    async fn list(
        &self,
        key: Option<&str>,
        reference: Option<&str>,
        order: CacheOrder,
        limit: usize,
    ) -> Result<Vec<Cache>> {
        let order = match order {
            CacheOrder::Used => "last_accessed_at",
            CacheOrder::Created => "created_at",
            CacheOrder::Size => "size_in_bytes",
        };
        let mut all = Vec::new();
        for page in 1_u32.. {
            let call = self.call(Method::GET, &["actions", "caches"]);
            let call = call.query_if("key", key).query_if("ref", reference).query("sort", order);
            let call = call.query("per_page", &PAGE.to_string()).query("page", &page.to_string());
            let found: Caches = call.json().await?;
            let is_last = found.actions_caches.len() < PAGE;
            all.extend(found.actions_caches);
            if is_last || all.len() >= limit {
                break;
            }
        }
        all.truncate(limit);
        Ok(all)
    }
}

/// A branch unless it says more.
pub(super) fn full_ref(text: &str) -> String {
    if text.starts_with("refs/") { text.to_owned() } else { format!("refs/heads/{text}") }
}

async fn remove(
    place: &Place,
    what: &str,
    reference: Option<String>,
    json: bool,
    console: &mut Console,
) -> Result<Outcome> {
    if let (Some(id), None) = (slug(what), &reference) {
        let id = id.0.to_string();
        place.call(Method::DELETE, &["actions", "caches", &id]).done().await?;
        console.note_line(&format!("removed the cache {what}"));
        return Ok(Outcome::Clean);
    }
    let call = place.call(Method::DELETE, &["actions", "caches"]).query("key", what);
    let gone: Caches = call.query_if("ref", reference).json().await?;
    if json {
        for cache in &gone.actions_caches {
            print_json(console, cache)?;
        }
        return Ok(Outcome::Clean);
    }
    let bytes = gone.actions_caches.iter().map(|cache| cache.size_in_bytes).sum();
    let count = gone.actions_caches.len();
    console.note_line(&format!("removed {count} caches of `{what}` with {}", size(bytes)));
    Ok(Outcome::Clean)
}

/// A cache by its slug. A number alone may be a key.
pub(super) fn slug(text: &str) -> Option<CacheId> {
    text.starts_with("c-").then(|| text.parse().ok()).flatten()
}

pub(super) fn table(caches: &[Cache], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        whole("CACHE"),
        cut("KEY", 20),
        cut("REF", 10),
        whole("SIZE"),
        whole("HITS"),
        whole("USED"),
        whole("TRUST"),
    ]);
    for cache in caches {
        table.row([
            Cell::from(CacheId(cache.id).slug()),
            Cell::from(&cache.key),
            Cell::from(cache.git_ref.strip_prefix("refs/heads/").unwrap_or(&cache.git_ref)),
            Cell::from(size(cache.size_in_bytes)),
            Cell::from(cache.hits.to_string()),
            Cell::from(ago(&cache.last_accessed_at, now)),
            Cell::from(&cache.trust),
        ]);
    }
    table
}

fn stats(usage: &CacheUsage) -> Table {
    let mut table = Table::new(&[
        whole("TRUST"),
        whole("CACHES"),
        whole("SIZE"),
        whole("QUOTA"),
        whole("USED"),
        whole("HITS"),
    ]);
    for CacheTrust { trust, count, size_in_bytes, quota_in_bytes, hits } in &usage.trusts {
        let percent = u128::from(*size_in_bytes) * 100 / u128::from(*quota_in_bytes).max(1);
        table.row([
            Cell::from(trust),
            Cell::from(count.to_string()),
            Cell::from(size(*size_in_bytes)),
            Cell::from(size(*quota_in_bytes)),
            Cell::from(format!("{percent} %")),
            Cell::from(hits.to_string()),
        ]);
    }
    table
}

/// How often jobs looked for a cache, if they ever did.
fn looks(usage: &CacheUsage) -> String {
    let (hits, all) = (usage.hits, usage.hits.saturating_add(usage.misses));
    if all == 0 {
        return String::new();
    }
    let percent = u128::from(hits) * 100 / u128::from(all);
    format!("jobs looked for a cache {all} times and found one {hits} times ({percent} %)\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_shown_with_their_use() {
        let cache = Cache {
            id: 9,
            git_ref: "refs/heads/main".to_owned(),
            key: "linux-deps".to_owned(),
            version: "v".to_owned(),
            last_accessed_at: "2026-11-16T05:28:15Z".to_owned(),
            created_at: "2026-11-16T05:28:15Z".to_owned(),
            size_in_bytes: 5 << 20,
            hits: 3,
            trust: "trusted".to_owned(),
        };
        let now = time::parse("2026-11-16T05:31:15.000Z").unwrap();
        let text = anstream::adapter::strip_str(&table(&[cache], now).text()).to_string();
        assert_eq!(
            text,
            "CACHE  KEY         REF   SIZE     HITS  USED  TRUST\n\
             c-9    linux-deps  main  5.0 MiB  3     3m    trusted\n"
        );
        assert_eq!((slug("c-9"), slug("9"), slug("c-x.1")), (Some(CacheId(9)), None, None));
        assert_eq!(full_ref("main"), "refs/heads/main");
        assert_eq!(full_ref("refs/pull/1/merge"), "refs/pull/1/merge");
    }

    /// R8
    #[test]
    fn looks_are_said_once_there_were_any() {
        let usage = |hits, misses| CacheUsage {
            full_name: "me/app".to_owned(),
            active_caches_size_in_bytes: 0,
            active_caches_count: 0,
            hits,
            misses,
            trusts: Vec::new(),
        };
        assert_eq!(looks(&usage(0, 0)), "");
        let said = "jobs looked for a cache 4 times and found one 3 times (75 %)\n";
        assert_eq!(looks(&usage(3, 1)), said);
        assert!(looks(&usage(u64::MAX, 1)).contains("(100 %)"));
    }
}
