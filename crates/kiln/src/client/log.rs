//! The log of a job: read from an offset, followed while it grows, taken up again where it broke off.
//! No line is lost or doubled, because offsets count bytes and only whole lines are handed on.

use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::{Result, bail};
use kiln_proto::api::Job;
use kiln_proto::headers::LOG_LENGTH;
use kiln_proto::log::Line;
use reqwest::Response;

use super::Client;
use super::error::{ClientError, Kind};
use super::events::pause;

/// A log that says nothing for so long is asked for anew.
const SILENCE: Duration = Duration::from_secs(45);
/// How often in a row it may go wrong when nobody follows it.
const TRIES: usize = 4;
/// How often in a row it may go wrong when somebody does: ten minutes.
const PATIENT_TRIES: usize = 200;
/// A line that is longer is handed on in pieces.
const LONGEST_LINE: usize = 8 << 20;
/// How much of the end is read first for its last lines.
const FIRST_WINDOW: u64 = 64 << 10;
/// How much of the end is read at most.
const LARGEST_WINDOW: u64 = 256 << 20;

/// The log of one claim of a job.
#[derive(Debug)]
pub(crate) struct Log<'c> {
    client: &'c Client,
    job: String,
    claim: u32,
    /// Where the next request begins.
    offset: u64,
    /// What has no line break yet.
    rest: Vec<u8>,
}

/// Where lines go.
pub(crate) trait Sink {
    fn line(&mut self, line: &Line<'_>);

    /// What has come so far can be shown; says whether there should be more.
    fn flush(&mut self) -> Result<ControlFlow<()>>;
}

impl<'c> Log<'c> {
    pub(crate) fn of(client: &'c Client, job: i64, claim: u32) -> Self {
        Self { client, job: job.to_string(), claim, offset: 0, rest: Vec::new() }
    }

    async fn open(&self, follow: bool, limit: Option<u64>) -> Result<Response, ClientError> {
        let limit = limit.map(|limit| limit.to_string());
        let call = self
            .client
            .get(&["jobs", &self.job, "log"])
            .query("format", "raw")
            .query("attempt", &self.claim.to_string())
            .query("from", &self.offset.to_string())
            .query_if("limit", limit)
            .query_if("follow", follow.then_some("true"));
        call.streamed("text/plain").send().await
    }

    /// All that is there now.
    pub(crate) async fn read(&mut self, sink: &mut impl Sink) -> Result<()> {
        let mut failures = 0;
        loop {
            let before = self.offset;
            match self.once(false, sink).await? {
                Ok(ControlFlow::Break(())) => return Ok(()),
                // An answer may hold only a part of a long log.
                Ok(ControlFlow::Continue(())) if self.offset > before => failures = 0,
                Ok(ControlFlow::Continue(())) => return self.last(sink).map(|_| ()),
                Err(error) => {
                    failures += 1;
                    if failures >= TRIES || error.kind == Kind::Other {
                        bail!(error);
                    }
                    pause(failures).await;
                }
            }
        }
    }

    /// All that is there and all that comes, until the job is over. Gives the job as it then is.
    pub(crate) async fn follow(&mut self, sink: &mut impl Sink) -> Result<Job> {
        let mut failures = 0;
        loop {
            pause(failures).await;
            let before = self.offset;
            let round = self.once(true, sink).await?;
            if self.offset > before {
                failures = 0;
            }
            let job = match &round {
                Ok(_) => self.client.job(&self.job).await,
                Err(_) => Err(anyhow::anyhow!("the log cannot be read")),
            };
            match (round, job) {
                (Ok(ControlFlow::Break(())), Ok(job)) => return Ok(job),
                (Ok(ControlFlow::Continue(())), Ok(job)) if self.is_over(&job) => {
                    self.read(sink).await?;
                    return Ok(job);
                }
                // A server that has nothing to say is not asked without a pause.
                (Ok(_), Ok(_)) if self.offset == before => failures = 2,
                (Ok(_), Ok(_)) => {}
                (Err(error), _) => {
                    failures = trouble(error, failures)?;
                }
                (_, Err(error)) => {
                    let error = error.downcast::<ClientError>()?;
                    failures = trouble(error, failures)?;
                }
            }
        }
    }

    /// Whether this claim of the job writes no more.
    fn is_over(&self, job: &Job) -> bool {
        job.status == "completed" || job.attempt > self.claim
    }

    /// One request and all lines of its answer. A break in the middle is no error: what came has moved
    /// the offset.
    async fn once(
        &mut self,
        follow: bool,
        sink: &mut impl Sink,
    ) -> Result<Result<ControlFlow<()>, ClientError>> {
        let mut response = match self.open(follow, None).await {
            Ok(response) => response,
            Err(error) => return Ok(Err(error)),
        };
        loop {
            match tokio::time::timeout(SILENCE, response.chunk()).await {
                Ok(Ok(Some(piece))) => {
                    if self.take(&piece, sink)?.is_break() {
                        return Ok(Ok(ControlFlow::Break(())));
                    }
                }
                Ok(Ok(None)) => return Ok(Ok(ControlFlow::Continue(()))),
                Ok(Err(error)) => {
                    return Ok(Err(ClientError::transport(&self.client.settings, &error)));
                }
                Err(_) if follow => return Ok(Ok(ControlFlow::Continue(()))),
                Err(_) => return Ok(Err(ClientError::late(&self.client.settings))),
            }
        }
    }

    fn take(&mut self, piece: &[u8], sink: &mut impl Sink) -> Result<ControlFlow<()>> {
        self.offset += piece.len() as u64;
        self.rest.extend_from_slice(piece);
        let mut start = 0;
        while let Some(end) = memchr::memchr(b'\n', &self.rest[start..]) {
            sink.line(&Line::parse(&self.rest[start..start + end]));
            start += end + 1;
        }
        self.rest.drain(..start);
        if self.rest.len() > LONGEST_LINE {
            return self.last(sink);
        }
        sink.flush()
    }

    /// What the log ends with, if it does not end with a line break.
    fn last(&mut self, sink: &mut impl Sink) -> Result<ControlFlow<()>> {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            sink.line(&Line::parse(&rest));
        }
        sink.flush()
    }

    /// The last lines that are wanted, at most `count`; what follows begins behind them.
    pub(crate) async fn tail(
        &mut self,
        count: usize,
        wanted: &dyn Fn(&Line<'_>) -> bool,
    ) -> Result<Vec<Vec<u8>>> {
        let end = self.length().await?;
        let mut window = FIRST_WINDOW;
        loop {
            let start = end.unwrap_or(0).saturating_sub(window);
            let bytes = self.range(start, end).await?;
            self.offset = start + bytes.len() as u64;
            let whole = if start == 0 {
                &bytes[..]
            } else {
                // The first line of a window is only the end of one.
                &bytes[memchr::memchr(b'\n', &bytes).map_or(bytes.len(), |at| at + 1)..]
            };
            let closed = memchr::memrchr(b'\n', whole).map_or(0, |at| at + 1);
            let lines = whole[..closed].split_inclusive(|byte| *byte == b'\n');
            let lines = lines.map(|line| line.strip_suffix(b"\n").unwrap_or(line));
            let found: Vec<&[u8]> = lines.filter(|line| wanted(&Line::parse(line))).collect();
            if found.len() >= count || start == 0 || window >= LARGEST_WINDOW {
                let last = &found[found.len().saturating_sub(count)..];
                let last = last.iter().map(|line| line.to_vec()).collect();
                self.rest = whole[closed..].to_vec();
                return Ok(last);
            }
            window *= 8;
        }
    }

    /// How long it is, if the server says so.
    async fn length(&self) -> Result<Option<u64>> {
        let response = self.open(false, Some(1)).await?;
        let length =
            response.headers().get(LOG_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        Ok(length)
    }

    /// The bytes between two offsets, or to the end.
    async fn range(&mut self, start: u64, end: Option<u64>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            self.offset = start + bytes.len() as u64;
            let limit = end.map(|end| end.saturating_sub(self.offset));
            if limit == Some(0) {
                return Ok(bytes);
            }
            let mut response = self.open(false, limit).await?;
            let before = bytes.len();
            let settings = &self.client.settings;
            while let Some(piece) =
                response.chunk().await.map_err(|error| ClientError::transport(settings, &error))?
            {
                bytes.extend_from_slice(&piece);
            }
            if bytes.len() == before {
                return Ok(bytes);
            }
        }
    }
}

/// One more failure, if it may get better.
fn trouble(error: ClientError, failures: usize) -> Result<usize> {
    if !matches!(error.kind, Kind::Away | Kind::Busy) || failures >= PATIENT_TRIES {
        bail!(error);
    }
    Ok(failures + 1)
}
