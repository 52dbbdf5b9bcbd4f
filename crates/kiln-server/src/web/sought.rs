//! A long list with a text that narrows it: the form above it, and the way to what follows.

use maud::{Markup, html};
use serde::Deserialize;

use crate::http::error::{Answer, Failure};
use crate::percent::encoded;

/// How many entries a page has.
pub(super) const ENTRIES: usize = 100;

/// What the address says: which entries, and behind which one the page begins.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sought {
    q: String,
    after: String,
}

impl Sought {
    pub(super) fn text(&self) -> &str {
        self.q.trim()
    }

    /// The entry before the page.
    pub(super) fn after(&self) -> Answer<Option<i64>> {
        if self.after.is_empty() {
            return Ok(None);
        }
        let id = self.after.parse().ok().filter(|id| (0..kiln_core::id::LIMIT).contains(id));
        id.map(Some).ok_or_else(|| Failure::invalid("`after` is not the end of a page"))
    }

    /// Whether it is the whole list from its beginning.
    pub(super) fn is_plain(&self) -> bool {
        self.text().is_empty() && self.after.is_empty()
    }

    pub(super) fn form(&self, base: &str, label: &str, hint: &str) -> Markup {
        html! {
            form.filter method="get" action=(base) role="search" aria-label=(label) {
                label { span { "Search" } input #search type="search" name="q" value=(self.text()) placeholder=(hint); }
                div.do {
                    button type="submit" { "Filter" }
                    @if !self.is_plain() { a.quiet href=(base) { "Clear" } }
                }
            }
        }
    }

    pub(super) fn pages(&self, base: &str, next: Option<i64>) -> Markup {
        let text = match self.text() {
            "" => String::new(),
            text => format!("q={}", encoded(text)),
        };
        let first = if text.is_empty() { base.to_owned() } else { format!("{base}?{text}") };
        let and = if text.is_empty() { "" } else { "&" };
        html! {
            @if next.is_some() || !self.after.is_empty() {
                nav.pages aria-label="Pages" {
                    @if !self.after.is_empty() { a.button href=(first) rel="first" { "First" } }
                    @if let Some(next) = next {
                        a.button href={ (base) "?" (text) (and) "after=" (next) } rel="next" { "Next" }
                    }
                }
            }
        }
    }
}
