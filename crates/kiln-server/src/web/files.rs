//! The files of an artifact as a tree, and a look into one of them.

use std::collections::BTreeMap;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use kiln_core::access::Right;
use kiln_store::content::artifacts::Artifact;
use maud::{Markup, html};
use serde::Deserialize;

use super::failure::Shown;
use super::layout::{POLICY, Page, Section};
use super::preview::{Kind, kind_of};
use super::run;
use super::visitor::Visitor;
use super::{markdown, parts};
use crate::app::{App, Shared};
use crate::http::error::{Answer, Failure};
use crate::percent::encoded;
use crate::service::previews::{self, File};

/// How many files a page lists.
const MOST: usize = 5_000;
/// How deep folders are drawn; what is deeper keeps its slashes.
const DEEPEST: usize = 24;
/// How much of a text is shown, in bytes.
const TEXT: usize = 256 << 10;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chosen {
    file: String,
}

pub(super) async fn show(
    State(app): State<Shared>,
    visitor: Visitor,
    Path(place): Path<run::OfArtifact>,
    Query(chosen): Query<Chosen>,
) -> Shown<Response> {
    let (found, back) = run::artifact(&app, &visitor, Right::Read, place).await?;
    let artifact = &found.artifact;
    let here = format!("{back}/artifacts/{}", artifact.id);
    let files = previews::list(&app, artifact).await?;
    let only = (files.len() == 1).then(|| files[0].name.clone());
    let wanted = Some(chosen.file).filter(|name| !name.is_empty()).or(only);
    let look = match &wanted {
        Some(name) => Some(look(&app, (artifact, &here), &files, name).await?),
        None => None,
    };
    let body = html! {
        div.head {
            div {
                p.crumbs { a href=(back) { "Run" } span aria-hidden="true" { "/" } a href={ (back) "#artifacts" } { "Artifacts" } }
                h1 { (artifact.name) }
            }
            div.actions { a.button href=(here) { "Download all" } }
        }
        div.files {
            nav.tree aria-label="Files" {
                @if files.is_empty() { p.calm { "There is no file in it." } }
                (tree(&files, &here, wanted.as_deref()))
                @if files.len() > MOST {
                    p.calm { "And " (files.len() - MOST) " more; " code { "kiln artifacts browse" } " lists all." }
                }
            }
            section.look aria-label="Preview" {
                @match look { Some(look) => (look), None => p.calm { "Choose a file to look at it." } }
            }
        }
    };
    let title = format!("Files of {}", artifact.name);
    let page = Page { title: &title, section: Section::Runs, live: None, body }.show(&visitor);
    // Pages of artifacts are shown in a frame.
    let policy = HeaderValue::try_from(format!("{POLICY}; frame-src 'self'"));
    let policy = policy.map_err(Failure::internal)?;
    Ok(([(header::CONTENT_SECURITY_POLICY, policy)], page).into_response())
}

/// A folder of the tree.
#[derive(Debug, Default)]
struct Folder<'f> {
    folders: BTreeMap<&'f str, Folder<'f>>,
    files: Vec<(&'f str, &'f File)>,
}

fn tree(files: &[File], here: &str, wanted: Option<&str>) -> Markup {
    let mut root = Folder::default();
    for file in files.iter().take(MOST) {
        let mut at = &mut root;
        let mut rest = file.name.as_str();
        for _ in 0..DEEPEST {
            let Some((folder, below)) = rest.split_once('/') else { break };
            at = at.folders.entry(folder).or_default();
            rest = below;
        }
        at.files.push((rest, file));
    }
    branch(&root, here, wanted, "")
}

fn branch(folder: &Folder<'_>, here: &str, wanted: Option<&str>, path: &str) -> Markup {
    html! {
        ul {
            @for (name, inner) in &folder.folders {
                @let below = format!("{path}{name}/");
                li {
                    details open[path.is_empty() || wanted.is_some_and(|wanted| wanted.starts_with(&below))] {
                        summary { (name) "/" }
                        (branch(inner, here, wanted, &below))
                    }
                }
            }
            @for (name, file) in &folder.files {
                li data-entry="" {
                    a href={ (here) "/files?file=" (encoded(&file.name).replace('&', "%26")) } data-open=""
                        aria-current=[(wanted == Some(file.name.as_str())).then_some("true")] { (name) }
                    span.quiet { " " (parts::size(file.size)) }
                }
            }
        }
    }
}

/// One file, as far as it can be shown.
async fn look(
    app: &App,
    (artifact, here): (&Artifact, &str),
    files: &[File],
    name: &str,
) -> Answer<Markup> {
    let file = files.iter().find(|file| file.name == name);
    let file = file.ok_or_else(|| Failure::not_found("file"))?;
    let address = previews::address(app, artifact, name);
    let too_large = file.size > previews::LARGEST_FILE;
    let shown = match kind_of(name).1 {
        _ if too_large => html! {
            p.calm { "It is too large to be shown or had alone: " a href=(here) { "download the whole archive" } ", which has it." }
        },
        Kind::Page => html! {
            p { a href=(address) target="_blank" rel="noopener noreferrer" { "Open it alone" } }
            iframe.preview title={ "Preview of " (name) } src=(address) sandbox="allow-scripts" referrerpolicy="no-referrer" {}
        },
        Kind::Picture => html! { img.preview src=(address) alt=(name); },
        Kind::Other => html! { p.calm { "There is no preview of this kind of file." } },
        kind => text(&previews::read(app, artifact, file.clone()).await?, kind),
    };
    Ok(html! {
        div.look-head {
            h2 { (name) }
            span.quiet { (parts::size(file.size)) }
            @if !too_large { a.button.small href={ (address) "?download=1" } { "Download" } }
        }
        (shown)
    })
}

fn text(bytes: &[u8], kind: Kind) -> Markup {
    let part = &bytes[..bytes.len().min(TEXT)];
    if part.contains(&0) {
        return html! { p.calm { "It is no text; download it." } };
    }
    let text = String::from_utf8_lossy(part);
    html! {
        @if bytes.len() > part.len() {
            p.notice { "The first " (parts::size(part.len() as u64)) " of it:" }
        }
        @if kind == Kind::Markdown { div.markdown.card { (markdown::show(&text)) } }
        @else { pre.preview tabindex="0" { (text) } }
    }
}
