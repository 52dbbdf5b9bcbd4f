//! The caches of a repository: which there are, how much they take, how often they were found.

use axum::extract::{Path, Query, State};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use kiln_core::access::Right;
use kiln_core::id::CacheId;
use kiln_store::content::caches::{Cache, Looks, Order, Usage};
use maud::{Markup, html};
use serde::Deserialize;

use super::failure::Shown;
use super::layout::{Page, Section, form_token};
use super::parts;
use super::repos::head;
use super::visitor::{Posted, Visitor};
use crate::app::Shared;
use crate::config::Content;
use crate::http::error::Failure;
use crate::percent::encoded;
use crate::service::content::seen;
use crate::service::job::TRUSTED;
use crate::service::repos;

/// How many a page shows.
const PIECE: u32 = 50;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    /// The beginning of keys.
    key: String,
    page: u32,
}

pub(super) async fn show(
    State(app): State<Shared>,
    visitor: Visitor,
    Path((owner, repo)): Path<(String, String)>,
    Query(which): Query<Which>,
) -> Shown<Html<String>> {
    let name = format!("{owner}/{repo}");
    let (row, _) = repos::find(&app, &visitor.caller, Right::Read, &name).await?;
    let key = (!which.key.is_empty()).then(|| which.key.clone());
    let piece = (which.page.saturating_mul(PIECE), PIECE);
    // Those that were used last come first.
    let order = (Order::Used, false);
    let (total, caches) = seen::caches(&app, &row, (key, None), order, piece).await?;
    let (usage, looks) = seen::usage(&app, &row).await?;
    let may_change = visitor.caller.grants().allow(Right::Write, Some(row.org)).is_ok();
    let body = html! {
        (head(&name, "caches"))
        (used(&usage, looks, &app.config.content))
        @if total == 0 && which.key.is_empty() {
            (parts::empty("No cache has been written yet", &html! {
                "A step with " code { "uses: actions/cache" } " writes one when its job succeeds."
            }))
        } @else {
            form.row method="get" role="search" {
                label { span { "Keys that begin with" } input #search name="key" value=(which.key); }
                button type="submit" { "Show" }
            }
            @if caches.is_empty() { p.calm { "No key begins like this." } } @else {
                ul.workflows { @for cache in &caches { (entry(&visitor, &name, cache, may_change)) } }
            }
            (more(&which, total))
        }
    };
    let title = format!("Caches of {name}");
    Ok(Page { title: &title, section: Section::Repositories, live: None, body }.show(&visitor))
}

/// How much there is of each trust and how much there may be; how often jobs looked for one.
fn used(usage: &[Usage], looks: Looks, content: &Content) -> Markup {
    let number = |number: i64| u64::try_from(number).unwrap_or_default();
    let room = |kind: &Usage| content.quota_of(kind.trust == TRUSTED);
    html! {
        @if !usage.is_empty() || looks != Looks::default() {
            dl.facts {
                @for kind in usage {
                    div {
                        dt { "Of " (kind.trust) " runs" }
                        dd { (parts::size(number(kind.bytes))) " of " (parts::size(room(kind))) " in " (parts::count(usize::try_from(kind.count).unwrap_or_default(), "cache", "caches")) }
                    }
                    div { dt { "Found" } dd { (parts::count(usize::try_from(kind.hits).unwrap_or_default(), "time", "times")) } }
                }
                @if looks != Looks::default() {
                    div { dt { "Jobs looked for one" } dd { (looks.hits) " found, " (looks.misses) " missed" } }
                }
            }
        }
    }
}

fn entry(visitor: &Visitor, repo: &str, cache: &Cache, may_change: bool) -> Markup {
    html! {
        li data-entry="" {
            div.what {
                span.title { (cache.key) }
                p.about {
                    (parts::size(u64::try_from(cache.size).unwrap_or_default()))
                    " · " code { (parts::short_reference(&cache.git_ref)) }
                    " · found " (parts::count(usize::try_from(cache.hits).unwrap_or_default(), "time", "times"))
                    @if cache.trust != "trusted" { " " span.tag { "untrusted" } }
                }
            }
            span.quiet { "used " (parts::when(cache.used_at)) }
            @if may_change {
                form method="post" action={ "/" (repo) "/caches/" (cache.id) "/delete" } {
                    (form_token(visitor))
                    button.quiet type="submit" { "Delete" }
                }
            }
        }
    }
}

fn more(which: &Which, total: u64) -> Markup {
    let address = |page: u32| format!("?key={}&page={page}", encoded(&which.key));
    let after = u64::from(which.page + 1) * u64::from(PIECE) < total;
    html! {
        nav.pages aria-label="Pages" {
            @if which.page > 0 { a.button href=(address(which.page - 1)) rel="prev" { "Used later" } }
            @if after { a.button href=(address(which.page + 1)) rel="next" { "Used earlier" } }
        }
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Nothing {}

pub(super) async fn delete(
    State(app): State<Shared>,
    Path((owner, repo, id)): Path<(String, String, String)>,
    Posted { visitor, .. }: Posted<Nothing>,
) -> Shown<Response> {
    let name = format!("{owner}/{repo}");
    let id: CacheId = id.parse().map_err(|_| Failure::not_found("cache"))?;
    seen::delete_cache(&app, &visitor.caller, &name, id).await?;
    Ok(Redirect::to(&format!("/{name}/caches")).into_response())
}
