//! How a request is refused: problem documents (RFC 9457), one for each kind of no.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kiln_proto::problem::{MEDIA_TYPE, Problem};
use kiln_store::{Refusal, StoreError};

use super::middleware::request_id;

/// A request that is not done, and why.
#[derive(Debug)]
pub struct Failure {
    status: StatusCode,
    /// Names the kind for programs.
    kind: &'static str,
    detail: String,
    wanted: Option<u64>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Where it is said what can be asked.
const DOCUMENTATION: &str = "/api/openapi.json";

/// What handlers return.
pub type Answer<T> = Result<T, Failure>;

impl Failure {
    pub fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self { status, kind, detail: detail.into(), wanted: None, headers: Vec::new() }
    }

    /// 400: the request itself cannot be understood.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    /// 401: nobody knows who asks.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        let challenge = HeaderValue::from_static("Bearer");
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
            .with_header(header::WWW_AUTHENTICATE, challenge)
    }

    /// 403: whoever asks is known, and may not.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// 404: there is none, or it is not for whoever asks.
    pub fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", format!("there is no such {what}"))
    }

    /// 405: the address is right, the verb is not.
    pub fn wrong_method(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "wrong-method", detail)
    }

    /// 409: the state of things forbids it.
    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", detail)
    }

    /// Whether something stands against it, and nothing is missing.
    pub fn is_conflict(&self) -> bool {
        self.status == StatusCode::CONFLICT && self.wanted.is_none()
    }

    /// 409, and where the caller should go on.
    pub fn gap(wanted: u64, detail: impl Into<String>) -> Self {
        let failure = Self::new(StatusCode::CONFLICT, "gap", detail);
        Self { wanted: Some(wanted), ..failure }
    }

    /// 410: there was one, and its time is over.
    pub fn gone(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "gone", detail)
    }

    /// 413: more than we take.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
    }

    /// 422: understood, but what it says cannot be.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
    }

    /// 429: too much at once.
    pub fn too_many(seconds: u64, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many-requests", detail).retry_after(seconds)
    }

    /// 503: it may work later.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail).retry_after(1)
    }

    /// 500: our own fault. The reason goes to the log, not to whoever asks.
    pub fn internal(reason: impl std::fmt::Display) -> Self {
        tracing::error!(%reason, "a request failed inside the server");
        let detail = "the server failed; its log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }

    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    fn retry_after(self, seconds: u64) -> Self {
        self.with_header(header::RETRY_AFTER, seconds.into())
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// For clients of GitHub, some of which know what happened by GitHub's words.
    fn message(&self) -> String {
        match self.status {
            StatusCode::UNAUTHORIZED => "Bad credentials".to_owned(),
            StatusCode::NOT_FOUND => format!("Not Found: {}", self.detail),
            _ => self.detail.clone(),
        }
    }

    /// For people.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(refusal) => refusal.into(),
            StoreError::Transient(reason) => {
                tracing::warn!(%reason, "the database could not do it now");
                Self::unavailable("the database cannot be used at the moment; try again")
            }
            StoreError::InDoubt(reason) => {
                tracing::warn!(%reason, "nobody knows whether a commit happened");
                Self::unavailable("it is not known whether it was done; look, then try again")
            }
            StoreError::Full(reason) => {
                tracing::error!(%reason, "the disk of the database is full");
                Self::unavailable("the disk of the database is full; make room, then try again")
            }
            StoreError::ReadOnly(reason) => {
                tracing::error!(%reason, "the database is read-only");
                Self::unavailable(
                    "the database is read-only; nothing can be changed before it is not",
                )
            }
            StoreError::Closed => Self::unavailable("the server is stopping"),
            other => Self::internal(other),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound(what) => Self::not_found(what),
            Refusal::Conflict(detail) => Self::conflict(detail),
            Refusal::Invalid(detail) => Self::invalid(detail),
            Refusal::Denied(detail) => Self::forbidden(detail),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Failed").to_owned();
        let problem = Problem {
            kind: format!("about:blank#{}", self.kind),
            title,
            status: self.status.as_u16(),
            message: self.message(),
            detail: Some(self.detail),
            instance: request_id(),
            documentation_url: Some(DOCUMENTATION.to_owned()),
            wanted: self.wanted,
        };
        let mut response = (self.status, Json(problem)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        headers.extend(self.headers);
        response
    }
}
