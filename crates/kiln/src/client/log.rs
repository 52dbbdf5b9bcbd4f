//! The log of a job: read from a line on, followed while it grows, taken up again where it broke off.
//! No line is lost or doubled, because lines have numbers and only whole ones are handed on.

use std::ops::ControlFlow;
use std::time::Duration;

use anyhow::{Result, bail};
use kiln_proto::api::Job;
use kiln_proto::log::{LONGEST_LINE, Numbered};
use reqwest::Response;

use super::Client;
use super::error::{ClientError, Kind};
use super::events::pause;
use super::target::Lines;

/// A log that says nothing for so long is asked for anew.
const SILENCE: Duration = Duration::from_secs(45);
/// How often in a row it may go wrong when nobody follows it.
const TRIES: usize = 4;
/// How often in a row it may go wrong when somebody does: ten minutes.
const PATIENT_TRIES: usize = 200;

/// Which lines are wanted; all of them unless something is said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choice {
    /// Numbers of steps, from 1.
    pub(crate) steps: Vec<u32>,
    /// A time in RFC 3339.
    pub(crate) since: Option<String>,
    pub(crate) grep: Option<Grep>,
    /// Only the last of them.
    pub(crate) tail: Option<u64>,
    /// Only those with these numbers.
    pub(crate) lines: Option<Lines>,
}

impl Choice {
    /// The number of the last line that is wanted.
    fn last(&self) -> u64 {
        self.lines.map_or(u64::MAX, |lines| lines.last)
    }

    /// How many lines there can be from this one on, where the server can count them.
    fn room(&self, next: u64) -> Option<u64> {
        let whole = self.steps.is_empty() && self.since.is_none() && self.grep.is_none();
        let last = self.lines.filter(|lines| whole && lines.last < u64::MAX)?.last;
        Some(last.saturating_sub(next) + 1)
    }
}

/// What is looked for.
#[derive(Debug, Clone)]
pub(crate) struct Grep {
    pub(crate) pattern: String,
    pub(crate) regex: bool,
    pub(crate) ignore_case: bool,
}

/// The log of one claim of a job.
#[derive(Debug)]
pub(crate) struct Log<'c> {
    client: &'c Client,
    job: String,
    claim: u32,
    choice: Choice,
    /// The first line of the next request.
    next: u64,
    /// What has no line break yet.
    rest: Vec<u8>,
}

/// Where lines go.
pub(crate) trait Sink {
    fn line(&mut self, line: &Numbered<'_>);

    /// What has come so far can be shown; says whether there should be more.
    fn flush(&mut self) -> Result<ControlFlow<()>>;
}

/// The texts of lines, for later: only where there can be few.
#[derive(Debug, Default)]
pub(crate) struct Gathered(pub(crate) Vec<Vec<u8>>);

impl Sink for Gathered {
    fn line(&mut self, line: &Numbered<'_>) {
        self.0.push(line.line.text.to_vec());
    }

    fn flush(&mut self) -> Result<ControlFlow<()>> {
        Ok(ControlFlow::Continue(()))
    }
}

impl<'c> Log<'c> {
    pub(crate) fn of(client: &'c Client, job: i64, claim: u32, choice: Choice) -> Self {
        let next = choice.lines.map_or(1, |lines| lines.first);
        Self { client, job: job.to_string(), claim, choice, next, rest: Vec::new() }
    }

    async fn open(&self, follow: bool) -> Result<Response, ClientError> {
        let Choice { steps, since, grep, tail, .. } = &self.choice;
        let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
        let grep = grep.as_ref();
        // Once a line has come, what follows it is wanted, and no other end.
        let tail = tail.filter(|_| self.next == 1).map(|tail| tail.to_string());
        let room = self.choice.room(self.next).map(|room| room.to_string());
        let call = self
            .client
            .get(&["jobs", &self.job, "log"])
            .query("format", "numbered")
            .query("attempt", &self.claim.to_string())
            .query("from_line", &self.next.to_string())
            .query_if("step", (!steps.is_empty()).then(|| steps.join(",")))
            .query_if("since", since.as_deref())
            .query_if("grep", grep.map(|grep| &grep.pattern))
            .query_if("regex", grep.filter(|grep| grep.regex).map(|_| "true"))
            .query_if("ignore_case", grep.filter(|grep| grep.ignore_case).map(|_| "true"))
            .query_if("tail", tail)
            .query_if("lines", room)
            .query_if("follow", follow.then_some("true"));
        call.streamed("text/plain").send().await
    }

    /// All that is there now.
    pub(crate) async fn read(&mut self, sink: &mut impl Sink) -> Result<()> {
        self.read_on(TRIES, sink).await
    }

    /// All that is there from the next line on, though it goes wrong so often in a row.
    async fn read_on(&mut self, tries: usize, sink: &mut impl Sink) -> Result<()> {
        let mut failures = 0;
        while self.next <= self.choice.last() {
            let before = self.next;
            match self.once(false, sink).await? {
                // An answer may hold only a part of a long log.
                Ok(ControlFlow::Continue(())) if self.next > before => failures = 0,
                Ok(_) => return Ok(()),
                Err(error) => {
                    failures += 1;
                    if failures >= tries || error.kind == Kind::Other {
                        bail!(error);
                    }
                    pause(failures).await;
                }
            }
        }
        Ok(())
    }

    /// All that is there and all that comes, until the job is over. Gives the job as it then is.
    pub(crate) async fn follow(&mut self, sink: &mut impl Sink) -> Result<Job> {
        let mut failures = 0;
        loop {
            pause(failures).await;
            let before = self.next;
            let round = self.once(true, sink).await?;
            if self.next > before {
                failures = 0;
            }
            let job = match &round {
                Ok(_) => self.client.job(&self.job).await,
                Err(_) => Err(anyhow::anyhow!("the log cannot be read")),
            };
            match (round, job) {
                (Ok(ControlFlow::Break(())), Ok(job)) => return Ok(job),
                (Ok(ControlFlow::Continue(())), Ok(job)) if self.is_over(&job) => {
                    // Whoever followed it so far is as patient with what is left.
                    self.read_on(PATIENT_TRIES, sink).await?;
                    return Ok(job);
                }
                // A server that has nothing to say is not asked without a pause.
                (Ok(_), Ok(_)) if self.next == before => failures = 2,
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

    /// One request and all lines of its answer. A break in the middle is no error: what came is behind us.
    async fn once(
        &mut self,
        follow: bool,
        sink: &mut impl Sink,
    ) -> Result<Result<ControlFlow<()>, ClientError>> {
        // Half a line comes again as a whole.
        self.rest.clear();
        let mut response = match self.open(follow).await {
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
        self.rest.extend_from_slice(piece);
        let mut start = 0;
        while let Some(end) = memchr::memchr(b'\n', &self.rest[start..]) {
            let Some(line) = Numbered::parse(&self.rest[start..start + end]) else {
                bail!("the server sent something that is no line of a log");
            };
            start += end + 1;
            if line.number > self.choice.last() {
                let _ = sink.flush()?;
                return Ok(ControlFlow::Break(()));
            }
            // What was seen does not come again, whatever the server thinks.
            if line.number >= self.next {
                self.next = line.number + 1;
                sink.line(&line);
            }
        }
        self.rest.drain(..start);
        if self.rest.len() > 2 * LONGEST_LINE {
            bail!("the server sent a line of a log that is too long");
        }
        sink.flush()
    }
}

/// One more failure, if it may get better.
fn trouble(error: ClientError, failures: usize) -> Result<usize> {
    if !matches!(error.kind, Kind::Away | Kind::Busy) || failures >= PATIENT_TRIES {
        bail!(error);
    }
    Ok(failures + 1)
}
