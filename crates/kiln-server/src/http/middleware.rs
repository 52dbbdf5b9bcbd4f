//! What happens around every request: it has a name, ends in time, and a panic ends nothing but itself.

use std::any::Any;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use kiln_proto::problem::MEDIA_TYPE;
use tracing::Instrument as _;

use super::error::Failure;

/// By which a request is found in the log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// How long a request of people may take until its answer begins.
const PATIENCE: Duration = Duration::from_secs(30);

tokio::task_local! {
    static CURRENT: String;
}

/// The name of the request under way.
pub fn request_id() -> Option<String> {
    CURRENT.try_with(Clone::clone).ok()
}

/// The path for the log. A link that works once is a secret until then.
fn shown(request: &Request) -> &str {
    let path = request.uri().path();
    if path.starts_with("/welcome/") { "/welcome/…" } else { path }
}

/// Names the request, catches panics, adds what belongs to every answer.
pub fn outermost<A: Future<Output = Response>>(
    request: Request,
    ask: impl FnOnce(Request) -> A,
) -> impl Future<Output = Response> {
    let id = given_id(request.headers()).unwrap_or_else(new_id);
    let plain_problems = is_of_github(request.headers());
    let span =
        tracing::debug_span!("request", %id, method = %request.method(), path = shown(&request));
    let caught = AssertUnwindSafe(ask(request)).catch_unwind();
    let caught = caught.map(|caught| caught.unwrap_or_else(|panic| panicked(&*panic)));
    let answer = CURRENT.scope(id.clone(), caught).instrument(span.clone());
    // Nothing more than what is needed is in here: thousands wait in it.
    async move {
        let mut response = answer.await;
        span.in_scope(|| tracing::debug!(status = response.status().as_u16(), "answered"));
        finish(&mut response, &id, plain_problems);
        response
    }
}

fn panicked(panic: &(dyn Any + Send)) -> Response {
    let reason = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let reason = reason.or_else(|| panic.downcast_ref::<String>().cloned());
    Failure::internal(reason.unwrap_or_else(|| "a panic".to_owned())).into_response()
}

fn finish(response: &mut Response, id: &str, plain_problems: bool) {
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, value);
    }
    if plain_problems && headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == MEDIA_TYPE) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    secure(headers);
}

/// Whether a client of GitHub asks. They read why they are refused only where it is called JSON and nothing more.
fn is_of_github(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).into_iter().filter_map(|it| it.to_str().ok());
    accepted
        .flat_map(|text| text.split(','))
        .any(|it| it.trim().starts_with("application/vnd.github"))
}

/// A name that a proxy gave it, if it is a plain one.
fn given_id(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(REQUEST_ID)?.to_str().ok()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let fits = !text.is_empty() && text.len() <= 64 && text.bytes().all(plain);
    fits.then(|| text.to_owned())
}

/// It tells requests apart and guards nothing, so it is not worth a call of the system.
fn new_id() -> String {
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// Nothing that is served here is to be framed, guessed at or kept, unless its handler says so.
fn secure(headers: &mut HeaderMap) {
    let usual = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in usual {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

/// Gives up a request whose answer does not begin in time. What streams after that takes as long as it
/// takes.
pub async fn in_time(request: Request, next: Next) -> Response {
    let answer = tokio::time::timeout(PATIENCE, next.run(request)).await;
    answer.unwrap_or_else(|_| {
        tracing::warn!("a request took longer than {PATIENCE:?} and was given up");
        Failure::unavailable("it took too long and may or may not be done; look, then try again")
            .into_response()
    })
}

pub async fn no_such_address(uri: Uri) -> Failure {
    let path: String = uri.path().chars().take(200).collect();
    Failure::not_found(&format!("address as `{path}`"))
}

pub async fn no_such_method(method: Method, uri: Uri) -> Failure {
    let path: String = uri.path().chars().take(200).collect();
    Failure::wrong_method(format!("`{path}` does not take {method}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_request_is_taken_over_only_if_it_is_plain() {
        let check = |given: &str, expect: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_str(given).unwrap());
            assert_eq!(given_id(&headers).as_deref(), expect, "{given}");
        };
        check("abc-1.2_3", Some("abc-1.2_3"));
        check("", None);
        check("a b", None);
        check("a\u{e9}", None);
        check(&"x".repeat(65), None);
        assert_eq!(new_id().len(), 16);
        assert_ne!(new_id(), new_id());
    }
}
