//! One call to the server, and what its answer means.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use kiln_proto::headers;
use kiln_proto::problem::Problem;
use kiln_proto::version::PROTOCOL;
use reqwest::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LOCATION, RANGE, RETRY_AFTER,
};
use reqwest::{Certificate, Client, Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// No answer is longer: a job with everything it needs is the longest.
const LONGEST_ANSWER: usize = 64 << 20;
/// How long a call may take besides what it is allowed to wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a call did not do what it should.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The server is not there or not well: the same again later.
    #[error("{why}")]
    Away { why: String, after: Option<Duration> },
    /// The token is not good, or the runner is not known (401, 404).
    #[error("{0}")]
    Unknown(String),
    /// Something before this is missing; it goes on there.
    #[error("the server wants to go on at {0}")]
    Gap(u64),
    /// It will never be accepted.
    #[error("{message}")]
    Refused { status: u16, message: String },
}

/// What came back from a call that succeeded.
#[derive(Debug)]
pub(super) struct Answer {
    status: StatusCode,
    /// A fresh access token.
    pub(super) access_token: Option<String>,
    body: Vec<u8>,
}

impl Answer {
    pub(super) fn is_empty(&self) -> bool {
        self.status == StatusCode::NO_CONTENT
    }

    /// It is under way; the same question again is for how it ended.
    pub(super) fn is_pending(&self) -> bool {
        self.status == StatusCode::ACCEPTED
    }

    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        serde_json::from_slice(&self.body).map_err(|error| Fault::Away {
            why: format!("the server's answer is not understood: {error}"),
            after: None,
        })
    }
}

/// What a call sends.
pub(super) enum Body {
    Json(Vec<u8>),
    Bytes(Vec<u8>),
}

impl Body {
    pub(super) fn of(value: &impl Serialize) -> Self {
        Self::Json(serde_json::to_vec(value).expect("what we send can be written as JSON"))
    }
}

/// Speaks HTTP with one server. Clones share their connections.
#[derive(Debug, Clone)]
pub(super) struct Http {
    client: Client,
    base: String,
}

impl Http {
    pub(super) fn new(server: &str, ca: Option<&Path>) -> Result<Self, String> {
        let base = base_url(server)?;
        let mut builder = Client::builder()
            .connect_timeout(Duration::from_secs(10))
            .tcp_keepalive(Duration::from_secs(30))
            .pool_max_idle_per_host(4)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("kiln-runner/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&base) {
            // A proxy would look for the server on its own machine.
            builder = builder.no_proxy();
        }
        if let Some(path) = ca {
            let text = std::fs::read(path).map_err(|error| {
                format!("cannot read the certificates of `--ca {}`: {error}", path.display())
            })?;
            let certificates = Certificate::from_pem_bundle(&text)
                .map_err(|error| format!("`{}` holds no certificates: {error}", path.display()))?;
            builder = builder.tls_certs_merge(certificates);
        } else if base.starts_with("http:") {
            // The certificates of the system would take up memory for nothing.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| format!("cannot speak HTTP: {error}"))?;
        Ok(Self { client, base })
    }

    /// An address of the server, or one that is whole already.
    pub(super) fn address(&self, path: &str) -> String {
        if path.contains("://") { path.to_owned() } else { format!("{}{path}", self.base) }
    }

    pub(super) async fn post(
        &self,
        path: &str,
        token: Option<&str>,
        body: Body,
        wait: Duration,
    ) -> Result<Answer, Fault> {
        self.call(Method::POST, path, token, body, wait).await
    }

    pub(super) async fn put(&self, path: &str, token: &str, body: Body) -> Result<Answer, Fault> {
        self.call(Method::PUT, path, Some(token), body, PATIENCE).await
    }

    /// Any call in the name of a job.
    pub(super) async fn ask(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: Body,
    ) -> Result<Answer, Fault> {
        self.call(method, path, Some(token), body, PATIENCE).await
    }

    /// Bytes of the server, from one of them on, up to another or all. The server may say that they are elsewhere, where its
    /// token is nobody's business.
    pub(super) async fn bytes(
        &self,
        path: &str,
        token: &str,
        (from, to): (u64, Option<u64>),
    ) -> Result<Response, Fault> {
        let range = match to {
            Some(to) => Some(format!("bytes={from}-{}", to.saturating_sub(1))),
            None => (from > 0).then(|| format!("bytes={from}-")),
        };
        let get = |address: String| {
            let request = self.client.get(address);
            match &range {
                Some(range) => request.header(RANGE, range),
                None => request,
            }
        };
        let request = get(self.address(path)).header(headers::PROTOCOL, PROTOCOL);
        let request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        let mut response = request.send().await.map_err(|error| away(&error))?;
        if response.status().is_redirection() {
            let there = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let there = self.address(there.unwrap_or_default());
            response = get(there).send().await.map_err(|error| away(&error))?;
        }
        let response = refused(response).await?;
        if from > 0 && response.status() != StatusCode::PARTIAL_CONTENT {
            // Some proxy between does not know of parts: these would be other bytes than were asked for.
            let message = format!("all bytes came where those from {from} on were asked for");
            return Err(Fault::Refused { status: response.status().as_u16(), message });
        }
        Ok(response)
    }

    /// Sends bytes to an address that the server gave, without a token. Returns what the store calls them.
    pub(super) async fn send(
        &self,
        address: &str,
        body: reqwest::Body,
        length: u64,
        wait: Duration,
    ) -> Result<Option<String>, Fault> {
        let request = self.client.put(self.address(address)).timeout(wait);
        let request = request.header(CONTENT_LENGTH, length).body(body);
        let response = request.send().await.map_err(|error| away(&error))?;
        let response = refused(response).await?;
        let tag = response.headers().get(ETAG).and_then(|value| value.to_str().ok());
        Ok(tag.map(str::to_owned))
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Body,
        wait: Duration,
    ) -> Result<Answer, Fault> {
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.base))
            .header(headers::PROTOCOL, PROTOCOL)
            .timeout(wait + PATIENCE);
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let (kind, bytes) = match body {
            Body::Json(bytes) => ("application/json", bytes),
            Body::Bytes(bytes) => ("application/octet-stream", bytes),
        };
        let request = request.header(CONTENT_TYPE, kind).body(bytes);
        let mut response = request.send().await.map_err(|error| away(&error))?;
        let status = response.status();
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let access_token = header(headers::ACCESS_TOKEN);
        let after = header(RETRY_AFTER.as_str()).and_then(|seconds| seconds.parse().ok());
        let after = after.map(Duration::from_secs);
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| away(&error))? {
            if body.len() + chunk.len() > LONGEST_ANSWER {
                let why = format!("the server's answer is longer than {LONGEST_ANSWER} bytes");
                return Err(Fault::Away { why, after });
            }
            body.extend_from_slice(&chunk);
        }
        if status.is_success() {
            return Ok(Answer { status, access_token, body });
        }
        Err(fault(status, after, &body))
    }
}

/// The address without what would be doubled by a path after it.
fn base_url(server: &str) -> Result<String, String> {
    let wrong = |why: &str| format!("`{server}` is no address of a server: {why}");
    let url = reqwest::Url::parse(server).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("expected `http://…` or `https://…`"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("it must hold no name and no password"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("nothing may follow after `?` or `#`"));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Whether an address leads to this machine.
pub(super) fn is_loopback(address: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(address) else { return false };
    let host = url.host_str().unwrap_or_default();
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || plain.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn away(error: &reqwest::Error) -> Fault {
    // The error itself says only that something failed; its causes say what.
    let mut why = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        why = format!("{why}: {next}");
        cause = next.source();
    }
    Fault::Away { why, after: None }
}

/// An answer that succeeded, or what its refusal means.
async fn refused(mut response: Response) -> Result<Response, Fault> {
    const WORDS: usize = 64 << 10;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| away(&error))? {
        body.extend_from_slice(&chunk);
        if body.len() > WORDS {
            break;
        }
    }
    Err(fault(status, None, &body))
}

/// What a refusal means. Only a problem document comes from a server of ours: something in between may
/// answer 404 while the server is away.
fn fault(status: StatusCode, after: Option<Duration>, body: &[u8]) -> Fault {
    let code = status.as_u16();
    let problem: Option<Problem> = serde_json::from_slice(body).ok();
    let Some(problem) = problem.filter(|_| status.is_client_error()) else {
        let said = String::from_utf8_lossy(&body[..body.len().min(200)]).trim().to_owned();
        return Fault::Away { why: format!("the server answered {code} {said}"), after };
    };
    let message = problem.detail.unwrap_or(problem.title);
    match code {
        408 | 425 | 429 => Fault::Away { why: message, after },
        401 | 404 => Fault::Unknown(message),
        409 => match problem.wanted {
            Some(wanted) => Fault::Gap(wanted),
            None => Fault::Refused { status: code, message },
        },
        _ => Fault::Refused { status: code, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, body: &str, expect: &str) {
        let status = StatusCode::from_u16(status).unwrap();
        let fault = format!("{:?}", fault(status, None, body.as_bytes()));
        assert!(fault.starts_with(expect), "{status} {body}: {fault}");
    }

    #[test]
    fn only_a_server_of_ours_can_refuse_for_good() {
        let problem = r#"{"type":"x","title":"t","status":400,"detail":"why"}"#;
        check(500, problem, "Away");
        check(503, "", "Away");
        check(404, "<html>nginx</html>", "Away");
        check(302, "", "Away");
        check(429, problem, "Away");
        check(401, problem, "Unknown(\"why\")");
        check(404, problem, "Unknown");
        check(403, problem, "Refused { status: 403");
        check(422, problem, "Refused");
        check(409, problem, "Refused");
        check(409, r#"{"type":"x","title":"t","status":409,"wanted":7}"#, "Gap(7)");
    }

    #[test]
    fn only_this_machine_is_reached_without_a_proxy() {
        for local in
            ["http://127.0.0.1:8420", "http://localhost/x", "https://[::1]:1/a", "http://127.9.9.9"]
        {
            assert!(is_loopback(local), "{local}");
        }
        for far in
            ["http://127.0.0.1.example", "https://ci.example", "http://10.0.0.1", "", "localhost"]
        {
            assert!(!is_loopback(far), "{far}");
        }
    }

    #[test]
    fn an_address_is_checked_before_anything_is_sent_there() {
        assert_eq!(base_url("http://localhost:8420/"), Ok("http://localhost:8420".to_owned()));
        assert_eq!(base_url("https://ci.example/kiln/").unwrap(), "https://ci.example/kiln");
        for wrong in ["", "localhost:8420", "ftp://x", "http://a:b@x", "http://x?y", "unix:/x"] {
            let error = base_url(wrong).unwrap_err();
            assert!(error.contains("no address"), "{error}");
        }
    }
}
