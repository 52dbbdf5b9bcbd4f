//! Lists in GitHub's manner: by the number of the page, with a `Link` to the next.

use axum::http::{HeaderMap, HeaderValue, header};
use kiln_core::run::Conclusion;
use kiln_store::Page;
use kiln_store::runs::RunFilter;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::api::status_of;
use crate::http::error::{Answer, Failure};

const USUAL: u32 = 30;
const MOST: u32 = 100;
/// Whoever wants to go deeper narrows the list down, or follows the cursors of Kiln's own interface.
const DEEPEST: u64 = 10_000;

#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Paging {
    /// 100 at most.
    #[param(minimum = 1, maximum = 100)]
    pub(super) per_page: Option<u32>,
    /// Counts from one.
    #[param(minimum = 1)]
    pub(super) page: Option<u32>,
}

/// Where a page begins and ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) skip: usize,
    pub(super) take: usize,
    page: u32,
}

impl Paging {
    pub(super) fn window(self) -> Answer<Window> {
        let per_page = self.per_page.unwrap_or(USUAL).clamp(1, MOST);
        let page = self.page.unwrap_or(1).max(1);
        let skip = u64::from(page - 1) * u64::from(per_page);
        if skip >= DEEPEST {
            let message =
                format!("only the first {DEEPEST} entries can be reached; narrow the list");
            return Err(Failure::invalid(message));
        }
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        Ok(Window { skip, take: per_page as usize, page })
    }
}

impl Window {
    /// The pieces of the store that cover it.
    pub(super) fn first(self) -> Page {
        let all = u32::try_from(self.skip + self.take).unwrap_or(u32::MAX);
        Page::first(all.min(Page::LARGEST))
    }

    /// How many entries to pass over, and how many to take.
    pub(super) fn piece(self) -> (u32, u32) {
        let number = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        (number(self.skip), number(self.take))
    }

    /// `Link` as GitHub's clients follow it.
    pub(super) fn links(self, url: &str, total: u64) -> HeaderMap {
        let mut links = Vec::new();
        let mut link = |page: u32, name: &str| {
            links.push(format!("<{url}?per_page={}&page={page}>; rel=\"{name}\"", self.take));
        };
        if self.page > 1 {
            link(self.page - 1, "prev");
        }
        if (self.skip + self.take) as u64 <= total.saturating_sub(1) {
            link(self.page + 1, "next");
        }
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_str(&links.join(", "))
            && !links.is_empty()
        {
            headers.insert(header::LINK, value);
        }
        headers
    }
}

#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Filter {
    actor: Option<String>,
    branch: Option<String>,
    event: Option<String>,
    /// A status, or a conclusion.
    status: Option<String>,
    head_sha: Option<String>,
    #[param(minimum = 1, maximum = 100)]
    per_page: Option<u32>,
    #[param(minimum = 1)]
    page: Option<u32>,
}

impl Filter {
    pub(super) fn window(&self) -> Answer<Window> {
        Paging { per_page: self.per_page, page: self.page }.window()
    }

    pub(super) fn read(self) -> Answer<RunFilter> {
        let conclusion = self.status.as_deref().and_then(Conclusion::of_github);
        let status = match &self.status {
            Some(word) if conclusion.is_none() => Some(status_of(word)?),
            _ => None,
        };
        Ok(RunFilter {
            repo: None,
            workflow: None,
            workflow_named: None,
            status,
            conclusion,
            branch: self.branch,
            event: self.event,
            head_sha: self.head_sha,
            actor: self.actor,
            text: None,
            ended_since: None,
        })
    }
}
