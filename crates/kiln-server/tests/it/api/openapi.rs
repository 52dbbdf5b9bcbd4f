//! The document that says what is served.

use std::path::Path;

use serde_json::Value;

use super::people::reply;
use crate::support::Server;

pub(crate) fn document() -> Value {
    kiln_server::http::openapi::document()
}

/// Every route: its method, its path, and what it is called.
pub(crate) fn routes() -> Vec<(String, String)> {
    let document = document();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["get", "post", "put", "delete", "patch"] {
            if item.get(method).is_some() {
                routes.push((method.to_uppercase(), path.clone()));
            }
        }
    }
    routes
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the environment says whether to rewrite it")]
fn the_document_is_the_one_that_is_published() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let now = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    let published = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        published == now,
        "docs/openapi.json is not what the routes say; run this test with UPDATE_EXPECT=1"
    );
}

#[test]
fn every_route_says_how_it_refuses() {
    let document = document();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap();
            let ours = path.starts_with("/api") || path.starts_with("/repos");
            let open = path == "/api/openapi.json" || path.contains("/workers/");
            let runners = ["/api/runners/register", "/api/runners/{id}/unregister"];
            if ours && !open && !runners.contains(&path.as_str()) {
                assert!(
                    answers.contains_key("401") && answers.contains_key("404"),
                    "{method} {path}"
                );
            }
            assert!(!answers.is_empty(), "{method} {path}");
            for (status, answer) in answers.iter().filter(|(status, _)| status.as_str() >= "400") {
                let content = answer["content"].as_object().unwrap();
                let kinds: Vec<&str> = content.keys().map(String::as_str).collect();
                assert_eq!(kinds, ["application/problem+json"], "{method} {path} {status}");
            }
        }
    }
}

#[test]
fn every_operation_has_a_name_of_its_own() {
    let document = document();
    let paths = document["paths"].as_object().unwrap().values();
    let names: Vec<&str> = paths
        .flat_map(|item| item.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    let different: std::collections::BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names.len(), different.len());
    assert!(different.contains("get_api_runs_run"), "{different:?}");
}

on_both! { the_document_is_served_to_everybody }

async fn the_document_is_served_to_everybody(server: Server) {
    let served = reply(server.client.get(server.url("/api/openapi.json"))).await.expect(200);
    assert_eq!(served, document());
}
