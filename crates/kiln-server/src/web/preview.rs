//! Files of artifacts as browsers show them, each in an origin of its own.
//!
//! Jobs wrote them, so a page among them may do what it likes, in a sandbox: it has no cookies, sends no forms, asks no
//! server, and belongs to no origin. Its address is good for an hour and for this artifact; pictures and styles beside
//! it are found from there, because what lets them be read is in the path.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::from_fn;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use kiln_core::id::ArtifactId;
use serde::Deserialize;

use crate::app::Shared;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::middleware;
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::previews;

/// Scripts run, and reach nothing.
const POLICY: &str = "sandbox allow-scripts; default-src 'self' data: blob: 'unsafe-inline' 'unsafe-eval'; \
     connect-src 'none'; frame-src 'none'; object-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'";

/// What a file is, by the end of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Page,
    Picture,
    Markdown,
    Text,
    Other,
}

/// What browsers are told, and how it is shown.
pub(super) fn kind_of(name: &str) -> (&'static str, Kind) {
    let end =
        name.rsplit('/').next().unwrap_or_default().rsplit_once('.').map_or("", |(_, end)| end);
    match end.to_ascii_lowercase().as_str() {
        "html" | "htm" | "xhtml" => ("text/html; charset=utf-8", Kind::Page),
        "png" => ("image/png", Kind::Picture),
        "jpg" | "jpeg" => ("image/jpeg", Kind::Picture),
        "gif" => ("image/gif", Kind::Picture),
        "webp" => ("image/webp", Kind::Picture),
        "avif" => ("image/avif", Kind::Picture),
        "svg" => ("image/svg+xml", Kind::Picture),
        "ico" => ("image/x-icon", Kind::Picture),
        "css" => ("text/css; charset=utf-8", Kind::Text),
        "js" | "mjs" => ("text/javascript; charset=utf-8", Kind::Text),
        "json" | "map" => ("application/json", Kind::Text),
        "woff" => ("font/woff", Kind::Other),
        "woff2" => ("font/woff2", Kind::Other),
        "ttf" => ("font/ttf", Kind::Other),
        "md" | "markdown" => ("text/plain; charset=utf-8", Kind::Markdown),
        "bin" | "exe" | "gz" | "zst" | "xz" | "zip" | "tar" | "so" | "a" | "o" | "whl" | "jar"
        | "pdf" => ("application/octet-stream", Kind::Other),
        _ => ("text/plain; charset=utf-8", Kind::Text),
    }
}

/// Outside of what pages share: it is no page of ours.
pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(serve)).layer(from_fn(middleware::in_time))
}

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct How {
    /// To be kept, and not looked at.
    download: Option<String>,
}

/// A file of an artifact, at an address that a page gave
///
/// `file` is its path in the artifact. Pages among them run in a sandbox.
#[utoipa::path(
    get, path = "/api/previews/{artifact_id}/{expires}/{signature}/{*file}", tag = "bytes",
    params(
        ("artifact_id" = String, Path), ("expires" = u64, Path, description = "Milliseconds since 1970"),
        ("signature" = String, Path), ("file" = String, Path), How,
    ),
    responses((status = 200, description = "The file", body = String, content_type = "application/octet-stream"), Problems),
    security(())
)]
async fn serve(
    State(app): State<Shared>,
    Path((artifact, expires, signature, file)): Path<(String, u64, String, String)>,
    Params(how): Params<How>,
) -> Answer<Response> {
    let missing = || Failure::not_found("file");
    let id: ArtifactId = artifact.parse().map_err(|_| missing())?;
    let bytes = previews::open(&app, (id, expires, &signature), &file).await?;
    let (kind, shape) = kind_of(&file);
    let is_kept = how.download.is_some() || (shape == Kind::Other && !kind.starts_with("font/"));
    let mut headers = HeaderMap::new();
    let mut put = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value))
    };
    put(
        header::CONTENT_TYPE,
        if how.download.is_some() { "application/octet-stream" } else { kind },
    );
    put(header::CONTENT_SECURITY_POLICY, POLICY);
    put(header::X_FRAME_OPTIONS, "SAMEORIGIN");
    put(header::CACHE_CONTROL, "private, max-age=600");
    // A page without an origin asks for modules and fonts as a stranger; whoever has the address may have them.
    put(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    if is_kept {
        headers.insert(header::CONTENT_DISPOSITION, attachment(&file));
    }
    Ok((headers, Bytes::from_owner(bytes)).into_response())
}

/// The last part of its name, without what headers cannot say.
fn attachment(file: &str) -> HeaderValue {
    let plain = |c: char| c.is_ascii_graphic() && !"\"\\;".contains(c) || c == ' ';
    let name = file.rsplit('/').next().unwrap_or_default();
    let name: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let text = format!("attachment; filename=\"{name}\"");
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_says_what_a_file_is() {
        let check = |name: &str, expect: Kind| assert_eq!(kind_of(name).1, expect, "{name}");
        check("report/index.HTML", Kind::Page);
        check("a.png", Kind::Picture);
        check("README.md", Kind::Markdown);
        check("Makefile", Kind::Text);
        check("dir.png/file", Kind::Text);
        check("app.tar.gz", Kind::Other);
    }
}
