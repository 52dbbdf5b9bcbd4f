//! Pieces of lists.

use kiln_core::id::LIMIT;
use kiln_proto::api;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::error::{Answer, Failure};

/// How many entries an answer has unless it is said.
const USUAL: u32 = 50;
const MOST: u32 = 100;

/// Which piece of a list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Paging {
    /// The `next` of the piece before.
    after: Option<String>,
    /// How many, 100 at most.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

impl Paging {
    pub(super) fn page(&self) -> Answer<kiln_store::Page> {
        page(self.after.as_deref(), self.limit)
    }
}

pub(super) fn page(after: Option<&str>, limit: Option<u32>) -> Answer<kiln_store::Page> {
    let limit = limit.unwrap_or(USUAL).clamp(1, MOST);
    let Some(after) = after else { return Ok(kiln_store::Page::first(limit)) };
    Ok(kiln_store::Page::after(number(after)?, limit))
}

/// The `next` of an earlier piece.
pub(super) fn number(after: &str) -> Answer<i64> {
    let id: Option<i64> = after.parse().ok().filter(|id| (0..LIMIT).contains(id));
    id.ok_or_else(|| Failure::invalid("`after` is not the `next` of an earlier piece"))
}

/// A piece of a list; it goes on if it is full.
pub(super) fn piece<T>(
    items: Vec<T>,
    page: kiln_store::Page,
    id: impl Fn(&T) -> i64,
) -> api::Page<T> {
    let full = items.len() >= page.limit as usize;
    let next = items.last().filter(|_| full).map(|last| id(last).to_string());
    api::Page { items, next }
}
