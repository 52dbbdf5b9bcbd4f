//! The OpenAPI document: made from what serves, published with the repository, and served as it was published.

#[cfg(debug_assertions)]
mod describe;

use std::collections::BTreeMap;
use std::io::Read as _;

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use flate2::read::GzDecoder;
use kiln_proto::problem::{MEDIA_TYPE, Problem};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema as _};

use crate::http::error::{Answer, Failure};
use crate::http::routes::{Routes, routes};

#[cfg(debug_assertions)]
pub use describe::document;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(served))
}

/// This document.
#[utoipa::path(
    get,
    path = "/api/openapi.json",
    tag = "about",
    responses((status = 200, description = "OpenAPI 3.1", body = Object)),
    security(())
)]
async fn served() -> Answer<impl IntoResponse> {
    let mut document = Vec::new();
    GzDecoder::new(PUBLISHED).read_to_end(&mut document).map_err(Failure::internal)?;
    Ok(([(CONTENT_TYPE, "application/json")], document))
}

/// The published document, packed. A test compares it with what the routes say.
const PUBLISHED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"));

/// How requests are refused, for the documentation of every route.
#[derive(Debug)]
pub struct Problems;

impl IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let all = [
            StatusCode::BAD_REQUEST,
            StatusCode::UNAUTHORIZED,
            StatusCode::FORBIDDEN,
            StatusCode::NOT_FOUND,
            StatusCode::CONFLICT,
            StatusCode::PAYLOAD_TOO_LARGE,
            StatusCode::UNPROCESSABLE_ENTITY,
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::SERVICE_UNAVAILABLE,
        ];
        let response = |status: StatusCode| {
            let problem = Ref::from_schema_name(Problem::name());
            let content = ContentBuilder::new().schema(Some(problem)).build();
            ResponseBuilder::new()
                .description(status.canonical_reason().unwrap_or_default())
                .content(MEDIA_TYPE, content)
                .build()
        };
        all.map(|status| (status.as_str().to_owned(), RefOr::T(response(status)))).into()
    }
}
