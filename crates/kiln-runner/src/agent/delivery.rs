//! Tells the server all about one job: its log, its events, and at last how it ended.
//!
//! Log and events go out side by side, each from where the server has them; what got lost is told again,
//! what the server heard before is skipped there.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kiln_fault::Point;
use kiln_proto::job::JobRef;
use kiln_proto::report::{Complete, Completed, Event, Events, Heard, MOST_EVENTS, Stored};
use kiln_proto::runner::Command;
use tokio::sync::{mpsc, watch};

use super::backoff::Backoff;
use super::ends::Ends;
use super::http::{Body, Fault, Http};
use super::reporter::Progress;
use super::spool::Spool;
use super::{Message, clock};

/// The most of a log in one request, and the most where the last one went through at once: each is flushed by the
/// server, so that few large ones cost less than many small ones.
const PIECE: u64 = 1 << 20;
const LARGE_PIECE: u64 = 4 << 20;
const AT_ONCE: Duration = Duration::from_millis(500);
/// So much is sent without waiting for more.
const MUCH: u64 = 256 << 10;
/// The most of the events in one request, in bytes.
const MOST_BYTES: usize = 1 << 20;
/// So many events, of so many bytes, are told with the end of the job instead of in a request of their own.
const FEW_EVENTS: u64 = 100;
const FEW_BYTES: usize = 64 << 10;
/// How long the first events wait for others: what begins begins with several, and a short job is over by then.
const MOMENT: Duration = Duration::from_millis(10);
/// The least time between two requests with the log: short at first, when somebody waits for the first
/// lines, then long enough to gather some.
const SOON: Duration = Duration::from_millis(20);
const LATER: Duration = Duration::from_millis(100);
const AT_FIRST: Duration = Duration::from_secs(2);

/// How it came out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Delivered {
    /// The server has everything.
    Accepted,
    /// The job is not this runner's any more, and why.
    Refused(String),
}

#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) http: Http,
    pub(super) job: JobRef,
    pub(super) token: String,
    pub(super) spool: Spool,
    pub(super) progress: watch::Receiver<Progress>,
    /// The server hears the last events with the end.
    pub(super) tells_all_at_once: bool,
    /// How jobs that end with it are told of.
    pub(super) ends: Ends,
    /// How much of the log the server has.
    pub(super) log_sent: AtomicU64,
    /// Where it is said what the server wants of the job.
    pub(super) messages: mpsc::UnboundedSender<Message>,
}

/// The job is not ours: nothing more is sent.
struct NotOurs(String);

impl Delivery {
    pub(super) async fn run(self) -> Delivered {
        let told = async {
            let ((), rest) = tokio::try_join!(self.log(), self.events(self.tells_all_at_once))?;
            Point::RunnerDelivered.pass();
            self.complete(rest).await
        };
        match told.await {
            Ok(()) => Delivered::Accepted,
            Err(NotOurs(why)) => Delivered::Refused(why),
        }
    }

    fn path(&self, what: &str) -> String {
        format!("/actions/jobs/{}/attempts/{}/{what}", self.job.job_id, self.job.attempt)
    }

    async fn log(&self) -> Result<(), NotOurs> {
        let mut progress = self.progress.clone();
        let (mut sent, mut backoff) = (0, Backoff::default());
        let (mut begun, mut last) = (None, None);
        let mut most = PIECE;
        loop {
            let end = {
                let more = |now: &Progress| now.log > sent || now.complete.is_some();
                let Ok(now) = progress.wait_for(more).await else { return abandoned() };
                if now.log <= sent {
                    return Ok(()); // All of it is told, and no more will come.
                }
                now.log
            };
            let now = clock::instant();
            let begun = *begun.get_or_insert(now);
            let gap = if now - begun < AT_FIRST { SOON } else { LATER };
            let due = last.map_or(now, |last| last + gap);
            if due > now && end - sent < MUCH {
                let rest =
                    progress.wait_for(|now| now.complete.is_some() || now.log - sent >= MUCH);
                let _ = tokio::time::timeout(due - now, rest).await;
            }
            last = Some(clock::instant());
            let end = progress.borrow().log;
            let put = clock::instant();
            match self.put_log(sent, end.min(sent + most)).await {
                Ok(stored) => {
                    sent = stored;
                    self.log_sent.store(sent, Ordering::Relaxed);
                    backoff.reset();
                    most = if clock::instant() - put < AT_ONCE { LARGE_PIECE } else { PIECE };
                }
                Err(fault) => {
                    most = PIECE;
                    self.after(fault, &mut sent, end, &mut backoff).await?;
                }
            }
        }
    }

    async fn put_log(&self, from: u64, end: u64) -> Result<u64, Fault> {
        let piece = read_piece(&self.spool.log(), from, end).map_err(unread)?;
        let length = piece.len() as u64;
        let path = self.path(&format!("log?from={from}"));
        let answer = self.http.put(&path, &self.token, Body::Bytes(piece)).await?;
        let stored: Stored = answer.json()?;
        // A server that has less than it says would make us send the same for ever.
        Ok(stored.offset.clamp(from, from + length))
    }

    /// Tells the events. Those that are left when the job has ended, if there are few, are to be told with the end.
    async fn events(&self, leaves_few: bool) -> Result<Vec<Event>, NotOurs> {
        let mut progress = self.progress.clone();
        let (mut heard, mut backoff) = (0, Backoff::default());
        let mut reader = EventReader::default();
        let mut waits = leaves_few;
        loop {
            let (end, is_over, log) = {
                let more = |now: &Progress| now.events > heard || now.complete.is_some();
                let Ok(now) = progress.wait_for(more).await else { return abandoned() };
                if now.events <= heard {
                    return Ok(Vec::new());
                }
                (now.events, now.complete.is_some(), now.log)
            };
            if std::mem::take(&mut waits) && !is_over {
                let over = progress.wait_for(|now| now.complete.is_some());
                let _ = tokio::time::timeout(MOMENT, over).await;
                continue;
            }
            // They do not wait for much of the log, which goes before the end.
            let is_near = log.saturating_sub(self.log_sent.load(Ordering::Relaxed)) <= MUCH;
            if leaves_few
                && is_over
                && is_near
                && let Some(rest) = self.few(&mut reader, heard, end)
            {
                return Ok(rest);
            }
            match self.post_events(&mut reader, heard, end).await {
                Ok(sequence) => {
                    heard = sequence;
                    backoff.reset();
                }
                // The server says which one it wants next.
                Err(Fault::Gap(wanted)) => {
                    let fault = Fault::Gap(wanted.saturating_sub(1));
                    self.after(fault, &mut heard, end, &mut backoff).await?;
                }
                Err(fault) => self.after(fault, &mut heard, end, &mut backoff).await?,
            }
        }
    }

    /// The events after `heard`, if they are few.
    fn few(&self, reader: &mut EventReader, heard: u64, end: u64) -> Option<Vec<Event>> {
        if end - heard > FEW_EVENTS {
            return None;
        }
        let (body, _) = reader.read(&self.spool.events(), heard, end).ok()?;
        let events: Events = serde_json::from_slice(&body).ok()?;
        (body.len() <= FEW_BYTES).then_some(events.events)
    }

    async fn post_events(
        &self,
        reader: &mut EventReader,
        heard: u64,
        end: u64,
    ) -> Result<u64, Fault> {
        let (body, last) = reader.read(&self.spool.events(), heard, end).map_err(unread)?;
        let path = self.path("events");
        let answer =
            self.http.post(&path, Some(&self.token), Body::Json(body), Duration::ZERO).await?;
        let stored: Heard = answer.json()?;
        if stored.cancelling {
            // It was asked for before the job began, and no heartbeat has brought it yet.
            let _ = self.messages.send(Message::Command(Command::Cancel(self.job)));
        }
        Ok(stored.sequence.clamp(heard, last))
    }

    async fn complete(&self, rest: Vec<Event>) -> Result<(), NotOurs> {
        let complete = self.progress.borrow().complete.clone();
        let Some(complete) = complete else { return abandoned() };
        let mut complete = Complete { events: rest, ..(*complete).clone() };
        let mut backoff = Backoff::default();
        loop {
            match self.post_complete(&complete).await {
                Ok(completed) => {
                    tracing::debug!(job = self.job.job_id, completed.conclusion, "delivered");
                    return Ok(());
                }
                // It lost some of the log or of the events after all.
                Err(Fault::Gap(_)) => {
                    tokio::time::sleep(backoff.pause(None)).await;
                    tokio::try_join!(self.log(), self.events(false))?;
                    complete.events.clear();
                }
                Err(fault) => self.after(fault, &mut 0, 0, &mut backoff).await?,
            }
        }
    }

    async fn post_complete(&self, complete: &Complete) -> Result<Completed, Fault> {
        if let Some(completed) = self.ends.tell(self.job, &self.token, complete).await {
            return Ok(completed);
        }
        let path = self.path("complete");
        let body = Body::of(complete);
        self.http.post(&path, Some(&self.token), body, Duration::ZERO).await?.json()
    }

    /// What a fault means for what was sent: go on elsewhere, wait, or give up.
    async fn after(
        &self,
        fault: Fault,
        at: &mut u64,
        end: u64,
        backoff: &mut Backoff,
    ) -> Result<(), NotOurs> {
        match fault {
            // Beyond what there is, the two sides have different jobs in mind.
            Fault::Gap(wanted) if wanted <= end && backoff.failures() < 20 => {
                *at = wanted;
                // A server that never is content must not be asked without a pause.
                let pause = backoff.pause(None);
                if backoff.failures() > 1 {
                    tokio::time::sleep(pause).await;
                }
            }
            Fault::Gap(wanted) => return Err(NotOurs(format!("the server wants {wanted}"))),
            Fault::Away { why, after } => {
                let pause = backoff.pause(after);
                tracing::debug!(job = self.job.job_id, why, "not delivered yet");
                tokio::time::sleep(pause).await;
            }
            Fault::Unknown(why) => return Err(NotOurs(why)),
            Fault::Refused { message, .. } => return Err(NotOurs(message)),
        }
        Ok(())
    }
}

/// Nobody will ever say how the job ended.
fn abandoned<T>() -> Result<T, NotOurs> {
    Err(NotOurs("the job was given up".to_owned()))
}

/// What was spooled cannot be read; perhaps it can later.
#[expect(clippy::needless_pass_by_value, reason = "it is called by `map_err`")]
fn unread(error: io::Error) -> Fault {
    Fault::Away { why: format!("cannot read what was spooled: {error}"), after: None }
}

fn read_piece(path: &Path, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(to.saturating_sub(from)).unwrap_or(0);
    let mut piece = vec![0; length];
    File::open(path)?.read_exact_at(&mut piece, from)?;
    Ok(piece)
}

/// Reads events from where they were read last.
#[derive(Debug, Default)]
struct EventReader {
    /// So many events were before this place in the file.
    read: u64,
    offset: u64,
}

impl EventReader {
    /// The body of a request with the events after `heard`, and the last number in it.
    fn read(&mut self, path: &Path, heard: u64, end: u64) -> io::Result<(Vec<u8>, u64)> {
        if heard < self.read {
            *self = Self::default();
        }
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut lines = BufReader::new(file);
        let mut line = Vec::new();
        while self.read < heard {
            self.offset += lines.read_until(b'\n', &mut line)? as u64;
            self.read += 1;
            line.clear();
        }
        let mut body = b"{\"events\":[".to_vec();
        let mut last = heard;
        while last < end && last - heard < MOST_EVENTS as u64 && body.len() < MOST_BYTES {
            line.clear();
            lines.read_until(b'\n', &mut line)?;
            if line.pop() != Some(b'\n') {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if last > heard {
                body.push(b',');
            }
            body.extend_from_slice(&line);
            last += 1;
        }
        body.extend_from_slice(b"]}");
        Ok((body, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_in_pieces_and_again_from_where_the_server_wants_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let lines: Vec<String> = (1..=2500).map(|number| number.to_string()).collect();
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        let mut reader = EventReader::default();
        let mut check = |heard: u64, end: u64, first: &str, expect: u64| {
            let (body, last) = reader.read(&path, heard, end).unwrap();
            let text = String::from_utf8(body).unwrap();
            assert!(text.starts_with(&format!("{{\"events\":[{first}")), "{heard}: {text:.40}");
            assert_eq!(last, expect, "{heard}");
            let numbers: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(numbers["events"].as_array().unwrap().len() as u64, last - heard);
        };
        check(0, 2500, "1,", 1000);
        check(1000, 2500, "1001,", 2000);
        check(2000, 2500, "2001,", 2500);
        check(5, 7, "6,7]", 7);
        let error = reader.read(&path, 2500, 2501).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
