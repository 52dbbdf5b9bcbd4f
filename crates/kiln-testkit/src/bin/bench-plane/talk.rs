//! What a runner says to its server.

use kiln_proto::report::{Complete, End, Ended, Ends, Event, What};
use kiln_proto::runner::{Capabilities, Claim, Register, Registered};
use reqwest::{Client, RequestBuilder, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::wire::{Answered, Wire};

#[derive(Debug, Clone)]
pub(crate) struct Server {
    http: Client,
    url: String,
    token: String,
}

/// What a runner that runs nothing must know of a job.
#[derive(Debug, Deserialize)]
pub(crate) struct Job {
    #[serde(rename = "job_id")]
    id: i64,
    attempt: u32,
    token: String,
}

/// The answer to a runner that asked for several.
#[derive(Debug, Deserialize)]
struct Jobs {
    jobs: Vec<Job>,
}

/// One that is registered. It has one question open at a time.
#[derive(Debug)]
pub(crate) struct Runner {
    wire: Wire,
    /// How many jobs it runs at once.
    slots: u32,
    id: i64,
    access: String,
    asked: u64,
}

impl Server {
    pub(crate) fn new(url: &str, token: &str) -> Self {
        Self { http: Client::new(), url: url.to_owned(), token: token.to_owned() }
    }

    /// A connection of its own.
    pub(crate) fn wire(&self) -> Wire {
        Wire::new(&self.url)
    }

    fn post(&self, path: &str, token: &str) -> RequestBuilder {
        self.http.post(format!("{}{path}", self.url)).bearer_auth(token)
    }

    pub(crate) async fn trigger(&self, repo: &str) -> Result<(), String> {
        let call = self.post(&format!("/api/repos/{repo}/trigger"), &self.token);
        good(call.json(&json!({ "workflow": "ci.yml" }))).await.map(drop)
    }

    /// A key that lets so many runners in.
    pub(crate) async fn key(&self, owner: &str, uses: usize) -> Result<String, String> {
        let call = self.post("/api/registration-keys", &self.token);
        let answer = good(call.json(&json!({ "owner": owner, "uses": uses }))).await?;
        let made: Value = answer.json().await.map_err(|error| error.to_string())?;
        made["key"].as_str().map(ToOwned::to_owned).ok_or_else(|| format!("no key in {made}"))
    }

    pub(crate) async fn register(
        &self,
        key: &str,
        name: String,
        slots: u32,
    ) -> Result<Runner, String> {
        let capabilities = Capabilities {
            labels: vec!["self-hosted".to_owned()],
            os: "linux".to_owned(),
            architecture: "x64".to_owned(),
            max_parallel: slots,
            backends: vec!["dummy".to_owned()],
            ..Capabilities::default()
        };
        let register = Register {
            key: Some(key.to_owned()),
            name,
            capabilities,
            version: "0.0.0".to_owned(),
            protocol: kiln_proto::version::PROTOCOL,
            // The base point of the curve: nothing is ever sealed to it but tokens of dummy jobs.
            public_key: Some("CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".to_owned()),
            ..Register::default()
        };
        let call = self.http.post(format!("{}/api/runners/register", self.url)).json(&register);
        let made: Registered = good(call).await?.json().await.map_err(|error| error.to_string())?;
        let wire = self.wire();
        Ok(Runner { wire, slots, id: made.id, access: made.access_token, asked: 0 })
    }
}

impl Runner {
    /// Jobs for its slots, as far as there are any within so many seconds.
    pub(crate) async fn claim(&mut self, wait: u32) -> Result<Vec<Job>, String> {
        self.asked += 1;
        let (nonce, want) = (self.asked.to_string(), self.slots);
        let claim = Claim { nonce, wait, want, ..Claim::default() };
        let path = format!("/actions/runners/{}/jobs/claim", self.id);
        let answer = said(&mut self.wire, &path, &self.access, &claim).await?;
        if let Some(fresh) = answer.fresh {
            fresh.clone_into(&mut self.access);
        }
        let read = match (answer.body, want) {
            ([], _) => Ok(Vec::new()),
            (body, 1) => serde_json::from_slice(body).map(|job| vec![job]),
            (body, _) => serde_json::from_slice(body).map(|several: Jobs| several.jobs),
        };
        read.map_err(|error| error.to_string())
    }

    /// Says that jobs began and ended well: at once, as a real runner says of those that are over before it could say that they
    /// began, and of those that end together.
    pub(crate) async fn run(&mut self, jobs: &[Job]) -> Result<(), String> {
        if let [job] = jobs {
            let path = format!("/actions/jobs/{}/attempts/{}/complete", job.id, job.attempt);
            return said(&mut self.wire, &path, &job.token, &ended()).await.map(drop);
        }
        let end = |job: &Job| End {
            job_id: job.id,
            attempt: job.attempt,
            token: job.token.clone(),
            complete: ended(),
        };
        let ends = Ends { ends: jobs.iter().map(end).collect() };
        let path = format!("/actions/runners/{}/jobs/complete", self.id);
        let answer = said(&mut self.wire, &path, &self.access, &ends).await?;
        let heard: Ended =
            serde_json::from_slice(answer.body).map_err(|error| error.to_string())?;
        if heard.ended.iter().any(Option::is_none) {
            return Err("an end was not heard".to_owned());
        }
        Ok(())
    }
}

/// The end of a job of which nothing was said before.
fn ended() -> Complete {
    let started = Event { sequence: 1, at: 1, what: What::started() };
    let conclusion = "success".to_owned();
    Complete { conclusion, sequence: 1, events: vec![started], ..Complete::default() }
}

/// Says something over a runner's own connection.
async fn said<'w>(
    wire: &'w mut Wire,
    path: &str,
    token: &str,
    what: &impl Serialize,
) -> Result<Answered<'w>, String> {
    let body = serde_json::to_vec(what).map_err(|error| error.to_string())?;
    let answer = wire.post(path, token, &body).await?;
    if (200..300).contains(&answer.status) {
        return Ok(answer);
    }
    Err(format!("{path}: {}: {}", answer.status, String::from_utf8_lossy(answer.body)))
}

async fn good(call: RequestBuilder) -> Result<Response, String> {
    let answer = call.send().await.map_err(|error| error.to_string())?;
    if answer.status().is_success() {
        return Ok(answer);
    }
    let status = answer.status();
    Err(format!("{status}: {}", answer.text().await.unwrap_or_default()))
}
