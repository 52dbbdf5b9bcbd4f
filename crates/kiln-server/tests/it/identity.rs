//! Who a job is, in words that others can check.

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use kiln_store::Tx;
use kiln_store::directory::members::Role;
use kiln_testkit::runs::{Callee, plan_with};
use reqwest::Method;
use serde_json::{Value, json};

use crate::api::people::{As, person, reply};
use crate::content::{ONE_JOB, Of, PUSH, Worker, builders, run, run_plan};
use crate::support::Server;

const IDENTIFIED: &str = "on: push\npermissions: {id-token: write}\njobs:\n  \
                          build: {runs-on: linux, steps: [{run: 'true'}]}\n";

/// What a token says, checked as anybody would do it who knows nothing but where the server is.
async fn checked(server: &Server, token: &str) -> Value {
    let get = async |path: &str| reply(server.client.get(server.url(path))).await.expect(200);
    let about = get("/.well-known/openid-configuration").await;
    assert_eq!(about["issuer"], server.app.config.public_url);
    let keys = about["jwks_uri"].as_str().unwrap().replace(&server.app.config.public_url, "");
    let keys = get(&keys).await;
    let parts: Vec<&str> = token.split('.').collect();
    let part = |at: usize| BASE64.decode(parts[at]).unwrap();
    let header: Value = serde_json::from_slice(&part(0)).unwrap();
    assert_eq!(header["alg"], "RS256");
    let known = keys["keys"].as_array().unwrap();
    let key = known.iter().find(|key| key["kid"] == header["kid"]).expect("the key is known");
    let number = |name: &str| BASE64.decode(key[name].as_str().unwrap()).unwrap();
    let public = RsaPublicKeyComponents { n: number("n"), e: number("e") };
    let signed = format!("{}.{}", parts[0], parts[1]);
    public.verify(&RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), &part(2)).unwrap();
    serde_json::from_slice(&part(1)).unwrap()
}

async fn token(job: &Worker<'_>, audience: &str) -> String {
    let asked = json!({ "audience": audience });
    let answer = job.post("id-token", asked).await.expect(200);
    answer["value"].as_str().unwrap().to_owned()
}

on_both! {
    /// R7
    a_job_that_asked_for_it_gets_a_token_that_others_can_check
}

async fn a_job_that_asked_for_it_gets_a_token_that_others_can_check(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    run(&server, &place, &PUSH, IDENTIFIED).await;
    let job = Worker::next(&runner).await;
    let claims = checked(&server, &token(&job, "sts.example.org").await).await;
    let run_id = job.job.run_id.to_string();
    for (name, expect) in [
        ("iss", server.app.config.public_url.as_str()),
        ("sub", "repo:acme/app:ref:refs/heads/main"),
        ("aud", "sts.example.org"),
        ("ref", "refs/heads/main"),
        ("ref_type", "branch"),
        ("repository", "acme/app"),
        ("repository_owner", "acme"),
        ("repository_visibility", "private"),
        ("run_id", run_id.as_str()),
        ("run_attempt", "1"),
        ("actor", "octocat"),
        ("workflow", "CI"),
        ("workflow_ref", "acme/app/.github/workflows/ci.yml@refs/heads/main"),
        // The plans of tests are all written in this file.
        ("job_workflow_ref", "acme/app/.github/workflows/a.yml@refs/heads/main"),
        ("event_name", "push"),
        ("runner_environment", "self-hosted"),
    ] {
        assert_eq!(claims[name], expect, "{name}");
    }
    let number = |name: &str| claims[name].as_u64().unwrap();
    let life = number("exp") - number("iat");
    assert!((300..=600).contains(&life), "{life}");
    assert!(number("nbf") <= number("iat"));
    // Each has a number of its own, and is for the owner unless it is said.
    let usual = reply(job.ask(Method::POST, "id-token")).await.expect(200);
    let usual = checked(&server, usual["value"].as_str().unwrap()).await;
    assert_eq!(usual["aud"], format!("{}/acme", server.app.config.public_url));
    assert_ne!(usual["jti"], claims["jti"]);
    // Each is in the audit.
    let admin = person(&server, "ada", As::member(place.org, Role::Admin)).await;
    let audit = admin.get("/api/audit?owner=acme").await.expect(200).to_string();
    assert_eq!(audit.matches("job.identify").count(), 2, "{audit}");
    assert!(audit.contains("sts.example.org"));
    for wrong in ["", "a\nb", &"x".repeat(501)] {
        job.post("id-token", json!({ "audience": wrong })).await.expect(422);
    }
    job.end().await;
    job.post("id-token", json!({})).await.expect(401);
}

on_both! {
    /// R7
    nobody_gets_a_token_who_did_not_ask_or_is_not_trusted
}

async fn nobody_gets_a_token_who_did_not_ask_or_is_not_trusted(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let denied = async |of: &Of, workflow: &str| {
        run(&server, &place, of, workflow).await;
        let job = Worker::next(&runner).await;
        job.post("id-token", json!({ "audience": "x" })).await.problem(403)
    };
    assert!(denied(&PUSH, ONE_JOB).await.contains("`id-token: write`"));
    for permissions in ["read-all", "{contents: write}", "{id-token: none}"] {
        let workflow = IDENTIFIED.replace("{id-token: write}", permissions);
        assert!(denied(&PUSH, &workflow).await.contains("`id-token: write`"), "{permissions}");
    }
    // What a job says counts more than what its file says.
    let job = IDENTIFIED.replace("build: {", "build: {permissions: {contents: read}, ");
    assert!(denied(&PUSH, &job).await.contains("`id-token: write`"));
    let stranger = Of { trust: "untrusted", event: "pull_request", ..PUSH };
    assert!(denied(&stranger, IDENTIFIED).await.contains("code from elsewhere"));
    let none = async |tx: &mut Tx<'_>| {
        let sql = "SELECT count(*) FROM audit WHERE action = 'job.identify'";
        tx.one("audit", sql, &[]).await?.get::<i64>(0)
    };
    assert_eq!(server.app.store.read(none).await.unwrap(), 0);
}

on_both! {
    /// R7
    environments_and_pull_requests_are_other_subjects
}

async fn environments_and_pull_requests_are_other_subjects(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let subject = async |of: &Of, workflow: &str| {
        run(&server, &place, of, workflow).await;
        let job = Worker::next(&runner).await;
        let claims = checked(&server, &token(&job, "x").await).await;
        (claims["sub"].as_str().unwrap().to_owned(), claims["environment"].clone())
    };
    let environment = IDENTIFIED.replace("build: {", "build: {environment: prod, ");
    let found = subject(&PUSH, &environment).await;
    assert_eq!(found, ("repo:acme/app:environment:prod".to_owned(), json!("prod")));
    let pull = Of { event: "pull_request", reference: "refs/pull/7/merge", base: "main", ..PUSH };
    let found = subject(&pull, IDENTIFIED).await;
    assert_eq!(found, ("repo:acme/app:pull_request".to_owned(), Value::Null));
    let tag = Of { reference: "refs/tags/v1", ..PUSH };
    assert_eq!(subject(&tag, IDENTIFIED).await.0, "repo:acme/app:ref:refs/tags/v1");
}

on_both! {
    /// R7
    keys_can_be_changed_while_tokens_of_the_last_are_about
}

async fn keys_can_be_changed_while_tokens_of_the_last_are_about(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    run(&server, &place, &PUSH, IDENTIFIED).await;
    let job = Worker::next(&runner).await;
    let before = token(&job, "x").await;
    let member = person(&server, "ada", As::member(place.org, Role::Admin)).await;
    member.post("/api/identity/keys", json!({})).await.expect(403);
    let root = person(&server, "root", As::administrator()).await;
    let new = root.post("/api/identity/keys", json!({})).await.expect(200);
    let between = token(&job, "x").await;
    let key = |token: &str| -> Value {
        let header = BASE64.decode(token.split('.').next().unwrap()).unwrap();
        serde_json::from_slice::<Value>(&header).unwrap()["kid"].clone()
    };
    // Whoever looked the keys up a moment ago does not know the new one yet.
    assert_eq!(key(&before), key(&between));
    assert_ne!(key(&before), new["id"]);
    // What is secret of them is not readable in the database.
    let kept = async |tx: &mut Tx<'_>| {
        let sql = "SELECT value FROM settings WHERE name = 'identity_keys'";
        tx.one("setting", sql, &[]).await?.get::<String>(0)
    };
    let kept: Value = serde_json::from_str(&server.app.store.read(kept).await.unwrap()).unwrap();
    assert_eq!(kept.as_array().unwrap().len(), 2);
    assert_eq!(kept[0]["sealed_with"], server.app.vault.key_id());
    assert_eq!(kept[0]["signs_from"], kept[1]["retired_at"]);
    // A quarter of an hour later.
    let text = kept.to_string().replacen(
        &format!("\"signs_from\":{}", kept[0]["signs_from"]),
        "\"signs_from\":1",
        1,
    );
    let later = async move |tx: &mut Tx<'_>| {
        let sql = "UPDATE settings SET value = $1 WHERE name = 'identity_keys'";
        tx.execute(sql, &[text.as_str().into()]).await
    };
    server.app.store.write(later).await.unwrap();
    let after = token(&job, "x").await;
    assert_eq!(key(&after), new["id"]);
    checked(&server, &after).await;
    checked(&server, &before).await;
}

on_both! {
    /// R7
    a_called_workflow_has_a_word_only_if_its_caller_grants_it
}

async fn a_called_workflow_has_a_word_only_if_its_caller_grants_it(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let steps = "jobs:\n  inner: {runs-on: linux, steps: [{run: 'true'}]}\n";
    let check = async |caller: &str, callee: &str, expect: u16| {
        let text =
            format!("on: push\njobs:\n  call: {{uses: ./.github/workflows/callee.yml{caller}}}\n");
        let callee = Callee(format!("on: workflow_call\n{callee}{steps}"));
        run_plan(&server, &place, &PUSH, plan_with(&text, &callee)).await;
        let job = Worker::next(&runner).await;
        // The runner is told the same.
        let plan: Value = serde_json::from_str(job.job.plan.get()).unwrap();
        let granted = &plan["workflows"][0]["jobs"][0]["permissions"]["id-token"];
        assert_eq!(granted == "write", expect == 200, "{plan:#}");
        let said = job.post("id-token", json!({ "audience": "x" })).await.expect(expect);
        if expect == 200 {
            let claims = checked(&server, said["value"].as_str().unwrap()).await;
            let file = "acme/app/callee.yml@refs/heads/main";
            assert_eq!(claims["job_workflow_ref"], file);
        }
    };
    let (grant, none) = (", permissions: {id-token: write}", "");
    let own = "permissions: {id-token: write}\n";
    check(grant, none, 200).await;
    check(grant, own, 200).await;
    check(grant, "permissions: {id-token: none}\n", 403).await;
    check(none, none, 403).await;
    check(none, own, 403).await;
}
