//! Coming in and going: a token, or the link of the first start, becomes a session.

use std::time::Duration;

use axum::Extension;
use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::failure::{Shown, sentence};
use super::layout;
use super::visitor::{Posted, from_our_pages, own_place};
use crate::app::{App, Shared};
use crate::auth::{Caller, session};
use crate::clock;
use crate::http::error::{Answer, Failure};
use crate::peer::Peer;
use crate::service::tokens;
use crate::token::{self, Kind};

/// How long a session lasts.
const LASTS: Duration = Duration::from_hours(24 * 14);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Next {
    next: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Given {
    token: String,
    next: String,
}

pub(super) async fn show(
    State(app): State<Shared>,
    Query(Next { next }): Query<Next>,
    headers: HeaderMap,
) -> Shown<Response> {
    let inside =
        !app.config.authentication || Caller::of_session(&headers, &app, None).await?.is_some();
    if inside {
        return Ok(Redirect::to(own_place(&next)).into_response());
    }
    Ok(page(&headers, &next, None).into_response())
}

fn page(headers: &HeaderMap, next: &str, wrong: Option<&str>) -> Html<String> {
    layout::outside(
        "Sign in",
        headers,
        &html! {
            (greeting("Sign in to Kiln"))
            @if let Some(wrong) = wrong { p.notice.bad role="alert" { (wrong) } }
            form.card.stack method="post" action="/sign-in" {
                // For keepers of passwords, which ask for a name.
            input type="text" name="username" autocomplete="username" value="kiln" hidden;
            label for="token" { "API token, or the link of the first start" }
                input #token name="token" type="password" autocomplete="current-password" required
                    autofocus spellcheck="false" placeholder="kpat_…";
                input type="hidden" name="next" value=(own_place(next));
                button.primary type="submit" { "Sign in" }
            }
            p.quiet { "A new token: " code { "kiln token create NAME" } " where you are signed in already. The first one is in "
                code { "client.toml" } " beside the server's data." }
        },
    )
}

fn greeting(title: &str) -> Markup {
    html! { div.greeting { (layout::mark()) h1 { (title) } } }
}

/// A token that is good becomes a session; a link that works once makes a token first.
pub(super) async fn enter(
    State(app): State<Shared>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    Form(given): Form<Given>,
) -> Shown<Response> {
    from_our_pages(&headers, &app.config.public_url)?;
    let peer = peer.map(|Extension(peer)| peer);
    match session_for(&app, peer, &given.token).await {
        Ok(cookie) => {
            let place = own_place(&given.next).to_owned();
            Ok(([(header::SET_COOKIE, cookie)], Redirect::to(&place)).into_response())
        }
        Err(failure) => {
            let message = sentence(failure.detail());
            let page = page(&headers, &given.next, Some(&message));
            Ok((failure.status(), page).into_response())
        }
    }
}

async fn session_for(app: &App, peer: Option<Peer>, given: &str) -> Answer<HeaderValue> {
    let given = given.trim();
    let last = given.rsplit('/').next().unwrap_or(given);
    let wrong = || {
        Failure::unauthorized(
            "this token is not known, was revoked or has expired; try another one",
        )
    };
    let secret = if Kind::OneTime.fits(last) {
        let address = peer.map(|peer| peer.address.to_string());
        tokens::redeem(app, last, address).await.map_err(|_| wrong())?.reveal().to_owned()
    } else {
        last.to_owned()
    };
    let hash = token::hash(&secret);
    if !Kind::Api.fits(&secret) || !app.bearers.knows(&app.store, hash).await? {
        return Err(wrong());
    }
    Ok(session_cookie(app, peer, &secret))
}

/// The cookie for whoever showed this token.
pub(crate) fn session_cookie(app: &App, peer: Option<Peer>, secret: &str) -> HeaderValue {
    let value = session::issue(&app.signer, &token::hash(secret), clock::now() + LASTS);
    cookie(app, peer, &value, LASTS)
}

fn cookie(app: &App, peer: Option<Peer>, value: &str, lasts: Duration) -> HeaderValue {
    let by_https = app.config.public_url.starts_with("https://");
    let secure = if by_https || peer.is_some_and(|peer| peer.secure) { "; Secure" } else { "" };
    let (name, seconds) = (session::COOKIE_NAME, lasts.as_secs());
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::from_str(&text).expect("a session is written in letters and digits")
}

#[derive(Debug, Deserialize)]
pub(super) struct Nothing {}

pub(super) async fn leave(
    State(app): State<Shared>,
    peer: Option<Extension<Peer>>,
    _: Posted<Nothing>,
) -> Response {
    let gone = cookie(&app, peer.map(|Extension(peer)| peer), "", Duration::ZERO);
    ([(header::SET_COOKIE, gone)], Redirect::to("/sign-in")).into_response()
}

/// The page of the link that works once.
pub(crate) fn welcome_page(headers: &HeaderMap) -> Response {
    finished(layout::outside(
        "Welcome",
        headers,
        &html! {
            (greeting("Welcome to Kiln"))
            form.card.stack method="post" {
                p { "This link signs you in as the administrator and makes an API token. It works once." }
                button { "Come in" }
            }
        },
    ))
}

/// What the link gives.
pub(crate) fn welcomed_page(headers: &HeaderMap, secret: &str) -> Response {
    finished(layout::outside(
        "Welcome",
        headers,
        &html! {
            (greeting("You are signed in"))
            div.card.stack {
                p { "Keep this token: it is not shown again." }
                pre { (secret) }
                p { "Use it as " code { "KILN_TOKEN" } ", or with " code { "kiln --token" } "." }
                p { a.button.primary href="/" { "To the dashboard" } }
            }
        },
    ))
}

fn finished(page: Html<String>) -> Response {
    let policy = HeaderValue::from_static(layout::POLICY);
    ([(header::CONTENT_SECURITY_POLICY, policy)], page).into_response()
}
