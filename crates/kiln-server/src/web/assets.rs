//! Stylesheets and modules, in the program itself. Their addresses hold a hash, so that they are kept for ever.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::ansi;
use crate::app::Shared;

/// A file that browsers ask for.
struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: Bytes,
}

/// All files, and the hash over them.
static ASSETS: LazyLock<(String, Vec<Asset>)> = LazyLock::new(|| {
    let style = [include_str!("assets/kiln.css"), &ansi::stylesheet()].concat();
    let text = |name, kind, bytes: &'static str| Asset { name, kind, bytes: bytes.into() };
    let module = "text/javascript; charset=utf-8";
    let assets = vec![
        Asset { name: "kiln.css", kind: "text/css; charset=utf-8", bytes: style.into() },
        text("kiln.js", module, include_str!("assets/kiln.js")),
        text("log.js", module, include_str!("assets/log.js")),
        text("log-blocks.js", module, include_str!("assets/log-blocks.js")),
        text("log-copy.js", module, include_str!("assets/log-copy.js")),
        text("log-lines.js", module, include_str!("assets/log-lines.js")),
        text("log-live.js", module, include_str!("assets/log-live.js")),
        text("log-search.js", module, include_str!("assets/log-search.js")),
        text("palette.js", module, include_str!("assets/palette.js")),
        text("icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
    ];
    let mut hash = Sha256::new();
    for asset in &assets {
        hash.update(asset.name);
        hash.update(&asset.bytes);
    }
    let hash = hash.finalize()[..6].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    (hash, assets)
});

/// Where a page finds a file.
pub(super) fn address(name: &str) -> String {
    format!("/assets/{}/{name}", ASSETS.0)
}

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/assets/{hash}/{name}", get(serve))
}

async fn serve(Path((hash, name)): Path<(String, String)>, _: HeaderMap) -> Response {
    let (current, assets) = &*ASSETS;
    let found = assets.iter().find(|asset| asset.name == name);
    let Some(asset) = found else { return StatusCode::NOT_FOUND.into_response() };
    // A page of another version asks for what it knows; it gets what there is, and keeps it for no time.
    let keep = if hash == *current { "public, max-age=31536000, immutable" } else { "no-store" };
    let headers = [(header::CONTENT_TYPE, asset.kind), (header::CACHE_CONTROL, keep)];
    (headers, asset.bytes.clone()).into_response()
}
