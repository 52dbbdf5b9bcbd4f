//! Whatever comes in, the answer is clear, bounded and never the server's own fault.

use reqwest::{Method, header};
use serde_json::json;

use super::people::{As, person, reply};
use crate::support::Server;

on_both! {
    /// S20
    bad_requests_are_answered_with_problem_documents
}

async fn bad_requests_are_answered_with_problem_documents(server: Server) {
    let root = person(&server, "root", As::administrator()).await;
    let nowhere = root.get("/api/nowhere").await;
    let id = nowhere.headers["x-request-id"].to_str().unwrap().to_owned();
    let problem = nowhere.expect(404);
    assert_eq!(problem["type"], "about:blank#not-found");
    assert_eq!(problem["instance"], id.as_str());
    let method = reply(root.request(Method::PATCH, "/api/repos")).await;
    assert!(method.headers[header::ALLOW].to_str().unwrap().contains("POST"));
    method.expect(405);
    let bodies = [
        "",
        "{",
        "[]",
        "null",
        "\"x\"",
        "{\"owner\": 1}",
        "{\"owner\": \"a\", \"owner\": \"b\"}",
        "{\"unknown\": 1}",
        "\u{0}",
        "{\"owner\": \"\\ud800\"}",
    ];
    for body in bodies {
        reply(root.request(Method::POST, "/api/repos").body(body)).await.expect(422);
    }
    let deep = "[".repeat(100_000);
    reply(root.request(Method::POST, "/api/repos").body(deep)).await.expect(422);
    let named = root.request(Method::GET, "/api/me").header("x-request-id", "mine-7");
    assert_eq!(reply(named).await.headers["x-request-id"], "mine-7");
    let large = json!({ "owner": "x".repeat((1 << 20) + 100) });
    root.post("/api/repos", large).await.expect(413);
}

on_both! { odd_names_and_numbers_in_addresses_name_nothing }

async fn odd_names_and_numbers_in_addresses_name_nothing(server: Server) {
    let root = person(&server, "root", As::administrator()).await;
    for odd in [
        "%00",
        "a%00b",
        "%ff",
        "%2f",
        "a%2Fb",
        "%F0%9F%A6%80",
        "'",
        "-1",
        "1e9",
        "99999999999999999999",
    ] {
        for path in [
            "/api/runs/{}",
            "/api/jobs/{}",
            "/api/jobs/{}/log",
            "/api/runs/{}/events",
            "/api/runners/{}",
            "/api/repos/{}/x",
            "/api/repos/x/{}",
            "/repos/{}/x/actions/runs",
            "/repos/x/{}/actions/workflows/{}/runs",
        ] {
            let path = path.replace("{}", odd);
            let answer = root.get(&path).await;
            assert!(matches!(answer.status.as_u16(), 404 | 422), "{path}: {answer:?}");
        }
    }
    for query in ["?repo=%00", "?repo=a", "?branch=%00", "?actor=%00&event=%00&sha=%00", "?limit=0"]
    {
        let answer = root.get(&format!("/api/runs{query}")).await;
        assert!(answer.status.as_u16() < 500, "{query}: {answer:?}");
    }
}

on_both! { answers_cannot_be_framed_sniffed_or_kept }

async fn answers_cannot_be_framed_sniffed_or_kept(server: Server) {
    let root = person(&server, "root", As::administrator()).await;
    for path in ["/api/me", "/api/openapi.json", "/nowhere"] {
        let answer = root.get(path).await;
        let of = |name: &str| answer.headers[name].to_str().unwrap().to_owned();
        assert_eq!(of("x-content-type-options"), "nosniff");
        assert_eq!(of("x-frame-options"), "DENY");
        assert_eq!(of("cache-control"), "no-store");
        assert_eq!(of("referrer-policy"), "no-referrer");
        assert!(of("content-security-policy").contains("default-src 'none'"));
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
}
