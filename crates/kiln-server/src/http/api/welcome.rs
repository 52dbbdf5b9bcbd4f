//! The one-time link of a first start: a page with a button; it gives a session and a token, once.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json as Reply};
use kiln_proto::api;

use crate::app::Shared;
use crate::http::error::{Answer, Failure};
use crate::http::extract::Path;
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::peer::Peer;
use crate::service::tokens;
use crate::token::Kind;
use crate::web;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(show, redeem))
}

/// A page with a button. Looking at it changes nothing, so that programs which look at links do no harm.
#[utoipa::path(
    get, path = "/welcome/{secret}", tag = "about", params(("secret" = String, Path)),
    responses((status = 200, description = "A page", body = String, content_type = "text/html"), Problems),
    security(())
)]
async fn show(Path(secret): Path<String>, headers: HeaderMap) -> Answer<Response> {
    check(&secret)?;
    Ok(web::welcome_page(&headers))
}

/// Makes the token and shows it, once: on a page with a session, or as JSON to programs that ask for that.
#[utoipa::path(
    post, path = "/welcome/{secret}", tag = "about", params(("secret" = String, Path)),
    responses(
        (status = 200, description = "A page, or the token", content(
            (String = "text/html"), (api::Welcomed = "application/json")
        )),
        Problems
    ),
    security(())
)]
async fn redeem(
    State(app): State<Shared>,
    peer: Option<Extension<Peer>>,
    Path(secret): Path<String>,
    headers: HeaderMap,
) -> Answer<Response> {
    check(&secret)?;
    let peer = peer.map(|Extension(peer)| peer);
    let address = peer.map(|peer| peer.address.to_string());
    let token = tokens::redeem(&app, &secret, address).await?;
    if wants_json(&headers) {
        let welcomed = api::Welcomed { token: token.reveal().to_owned() };
        return Ok(([(header::CACHE_CONTROL, "no-store")], Reply(welcomed)).into_response());
    }
    let cookie = web::session_cookie(&app, peer, token.reveal());
    let mut response = web::welcomed_page(&headers, token.reveal());
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// Browsers ask for pages, programs for JSON alone.
fn wants_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accepted.is_some_and(|kinds| {
        let has = |kind: &str| kinds.split(',').any(|one| one.trim().starts_with(kind));
        has("application/json") && !has("text/html")
    })
}

fn check(secret: &str) -> Answer<()> {
    if Kind::OneTime.fits(secret) { Ok(()) } else { Err(Failure::not_found("link")) }
}
