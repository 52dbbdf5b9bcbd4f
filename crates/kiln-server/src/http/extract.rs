//! What handlers take from requests. Whatever does not fit is answered with a problem document.

use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::error::Failure;

/// A body of JSON. An empty one is the default, where there is one: see [`OptionalJson`].
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let body = body(request, state).await?;
        read(&body).map(Self)
    }
}

/// A body of JSON that may be left out.
#[derive(Debug)]
pub struct OptionalJson<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalJson<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let body = body(request, state).await?;
        if body.is_empty() { Ok(Self(T::default())) } else { read(&body).map(Self) }
    }
}

/// A body of bytes.
#[derive(Debug)]
pub struct Body(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        body(request, state).await.map(Self)
    }
}

async fn body<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Failure> {
    // Boxed, so that a handler that waits for long keeps no room for what is long read.
    Box::pin(Bytes::from_request(request, state)).await.map_err(|rejection: BytesRejection| {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            Failure::too_large("the body is larger than this address takes")
        } else {
            Failure::bad_request(rejection.body_text())
        }
    })
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| {
        // Not JSON at all, or JSON of another shape: both are for the caller to mend.
        Failure::invalid(format!("the body is not what is expected here: {error}"))
    })
}

/// Parts of the path. One that cannot be read names nothing.
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let found = axum::extract::Path::from_request_parts(parts, state).await;
        let axum::extract::Path(value) =
            found.map_err(|_: PathRejection| Failure::not_found("address"))?;
        Ok(Self(value))
    }
}

/// What follows the question mark.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let found = axum::extract::Query::from_request_parts(parts, state).await;
        let axum::extract::Query(value) =
            found.map_err(|rejection: QueryRejection| Failure::invalid(rejection.body_text()))?;
        Ok(Self(value))
    }
}
