//! The one-time link of a first start: a page with a button, and the token that it gives, once.

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse as _, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Shared;
use crate::http::error::{Answer, Failure};
use crate::http::extract::Path;
use crate::http::openapi::Problems;
use crate::peer::Peer;
use crate::service::tokens;
use crate::token::Kind;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(show, redeem))
}

/// A page with a button. Looking at it changes nothing, so that programs which look at links do no harm.
#[utoipa::path(
    get, path = "/welcome/{secret}", tag = "about", params(("secret" = String, Path)),
    responses((status = 200, description = "A page", body = String, content_type = "text/html"), Problems),
    security(())
)]
async fn show(Path(secret): Path<String>) -> Answer<Response> {
    check(&secret)?;
    Ok(page(
        "<p>This link makes an API token for the administrator. It works once.</p>\
         <form method=\"post\"><button>Make the token</button></form>",
    ))
}

/// Makes the token and shows it, once.
#[utoipa::path(
    post, path = "/welcome/{secret}", tag = "about", params(("secret" = String, Path)),
    responses((status = 200, description = "A page", body = String, content_type = "text/html"), Problems),
    security(())
)]
async fn redeem(
    State(app): State<Shared>,
    peer: Option<Extension<Peer>>,
    Path(secret): Path<String>,
) -> Answer<Response> {
    check(&secret)?;
    let address = peer.map(|Extension(peer)| peer.address.to_string());
    let token = tokens::redeem(&app, &secret, address).await?;
    // A token has no character that means anything in HTML.
    Ok(page(&format!(
        "<p>Keep this token: it is not shown again.</p><pre>{}</pre>\
         <p>Use it as <code>KILN_TOKEN</code>, or with <code>kiln --token</code>.</p>",
        token.reveal()
    )))
}

fn check(secret: &str) -> Answer<()> {
    if Kind::OneTime.fits(secret) { Ok(()) } else { Err(Failure::not_found("link")) }
}

fn page(content: &str) -> Response {
    let text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Kiln</title>\
         <h1>Welcome to Kiln</h1>{content}</html>"
    );
    let mut response = Html(text).into_response();
    let policy = "default-src 'none'; form-action 'self'; frame-ancestors 'none'";
    let policy = HeaderValue::from_static(policy);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}
