//! Who one is here, and what the server does and did.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use axum::Json;
use axum::extract::State;
use kiln_core::access::Right;
use kiln_core::id::OrgId;
use kiln_proto::api;
use kiln_store::directory::{audit, organizations};
use kiln_store::{Scope, Tx};

use super::page::{self, piece};
use super::params::OfOwner;
use crate::app::Shared;
use crate::auth::Caller;
use crate::clock;
use crate::http::error::Answer;
use crate::http::extract::Query as Params;
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::doctor;
use crate::service::runs::FIND;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(me))
        .routes(routes!(log))
        .routes(routes!(duties))
        .routes(routes!(doctor))
}

/// Who the server takes the caller for.
#[utoipa::path(
    get, path = "/api/me", tag = "about",
    responses((status = 200, body = api::Me), Problems)
)]
async fn me(caller: Caller) -> Json<api::Me> {
    Json(api::Me {
        kind: caller.kind().to_owned(),
        name: caller.name().to_owned(),
        admin: caller.grants().sees_everything(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        time: Some(clock::now().rfc3339()),
    })
}

/// What the server does by itself, and how that went last.
#[utoipa::path(
    get, path = "/api/duties", tag = "about",
    responses((status = 200, body = Vec<api::Duty>), Problems)
)]
async fn duties(State(app): State<Shared>, caller: Caller) -> Answer<Json<Vec<api::Duty>>> {
    caller.require(Right::Admin, None, "address")?;
    Ok(Json(app.board.duties()))
}

/// What the server finds out about its own health, and what to do about it.
#[utoipa::path(
    get, path = "/api/doctor", tag = "about",
    responses((status = 200, body = Vec<api::Checkup>), Problems)
)]
async fn doctor(State(app): State<Shared>, caller: Caller) -> Answer<Json<Vec<api::Checkup>>> {
    caller.require(Right::Admin, None, "address")?;
    Ok(Json(doctor::examine(&app).await))
}

/// Who did what and when, the newest first: in one organization, or everywhere.
#[utoipa::path(
    get, path = "/api/audit", tag = "about", params(OfOwner),
    responses((status = 200, body = api::Page<api::AuditEntry>), Problems)
)]
async fn log(
    State(app): State<Shared>,
    caller: Caller,
    Params(which): Params<OfOwner>,
) -> Answer<Json<api::Page<api::AuditEntry>>> {
    let page = page::page(which.after.as_deref(), which.limit)?;
    let org = match which.owner {
        None => None,
        Some(name) => {
            let work = async move |tx: &mut Tx<'_>| organizations::by_name(tx, FIND, &name).await;
            Some(app.store.read(work).await?.id)
        }
    };
    let scope = caller.require(Right::Admin, org, "organization")?;
    let work = async move |tx: &mut Tx<'_>| {
        let entries = match scope {
            Scope::Org(org) => audit::list(tx, scope, org, page).await?,
            Scope::System(_) => audit::list_all(tx, scope, page).await?,
        };
        let mut owners = HashMap::new();
        for org in entries.iter().filter_map(|entry| entry.org) {
            if let Entry::Vacant(place) = owners.entry(org) {
                place.insert(organizations::get(tx, FIND, org).await?.name);
            }
        }
        Ok((entries, owners))
    };
    let (entries, owners) = app.store.read(work).await?;
    let shown = entries.into_iter().map(|entry| shown(entry, &owners)).collect();
    Ok(Json(piece(shown, page, |entry| entry.id)))
}

fn shown(entry: audit::Entry, owners: &HashMap<OrgId, String>) -> api::AuditEntry {
    let detail = entry.detail.as_deref().and_then(|detail| serde_json::from_str(detail).ok());
    api::AuditEntry {
        id: entry.id,
        at: entry.at.rfc3339(),
        owner: entry.org.and_then(|org| owners.get(&org).cloned()),
        actor_kind: entry.actor.kind.word().to_owned(),
        actor: entry.actor.name,
        action: entry.action,
        subject: entry.subject,
        address: entry.actor.address,
        detail: detail.unwrap_or_default(),
    }
}
