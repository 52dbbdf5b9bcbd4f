//! What all pages share: the head, the bar at the top, and who is signed in.

use axum::http::HeaderMap;
use axum::response::Html;
use maud::{DOCTYPE, Markup, html};

use super::assets::address;
use super::visitor::{Theme, Visitor};

/// Nothing but our own files; no script and no style in the page itself.
pub(super) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Which entry of the bar a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    None,
    Dashboard,
    Runs,
    Queue,
    Runners,
    Repositories,
}

/// A page for somebody who is signed in.
#[derive(Debug)]
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    pub(super) section: Section,
    /// The run whose changes concern the page; all runs if it is 0; none if it never changes.
    pub(super) live: Option<i64>,
    pub(super) body: Markup,
}

impl Page<'_> {
    pub(super) fn show(self, visitor: &Visitor) -> Html<String> {
        let who = Some(visitor);
        let body = html! {
            div #page data-live=[self.live] { (self.body) }
        };
        Html(bare(self.title, self.section, who, &body).into_string())
    }
}

/// The whole document.
pub(super) fn bare(
    title: &str,
    section: Section,
    visitor: Option<&Visitor>,
    body: &Markup,
) -> Markup {
    themed(
        title,
        visitor.and_then(|visitor| visitor.theme),
        &html! {
            a.skip href="#main" { "To the content" }
            (bar(section, visitor))
            main #main tabindex="-1" { (body) }
            // What has changed, for those who do not see it. It never holds anything that ticks.
            p.sr #announce role="status" {}
            (help())
            (palette())
        },
    )
}

/// A document for somebody who is not signed in.
pub(super) fn outside(title: &str, headers: &HeaderMap, body: &Markup) -> Html<String> {
    let body = html! { main #main.outside { (body) } };
    Html(themed(title, Theme::of(headers), &body).into_string())
}

fn themed(title: &str, theme: Option<Theme>, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" data-theme=[theme.map(Theme::word)] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Kiln" }
                link rel="icon" href=(address("icon.svg")) type="image/svg+xml";
                link rel="stylesheet" href=(address("kiln.css"));
                script type="module" src=(address("kiln.js")) {}
            }
            body { (body) }
        }
    }
}

/// What the bar leads to.
pub(super) const PLACES: [(Section, &str, &str); 5] = [
    (Section::Dashboard, "/", "Dashboard"),
    (Section::Runs, "/runs", "Runs"),
    (Section::Queue, "/queue", "Queue"),
    (Section::Runners, "/runners", "Runners"),
    (Section::Repositories, "/repositories", "Repositories"),
];

fn bar(section: Section, visitor: Option<&Visitor>) -> Markup {
    html! {
        header.bar {
            a.brand href="/" aria-label="Kiln, to the dashboard" { (mark()) span { "Kiln" } }
            nav aria-label="Main" {
                @for (own, href, name) in PLACES {
                    a href=(href) aria-current=[(own == section).then_some("page")] { (name) }
                }
            }
            div.tools {
                a.icon #jump href="/jump" title="Jump to a page (Ctrl+K)" aria-label="Jump to a page" { (lens()) }
                button.icon #theme type="button" hidden title="Light or dark" aria-label="Switch between light and dark" {
                    (half_moon())
                }
                button.icon #keys type="button" hidden title="Keys (?)" aria-label="Show the keys" { "?" }
                @if let Some(visitor) = visitor {
                    span.who title="Signed in as" { (visitor.caller.name()) }
                    @if visitor.has_session {
                        form method="post" action="/sign-out" {
                            (form_token(visitor))
                            button.link type="submit" { "Sign out" }
                        }
                    }
                }
            }
        }
    }
}

/// What every form carries.
pub(super) fn form_token(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name="form_token" value=(visitor.form_token); }
}

fn help() -> Markup {
    let keys = [
        ("Ctrl K", "jump to a repository, workflow, run or page (⌘ K)"),
        ("/", "search or filter"),
        ("j  k", "next, previous entry or line"),
        ("n  N", "next, previous hit"),
        ("f", "first failure"),
        ("t", "time stamps of the log"),
        ("g", "graph, list or waterfall"),
        ("?", "these keys"),
    ];
    html! {
        dialog #help aria-labelledby="help-title" {
            h2 #help-title { "Keys" }
            dl.keys {
                @for (key, what) in keys { dt { kbd { (key) } } dd { (what) } }
            }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}

/// Where `palette.js` lets people type where they want to go.
fn palette() -> Markup {
    html! {
        dialog #palette aria-label="Jump to a page" {
            input #palette-text type="text" role="combobox" autocomplete="off" spellcheck="false"
                aria-label="A repository, workflow, run or page" aria-autocomplete="list" aria-expanded="false"
                aria-controls="palette-list" placeholder="Repository, workflow, run or page";
            ul #palette-list role="listbox" aria-label="Pages" {}
            p #palette-said role="status" {}
        }
    }
}

fn lens() -> Markup {
    html! {
        svg viewBox="0 0 16 16" aria-hidden="true" {
            circle cx="7" cy="7" r="4.500" fill="none" stroke="currentColor" stroke-width="1.500" {}
            path d="M10.500 10.500 14 14" stroke="currentColor" stroke-width="1.500" stroke-linecap="round" {}
        }
    }
}

/// A kiln with a fire in it.
pub(super) fn mark() -> Markup {
    html! {
        svg.mark viewBox="0 0 24 24" aria-hidden="true" {
            path.oven d="M3 21V11a9 9 0 0 1 18 0v10h-4v-3a5 5 0 0 0-10 0v3z" {}
            path.fire d="M12 20.5c-1.9 0-3-1.2-3-2.8 0-1.9 1.7-2.6 2-4.7 2 .9 4 2.600 4 4.700 0 1.600-1.100 2.800-3 2.800z" {}
        }
    }
}

fn half_moon() -> Markup {
    html! {
        svg viewBox="0 0 16 16" aria-hidden="true" {
            circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.5" {}
            path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor" {}
        }
    }
}
