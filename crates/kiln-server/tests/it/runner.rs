//! A runner that the test plays, over HTTP.

use aws_lc_rs::agreement::{PrivateKey, X25519};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kiln_core::id::RunId;
use kiln_core::run::RunState;
use kiln_proto::job::{Job, JobRef, Secrets};
use kiln_proto::problem::Problem;
use kiln_proto::report::{Complete, Event, Events, What};
use kiln_proto::runner::{Capabilities, Claim, Heartbeat, HeartbeatAnswer, Register, Registered};
use kiln_store::{Tx, runs};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;

use crate::support::{SYSTEM, Server};

/// The labels of most tests.
pub(crate) const LINUX: &[&str] = &["linux"];

pub(crate) struct Runner<'s> {
    pub(crate) server: &'s Server,
    pub(crate) id: i64,
    pub(crate) credential: String,
    pub(crate) token: String,
    private: PrivateKey,
}

pub(crate) fn capabilities(labels: &[&str]) -> Capabilities {
    Capabilities {
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        systems: vec!["x86_64-linux".to_owned()],
        os: "linux".to_owned(),
        architecture: "x64".to_owned(),
        cores: 4,
        memory_mb: 8_000,
        disk_mb: 50_000,
        max_parallel: 2,
        backends: vec!["sandbox".to_owned()],
        ..Capabilities::default()
    }
}

/// What a runner of this name says, and how it opens secrets.
pub(crate) fn registration(key: &str, name: &str, labels: &[&str]) -> (Register, PrivateKey) {
    let private = PrivateKey::generate(&X25519).unwrap();
    let public = private.compute_public_key().unwrap();
    let register = Register {
        key: Some(key.to_owned()),
        name: name.to_owned(),
        capabilities: capabilities(labels),
        version: "1.0".to_owned(),
        protocol: kiln_proto::version::PROTOCOL,
        public_key: Some(BASE64.encode(public.as_ref())),
        ..Register::default()
    };
    (register, private)
}

pub(crate) async fn register(server: &Server, asked: &Register) -> Response {
    let url = server.url("/api/runners/register");
    server.client.post(url).json(asked).send().await.unwrap()
}

impl<'s> Runner<'s> {
    pub(crate) async fn new(server: &'s Server, key: &str, name: &str, labels: &[&str]) -> Self {
        let (asked, private) = registration(key, name, labels);
        Self::of(server, &asked, private).await
    }

    pub(crate) async fn of(server: &'s Server, asked: &Register, private: PrivateKey) -> Self {
        let answer = register(server, asked).await;
        let registered: Registered = good(answer).await;
        let credential = registered.credential.unwrap();
        Self { server, id: registered.id, credential, token: registered.access_token, private }
    }

    /// A request of this runner.
    pub(crate) fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.server.client.request(method, self.server.url(path)).bearer_auth(&self.token)
    }

    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.ask(Method::POST, path)
    }

    pub(crate) fn claiming(&self, nonce: &str, wait: u32) -> RequestBuilder {
        let claim = Claim { nonce: nonce.to_owned(), wait, ..Claim::default() };
        self.post(&format!("/actions/runners/{}/jobs/claim", self.id)).json(&claim)
    }

    /// A job within some seconds. Who waits for none has only what the server knows already, and it hears of a new
    /// queue a moment after the queue is there.
    pub(crate) async fn claim(&self, nonce: &str, wait: u32) -> Option<Job> {
        let answer = self.claiming(nonce, wait).send().await.unwrap();
        for name in ["kiln-access-token", "kiln-queue-size"] {
            assert!(answer.headers().contains_key(name), "{name}: {answer:?}");
        }
        match answer.status().as_u16() {
            204 => None,
            _ => Some(good(answer).await),
        }
    }

    pub(crate) fn beating(&self, jobs: &[JobRef], wait: u32) -> RequestBuilder {
        let beat = Heartbeat { jobs: jobs.to_vec(), wait, ..Heartbeat::default() };
        self.post(&format!("/actions/runners/{}/heartbeat", self.id)).json(&beat)
    }

    pub(crate) async fn beat(&self, jobs: &[JobRef], wait: u32) -> HeartbeatAnswer {
        good(self.beating(jobs, wait).send().await.unwrap()).await
    }

    pub(crate) fn open(&self, job: &Job) -> Secrets {
        let plain = kiln_server::seal::open_from(&self.private, job.reference(), &job.secrets);
        serde_json::from_slice(&plain.unwrap()).unwrap()
    }
}

/// Events with the numbers from `first` on.
pub(crate) fn numbered(first: u64, events: Vec<What>) -> Vec<Event> {
    let event = |(sequence, what)| Event { sequence, at: 1_000, what };
    (first..).zip(events).map(event).collect()
}

/// Calls about one job.
pub(crate) struct Reporter<'s> {
    server: &'s Server,
    pub(crate) job: JobRef,
    pub(crate) token: String,
}

impl<'s> Reporter<'s> {
    pub(crate) fn new(server: &'s Server, job: &Job) -> Self {
        Self { server, job: job.reference(), token: job.token.clone() }
    }

    pub(crate) fn ask(&self, method: Method, rest: &str) -> RequestBuilder {
        let JobRef { job_id, attempt } = self.job;
        let url = self.server.url(&format!("/actions/jobs/{job_id}/attempts/{attempt}/{rest}"));
        self.server.client.request(method, url).bearer_auth(&self.token)
    }

    pub(crate) fn logging(&self, from: u64, text: &str) -> RequestBuilder {
        self.ask(Method::PUT, &format!("log?from={from}")).body(text.to_owned())
    }

    pub(crate) fn telling(&self, first: u64, events: Vec<What>) -> RequestBuilder {
        self.ask(Method::POST, "events").json(&Events { events: numbered(first, events) })
    }

    pub(crate) fn completing(&self, said: &Complete) -> RequestBuilder {
        self.ask(Method::POST, "complete").json(said)
    }

    pub(crate) fn returning(&self) -> RequestBuilder {
        self.ask(Method::POST, "return")
    }
}

pub(crate) fn completion(conclusion: &str) -> Complete {
    Complete { conclusion: conclusion.to_owned(), ..Complete::default() }
}

/// What a request was answered with, when it was done.
pub(crate) async fn good<T: serde::de::DeserializeOwned>(answer: Response) -> T {
    let status = answer.status();
    let text = answer.text().await.unwrap();
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Sends a request that must be refused with this status, and says how.
pub(crate) async fn refused(request: RequestBuilder, status: u16) -> Problem {
    problem(request.send().await.unwrap(), status).await
}

pub(crate) async fn problem(answer: Response, status: u16) -> Problem {
    let kind = answer.headers().get("content-type").cloned();
    let found = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    assert_eq!(found, status, "{text}");
    assert_eq!(kind.unwrap(), "application/problem+json", "{text}");
    let problem: Problem = serde_json::from_str(&text).unwrap();
    assert_eq!(problem.status, status);
    problem
}

/// How a run stands.
pub(crate) async fn state(server: &Server, run: RunId) -> RunState {
    let read = async move |tx: &mut Tx<'_>| runs::view(tx, SYSTEM, run, None).await;
    server.app.store.read(read).await.unwrap().state
}

/// A context of a job as JSON.
pub(crate) fn json(raw: &serde_json::value::RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap()
}
