//! Lists in GitHub's manner: by the number of the page, with a `Link` to the next.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;
use kiln_store::Page;
use kiln_store::runs::RunFilter;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::http::addresses::GITHUB;
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

    /// `Link` as GitHub's clients follow it, with all that was asked for besides the page.
    pub(super) fn links(self, app: &App, asked: &Asked, total: u64) -> HeaderMap {
        let (mut links, take) = (Vec::new(), self.take as u64);
        let last = total.min(DEEPEST).div_ceil(take);
        let mut link = |page: u64, name: &str| {
            let Asked { path, query } = asked;
            let base = format!("{}{GITHUB}{path}?{query}", app.config.public_url);
            links.push(format!("<{base}per_page={take}&page={page}>; rel=\"{name}\""));
        };
        let page = u64::from(self.page);
        if page > 1 {
            link(page - 1, "prev");
        }
        if page < last {
            link(page + 1, "next");
            link(last, "last");
        }
        if page > 1 {
            link(1, "first");
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

/// Where a list was asked for, and with which words besides those for the page.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    path: String,
    /// Ends with `&` unless it is empty.
    query: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Asked {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let path = parts.uri.path();
        let words = parts.uri.query().unwrap_or_default().split('&');
        let words = words.filter(|word| {
            let name = word.split('=').next().unwrap_or_default();
            !word.is_empty() && !["page", "per_page"].contains(&name)
        });
        let query = words.fold(String::new(), |query, word| query + word + "&");
        let path = path.strip_prefix(GITHUB).unwrap_or(path).to_owned();
        Ok(Self { path, query })
    }
}

const CREATED: &str = "`created`: expected a day or a time such as `2026-11-16`, one with `>`, `>=`, `<` or \
                       `<=` before it, or two with `..` between";

/// From when on, and before when.
type Span = (Option<Timestamp>, Option<Timestamp>);

/// A time in GitHub's words.
fn created(text: &str) -> Option<Span> {
    // Where a day or a second begins, and where it ends.
    let moment = |text: &str| {
        let day = Timestamp::parse_rfc3339(&format!("{text}T00:00:00Z"));
        let length = Duration::from_secs(if day.is_some() { 86_400 } else { 1 });
        let start = day.or_else(|| Timestamp::parse_rfc3339(&text.replace(' ', "+")))?;
        Some((start, start + length))
    };
    let edge = |text: &str| if text == "*" { Some(None) } else { moment(text).map(Some) };
    if let Some((from, to)) = text.split_once("..") {
        let (from, to) = (edge(from)?, edge(to)?);
        return Some((from.map(|(start, _)| start), to.map(|(_, end)| end)));
    }
    let signs = [">=", "<=", ">", "<", ""];
    let sign = signs.into_iter().find(|sign| text.starts_with(sign)).unwrap_or_default();
    let (start, end) = moment(&text[sign.len()..])?;
    Some(match sign {
        ">=" => (Some(start), None),
        "<=" => (None, Some(end)),
        ">" => (Some(end), None),
        "<" => (None, Some(start)),
        _ => (Some(start), Some(end)),
    })
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
    /// When it was made: `2026-11-16`, `>=2026-11-16T09:00:00Z`, `2026-11-01..2026-11-16`; `*` is any time.
    created: Option<String>,
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
        let (created_since, created_before) = match self.created.as_deref() {
            Some(text) => created(text).ok_or_else(|| Failure::invalid(CREATED))?,
            None => (None, None),
        };
        Ok(RunFilter {
            status,
            conclusion,
            branch: self.branch,
            event: self.event,
            head_sha: self.head_sha,
            actor: self.actor,
            created_since,
            created_before,
            ..RunFilter::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_github_reads_them() {
        let check = |text: &str, expect: &str| {
            let shown =
                |at: Option<Timestamp>| at.map_or_else(|| "*".to_owned(), Timestamp::rfc3339);
            let span =
                created(text).map(|(since, before)| format!("{} {}", shown(since), shown(before)));
            let short = span.map(|span| span.replace(":00.000Z", "").replace("T00:00", ""));
            assert_eq!(short.as_deref().unwrap_or("-"), expect, "{text}");
        };
        check("2026-11-16", "2026-11-16 2026-11-17");
        check(">=2026-11-16", "2026-11-16 *");
        check(">2026-11-16", "2026-11-17 *");
        check("<2026-11-16", "* 2026-11-16");
        check("<=2026-11-16", "* 2026-11-17");
        check("2026-11-01..2026-11-16", "2026-11-01 2026-11-17");
        check("*..2026-11-16", "* 2026-11-17");
        check("2026-11-16..*", "2026-11-16 *");
        check(">=2026-11-16T09:30:00Z", "2026-11-16T09:30 *");
        check(">=2026-11-16T09:30:00+02:00", "2026-11-16T07:30 *");
        // A plus sign that nobody encoded arrives as a space.
        check(">=2026-11-16T09:30:00 02:00", "2026-11-16T07:30 *");
        for wrong in ["", "*", "yesterday", "2026-13-01", ">=", "2026-11-16..", "..", "=2026-11-16"]
        {
            check(wrong, "-");
        }
    }
}
