//! How long what runs leave is kept, by their kind. (C5, R9)

use std::time::Duration;

use kiln_core::time::Timestamp;
use kiln_server::config::OfKind;
use kiln_store::directory::members::Role;
use kiln_testkit::database::Database;
use serde_json::{Value, json};

use crate::api::people::{As, person};
use crate::content::{Of, PUSH, Worker, builders};
use crate::support::{Options, Server};

fn days(days: u64) -> Duration {
    Duration::from_hours(24 * days)
}

fn time(text: &Value) -> Timestamp {
    Timestamp::parse_rfc3339(text.as_str().unwrap()).unwrap()
}

async fn what_runs_leave_is_kept_by_their_kind(database: Database) {
    let of_kind = OfKind {
        pull_requests: Some(days(3)),
        tags: Some(days(365)),
        schedules: Some(days(7)),
        default_branch: None,
    };
    let server = Server::with(database, Options { of_kind, ..Options::default() }).await;
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let check = async |of: Of, expect: Duration, of_manifest: Duration| {
        let job = Worker::start(&runner, &place, &of).await;
        let made = job.upload(json!({ "name": "dist" }), b"dist").await;
        let lasts = time(&made["expires_at"]).since(time(&made["created_at"]));
        let name = (of.event, of.reference);
        assert!(lasts.abs_diff(expect) < Duration::from_mins(1), "{name:?}: {lasts:?}");
        // What asks for more gets that; what asks for less gets less.
        let far = json!({ "name": "far", "expires_at": "2999-01-01T00:00:00Z" });
        let far = job.upload(far, b"far").await;
        let lasts = time(&far["expires_at"]).since(time(&far["created_at"]));
        assert!(lasts.abs_diff(expect) < Duration::from_mins(1), "{name:?}: {lasts:?}");
        // What belongs to the run is kept as long as any of it may be.
        let own = ada.get("/api/manifests?owner=acme&limit=1").await.expect(200);
        let own = &own["items"][0];
        assert!(own["own"] == true && own["run_id"] == job.job.run_id, "{own}");
        assert_eq!(own["retention"], expect.as_secs(), "{name:?}");
        let new = json!({ "owner": "acme", "run": job.job.run_id.to_string() });
        let manifest = ada.post("/api/manifests", new).await.expect(201);
        assert_eq!(manifest["retention"], of_manifest.as_secs(), "{name:?}");
        let new = json!({ "owner": "acme", "run": job.job.run_id.to_string(), "retention": 5 });
        assert_eq!(ada.post("/api/manifests", new).await.expect(201)["retention"], 5);
    };
    let pull = Of { event: "pull_request", reference: "refs/pull/7/merge", base: "main", ..PUSH };
    check(pull, days(3), days(3)).await;
    check(Of { reference: "refs/tags/v1", ..PUSH }, days(365), days(365)).await;
    check(Of { event: "schedule", ..PUSH }, days(7), days(7)).await;
    // What nobody set is as ever.
    check(PUSH, days(90), days(1)).await;
    check(Of { reference: "refs/heads/topic", ..PUSH }, days(90), days(1)).await;
}

mod what_runs_leave_is_kept_by_their_kind {
    use kiln_testkit::database::Database;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_sqlite() {
        super::what_runs_leave_is_kept_by_their_kind(Database::sqlite()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_postgres() {
        super::what_runs_leave_is_kept_by_their_kind(Database::postgres().await).await;
    }
}
