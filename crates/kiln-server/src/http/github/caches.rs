//! Caches in GitHub's shape.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use kiln_core::access::Right;
use kiln_core::id::CacheId;
use kiln_proto::github::{Cache, CacheTrust, CacheUsage, Caches};
use kiln_store::content::caches as rows;

use super::list::{Asked, Paging};
use super::params::{OfCaches, OfKey};
use super::shape;
use crate::app::Shared;
use crate::auth::OfRepo;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::content::seen;
use crate::service::job::TRUSTED;
use crate::service::repos;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list, delete_by_key))
        .routes(routes!(usage))
        .routes(routes!(delete))
}

fn shown(cache: &rows::Cache) -> Cache {
    let number = |signed: i64| u64::try_from(signed).unwrap_or_default();
    Cache {
        id: cache.id.0,
        git_ref: cache.git_ref.clone(),
        key: cache.key.clone(),
        version: cache.version.clone(),
        last_accessed_at: shape::time(cache.used_at),
        created_at: shape::time(cache.created_at),
        size_in_bytes: number(cache.size),
        hits: number(cache.hits),
        trust: cache.trust.clone(),
    }
}

/// Caches of a repository, those that were used last first.
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/caches", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), OfCaches),
    responses((status = 200, body = Caches), Problems)
)]
async fn list(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo)): Path<(String, String)>,
    asked: Asked,
    Params(filter): Params<OfCaches>,
) -> Answer<(HeaderMap, Reply<Caches>)> {
    let full_name = format!("{owner}/{repo}");
    let (found, _) = repos::find(&app, &caller, Right::Read, &full_name).await?;
    let window = Paging { per_page: filter.per_page, page: filter.page }.window()?;
    let order = filter.order()?;
    let which = (filter.key, filter.git_ref);
    let (total_count, caches) = seen::caches(&app, &found, which, order, window.piece()).await?;
    let actions_caches = caches.iter().map(shown).collect();
    Ok((window.links(&app, &asked, total_count), Reply(Caches { total_count, actions_caches })))
}

/// Removes the caches of a key, and says which.
#[utoipa::path(
    delete, path = "/repos/{owner}/{repo}/actions/caches", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), OfKey),
    responses((status = 200, body = Caches), Problems)
)]
async fn delete_by_key(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo)): Path<(String, String)>,
    Params(of): Params<OfKey>,
) -> Answer<Reply<Caches>> {
    let full_name = format!("{owner}/{repo}");
    repos::find(&app, &caller, Right::Write, &full_name).await?;
    let key = of.key.ok_or_else(|| Failure::invalid("`key` is missing"))?;
    let gone = seen::delete_caches(&app, &caller, &full_name, (key, of.git_ref)).await?;
    let actions_caches: Vec<Cache> = gone.iter().map(shown).collect();
    Ok(Reply(Caches { total_count: actions_caches.len() as u64, actions_caches }))
}

#[utoipa::path(
    delete, path = "/repos/{owner}/{repo}/actions/caches/{cache_id}", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("cache_id" = String, Path)),
    responses((status = 204), Problems)
)]
async fn delete(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, id)): Path<(String, String, String)>,
) -> Answer<StatusCode> {
    let id: CacheId = id.parse().map_err(|_| Failure::not_found("cache"))?;
    seen::delete_cache(&app, &caller, &format!("{owner}/{repo}"), id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// How much a repository has, and may have.
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/cache/usage", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path)),
    responses((status = 200, body = CacheUsage), Problems)
)]
async fn usage(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo)): Path<(String, String)>,
) -> Answer<Reply<CacheUsage>> {
    let full_name = format!("{owner}/{repo}");
    let (found, _) = repos::find(&app, &caller, Right::Read, &full_name).await?;
    let number = |signed: i64| u64::try_from(signed).unwrap_or_default();
    let content = app.config.content;
    let of_trust = |one: rows::Usage| CacheTrust {
        quota_in_bytes: content.quota_of(one.trust == TRUSTED),
        trust: one.trust,
        count: number(one.count),
        size_in_bytes: number(one.bytes),
        hits: number(one.hits),
    };
    let (usage, looks) = seen::usage(&app, &found).await?;
    let trusts: Vec<CacheTrust> = usage.into_iter().map(of_trust).collect();
    Ok(Reply(CacheUsage {
        full_name,
        active_caches_size_in_bytes: trusts.iter().map(|one| one.size_in_bytes).sum(),
        active_caches_count: trusts.iter().map(|one| one.count).sum(),
        hits: number(looks.hits),
        misses: number(looks.misses),
        trusts,
    }))
}
