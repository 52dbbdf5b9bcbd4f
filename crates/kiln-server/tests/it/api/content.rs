//! Artifacts and caches, for people and their programs.

use kiln_store::Tx;
use kiln_store::directory::members::Role;
use reqwest::Method;
use serde_json::{Value, json};

use super::people::{As, Person, person, reply};
use crate::blobs::{hash, noise};
use crate::content::{Of, PUSH, Worker, builders};
use crate::support::Server;

const OF: &str = "/repos/acme/app/actions";

/// What an address leads to, without following it.
async fn led_to(who: &Person<'_>, path: &str) -> String {
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let url = who.server.url(path);
    let answer = client.get(url).bearer_auth(&who.token).send().await.unwrap();
    assert_eq!(answer.status(), 302, "{:?}", answer.text().await);
    answer.headers()["location"].to_str().unwrap().to_owned()
}

async fn had(server: &Server, url: &str) -> (u16, Vec<u8>, reqwest::header::HeaderMap) {
    let answer = server.client.get(url).send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    (status, answer.bytes().await.unwrap().to_vec(), headers)
}

on_both! {
    /// R9
    artifacts_are_listed_had_kept_and_removed
}

async fn artifacts_are_listed_had_kept_and_removed(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let bytes = noise(5, 5 << 20);
    let dist = job.upload(json!({ "name": "dist" }), &bytes).await;
    let odd = json!({ "name": "a b%2e\u{fc}.html", "content_type": "text/html" });
    let page = job.upload(odd, b"<script>alert(1)</script>").await;
    let other = Worker::start(&runner, &place, &PUSH).await;
    other.upload(json!({ "name": "dist" }), b"other").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;

    let all = ada.get(&format!("{OF}/artifacts?name=dist")).await.expect(200);
    assert_eq!(all["total_count"], 2);
    let first = ada.get(&format!("{OF}/artifacts?per_page=1")).await;
    assert!(first.headers["link"].to_str().unwrap().contains("page=2>; rel=\"next\""));
    let of_run = ada.get(&format!("{OF}/runs/{}/artifacts", job.job.run_id)).await.expect(200);
    assert_eq!(of_run["total_count"], 2);
    let one = ada.get(&format!("{OF}/artifacts/{}", dist["id"])).await.expect(200);
    assert_eq!((&one["name"], &one["size_in_bytes"]), (&json!("dist"), &json!(5 << 20)));
    assert_eq!(one["digest"], format!("sha256:{}", hash(&bytes)));
    assert_eq!((&one["expired"], &one["trust"]), (&json!(false), &json!("trusted")));
    assert_eq!(one["workflow_run"]["id"], job.job.run_id);

    // Had by an address that is good for it alone, also in parts.
    for form in ["zip", "download"] {
        let url = led_to(&ada, &format!("{OF}/artifacts/{}/{form}", dist["id"])).await;
        let (status, body, headers) = had(&server, &url).await;
        assert!(status == 200 && body == bytes);
        assert_eq!(headers["content-type"], "application/zip");
        assert_eq!(headers["content-disposition"], "attachment; filename=\"dist.zip\"");
        let part = server.client.get(&url).header("range", "bytes=5-9").send().await.unwrap();
        assert_eq!(part.status(), 206);
        assert_eq!(part.bytes().await.unwrap(), bytes[5..10]);
        let changed = url.replace(&format!("/{}/", dist["id"]), &format!("/{}/", page["id"]));
        assert_eq!(had(&server, &changed).await.0, 404);
        assert_eq!(had(&server, &url.replace("dist.zip", "x.html")).await.0, 404);
    }
    // What a job wrote is never a page of this server's.
    let url = led_to(&ada, &format!("{OF}/artifacts/{}/zip", page["id"])).await;
    let (status, body, headers) = had(&server, &url).await;
    assert_eq!((status, body.as_slice()), (200, &b"<script>alert(1)</script>"[..]), "{url}");
    assert_eq!(headers["content-type"], "application/octet-stream");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert!(headers["content-disposition"].to_str().unwrap().starts_with("attachment"));

    // Kept beyond its time, or gone when it is over.
    let id = page["id"].as_i64().unwrap();
    let kept = ada.put(&format!("/api/artifacts/{id}/keep"), json!({ "keep": true })).await;
    assert_eq!(kept.expect(200)["keep"], true);
    let over = async |tx: &mut Tx<'_>| tx.execute("UPDATE artifacts SET expires_at = 1", &[]).await;
    let before = led_to(&ada, &format!("{OF}/artifacts/{}/zip", dist["id"])).await;
    server.app.store.write(over).await.unwrap();
    assert_eq!(had(&server, &url).await.0, 200);
    assert_eq!(had(&server, &before).await.0, 410);
    ada.get(&format!("{OF}/artifacts/{}/zip", dist["id"])).await.expect(410);
    let gone = ada.get(&format!("/api/artifacts/{}", dist["id"])).await.expect(200);
    assert_eq!((&gone["expired"], &gone["repo"]), (&json!(true), &json!("acme/app")));

    let viewer = person(&server, "vic", As::member(place.org, Role::Viewer)).await;
    viewer.get(&format!("/api/artifacts/{id}/link")).await.expect(200);
    viewer.delete(&format!("/api/artifacts/{id}")).await.expect(403);
    viewer.delete(&format!("{OF}/artifacts/{id}")).await.expect(403);
    viewer.put(&format!("/api/artifacts/{id}/keep"), json!({ "keep": false })).await.expect(403);
    ada.delete(&format!("/repos/acme/other/actions/artifacts/{id}")).await.expect(404);
    ada.delete(&format!("{OF}/artifacts/{id}")).await.expect(204);
    ada.delete(&format!("/api/artifacts/{id}")).await.expect(404);
    assert_eq!(had(&server, &url).await.0, 404, "an address dies with its artifact");
}

on_both! {
    /// R9: with the token that steps have, those of their own repository, and nothing else.
    steps_read_the_artifacts_of_their_repository
}

async fn steps_read_the_artifacts_of_their_repository(server: Server) {
    let place = server.repository("acme", "app").await;
    let other = server.repository("acme", "other").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let dist = job.upload(json!({ "name": "dist" }), b"dist").await;
    let steps = async |job: &Worker<'_>| {
        let secrets = runner.open(&job.job).visible;
        let token = secrets.into_iter().find(|(name, _)| name == "GITHUB_TOKEN").unwrap().1;
        Person { server: &server, token }
    };
    let reading = Worker::start(&runner, &place, &PUSH).await;
    let token = steps(&reading).await;
    let url = led_to(&token, &format!("{OF}/artifacts/{}/zip", dist["id"])).await;
    assert_eq!(had(&server, &url).await.1, b"dist");
    let listed = token.get(&format!("{OF}/runs/{}/artifacts", job.job.run_id)).await.expect(200);
    assert_eq!(listed["artifacts"][0]["name"], "dist");
    token.delete(&format!("{OF}/artifacts/{}", dist["id"])).await.expect(403);
    let foreign = Worker::start(&runner, &other, &PUSH).await;
    let foreign = steps(&foreign).await;
    foreign.get(&format!("{OF}/artifacts/{}", dist["id"])).await.expect(404);
    let through = format!("/repos/acme/other/actions/artifacts/{}", dist["id"]);
    foreign.get(&through).await.expect(404);
    reading.end().await;
    token.get(&format!("{OF}/artifacts")).await.expect(401);
}

pub(super) fn form(name: &str, file: &[u8], kind: &str) -> (String, Vec<u8>) {
    let head = format!(
        "--b0\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\n{name}\r\n--b0\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"f\"\r\nContent-Type: {kind}\r\n\r\n"
    );
    let body = [head.as_bytes(), file, b"\r\n--b0--\r\n"].concat();
    ("multipart/form-data; boundary=b0".to_owned(), body)
}

on_both! {
    /// R9: by the shapes of document A.
    an_artifact_is_added_by_a_form_and_had_by_redirect
}

async fn an_artifact_is_added_by_a_form_and_had_by_redirect(server: Server) {
    let place = server.repository("acme", "app").await;
    let run = server.run(&place, "  a: {runs-on: linux, steps: [{run: 'true'}]}\n").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let path = format!("{OF}/runs/{run}/artifacts");
    let send = async |who: &Person<'_>, (kind, body): (String, Vec<u8>)| {
        reply(who.request(Method::POST, &path).header("content-type", kind).body(body)).await
    };
    for (name, size) in [("none", 0), ("small", 10), ("middle", 100_000), ("large", 6 << 20)] {
        let bytes = noise(size as u64, size);
        let made = send(&ada, form(name, &bytes, "application/zip")).await.expect(201);
        assert_eq!((&made["name"], &made["size_bytes"]), (&json!(name), &json!(size)));
        assert_eq!(made["content_hash"], format!("sha256:{}", hash(&bytes)));
        assert!(made["id"].is_string() && made["expires_at"].is_string(), "{made}");
        let url = led_to(&ada, made["download_url"].as_str().unwrap()).await;
        assert!(had(&server, &url).await.1 == bytes, "{name}");
    }
    send(&ada, form("small", b"again", "application/zip")).await.expect(409);
    for (what, name) in [("a name", "a/b"), ("a name", "")] {
        send(&ada, form(name, b"x", "text/plain")).await.problem(422);
        let _ = what;
    }
    let (kind, body) = form("cut", &noise(1, 70_000), "text/plain");
    let cut = (kind.clone(), body[..60_000].to_vec());
    assert!(send(&ada, cut).await.problem(422).contains("in the middle"));
    let no_file = b"--b0\r\nContent-Disposition: form-data; name=name\r\n\r\nx\r\n--b0--".to_vec();
    assert!(send(&ada, (kind.clone(), no_file)).await.problem(422).contains("`file`"));
    assert!(send(&ada, ("text/plain".to_owned(), body)).await.problem(422).contains("form"));
    let viewer = person(&server, "vic", As::member(place.org, Role::Viewer)).await;
    send(&viewer, form("x", b"x", "text/plain")).await.expect(403);
    let listed = ada.get(&format!("/api/runs/{run}/artifacts")).await.expect(200);
    assert_eq!(listed["artifacts"].as_array().unwrap().len(), 4);
}

/// The same form with more fields.
pub(super) fn form_with(name: &str, file: &[u8], fields: &[(&str, &str)]) -> (String, Vec<u8>) {
    let (kind, body) = form(name, file, "text/plain");
    let field = |(name, value): &(&str, &str)| {
        format!("--b0\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let head: String = fields.iter().map(field).collect();
    (kind, [head.as_bytes(), &body].concat())
}

on_both! {
    /// R9: a name is taken unless the form says otherwise; how long it stays, too.
    a_form_overwrites_and_keeps_when_it_says_so
}

async fn a_form_overwrites_and_keeps_when_it_says_so(server: Server) {
    let place = server.repository("acme", "app").await;
    let run = server.run(&place, "  a: {runs-on: linux, steps: [{run: 'true'}]}\n").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let path = format!("{OF}/runs/{run}/artifacts");
    let send = async |(kind, body): (String, Vec<u8>)| {
        reply(ada.request(Method::POST, &path).header("content-type", kind).body(body)).await
    };
    send(form_with("report", b"one", &[])).await.expect(201);
    let refused = send(form_with("report", b"two", &[("overwrite", "false")])).await.problem(409);
    assert!(refused.contains("ask to overwrite it"), "{refused}");
    let fields = [("overwrite", "true"), ("retention_days", "3"), ("keep", "true")];
    let made = send(form_with("report", b"two", &fields)).await.expect(201);
    let url = led_to(&ada, made["download_url"].as_str().unwrap()).await;
    assert_eq!(had(&server, &url).await.1, b"two");
    let listed = ada.get(&format!("/api/runs/{run}/artifacts")).await.expect(200);
    let all = listed["artifacts"].as_array().unwrap();
    assert_eq!((all.len(), &all[0]["keep"]), (1, &json!(true)));
    let days = |days: u64| {
        let end = crate::support::from_now(std::time::Duration::from_hours(24 * days));
        end.rfc3339()[..10].to_owned()
    };
    let day = |one: &Value| one["expires_at"].as_str().unwrap()[..10].to_owned();
    assert!([days(3), days(2)].contains(&day(&made)), "{made}");
    // Never longer than the server allows.
    let long = send(form_with("long", b"x", &[("retention_days", "4000")])).await.expect(201);
    assert!(day(&long) < days(100), "{long}");
    for (field, value) in [
        ("overwrite", "yes"),
        ("keep", ""),
        ("retention_days", "0"),
        ("retention_days", "-1"),
        ("retention_days", "soon"),
        ("unknown", "x"),
    ] {
        let problem = send(form_with("other", b"x", &[(field, value)])).await.problem(422);
        assert!(problem.contains(&format!("`{field}`")), "{problem}");
    }
    let listed = ada.get(&format!("/api/runs/{run}/artifacts")).await.expect(200);
    assert_eq!(listed["artifacts"].as_array().unwrap().len(), 2);
}

on_both! {
    /// R8
    caches_are_listed_counted_and_removed
}

async fn caches_are_listed_counted_and_removed(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let first = job.save("deps-1", &noise(1, 300)).await;
    job.save("deps-2", &noise(2, 100)).await;
    job.save("build", &noise(3, 200)).await;
    job.find("deps-1", &[]).await;
    job.find("none", &[]).await;
    job.find("nothing", &["no"]).await;
    let stranger = Of { trust: "untrusted", reference: "refs/pull/1/merge", ..PUSH };
    let stranger = Worker::start(&runner, &place, &stranger).await;
    stranger.save("deps-1", &noise(4, 50)).await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let keys = async |query: &str| {
        let found = ada.get(&format!("{OF}/caches{query}")).await.expect(200);
        let key =
            |one: &Value| format!("{} {}", one["key"].as_str().unwrap(), one["size_in_bytes"]);
        let keys: Vec<String> =
            found["actions_caches"].as_array().unwrap().iter().map(key).collect();
        (found["total_count"].as_u64().unwrap(), keys.join(", "))
    };
    let by_size = "?sort=size_in_bytes";
    assert_eq!(keys(by_size).await, (4, "deps-1 300, build 200, deps-2 100, deps-1 50".to_owned()));
    let rising = format!("{by_size}&direction=asc&key=deps-&ref=refs/heads/main");
    assert_eq!(keys(&rising).await, (2, "deps-2 100, deps-1 300".to_owned()));
    let second = format!("{by_size}&per_page=1&page=2");
    assert_eq!(keys(&second).await, (4, "build 200".to_owned()));
    ada.get(&format!("{OF}/caches?sort=name")).await.expect(422);
    ada.get(&format!("{OF}/caches?direction=up")).await.expect(422);
    let usage = ada.get(&format!("{OF}/cache/usage")).await.expect(200);
    assert_eq!(usage["active_caches_size_in_bytes"], 650);
    assert_eq!(usage["active_caches_count"], 4);
    assert_eq!((&usage["hits"], &usage["misses"]), (&json!(1), &json!(2)));
    assert_eq!(
        (&usage["trusts"][0]["trust"], &usage["trusts"][0]["hits"]),
        (&json!("trusted"), &json!(1))
    );
    assert_eq!(usage["trusts"][1]["quota_in_bytes"], 2_500_000_000_u64);
    let viewer = person(&server, "vic", As::member(place.org, Role::Viewer)).await;
    viewer.delete(&format!("{OF}/caches/{}", first["id"])).await.expect(403);
    viewer.delete(&format!("{OF}/caches?key=deps-1")).await.expect(403);
    ada.delete(&format!("{OF}/caches")).await.expect(422);
    ada.delete(&format!("{OF}/caches?key=deps")).await.expect(404);
    let gone = ada.delete(&format!("{OF}/caches?key=deps-1&ref=refs/heads/main")).await.expect(200);
    assert_eq!((&gone["total_count"], &gone["actions_caches"][0]["id"]), (&json!(1), &first["id"]));
    ada.delete(&format!("{OF}/caches/{}", first["id"])).await.expect(404);
    assert_eq!(keys("").await.0, 3);
    let id = ada.get(&format!("{OF}/caches?key=build")).await.expect(200);
    let id = &id["actions_caches"][0]["id"];
    server.repository("acme", "other").await;
    ada.delete(&format!("/repos/acme/other/actions/caches/{id}")).await.expect(404);
    ada.delete(&format!("{OF}/caches/{id}")).await.expect(204);
    assert_eq!(job.find("build", &[]).await, None);
}
