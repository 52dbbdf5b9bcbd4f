//! Signed addresses over HTTP: whatever is changed of one, it is refused.

use std::collections::BTreeMap;

use kiln_store::directory::members::Role;
use kiln_testkit::zip::archive;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use reqwest::{Client, Method};
use serde_json::json;

use crate::api::people::{As, person};
use crate::blobs::{hash, noise, reserve, send};
use crate::content::{PUSH, Worker, builders};
use crate::support::Server;

/// How many changes are tried.
const CHANGES: usize = 600;

/// An address in its parts.
#[derive(Debug, Clone)]
struct Address {
    method: Method,
    /// Up to the question mark.
    path: String,
    query: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Address {
    fn new(method: Method, url: &str, body: &[u8]) -> Self {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let query = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { method, path: path.to_owned(), query, body: body.to_vec() }
    }

    /// The address of a preview has all of it in its path: `/api/previews/ID/EXPIRES/SIGNATURE/FILE`.
    fn segments(&self) -> Vec<String> {
        self.path.split('/').map(ToOwned::to_owned).collect()
    }

    async fn ask(&self, client: &Client) -> u16 {
        let query: Vec<String> =
            self.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        let url = format!("{}{mark}{}", self.path, query.join("&"));
        let mut request = client.request(self.method.clone(), url);
        if self.method != Method::GET {
            request = request.body(self.body.clone());
        }
        request.send().await.unwrap().status().as_u16()
    }
}

/// A change of an address.
#[derive(Debug, Clone)]
enum Change {
    /// One of its numbers is another.
    Number(usize, i64),
    /// A character of its signature is another, or is missing.
    Signature(usize, Option<u8>),
    /// It has lost a part, or got one of another.
    Without(usize),
    PartOf(usize, usize),
    /// What it is signed for is used at another address.
    PathOf(usize),
    Method(usize),
    Job(i64),
}

fn change() -> impl Strategy<Value = Change> {
    let few = prop_oneof![-2..=2_i64, any::<i64>()];
    prop_oneof![
        3 => (0..4_usize, few.clone()).prop_map(|(at, by)| Change::Number(at, by)),
        2 => (0..64_usize, proptest::option::of(0..16_u8)).prop_map(|(at, to)| Change::Signature(at, to)),
        1 => (0..5_usize).prop_map(Change::Without),
        3 => (0..5_usize, 0..8_usize).prop_map(|(at, of)| Change::PartOf(at, of)),
        3 => (0..8_usize).prop_map(Change::PathOf),
        1 => (0..4_usize).prop_map(Change::Method),
        1 => few.prop_map(Change::Job),
    ]
}

fn shifted(text: &str, by: i64) -> Option<String> {
    let number: i64 = text.parse().ok()?;
    Some(number.wrapping_add(by).to_string())
}

/// The address with a change; none if it is the same after it.
fn changed(all: &[Address], at: usize, change: &Change) -> Option<Address> {
    let mut one = all[at].clone();
    let is_preview = one.query.is_empty();
    let before = one.clone();
    let keys: Vec<String> = one.query.keys().cloned().collect();
    let key = |at: usize| keys.get(at % keys.len().max(1)).cloned();
    let in_path = |one: &mut Address, place: usize, text: String| {
        let mut parts = one.segments();
        let first = parts.len() - 4;
        parts[first + place] = text;
        one.path = parts.join("/");
    };
    match change {
        Change::Number(at, by) if is_preview => {
            let place = at % 2;
            let old = one.segments()[one.segments().len() - 4 + place].clone();
            in_path(&mut one, place, shifted(&old, *by)?);
        }
        Change::Number(at, by) => {
            let key = key(*at).filter(|key| key != "signature")?;
            let value = shifted(&one.query[&key], *by)?;
            one.query.insert(key, value);
        }
        Change::Signature(at, to) => {
            let mut text = if is_preview {
                one.segments()[one.segments().len() - 2].clone()
            } else {
                one.query["signature"].clone()
            };
            text.remove(*at);
            if let Some(to) = to {
                text.insert(*at, char::from_digit((*to).into(), 16)?);
            }
            if is_preview {
                in_path(&mut one, 2, text);
            } else {
                one.query.insert("signature".to_owned(), text);
            }
        }
        Change::Without(at) => drop(one.query.remove(&key(*at)?)),
        Change::PartOf(at, of) => {
            let key = key(*at)?;
            let value = all[of % all.len()].query.get(&key)?.clone();
            one.query.insert(key, value);
        }
        Change::PathOf(of) => {
            let other = &all[of % all.len()];
            one.path.clone_from(&other.path);
            one.method = other.method.clone();
            one.body.clone_from(&other.body);
        }
        Change::Method(at) => {
            one.method = [Method::GET, Method::PUT, Method::POST, Method::DELETE][*at].clone();
        }
        Change::Job(job) => drop(one.query.insert("job".to_owned(), job.to_string())),
    }
    let is_same =
        one.path == before.path && one.query == before.query && one.method == before.method;
    // The whole of another address is no change of this one; a preview says nothing with a query.
    let is_other = all.iter().any(|known| {
        let same_query = known.query.is_empty() || known.query == one.query;
        known.path == one.path && known.method == one.method && same_query
    });
    (!is_same && !is_other).then_some(one)
}

on_both! {
    /// C3
    every_change_of_a_signed_address_is_refused
}

async fn every_change_of_a_signed_address_is_refused(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let runner = builders(&server, &place).await;
    let worker = Worker::start(&runner, &place, &PUSH).await;
    let client =
        Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let mut all = Vec::new();
    let mut led_to = vec![
        format!("jobs/{}/logs", worker.job.job_id),
        format!("runs/{}/logs", worker.job.run_id),
    ];
    // Two of each kind: uploads of people, blobs, logs, artifacts, previews.
    for seed in [1, 2] {
        // So few that they are on their way before an answer can come.
        let bytes = noise(seed, 1_000);
        let upload = reserve(&ada, &bytes).await;
        all.push(Address::new(Method::PUT, upload["pieces"][0]["url"].as_str().unwrap(), &bytes));
        let bytes = noise(seed + 2, 100_000 + usize::try_from(seed).unwrap());
        send(&server, &ada, &bytes).await;
        let link = ada.get(&format!("/api/blobs/{}/link?owner=acme", hash(&bytes))).await;
        all.push(Address::new(Method::GET, link.expect(200)["url"].as_str().unwrap(), b""));
        let zip = archive(&[("index.html", format!("page {seed}").as_bytes(), 0o100_644)]);
        let new = json!({ "name": format!("site {seed}"), "content_type": "application/zip" });
        let id = worker.upload(new, &zip).await["id"].as_i64().unwrap();
        led_to.push(format!("artifacts/{id}/zip"));
        let seen =
            kiln_server::service::content::seen::look(&server.app, kiln_core::id::ArtifactId(id));
        let artifact = seen.await.unwrap().artifact;
        let url = kiln_server::service::previews::address(&server.app, &artifact, "index.html");
        all.push(Address::new(Method::GET, &server.url(&url), b""));
    }
    for what in led_to {
        let url = server.url(&format!("/repos/acme/app/actions/{what}"));
        let answer = client.get(url).bearer_auth(&ada.token).send().await.unwrap();
        assert_eq!(answer.status(), 302);
        let url = answer.headers()["location"].to_str().unwrap().to_owned();
        all.push(Address::new(Method::GET, &url, b""));
    }

    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let cases = (0..all.len(), change());
    let mut tried = 0;
    for _ in 0..20 * CHANGES {
        if tried == CHANGES {
            break;
        }
        let (at, change) = cases.new_tree(&mut runner).unwrap().current();
        let Some(changed) = changed(&all, at, &change) else { continue };
        let status = changed.ask(&client).await;
        assert!((400..500).contains(&status), "{status} {change:?} of {:?}: {changed:?}", all[at]);
        tried += 1;
    }
    assert_eq!(tried, CHANGES);
    // As they were given, all of them are good.
    for address in &all {
        let status = address.ask(&client).await;
        assert!([200, 204].contains(&status), "{status} {address:?}");
    }
}
