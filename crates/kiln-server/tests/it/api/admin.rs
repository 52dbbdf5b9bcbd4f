//! What administrators do: repositories, pauses, keys, runners.

use kiln_core::id::RunId;
use kiln_store::Tx;
use kiln_store::directory::members::Role;
use kiln_store::outbox::{self, Kind, Message};
use kiln_testkit::database::Database;
use serde_json::{Value, json};

use super::people::{As, CI, Person, commit, empty, person, site};
use crate::support::{Options, Server};

on_both! {
    /// S20
    a_repository_is_added_shown_and_disabled
}

async fn a_repository_is_added_shown_and_disabled(server: Server) {
    let root = person(&server, "root", As::administrator()).await;
    server.sources.commit("/srv/app", "trunk", &[("a", "b")]);
    let new = json!({ "owner": "acme", "name": "app", "source": "/srv/app" });
    let made = root.post("/api/repos", new.clone()).await.expect(201);
    assert_eq!(made["default_branch"], "trunk");
    assert_eq!((&made["enabled"], &made["paused"]), (&json!(true), &Value::Null));
    root.post("/api/repos", new).await.expect(409);
    let address = "https://me:word@example.com/a";
    server.sources.commit(address, "stable", &[("a", "b")]);
    let secret = json!({ "owner": "acme", "name": "far", "source": address });
    let far = root.post("/api/repos", secret).await.expect(201);
    assert_eq!(far["source"], "https://example.com/a");
    assert_eq!(far["default_branch"], "stable", "the address was asked");
    let check = async |owner: &str, name: &str, source: &str| {
        let new = json!({ "owner": owner, "name": name, "source": source });
        root.post("/api/repos", new).await.problem(422)
    };
    assert!(check("acme", "x", "ext::sh -c id").await.contains("helper of git"));
    assert!(check("acme", "x", "--upload-pack=x").await.contains("option"));
    assert!(check("acme", "x", "/srv/none").await.contains("cannot be read"));
    assert!(check("acme", "x", "https://example.com/none").await.contains("cannot be read"));
    assert!(check("acme", "a/b", "/srv/app").await.contains("name of a repository"));
    assert!(check("a\0b", "x", "/srv/app").await.contains("name of an organization"));
    assert!(check("", "x", "/srv/app").await.contains("name of an organization"));
    let eve = server.repository("eve", "own").await;
    let eve = person(&server, "eve", As::member(eve.org, Role::Admin)).await;
    let inside = json!({ "owner": "eve", "name": "x", "source": "/etc" });
    eve.post("/api/repos", inside).await.expect(403);
    let inside = json!({ "owner": "eve", "name": "x", "source": "http://169.254.169.254/a" });
    eve.post("/api/repos", inside).await.expect(403);
    assert_eq!(root.delete("/api/repos/acme/app").await.expect(200)["enabled"], false);
    let enabled = root.post("/api/repos/acme/app/enable", empty()).await.expect(200);
    assert_eq!(enabled["enabled"], true);
    let listed = root.get("/api/repos?limit=2").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let next = listed["next"].as_str().unwrap().to_owned();
    let rest = root.get(&format!("/api/repos?limit=2&after={next}")).await.expect(200);
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
}

/// What the audit of an organization says, the newest first.
async fn deeds(root: &Person<'_>, owner: &str) -> Vec<(String, Value)> {
    let audit = root.get(&format!("/api/audit?owner={owner}")).await.expect(200);
    let rows = audit["items"].as_array().unwrap();
    let deed = |row: &Value| (row["action"].as_str().unwrap().to_owned(), row["detail"].clone());
    rows.iter().map(deed).collect()
}

on_both! {
    /// S20
    what_is_set_of_a_repository_can_be_changed
}

async fn what_is_set_of_a_repository_can_be_changed(server: Server) {
    let place = server.repository("acme", "app").await;
    let root = person(&server, "root", As::administrator()).await;
    let path = format!("/api/repos/{}", place.name);
    let change =
        json!({ "default_branch": "trunk", "source": "git@example.com:me/app.git", "shares": 300 });
    let changed = root.patch(&path, change).await.expect(200);
    assert_eq!(changed["default_branch"], "trunk");
    assert_eq!(changed["source"], "ssh://example.com/me/app.git");
    assert_eq!((&changed["shares"], &changed["enabled"]), (&json!(300), &json!(true)));
    let off = root.patch(&path, json!({ "enabled": false })).await.expect(200);
    assert_eq!((&off["enabled"], &off["default_branch"]), (&json!(false), &json!("trunk")));
    assert_eq!(root.patch(&path, empty()).await.expect(200), off, "nothing was asked for");
    let secret = json!({ "source": "https://me:hunter2@example.com/a" });
    root.patch(&path, secret).await.expect(200);
    let deeds = deeds(&root, "acme").await;
    let actions: Vec<&str> = deeds.iter().map(|(action, _)| action.as_str()).collect();
    let update = "repository.update";
    assert_eq!(actions[..4], [update, "repository.disable", "repository.set_shares", update]);
    let newest = deeds[0].1["clone_url"].as_str().unwrap();
    assert_eq!(newest, "https://example.com/a", "a password is nobody's business");
    let starts = json!({ "urgent": 900, "high": 300, "normal": 0, "low": -300 });
    assert_eq!(off["head_starts"], starts, "the usual ones");
    let set = async |starts: Value| {
        let changed = root.patch(&path, json!({ "head_starts": starts })).await.expect(200);
        changed["head_starts"].clone()
    };
    let own = json!({ "urgent": 60, "low": -7200 });
    assert_eq!(set(own).await, json!({ "urgent": 60, "high": 300, "normal": 0, "low": -7200 }));
    assert_eq!(set(json!(false)).await, json!({ "urgent": 0, "high": 0, "normal": 0, "low": 0 }));
    assert_eq!(set(json!(true)).await, starts);
    assert_eq!(self::deeds(&root, "acme").await[0].0, "repository.set_priorities");
    for bad in [
        json!({ "head_starts": { "soon": 5 } }),
        json!({ "head_starts": { "low": 86_401 } }),
        json!({ "head_starts": { "low": "5m" } }),
        json!({ "head_starts": 7 }),
        json!({ "default_branch": "" }),
        json!({ "source": "ext::sh -c id" }),
        json!({ "shares": 0 }),
        json!({ "shares": 1_000_001 }),
        json!({ "name": "other" }),
        json!({ "enabled": "yes" }),
    ] {
        root.patch(&path, bad).await.expect(422);
    }
    // What is refused leaves nothing behind.
    let half = json!({ "default_branch": "other", "shares": 0 });
    root.patch(&path, half).await.expect(422);
    assert_eq!(root.get(&path).await.expect(200)["default_branch"], "trunk");
    let owner = person(&server, "owner", As::member(place.org, Role::Admin)).await;
    owner.patch(&path, json!({ "source": "/etc" })).await.expect(403);
    owner.patch(&path, json!({ "source": "git@example.com:a/b" })).await.expect(403);
    owner.patch(&path, json!({ "enabled": true })).await.expect(200);
    let writer = person(&server, "writer", As::member(place.org, Role::Developer)).await;
    writer.patch(&path, json!({ "shares": 5 })).await.expect(403);
}

on_both! {
    /// S20
    a_repository_that_was_removed_can_be_added_again
}

async fn a_repository_that_was_removed_can_be_added_again(server: Server) {
    let root = person(&server, "root", As::administrator()).await;
    server.sources.commit("/srv/old", "main", &[("a", "b")]);
    server.sources.commit("/srv/new", "trunk", &[("a", "b")]);
    let new = |source: &str| json!({ "owner": "acme", "name": "app", "source": source });
    let first = root.post("/api/repos", new("/srv/old")).await.expect(201);
    root.post("/api/repos", new("/srv/new")).await.expect(409);
    root.delete("/api/repos/acme/app").await.expect(200);
    let again = root.post("/api/repos", new("/srv/new")).await.expect(201);
    assert_eq!(again["id"], first["id"], "what it ran is still its own");
    assert_eq!((&again["enabled"], &again["source"]), (&json!(true), &json!("/srv/new")));
    assert_eq!(again["default_branch"], "trunk");
    root.post("/api/repos", new("/srv/old")).await.expect(409);
}

on_both! {
    /// S13
    an_organization_gets_a_limit_and_shares
}

async fn an_organization_gets_a_limit_and_shares(server: Server) {
    let place = server.repository("acme", "app").await;
    server.repository("other", "app").await;
    let root = person(&server, "root", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", CI)]);
    for _ in 0..2 {
        root.trigger(&place, json!({ "workflow": "ci.yml" })).await;
    }
    let path = "/api/orgs/acme";
    let before = root.get(path).await.expect(200);
    assert_eq!((&before["shares"], &before["job_limit"]), (&json!(100), &Value::Null));
    let set = root.patch(path, json!({ "shares": 300, "job_limit": 1 })).await.expect(200);
    assert_eq!((&set["shares"], &set["job_limit"]), (&json!(300), &json!(1)));
    let site = site(&server, &place);
    assert_eq!(site.claim(1, 2).await.len(), 1, "the limit counts at once");
    let free = root.patch(path, json!({ "unlimited": true })).await.expect(200);
    assert_eq!((&free["shares"], &free["job_limit"]), (&json!(300), &Value::Null));
    assert_eq!(site.claim(1, 2).await.len(), 1, "the other one");
    let deeds = deeds(&root, "acme").await;
    let actions: Vec<&str> = deeds.iter().map(|(action, _)| action.as_str()).take(3).collect();
    let limit = "organization.set_job_limit";
    assert_eq!(actions, [limit, limit, "organization.set_shares"]);
    for bad in [
        json!({ "shares": 0 }),
        json!({ "job_limit": -1 }),
        json!({ "job_limit": 1, "unlimited": true }),
        json!({ "jobs": 1 }),
    ] {
        root.patch(path, bad).await.expect(422);
    }
    root.patch("/api/orgs/none", empty()).await.expect(404);
    // It is more or less for all others, so their own administrators do not decide it.
    let owner = person(&server, "owner", As::member(place.org, Role::Admin)).await;
    owner.patch(path, json!({ "shares": 1_000 })).await.expect(403);
    assert_eq!(owner.get(path).await.expect(200)["shares"], 300);
    owner.get("/api/orgs/other").await.expect(404);
    let names = async |person: &Person<'_>| {
        let all = person.get("/api/orgs").await.expect(200);
        let all = all["items"].as_array().unwrap().clone();
        all.iter().map(|org| org["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&owner).await, ["acme"]);
    assert_eq!(names(&root).await, ["acme", "other"]);
}

on_both! {
    /// S22
    what_is_paused_waits_and_says_why
}

async fn what_is_paused_waits_and_says_why(server: Server) {
    let place = server.repository("acme", "app").await;
    let root = person(&server, "root", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", CI)]);
    root.trigger(&place, empty()).await;
    let queues = root.get("/api/queues").await.expect(200);
    let queue = &queues["items"][0];
    assert_eq!(queue["requirements"], "labels linux");
    assert_eq!((queue["waiting"].as_u64(), queue["runners"].as_u64()), (Some(1), Some(0)));
    let queue = format!("/api/queues/{}/pause", queue["id"]);
    let repo = format!("/api/repos/{}/pause", place.name);
    let site = site(&server, &place);
    for what in ["/api/pause", queue.as_str(), repo.as_str()] {
        root.put(what, json!({ "reason": "maintenance" })).await.expect(204);
        assert!(site.claim(1, 1).await.is_empty(), "{what}");
        let paused = root.get("/api/pause").await.expect(200).to_string();
        assert!(paused.contains("root: maintenance"), "{what}: {paused}");
        let findings = root.get("/api/doctor").await.expect(200);
        let mut findings = findings.as_array().unwrap().iter();
        let named = findings.find(|found| found["what"] == "pause").unwrap();
        assert!(named["finding"].as_str().unwrap().contains("maintenance"), "{what}: {named}");
        assert!(named["advice"].as_str().unwrap().contains("kiln resume"), "{what}: {named}");
        root.delete(what).await.expect(204);
        root.put(what, json!({ "reason": "" })).await.expect(422);
        root.put(what, json!({ "reason": "a\nb" })).await.expect(422);
        root.put(what, json!({ "why": "x" })).await.expect(422);
    }
    let paused = root.get("/api/pause").await.expect(200);
    assert_eq!(paused, json!({ "server": null, "queues": [], "repos": [] }));
    assert_eq!(site.claim(1, 1).await.len(), 1);
    root.put("/api/queues/99/pause", json!({ "reason": "x" })).await.expect(404);
    root.put("/api/queues/x/pause", json!({ "reason": "x" })).await.expect(404);
}

on_both! {
    /// S8: what is set decides which of two jobs goes first.
    the_head_starts_of_a_repository_order_its_jobs
}

async fn the_head_starts_of_a_repository_order_its_jobs(server: Server) {
    let place = server.repository("acme", "app").await;
    let root = person(&server, "root", As::administrator()).await;
    let site = site(&server, &place);
    let job = |rest: &str| format!("  a: {{runs-on: linux, {rest}steps: [{{run: 'true'}}]}}\n");
    let first = async |starts: Value| {
        root.patch(&format!("/api/repos/{}", place.name), json!({ "head_starts": starts }))
            .await
            .expect(200);
        let plain = server.run(&place, &job("")).await;
        let urgent = server.run(&place, &job("environment: prod, ")).await;
        let claimed: Vec<_> = site.claim(1, 2).await.iter().map(|claimed| claimed.run).collect();
        assert_eq!(claimed.len(), 2);
        if claimed == [plain, urgent] { "plain" } else { "urgent" }
    };
    assert_eq!(first(json!(true)).await, "urgent");
    assert_eq!(first(json!(false)).await, "plain");
    assert_eq!(first(json!({ "urgent": -60 })).await, "plain");
}

on_both! {
    /// S20
    tasks_that_were_put_aside_get_a_new_start
}

async fn tasks_that_were_put_aside_get_a_new_start(server: Server) {
    let place = server.repository("acme", "app").await;
    let root = person(&server, "root", As::administrator()).await;
    assert_eq!(root.get("/api/tasks").await.expect(200), json!([]));
    let put = async |tx: &mut Tx<'_>| {
        for run in 1..=3 {
            let task = Message::at_once(Kind::Notify, RunId(run), "{}".to_owned());
            outbox::put(tx, &[task])?;
        }
        tx.execute("UPDATE outbox SET parked_at = 1000, tries = 12, error = 'no route'", &[]).await
    };
    server.app.store.write(put).await.unwrap();
    let parked = root.get("/api/tasks").await.expect(200);
    assert_eq!(parked.as_array().unwrap().len(), 3, "{parked:#}");
    let one = &parked[2];
    assert_eq!(
        (&one["kind"], &one["run_id"], &one["error"]),
        (&json!("notify"), &json!(1), &json!("no route"))
    );
    let findings = root.get("/api/doctor").await.expect(200);
    let outbox =
        findings.as_array().unwrap().iter().find(|found| found["what"] == "outbox").unwrap();
    assert!(
        outbox["finding"]
            .as_str()
            .unwrap()
            .starts_with("3 tasks failed too often and were put aside")
    );
    assert!(outbox["advice"].as_str().unwrap().contains("kiln duties retry --all"), "{outbox}");
    // One that is not there is refused, and then the other stays where it is.
    root.post("/api/tasks/retry", json!({ "ids": [one["id"], 99_999] })).await.expect(404);
    root.post("/api/tasks/retry", json!({ "ids": ["x"] })).await.expect(422);
    let done = root.post("/api/tasks/retry", json!({ "ids": [one["id"]] })).await.expect(200);
    assert_eq!(done, json!({ "retried": 1 }));
    assert_eq!(root.get("/api/tasks").await.expect(200).as_array().unwrap().len(), 2);
    assert_eq!(root.post("/api/tasks/retry", empty()).await.expect(200), json!({ "retried": 2 }));
    assert_eq!(root.post("/api/tasks/retry", empty()).await.expect(200), json!({ "retried": 0 }));
    let take = async |tx: &mut Tx<'_>| {
        outbox::take(tx, &[Kind::Notify], 9, std::time::Duration::from_mins(1)).await
    };
    let taken = server.app.store.write(take).await.unwrap();
    assert_eq!(taken.iter().map(|task| task.tries).collect::<Vec<_>>(), [1, 1, 1]);
    let audit = root.get("/api/audit").await.expect(200);
    let retried =
        audit["items"].as_array().unwrap().iter().filter(|row| row["action"] == "task.retry");
    assert_eq!(retried.count(), 3);
    let owner = person(&server, "owner", As::member(place.org, Role::Admin)).await;
    owner.get("/api/tasks").await.expect(403);
    owner.post("/api/tasks/retry", empty()).await.expect(403);
}

on_both! {
    /// S24
    the_audit_without_an_owner_is_that_of_everything
}

async fn the_audit_without_an_owner_is_that_of_everything(server: Server) {
    let root = person(&server, "root", As::administrator()).await;
    let place = server.repository("acme", "app").await;
    let other = server.repository("other", "app").await;
    root.put("/api/pause", json!({ "reason": "x" })).await.expect(204);
    for place in [&place, &other] {
        root.patch(&format!("/api/repos/{}", place.name), json!({ "shares": 5 })).await.expect(200);
    }
    let rows = root.get("/api/audit?limit=3").await.expect(200);
    let seen: Vec<_> = rows["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (&row["action"], &row["owner"]))
        .collect();
    let shares = json!("repository.set_shares");
    assert_eq!(seen[..2], [(&shares, &json!("other")), (&shares, &json!("acme"))]);
    assert_eq!(seen[2].1, &Value::Null, "{rows:#}");
    // The pages go on where the last one ended.
    let next = rows["next"].as_str().unwrap();
    let more = root.get(&format!("/api/audit?limit=3&after={next}")).await.expect(200);
    assert!(more["items"][0]["id"].as_i64() < rows["items"][2]["id"].as_i64());
    let of_acme = root.get("/api/audit?owner=acme").await.expect(200);
    assert!(of_acme["items"].as_array().unwrap().iter().all(|row| row["owner"] == "acme"));
}

on_both! {
    /// S5
    keys_let_runners_in_until_they_are_revoked
}

async fn keys_let_runners_in_until_they_are_revoked(server: Server) {
    let root = person(&server, "root", As::administrator()).await;
    let place = server.repository("acme", "app").await;
    let shared = json!({ "shared": true });
    let made = root.post("/api/registration-keys", shared).await.expect(201);
    assert!(made["key"].as_str().unwrap().starts_with("krk_"));
    assert_eq!((&made["pool"], &made["uses_left"]), (&json!("default"), &json!(1)));
    assert_eq!((&made["owner"], &made["single_use_only"]), (&Value::Null, &json!(true)));
    let other = json!({ "pool": "big", "owner": "acme", "uses": 0, "expires_in": 60 });
    let made = root.post("/api/registration-keys", other).await.expect(201);
    assert_eq!((&made["owner"], &made["uses_left"]), (&json!("acme"), &Value::Null));
    let listed = root.get("/api/registration-keys").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "shared ones only: {listed:#}");
    let listed = root.get("/api/registration-keys?owner=acme").await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    assert!(listed["items"][0].get("key").is_none());
    root.delete(&format!("/api/registration-keys/{}", made["id"])).await.expect(204);
    let listed = root.get("/api/registration-keys?owner=acme").await.expect(200);
    assert_eq!(listed["items"][0]["uses_left"], 0);
    root.delete("/api/registration-keys/99").await.expect(404);
    for bad in [
        json!({ "expires_in": 0 }),
        json!({ "expires_in": u64::MAX }),
        json!({ "uses": 1_000_000_000 }),
        json!({ "pool": "a b" }),
        json!({ "pool": "a\0" }),
        json!({ "owner": "acme", "shared": true }),
        json!({ "owner": "a b" }),
    ] {
        root.post("/api/registration-keys", bad).await.expect(422);
    }
    let keeper = person(&server, "keeper", As::member(place.org, Role::Admin)).await;
    keeper.post("/api/registration-keys", json!({ "shared": true })).await.expect(403);
}

on_both! {
    /// S5
    a_key_is_for_the_organization_that_is_named_or_the_only_one
}

async fn a_key_is_for_the_organization_that_is_named_or_the_only_one(server: Server) {
    let root = person(&server, "root", As::administrator()).await;
    let mint = async |who: &Person<'_>, wish: Value| who.post("/api/registration-keys", wish).await;
    let nobody = mint(&root, empty()).await.problem(422);
    assert!(nobody.contains("no organization yet") && nobody.contains("--owner NAME"), "{nobody}");
    // Naming one makes it, and leaves a trace.
    assert_eq!(mint(&root, json!({ "owner": "acme" })).await.expect(201)["owner"], "acme");
    let deeds = deeds(&root, "acme").await;
    assert!(deeds.iter().any(|(action, _)| action == "organization.create"), "{deeds:?}");
    assert_eq!(mint(&root, empty()).await.expect(201)["owner"], "acme", "the only one");
    let place = server.repository("other", "app").await;
    let several = mint(&root, empty()).await.problem(422);
    assert!(several.contains("several organizations"), "{several}");
    // Whoever administers one has no choice to make, and makes no others.
    let owner = person(&server, "owner", As::member(place.org, Role::Admin)).await;
    let made = mint(&owner, empty()).await.expect(201);
    assert_eq!((&made["owner"], made.get("single_use_only")), (&json!("other"), None));
    mint(&owner, json!({ "owner": "third" })).await.expect(404);
    mint(&owner, json!({ "owner": "acme" })).await.expect(404);
    let viewer = person(&server, "viewer", As::member(place.org, Role::Viewer)).await;
    mint(&viewer, empty()).await.expect(403);
    assert_eq!(root.get("/api/orgs").await.expect(200)["items"].as_array().unwrap().len(), 2);
}

/// Where shared runners may run steps on their hosts, there is nothing to choose.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_for_shared_runners_where_their_hosts_are_allowed() {
    let allowing = Options { allow_shared_host: true, ..Options::default() };
    let server = Server::with(Database::sqlite(), allowing).await;
    server.repository("acme", "app").await;
    let root = person(&server, "root", As::administrator()).await;
    let made = root.post("/api/registration-keys", empty()).await.expect(201);
    assert_eq!((&made["owner"], made.get("single_use_only")), (&Value::Null, None));
}
