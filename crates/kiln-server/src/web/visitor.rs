//! Who looks at a page, and the forms that they send.

use axum::Form;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Redirect, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::failure::Wrong;
use crate::app::Shared;
use crate::auth::{Caller, session};
use crate::http::error::Failure;
use crate::peer::Peer;
use crate::percent::encoded;

/// Somebody who is signed in, or needs not be.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    pub(super) caller: Caller,
    pub(super) theme: Option<Theme>,
    /// What their forms carry.
    pub(super) form_token: String,
    /// Whether there is something to sign out of.
    pub(super) has_session: bool,
}

/// What was chosen by the button, against what the system says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Theme {
    Light,
    Dark,
}

impl Theme {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let word = session::cookie(headers, "kiln_theme")?;
        [Self::Light, Self::Dark].into_iter().find(|theme| theme.word() == word)
    }
}

impl FromRequestParts<Shared> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Response> {
        let address = parts.extensions.get::<Peer>().map(|peer| peer.address.to_string());
        let wrong = |failure: Failure| Wrong::from(failure).into_response();
        let found = Caller::of_session(&parts.headers, app, address).await.map_err(wrong)?;
        let has_session = found.is_some();
        let caller = match found {
            Some(caller) if app.config.authentication => caller,
            _ => match Caller::from_request_parts(parts, app).await {
                Ok(caller) => caller,
                Err(failure) if failure.status() == StatusCode::UNAUTHORIZED => {
                    return Err(to_sign_in(&parts.method, &parts.uri));
                }
                Err(failure) => return Err(wrong(failure)),
            },
        };
        Ok(Self {
            caller,
            theme: Theme::of(&parts.headers),
            form_token: session::form_token(&app.signer, session_of(&parts.headers)),
            has_session: has_session && app.config.authentication,
        })
    }
}

/// What forms are bound to; without a session they are bound to this server.
fn session_of(headers: &HeaderMap) -> &str {
    session::cookie(headers, session::COOKIE_NAME).unwrap_or_default()
}

/// Where to come back to afterwards is said if it was only looked at.
fn to_sign_in(method: &Method, uri: &Uri) -> Response {
    let place = uri.path_and_query().map_or("/", |place| place.as_str());
    if place == "/" || !method.is_safe() {
        return Redirect::to("/sign-in").into_response();
    }
    Redirect::to(&format!("/sign-in?next={}", encoded(place))).into_response()
}

/// A form that a page of ours sent for whoever is signed in.
#[derive(Debug)]
pub(super) struct Posted<T> {
    pub(super) visitor: Visitor,
    pub(super) form: T,
}

#[derive(Debug, Deserialize)]
struct Guard {
    #[serde(default)]
    form_token: String,
}

impl<T: DeserializeOwned> FromRequest<Shared> for Posted<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Response> {
        let wrong = |failure: Failure| Wrong::from(failure).into_response();
        let (mut parts, body) = request.into_parts();
        from_our_pages(&parts.headers, &app.config.public_url).map_err(wrong)?;
        let visitor = Visitor::from_request_parts(&mut parts, app).await?;
        let cookie = session_of(&parts.headers).to_owned();
        let request = Request::from_parts(parts.clone(), body);
        let body = axum::body::Bytes::from_request(request, app)
            .await
            .map_err(|_| wrong(Failure::too_large("the form is larger than this address takes")))?;
        let Guard { form_token } = read(&parts, &body, app).await?;
        if !session::check_form(&app.signer, &cookie, &form_token) {
            return Err(wrong(Failure::forbidden(
                "the form is of another session; load the page again, then send it again",
            )));
        }
        let form = read(&parts, &body, app).await?;
        Ok(Self { visitor, form })
    }
}

async fn read<T: DeserializeOwned>(
    parts: &Parts,
    body: &axum::body::Bytes,
    app: &Shared,
) -> Result<T, Response> {
    let request = Request::from_parts(parts.clone(), body.clone().into());
    let form = Form::<T>::from_request(request, app).await;
    form.map(|Form(form)| form)
        .map_err(|rejection| Wrong::from(Failure::invalid(rejection.body_text())).into_response())
}

/// Refuses what a page of another site sends: browsers say where a form comes from.
pub(super) fn from_our_pages(headers: &HeaderMap, public_url: &str) -> Result<(), Failure> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let refused = || Failure::forbidden("this form was sent by a page of another site");
    match text(HeaderName::from_static("sec-fetch-site")) {
        Some("same-origin") => return Ok(()),
        Some(_) => return Err(refused()),
        // A browser that does not say it says another thing.
        None => {}
    }
    let Some(origin) = text(ORIGIN) else { return Ok(()) };
    let host = origin.split_once("://").map(|(_, host)| host);
    if origin == public_url || (host.is_some() && host == text(HOST)) {
        return Ok(());
    }
    Err(refused())
}

/// A place on this server; anything else is the dashboard.
pub(super) fn own_place(next: &str) -> &str {
    let inside = next.starts_with('/') && !next.starts_with("//");
    let plain = !next.contains(['\\', '\r', '\n']) && !next.contains(char::is_control);
    if inside && plain && next.is_ascii() { next } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_places_of_this_server_are_gone_to() {
        let check = |next: &str, expect: &str| assert_eq!(own_place(next), expect, "{next}");
        check("/acme/app/actions/runs/7?attempt=2", "/acme/app/actions/runs/7?attempt=2");
        for elsewhere in ["", "//evil.example", "https://evil.example", "/\\evil", "/a\r\nb", "/ä"]
        {
            check(elsewhere, "/");
        }
    }

    #[test]
    fn forms_of_other_sites_are_refused() {
        let check = |headers: &[(&'static str, &str)], expect: bool| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, value.parse().unwrap());
            }
            let answer = from_our_pages(&map, "https://ci.example.com");
            assert_eq!(answer.is_ok(), expect, "{headers:?}");
        };
        check(&[], true);
        check(&[("sec-fetch-site", "same-origin"), ("origin", "https://ci.example.com")], true);
        check(&[("origin", "http://10.0.0.1:8420"), ("host", "10.0.0.1:8420")], true);
        check(&[("sec-fetch-site", "same-origin"), ("origin", "null")], true);
        check(&[("sec-fetch-site", "same-site")], false);
        check(&[("sec-fetch-site", "cross-site")], false);
        check(&[("sec-fetch-site", "none")], false);
        check(&[("origin", "https://evil.example"), ("host", "ci.example.com")], false);
        check(&[("origin", "null"), ("host", "ci.example.com")], false);
    }
}
