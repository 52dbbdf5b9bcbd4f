//! Answers have tags, so that whoever asks again is told that nothing changed.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use sha2::{Digest as _, Sha256};

use crate::http::error::Failure;

/// Tags what is asked for by GET and answered with JSON.
pub(super) async fn tagged(request: Request, next: Next) -> Response {
    if request.method() != Method::GET {
        return next.run(request).await;
    }
    let known = request.headers().get_all(IF_NONE_MATCH);
    let known: Vec<String> =
        known.into_iter().filter_map(|tags| tags.to_str().ok()).map(str::to_owned).collect();
    let response = next.run(request).await;
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let whole = response.body().size_hint().exact().is_some();
    if response.status() != StatusCode::OK || kind != Some(b"application/json") || !whole {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let bytes = match body.collect().await {
        Ok(bytes) => bytes.to_bytes(),
        Err(error) => return axum::response::IntoResponse::into_response(Failure::internal(error)),
    };
    let tag = format!("\"{}\"", BASE64.encode(&Sha256::digest(&bytes)[..18]));
    let headers = &mut parts.headers;
    if let Ok(value) = HeaderValue::try_from(format!("W/{tag}")) {
        headers.insert(ETAG, value);
    }
    // It may be kept, and must be asked for again each time.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.append(VARY, HeaderValue::from_static("authorization, cookie"));
    if is_known(&known, &tag) {
        headers.remove(CONTENT_TYPE);
        headers.remove(CONTENT_LENGTH);
        parts.status = StatusCode::NOT_MODIFIED;
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, Body::from(bytes))
}

/// Whether one of these is the tag, weak or not.
fn is_known(known: &[String], tag: &str) -> bool {
    let mut tags = known.iter().flat_map(|text| text.split(',')).map(str::trim);
    tags.any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_known_again_weak_or_not() {
        let check = |known: &str, expect: bool| {
            assert_eq!(is_known(&[known.to_owned()], "\"a\""), expect, "{known}");
        };
        check("\"a\"", true);
        check("W/\"a\"", true);
        check("\"b\", W/\"a\"", true);
        check("*", true);
        check("\"b\"", false);
        check("a", false);
        check("", false);
    }
}
