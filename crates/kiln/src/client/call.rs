//! One request: made, repeated if that does no harm, and its answer read.

use std::time::Duration;

use anyhow::Result;
use kiln_proto::api::Page;
use kiln_proto::headers::IDEMPOTENCY_KEY;
use reqwest::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Client;
use super::error::{ClientError, Kind};

/// An answer that is larger is not read to its end.
const LARGEST_ANSWER: usize = 64 << 20;
/// How often a request is made that may be repeated.
const TRIES: u32 = 4;
/// How long a server may ask us to wait.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How many things one answer of a list may bring.
const PAGE: usize = 100;

/// How many answers of a list may bring nothing, one after the other.
const MOST_BARREN: u32 = 100;

/// A request that is about to be made.
#[derive(Debug)]
pub(crate) struct Call<'c> {
    client: &'c Client,
    method: Method,
    url: Url,
    body: Option<Vec<u8>>,
    key: Option<String>,
    last_event: Option<String>,
    stream: Option<&'static str>,
}

impl<'c> Call<'c> {
    pub(super) fn new(client: &'c Client, method: Method, url: Url) -> Self {
        Self { client, method, url, body: None, key: None, last_event: None, stream: None }
    }

    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        self.url.query_pairs_mut().append_pair(name, value);
        self
    }

    pub(crate) fn query_if(self, name: &str, value: Option<impl AsRef<str>>) -> Self {
        match value {
            Some(value) => self.query(name, value.as_ref()),
            None => self,
        }
    }

    pub(crate) fn body(mut self, body: &impl Serialize) -> Self {
        self.body = serde_json::to_vec(body).ok();
        self
    }

    /// Makes a repetition harmless: the server does it once.
    pub(crate) fn once(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// The answer is read as it comes, however long that takes.
    pub(crate) fn streamed(mut self, accept: &'static str) -> Self {
        self.stream = Some(accept);
        self
    }

    pub(crate) fn after_event(mut self, id: Option<&str>) -> Self {
        self.last_event = id.map(str::to_owned);
        self
    }

    fn repeatable(&self) -> bool {
        self.key.is_some() || self.method != Method::POST
    }

    fn request(&self) -> RequestBuilder {
        let settings = &self.client.settings;
        let accept = self.stream.unwrap_or("application/json");
        let mut request =
            self.client.http.request(self.method.clone(), self.url.clone()).header(ACCEPT, accept);
        if self.stream.is_none() {
            request = request.timeout(settings.timeout);
        }
        if let Some(token) = &settings.token {
            request = request.bearer_auth(&token.value);
        }
        if let Some(body) = &self.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        if let Some(key) = &self.key {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        if let Some(id) = &self.last_event {
            request = request.header("last-event-id", id);
        }
        request
    }

    /// Makes the request once. An answer that refuses is an error.
    async fn attempt(&self) -> Result<Response, (ClientError, Option<Duration>)> {
        let settings = &self.client.settings;
        let sent = tokio::time::timeout(settings.timeout, self.request().send());
        let response = match sent.await {
            Ok(sent) => sent.map_err(|error| {
                // Who is not there will not be there in a moment, and people wait.
                let wait = (!error.is_connect() && !error.is_timeout()).then_some(Duration::ZERO);
                (ClientError::transport(settings, &error), wait)
            })?,
            Err(_) => return Err((ClientError::late(settings), None)),
        };
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let wait = retry_after(&response);
        let body = read(response).await.unwrap_or_default();
        let error = ClientError::refused(settings, status, &body);
        let again = error.kind == Kind::Busy && status != StatusCode::INTERNAL_SERVER_ERROR;
        Err((error, again.then_some(wait)))
    }

    /// The answer of the server, after some tries if they do no harm.
    pub(crate) async fn send(&self) -> Result<Response, ClientError> {
        let mut pause = Duration::from_millis(200);
        for _ in 1..TRIES {
            match self.attempt().await {
                Ok(response) => return Ok(response),
                Err((_, Some(wait))) if self.repeatable() && self.stream.is_none() => {
                    tokio::time::sleep(pause.max(wait)).await;
                    pause *= 2;
                }
                Err((error, _)) => return Err(error),
            }
        }
        self.attempt().await.map_err(|(error, _)| error)
    }

    /// The answer as one thing.
    pub(crate) async fn json<T: DeserializeOwned>(&self) -> Result<T> {
        let settings = &self.client.settings;
        let response = self.send().await?;
        let version = version(&response);
        let body =
            read(response).await.map_err(|error| ClientError::transport(settings, &error))?;
        let read = serde_json::from_slice(&body).map_err(|error| {
            ClientError::garbled(settings, version.as_deref(), &error.to_string())
        })?;
        Ok(read)
    }

    /// It is done, and the answer says nothing more.
    pub(crate) async fn done(&self) -> Result<()> {
        self.send().await?;
        Ok(())
    }

    /// A list, page by page, `limit` items at most.
    pub(crate) async fn list<T: DeserializeOwned>(self, limit: usize) -> Result<Vec<T>> {
        self.list_of(limit, |_| true).await
    }

    /// Those of a list that fit, page by page, `limit` items at most.
    pub(crate) async fn list_of<T: DeserializeOwned>(
        mut self,
        limit: usize,
        fits: impl Fn(&T) -> bool,
    ) -> Result<Vec<T>> {
        let base = self.url.clone();
        let (mut items, mut after) = (Vec::new(), None::<String>);
        let mut barren = 0;
        loop {
            self.url = base.clone();
            let wanted = (limit - items.len()).min(PAGE);
            self.url.query_pairs_mut().append_pair("limit", &wanted.to_string());
            if let Some(after) = &after {
                self.url.query_pairs_mut().append_pair("after", after);
            }
            let page: Page<T> = self.json().await?;
            // A server may look for a while, find nothing, and say where to go on.
            barren = if page.items.is_empty() { barren + 1 } else { 0 };
            items.extend(page.items.into_iter().filter(&fits));
            items.truncate(limit);
            // One that leads in circles must not keep us forever.
            let astray = page.next == after || barren > MOST_BARREN;
            if page.next.is_none() || astray || items.len() >= limit {
                return Ok(items);
            }
            after = page.next;
        }
    }
}

fn retry_after(response: &Response) -> Duration {
    let seconds =
        response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    seconds.map_or(Duration::ZERO, Duration::from_secs).min(LONGEST_WAIT)
}

fn version(response: &Response) -> Option<String> {
    Some(response.headers().get("kiln-version")?.to_str().ok()?.to_owned())
}

async fn read(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await? {
        body.extend_from_slice(&piece);
        if body.len() > LARGEST_ANSWER {
            break;
        }
    }
    Ok(body)
}

/// A text that nobody else will come up with.
pub(crate) fn random_key() -> Result<String> {
    let mut bytes = [0_u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
