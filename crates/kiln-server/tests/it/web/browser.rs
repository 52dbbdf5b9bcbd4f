//! A browser without eyes: it keeps a session and follows nothing by itself.

use std::fmt::Write as _;

use kiln_core::run::Conclusion;
use kiln_proto::log::Line;
use kiln_server::logs::LogId;
use kiln_testkit::runs::Site;
use reqwest::{Method, StatusCode, header};

use crate::api::people::{As, Person, commit, empty, person, site};
use crate::support::{Place, Server};

/// What came back.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) headers: header::HeaderMap,
    pub(crate) text: String,
}

impl Page {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self
    }

    #[track_caller]
    pub(crate) fn has(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.text.contains(part), "no `{part}` in {}", self.text);
        }
        self
    }

    #[track_caller]
    pub(crate) fn lacks(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(!self.text.contains(part), "`{part}` in {}", self.text);
        }
        self
    }

    /// Where it leads.
    #[track_caller]
    pub(crate) fn location(&self) -> &str {
        assert!(self.status.is_redirection(), "{} {}", self.status, self.text);
        self.headers["location"].to_str().unwrap()
    }
}

/// A text as a part of an address or a form.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "%{byte:02X}");
        out
    })
}

/// Somebody in front of a browser.
#[derive(Debug)]
pub(crate) struct Browser<'s> {
    pub(crate) server: &'s Server,
    pub(crate) cookie: Option<String>,
    client: reqwest::Client,
}

impl<'s> Browser<'s> {
    pub(crate) fn new(server: &'s Server) -> Self {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        Self { server, cookie: None, client }
    }

    /// One that has signed in with a token.
    pub(crate) async fn of(person: &Person<'s>) -> Self {
        let mut browser = Self::new(person.server);
        let form = [("token", person.token.as_str())];
        let page = browser.send(browser.form("/sign-in", &form)).await;
        assert_eq!(page.location(), "/");
        browser.keep(&page);
        browser
    }

    pub(crate) fn keep(&mut self, page: &Page) {
        let line = page.headers["set-cookie"].to_str().unwrap();
        self.cookie = Some(line.split(';').next().unwrap().to_owned());
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, self.server.url(path));
        let request = request.header(header::ACCEPT, "text/html");
        match &self.cookie {
            Some(cookie) => request.header(header::COOKIE, cookie),
            None => request,
        }
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Page {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Page { status, headers, text: response.text().await.unwrap() }
    }

    pub(crate) async fn get(&self, path: &str) -> Page {
        self.send(self.request(Method::GET, path)).await
    }

    /// Sends a form.
    pub(crate) fn form(&self, path: &str, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
        let pairs =
            fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
        let body = pairs.collect::<Vec<_>>().join("&");
        let kind = "application/x-www-form-urlencoded";
        self.request(Method::POST, path).header(header::CONTENT_TYPE, kind).body(body)
    }

    /// What the forms of this session carry, as a page has it.
    pub(crate) async fn form_token(&self) -> String {
        let page = self.get("/runners").await.expect(200).text;
        let rest = page.split("name=\"form_token\" value=\"").nth(1).unwrap();
        rest.split('"').next().unwrap().to_owned()
    }

    /// Presses a button: a form with the token of the session.
    pub(crate) async fn press(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let token = self.form_token().await;
        let form: Vec<(&str, &str)> =
            [("form_token", token.as_str())].into_iter().chain(fields.iter().copied()).collect();
        self.send(self.form(path, &form)).await
    }
}

/// Two jobs, one after the other.
pub(crate) const TWO: &str = "name: Two
on: [push, workflow_dispatch]
jobs:
  build:
    runs-on: linux
    steps: [{run: make}]
  check:
    needs: build
    strategy: {matrix: {os: [a, b]}}
    runs-on: linux
    steps: [{run: make check}]
";

/// A repository with a run under way, whose first job has a log.
pub(crate) struct World<'s> {
    pub(crate) ada: Person<'s>,
    pub(crate) place: Place,
    pub(crate) site: Site,
    pub(crate) run: i64,
    pub(crate) log: LogId,
    claimed: kiln_store::claims::Claimed,
}

impl<'s> World<'s> {
    pub(crate) async fn new(server: &'s Server) -> Self {
        let place = server.repository("acme", "app").await;
        let ada = person(server, "adam", As::administrator()).await;
        commit(server, &place, &[("ci.yml", TWO)]);
        let run = ada.trigger(&place, empty()).await;
        let site = site(server, &place);
        let claimed = site.claim(1, 1).await.remove(0);
        let log = LogId { job: claimed.job, claim: claimed.claim };
        Self { ada, place, site, run, log, claimed }
    }

    /// Another commit, and the run that it makes.
    pub(crate) async fn again(&self, server: &Server) -> i64 {
        commit(server, &self.place, &[("ci.yml", TWO)]);
        self.ada.trigger(&self.place, empty()).await
    }

    /// The first job prints these lines, each of a step.
    pub(crate) async fn print(&self, server: &Server, lines: &[(u32, &str)]) {
        let mut bytes = Vec::new();
        for (at, (step, text)) in (1_700_000_000_000..).zip(lines) {
            Line { at, step: *step, text: text.as_bytes() }.write(&mut bytes);
        }
        server.app.logs.append(self.log, 0, bytes.into()).await.unwrap();
    }

    pub(crate) async fn finish(&self, conclusion: Conclusion) {
        self.site.finish(&self.claimed, 1, conclusion).await;
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/{}/actions/runs/{}{rest}", self.place.name, self.run)
    }

    pub(crate) fn job(&self, rest: &str) -> String {
        self.path(&format!("/job/{}{rest}", self.log.job))
    }
}
