//! What is around runs in GitHub's interface, at both of its places, and who may see it.

use kiln_store::Tx;
use kiln_store::directory::environments;
use kiln_store::directory::holder::Holder;
use kiln_store::directory::members::Role;
use kiln_store::directory::secrets::{self, Sealed};
use kiln_store::directory::variables;
use serde_json::json;

use super::people::{As, person};
use crate::support::{SYSTEM, Server, somebody};

on_both! {
    /// S16
    names_of_secrets_are_for_those_who_may_write_and_values_for_nobody
}

async fn names_of_secrets_are_for_those_who_may_write_and_values_for_nobody(server: Server) {
    let place = server.repository("acme", "app").await;
    let other = server.repository("evil", "app").await;
    let (org, repo, id) = (Holder::Org(place.org), Holder::Repo(place.repo), place.repo);
    let work = async move |tx: &mut Tx<'_>| {
        let at = environments::put(tx, SYSTEM, &somebody(), id, "production", "{}").await?;
        let environment = Holder::Environment(at);
        for (holder, name) in [(repo, "PASSWORD"), (org, "SHARED"), (environment, "LIVE")] {
            let sealed = Sealed { key_id: "k".to_owned(), bytes: b"hidden-value".to_vec() };
            secrets::put(tx, SYSTEM, &somebody(), holder, name, sealed).await?;
            variables::put(tx, SYSTEM, &somebody(), holder, name, "in plain").await?;
        }
        Ok(())
    };
    server.app.store.write(work).await.unwrap();
    let writer = person(&server, "wanda", As::member(place.org, Role::Developer)).await;
    let reader = person(&server, "rita", As::member(place.org, Role::Viewer)).await;
    let stranger = person(&server, "stan", As::member(other.org, Role::Admin)).await;
    let all = [
        ("/api/v3/repos/acme/app/actions/secrets", "secrets", "PASSWORD"),
        ("/api/v3/orgs/acme/actions/secrets", "secrets", "SHARED"),
        ("/repos/acme/app/actions/variables", "variables", "PASSWORD"),
        ("/api/v3/orgs/acme/actions/variables", "variables", "SHARED"),
        ("/repos/acme/app/environments/production/secrets", "secrets", "LIVE"),
        ("/api/v3/repos/acme/app/environments/production/variables", "variables", "LIVE"),
    ];
    for (path, list, name) in all {
        let found = writer.get(path).await.expect(200);
        assert_eq!((&found["total_count"], &found[list][0]["name"]), (&json!(1), &json!(name)));
        assert!(!found.to_string().contains("hidden-value"), "{found}");
        reader.get(path).await.expect(403);
        stranger.get(path).await.expect(404);
    }
    let secret = writer.get("/repos/acme/app/actions/secrets/password").await.expect(200);
    let keys: Vec<_> = secret.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["name", "created_at", "updated_at"]);
    let variable = writer.get("/repos/acme/app/actions/variables/PASSWORD").await.expect(200);
    assert_eq!(variable["value"], "in plain");
    writer.get("/repos/acme/app/actions/secrets/none").await.expect(404);
    writer.get("/repos/acme/app/environments/none/secrets").await.expect(404);
    for (path, name) in [
        ("/api/v3/orgs/acme/actions/secrets/shared", "SHARED"),
        ("/api/v3/orgs/acme/actions/variables/shared", "SHARED"),
        ("/repos/acme/app/environments/production/secrets/live", "LIVE"),
        ("/repos/acme/app/environments/production/variables/live", "LIVE"),
    ] {
        let one = writer.get(path).await.expect(200);
        assert_eq!(one["name"], name);
        assert!(!one.to_string().contains("hidden-value"), "{one}");
        writer.get(&format!("{path}x")).await.expect(404);
        reader.get(path).await.expect(403);
        stranger.get(path).await.expect(404);
    }
}

on_both! {
    repositories_and_people_have_githubs_shape
}

async fn repositories_and_people_have_githubs_shape(server: Server) {
    let place = server.repository("acme", "app").await;
    server.repository("evil", "app").await;
    let reader = person(&server, "rita", As::member(place.org, Role::Viewer)).await;
    let user = reader.get("/api/v3/user").await.expect(200);
    assert_eq!((&user["login"], &user["site_admin"]), (&json!("rita"), &json!(false)));
    let repo = reader.get("/repos/acme/app").await.expect(200);
    assert_eq!(repo, reader.get("/api/v3/repos/acme/app").await.expect(200));
    let base = &server.app.config.public_url;
    assert_eq!(repo["url"], format!("{base}/api/v3/repos/acme/app"));
    assert_eq!(repo["permissions"], json!({ "admin": false, "push": false, "pull": true }));
    let listed = reader.get("/api/v3/user/repos").await.expect(200);
    assert_eq!(listed, json!([repo]));
    assert_eq!(reader.get("/api/v3/orgs/acme/repos").await.expect(200), listed);
    for unseen in
        ["/repos/evil/app", "/api/v3/orgs/evil", "/api/v3/orgs/evil/repos", "/api/v3/orgs/none"]
    {
        reader.get(unseen).await.expect(404);
    }
    // Nobody counts requests here, and so there is nothing to say about them.
    reader.get("/api/v3/rate_limit").await.expect(404);
    // Kiln's own interface has a second place, too; nothing has a third.
    let own = reader.get("/api/repos").await.expect(200);
    assert_eq!(reader.get("/api/v1/repos").await.expect(200), own);
    for nowhere in ["/api/v1/v1/repos", "/api/v3/api/repos", "/api/v3/acme/app", "/api/v2/repos"] {
        reader.get(nowhere).await.expect(404);
    }
    let again = reader.request(reqwest::Method::GET, "/repos/acme/app");
    let tag = reader.get("/repos/acme/app").await.headers["etag"].clone();
    let same = super::people::reply(again.header("if-none-match", tag)).await;
    assert_eq!((same.status.as_u16(), same.body), (304, json!("")));
}

on_both! {
    /// F5
    clients_of_github_are_refused_in_plain_json
}

async fn clients_of_github_are_refused_in_plain_json(server: Server) {
    let place = server.repository("acme", "app").await;
    let reader = person(&server, "rita", As::member(place.org, Role::Viewer)).await;
    let kind = async |accept: &str| {
        let request = reader.request(reqwest::Method::GET, "/api/v3/repos/acme/none");
        let reply = super::people::reply(request.header("accept", accept)).await;
        assert_eq!(reply.body["message"], "Not Found: there is no such repository");
        assert_eq!(reply.body["documentation_url"], "/api/openapi.json");
        reply.headers["content-type"].to_str().unwrap().to_owned()
    };
    assert_eq!(kind("application/vnd.github.v3+json").await, "application/json");
    assert_eq!(kind("text/html, application/vnd.github+json").await, "application/json");
    assert_eq!(kind("*/*").await, "application/problem+json");
}
