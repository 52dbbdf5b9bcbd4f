//! What a run left: artifacts to download, to keep and to remove.

use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use kiln_core::access::Right;
use kiln_core::id::ArtifactId;
use kiln_core::time::Timestamp;
use kiln_proto::content::ArtifactDetail;
use maud::{Markup, html};

use super::super::failure::Shown;
use super::super::layout::form_token;
use super::super::parts;
use super::super::runs::address;
use super::super::visitor::{Posted, Visitor};
use super::find;
use crate::app::{App, Shared};
use crate::http::error::{Answer, Failure};
use crate::service::content::seen::{self, Found};
use crate::service::runs::Attempt;

/// The owner, the repository, the run and the artifact that an address names.
pub(in crate::web) type Place = (String, String, String, String);

pub(super) fn show(
    visitor: &Visitor,
    found: &Attempt,
    artifacts: &[ArtifactDetail],
    may_change: bool,
) -> Markup {
    html! {
        section #artifacts data-part="" aria-label="Artifacts" {
            @if !artifacts.is_empty() {
                h2 { "Artifacts " span.number { (artifacts.len()) } }
                ul.workflows {
                    @for artifact in artifacts { (row(visitor, found, artifact, may_change)) }
                }
            }
        }
    }
}

fn row(visitor: &Visitor, found: &Attempt, shown: &ArtifactDetail, may_change: bool) -> Markup {
    let artifact = &shown.artifact;
    let place = format!("{}/artifacts/{}", address(&found.named), artifact.id);
    html! {
        li data-entry="" {
            div.what {
                @if shown.expired { span.title { (artifact.name) } } @else {
                    a.title href={ (place) "/files" } data-open="" { (artifact.name) }
                }
                p.about {
                    (parts::size(artifact.size)) " · " (artifact.content_type) " · " (fate(shown))
                    " · " code title=(artifact.hash) { "sha256 " (artifact.hash.get(..12).unwrap_or_default()) "…" }
                    @if artifact.trust != "trusted" { " " span.tag { "untrusted" } }
                }
            }
            @if !shown.expired { a.button.small href=(place) aria-label={ "Download " (artifact.name) } { "Download" } }
            @if may_change {
                @if artifact.keep { (button(visitor, &place, "release", "Stop keeping")) }
                @else { (button(visitor, &place, "keep", "Keep")) }
                (button(visitor, &place, "delete", "Delete"))
            }
        }
    }
}

/// How long it stays.
fn fate(shown: &ArtifactDetail) -> String {
    let until = shown.artifact.expires_at.as_deref().and_then(Timestamp::parse_rfc3339);
    match until {
        _ if shown.artifact.keep => "kept".to_owned(),
        _ if shown.expired => "its time is over".to_owned(),
        Some(until) => format!("until {}", &parts::plain(until)[..10]),
        None => "stays".to_owned(),
    }
}

fn button(visitor: &Visitor, place: &str, order: &str, word: &str) -> Markup {
    html! {
        form method="post" action={ (place) "/" (order) } {
            (form_token(visitor))
            button.quiet type="submit" { (word) }
        }
    }
}

/// An artifact of the run that the address names, and where the run is.
pub(in crate::web) async fn one(
    app: &App,
    visitor: &Visitor,
    right: Right,
    place: Place,
) -> Answer<(Found, String)> {
    let (owner, repo, run, artifact) = place;
    let named = find(app, visitor, right, &(owner, repo, run)).await?;
    let missing = || Failure::not_found("artifact");
    let id: ArtifactId = artifact.parse().map_err(|_| missing())?;
    let found = seen::artifact(app, &visitor.caller, right, id).await?;
    if found.artifact.run == named.run.id { Ok((found, address(&named))) } else { Err(missing()) }
}

/// To an address from which it can be had for an hour.
pub(in crate::web) async fn download(
    State(app): State<Shared>,
    visitor: Visitor,
    Path(place): Path<Place>,
) -> Shown<Response> {
    let (found, _) = one(&app, &visitor, Right::Read, place).await?;
    let link = seen::link(&app, &found.artifact)?;
    Ok(Redirect::to(&link.url).into_response())
}

/// The buttons.
pub(in crate::web) async fn order(
    State(app): State<Shared>,
    Path((owner, repo, run, artifact, order)): Path<(String, String, String, String, String)>,
    Posted { visitor, .. }: Posted<super::Asked>,
) -> Shown<Response> {
    let place = (owner, repo, run, artifact);
    let (found, back) = one(&app, &visitor, Right::Write, place).await?;
    match order.as_str() {
        "keep" | "release" => {
            seen::keep(&app, &visitor.caller, found, order == "keep").await?;
        }
        "delete" => seen::delete(&app, &visitor.caller, &found).await?,
        _ => return Err(Failure::not_found("button").into()),
    }
    Ok(Redirect::to(&format!("{back}#artifacts")).into_response())
}
