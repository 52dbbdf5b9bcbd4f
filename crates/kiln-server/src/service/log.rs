//! The log of a job, read to its end or followed as it grows.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use kiln_core::id::JobId;
use kiln_proto::log::Line;
use kiln_store::{Signal, StoreError, Tx, claims, runs};
use tokio::sync::watch;

use super::jobs::Seen;
use super::runs::FIND;
use crate::app::Shared;
use crate::bus::Listener;
use crate::http::error::{Answer, Failure};
use crate::logs::LogId;

/// How much is read at once.
const PIECE: usize = 256 << 10;
/// A line that is longer than this is given in pieces.
const LONGEST_LINE: usize = 1 << 20;

/// What is wanted of a log.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reading {
    /// The last claim, if none is named.
    pub claim: Option<u32>,
    pub from: u64,
    /// Bytes as they are kept.
    pub limit: Option<u64>,
    pub follow: bool,
    pub form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Lines as they were printed.
    #[default]
    Text,
    /// Lines as they are kept.
    Raw,
    /// Each line with its time, as GitHub gives logs out.
    Timed,
}

/// A log on its way to a client: how many bytes are kept of it now, and its pieces.
#[derive(Debug)]
pub struct Opened<S> {
    pub length: u64,
    pub pieces: S,
}

/// The log as a stream that ends with the log or its limit, or with the job when it is followed.
pub async fn read(
    app: Shared,
    job: &Seen,
    reading: Reading,
) -> Answer<Opened<impl Stream<Item = io::Result<Bytes>> + Send + 'static>> {
    let id = job.id.ok_or_else(|| Failure::not_found("log"))?;
    // Whoever follows a job that waits follows its first claim.
    let claim = reading.claim.unwrap_or_else(|| job.claim.max(1));
    if claim == 0 || claim > job.claim.max(1) {
        return Err(Failure::not_found("log"));
    }
    let log = LogId { job: id, claim };
    let length = app.logs.length(log).await.map_err(Failure::internal)?;
    let reader = Reader {
        changes: app.logs.follow(log),
        ear: app.bus.listen(),
        app,
        log,
        at: reading.from,
        end: reading.limit.map_or(u64::MAX, |limit| reading.from.saturating_add(limit)),
        follow: reading.follow,
        lines: Lines { form: reading.form, rest: Vec::new() },
        ready: VecDeque::new(),
        over: false,
    };
    let pieces = stream::unfold(reader, async |mut reader| {
        let piece = reader.next().await.transpose()?;
        Some((piece, reader))
    });
    Ok(Opened { length, pieces })
}

struct Reader {
    app: Shared,
    log: LogId,
    changes: watch::Receiver<u64>,
    ear: Listener,
    at: u64,
    /// Nothing from here on is wanted.
    end: u64,
    follow: bool,
    lines: Lines,
    ready: VecDeque<Bytes>,
    over: bool,
}

impl Reader {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            if self.over {
                return Ok(None);
            }
            self.changes.mark_unchanged();
            if self.read_on().await? {
                continue;
            }
            let goes_on = self.follow && self.at < self.end;
            let life = if goes_on { self.life().await } else { Ok(Life::Over) };
            let life = life.map_err(io::Error::other)?;
            // What was written until the end is there by now.
            if life == Life::Over && !self.read_on().await? {
                self.over = true;
                self.ready.extend(self.lines.rest());
            } else if life != Life::Over && self.wait(life).await.is_err() {
                self.over = true;
            }
        }
    }

    /// Whether there was more.
    async fn read_on(&mut self) -> io::Result<bool> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let piece = self.app.logs.read(self.log, self.at, PIECE.min(left)).await;
        let piece = piece.map_err(io::Error::other)?;
        self.at += piece.len() as u64;
        self.ready.extend(self.lines.take(&piece));
        Ok(!piece.is_empty())
    }

    /// Until there may be more. An error is the end of the server.
    async fn wait(&mut self, life: Life) -> Result<(), ()> {
        let (run, patience) = (self.log.job.run(), life.patience());
        tokio::select! {
            () = self.app.stopping.cancelled() => Err(()),
            changed = self.changes.changed() => {
                if changed.is_err() {
                    tokio::time::sleep(patience).await;
                }
                Ok(())
            }
            () = self.ear.until(|signal| signal == Signal::Run(run)) => Ok(()),
            () = tokio::time::sleep(patience) => Ok(()),
        }
    }

    async fn life(&self) -> Result<Life, StoreError> {
        let LogId { job, claim } = self.log;
        let work = async move |tx: &mut Tx<'_>| life(tx, job, claim).await;
        self.app.store.read(work).await
    }
}

/// How far the claim is whose log it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// No runner has it yet.
    Before,
    Under,
    /// Nothing more can come.
    Over,
}

impl Life {
    /// A log may grow on another server, which says nothing of it.
    fn patience(self) -> Duration {
        match self {
            Self::Under => Duration::from_secs(1),
            Self::Before | Self::Over => Duration::from_secs(5),
        }
    }
}

async fn life(tx: &mut Tx<'_>, job: JobId, claim: u32) -> Result<Life, StoreError> {
    if claims::lease(tx, job, claim).await?.is_some() {
        return Ok(Life::Under);
    }
    let view = runs::view(tx, FIND, job.run(), None).await?;
    let Some(found) = view.jobs.into_iter().find(|own| own.id == job) else {
        return Ok(Life::Over);
    };
    let before = found.claim < claim && !found.state.is_done();
    Ok(if before { Life::Before } else { Life::Over })
}

/// Cuts bytes into lines, and gives them the wanted form.
struct Lines {
    form: Form,
    rest: Vec<u8>,
}

impl Lines {
    fn take(&mut self, piece: &Bytes) -> Option<Bytes> {
        if self.form == Form::Raw {
            return Some(piece.clone());
        }
        self.rest.extend_from_slice(piece);
        let end = match self.rest.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if self.rest.len() > LONGEST_LINE => self.rest.len(),
            None => return None,
        };
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        Some(self.shaped(&whole))
    }

    /// What is left at the end, without a line break.
    fn rest(&mut self) -> Option<Bytes> {
        let rest = std::mem::take(&mut self.rest);
        (!rest.is_empty()).then(|| self.shaped(&rest))
    }

    fn shaped(&self, whole: &[u8]) -> Bytes {
        let mut shown = Vec::with_capacity(whole.len());
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let parsed = Line::parse(line);
            if self.form == Form::Timed {
                let time = kiln_core::time::Timestamp(parsed.at).rfc3339();
                shown.extend_from_slice(time.as_bytes());
                shown.push(b' ');
            }
            shown.extend_from_slice(parsed.text);
            shown.push(b'\n');
        }
        shown.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(form: Form, pieces: &[&str], expect: &str) {
        let mut lines = Lines { form, rest: Vec::new() };
        let mut shown = Vec::new();
        for piece in pieces {
            let bytes = Bytes::copy_from_slice(piece.as_bytes());
            shown.extend(lines.take(&bytes).unwrap_or_default());
        }
        shown.extend(lines.rest().unwrap_or_default());
        assert_eq!(String::from_utf8_lossy(&shown), expect);
    }

    #[test]
    fn lines_are_whole_however_they_come() {
        check(Form::Text, &["1 0 a\n2 0 b", "c\n3 ", "1 d\n"], "a\nbc\nd\n");
        check(Form::Text, &["1 0 a"], "a\n");
        check(Form::Raw, &["1 0 a\n2", " 0 b"], "1 0 a\n2 0 b");
        check(Form::Timed, &["1000 0 a\n"], "1970-01-01T00:00:01.000Z a\n");
        check(Form::Text, &[], "");
    }
}
