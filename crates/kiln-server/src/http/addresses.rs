//! Addresses that mean the same: each route is there once, and some are found at two places.
//!
//! GitHub's interface is at `/repos` and, where clients of GitHub Enterprise look for it, at `/api/v3/repos`.
//! Kiln's own is at `/api` and, with the number of its version, at `/api/v1`.

use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;

/// Where clients of GitHub Enterprise look; addresses in answers begin so.
pub const GITHUB: &str = "/api/v3";
const OWN: &str = "/api/v1";

/// Leads a request to the one place of its route.
pub fn settled(mut request: Request) -> Request {
    if let Some(uri) = moved(request.uri()) {
        *request.uri_mut() = uri;
    }
    request
}

fn moved(uri: &Uri) -> Option<Uri> {
    let whole = uri.path_and_query()?.as_str();
    let rest = |prefix| whole.strip_prefix(prefix).filter(|rest: &&str| rest.starts_with('/'));
    let moved = if let Some(rest) = rest(OWN) {
        // Versions do not have versions.
        if rest.starts_with("/v1/") || rest.starts_with("/v3/") {
            return None;
        }
        format!("/api{rest}")
    } else {
        rest(GITHUB).filter(|rest| rest.starts_with("/repos/"))?.to_owned()
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(moved.parse::<PathAndQuery>().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_is_found_at_both_of_its_places() {
        let check = |given: &str, expect: &str| {
            let request = Request::builder().uri(given).body(axum::body::Body::empty()).unwrap();
            assert_eq!(settled(request).uri().to_string(), expect, "{given}");
        };
        check("/api/v1/runs?limit=1", "/api/runs?limit=1");
        check("/api/v3/repos/a/b?x=%2F", "/repos/a/b?x=%2F");
        check("https://ci.example/api/v3/repos/a/b", "https://ci.example/repos/a/b");
        // What has one place is left alone.
        for same in [
            "/",
            "/api/runs",
            "/api/v1",
            "/api/v10/runs",
            "/api/v3/user",
            "/api/v3/a/b",
            "/api/v1/v1/x",
        ] {
            check(same, same);
        }
    }
}
