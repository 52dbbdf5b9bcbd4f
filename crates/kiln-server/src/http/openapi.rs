//! The OpenAPI document: what is served, made from what serves it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use axum::Json;
use axum::http::StatusCode;
use kiln_proto::problem::{MEDIA_TYPE, Problem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, ContentBuilder, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Response,
    ResponseBuilder,
};
use utoipa::{IntoResponses, PartialSchema as _, ToSchema as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Shared;

/// Everything but the paths, which the routes bring themselves.
pub fn about() -> OpenApi {
    let token = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An API token: `kpat_…`. The password of Basic may be one, too."))
        .build();
    let components = ComponentsBuilder::new()
        .security_scheme("token", SecurityScheme::Http(token))
        .schema(Problem::name(), Problem::schema())
        .build();
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Kiln")
                .version("1")
                .description(Some(
                    "Runs, jobs and runners of Kiln. Below `/repos` the shapes are GitHub's; the rest is \
                     Kiln's own. Whatever goes wrong is answered with a problem document (RFC 9457).",
                )),
        )
        .components(Some(components))
        .security(Some([SecurityRequirement::new("token", Vec::<String>::new())]))
        .build()
}

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(document))
}

/// This document.
#[utoipa::path(
    get,
    path = "/api/openapi.json",
    tag = "about",
    responses((status = 200, description = "OpenAPI 3.1", body = Object)),
    security(())
)]
async fn document() -> Json<&'static OpenApi> {
    static DOCUMENT: OnceLock<OpenApi> = OnceLock::new();
    Json(DOCUMENT.get_or_init(|| super::routes().into_openapi()))
}

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
