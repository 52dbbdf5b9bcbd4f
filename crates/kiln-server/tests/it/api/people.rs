//! Somebody with a token, who asks a server.

use kiln_core::access::Right;
use kiln_core::id::OrgId;
use kiln_server::token::{Kind, Secret};
use kiln_store::Tx;
use kiln_store::directory::members::{self, Role};
use kiln_store::directory::tokens::{self, NewToken};
use kiln_store::directory::users::{self, NewUser};
use kiln_testkit::runs::Site;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Place, SYSTEM, Server, somebody};

/// What a person is in an installation.
#[derive(Debug, Clone, Default)]
pub(crate) struct As {
    pub(crate) administrator: bool,
    pub(crate) roles: Vec<(OrgId, Role)>,
    pub(crate) scopes: Vec<Right>,
    pub(crate) only: Option<OrgId>,
}

impl As {
    pub(crate) fn administrator() -> Self {
        Self { administrator: true, scopes: vec![Right::Admin], ..Self::default() }
    }

    pub(crate) fn member(org: OrgId, role: Role) -> Self {
        Self { roles: vec![(org, role)], scopes: vec![Right::Admin], ..Self::default() }
    }
}

/// A person's hand with a token in it.
#[derive(Debug)]
pub(crate) struct Person<'s> {
    pub(crate) server: &'s Server,
    pub(crate) token: String,
}

pub(crate) async fn person<'s>(server: &'s Server, name: &str, what: As) -> Person<'s> {
    let secret = Secret::new(Kind::Api);
    let (name, hash) = (name.to_owned(), secret.hash());
    let work = async move |tx: &mut Tx<'_>| {
        let actor = somebody();
        let new = NewUser { name: name.clone(), email: None, display_name: None };
        let user = users::create(tx, &actor, new).await?;
        users::set_admin(tx, SYSTEM, &actor, user, what.administrator).await?;
        for (org, role) in &what.roles {
            members::put(tx, SYSTEM, &actor, *org, user, *role).await?;
        }
        let scopes = what.scopes.iter().map(|right| right.word().to_owned()).collect();
        let (name, hash, org) = ("test".to_owned(), hash.clone(), what.only);
        let new = NewToken { user, org, name, hash, scopes, expires_at: None };
        tokens::create(tx, SYSTEM, &actor, new).await
    };
    server.app.store.write(work).await.unwrap();
    Person { server, token: secret.reveal().to_owned() }
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Reply {
    /// The body of an answer that must have this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{:#}", self.body);
        if status >= 400 {
            assert_eq!(self.headers["content-type"], "application/problem+json");
            assert_eq!(self.body["status"], status);
        }
        self.body
    }

    /// What a problem document says.
    #[track_caller]
    pub(crate) fn problem(self, status: u16) -> String {
        self.expect(status)["detail"].as_str().unwrap().to_owned()
    }
}

pub(crate) async fn reply(request: reqwest::RequestBuilder) -> Reply {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Reply { status, headers, body }
}

impl Person<'_> {
    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.server.client.request(method, self.server.url(path)).bearer_auth(&self.token)
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        reply(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        reply(self.request(Method::POST, path).json(&body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Reply {
        reply(self.request(Method::PUT, path).json(&body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Reply {
        reply(self.request(Method::PATCH, path).json(&body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        reply(self.request(Method::DELETE, path)).await
    }

    /// Triggers, and says which run that made.
    pub(crate) async fn trigger(&self, place: &Place, body: Value) -> i64 {
        let made = self.post(&format!("/api/repos/{}/trigger", place.name), body).await.expect(201);
        assert_eq!(made["runs"].as_array().unwrap().len(), 1, "{made:#}");
        made["runs"][0]["id"].as_i64().unwrap()
    }
}

/// The path of a workflow with this file name.
pub(crate) fn file(name: &str) -> String {
    format!(".github/workflows/{name}")
}

/// Workflows in memory for a repository; they become a commit on `main`.
pub(crate) fn commit(server: &Server, place: &Place, files: &[(&str, &str)]) -> String {
    let named: Vec<(String, &str)> = files
        .iter()
        .map(|(name, text)| {
            let path = if name.contains('/') { (*name).to_owned() } else { file(name) };
            (path, *text)
        })
        .collect();
    let named: Vec<(&str, &str)> =
        named.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    server.sources.commit(&format!("/in/memory/{}", place.name), "main", &named)
}

/// The runs of a repository, whose runners the test plays.
pub(crate) fn site(server: &Server, place: &Place) -> Site {
    let Place { org, repo, workflow, .. } = *place;
    Site { runs: server.app.runs.clone(), org, repo, workflow }
}

/// A workflow that does one thing on one runner.
pub(crate) const CI: &str = "name: CI
on: [push, workflow_dispatch]
jobs:
  build:
    runs-on: linux
    steps:
      - run: make
";

#[must_use]
pub(crate) fn empty() -> Value {
    json!({})
}
