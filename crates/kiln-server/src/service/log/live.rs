//! A job as it is followed: its lines, how far its steps have come, and its end, from claim to claim.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::str::FromStr;

use futures_util::{Stream, stream};
use kiln_core::id::JobId;
use kiln_core::time::Timestamp;
use kiln_proto::live::Message;
use kiln_store::{StoreError, Tx, runs};

use super::cursor::{self, Cursor, Piece};
use super::shape::told;
use super::watch::{Life, Watch, Woken};
use super::{expired, log_of, unreadable};
use crate::app::Shared;
use crate::http::error::Answer;
use crate::logs::LogId;
use crate::logs::index::Block;
use crate::service::jobs::Seen;
use crate::service::runs::FIND;

/// A place between two lines: those up to this one were seen. Written `claim-line`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    pub claim: u32,
    pub line: u64,
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.claim, self.line)
    }
}

impl FromStr for Seat {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (claim, line) = text.split_once('-').ok_or(())?;
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !plain(claim) || !plain(line) {
            return Err(());
        }
        Ok(Self { claim: claim.parse().map_err(|_| ())?, line: line.parse().map_err(|_| ())? })
    }
}

/// Where somebody wants to begin.
#[derive(Debug, Clone, Copy, Default)]
pub struct From {
    pub claim: Option<u32>,
    /// What the viewer has seen; stronger than the others.
    pub after: Option<Seat>,
    pub line: Option<u64>,
    /// The last lines that there are now.
    pub tail: Option<u64>,
}

/// A message, and where to go on after it.
pub type Told = (Option<Seat>, Message);

/// Messages until the job is over, or the server stops; whoever follows comes back with the last seat.
///
/// They are read from the log when the viewer takes them, a piece at a time: a viewer that is slow or gone costs
/// nobody else anything.
pub async fn follow(
    app: Shared,
    job: &Seen,
    from: From,
) -> Answer<impl Stream<Item = io::Result<Told>> + Send + 'static> {
    let claim = from.after.map(|seat| seat.claim).or(from.claim);
    let log = log_of(job, claim)?;
    let shown = job.id.unwrap_or(log.job);
    let mut viewer = Viewer::new(app, shown, log, from.claim.is_some());
    let index = viewer.app.logs.index(log).await.map_err(unreadable)?;
    if let Some(gone) = expired(&viewer.app, job).filter(|_| index.length == 0) {
        return Err(gone);
    }
    let first = match (from.after, from.line, from.tail) {
        (Some(seat), _, _) => seat.line.saturating_add(1),
        (_, Some(line), _) => line,
        (_, _, Some(tail)) => index.end().1.saturating_sub(tail),
        _ => 1,
    };
    viewer.first = first;
    viewer.blocks =
        index.blocks.iter().filter(|block| block.next_line() > first).copied().collect();
    viewer.cursor = Cursor::at(Shared::clone(&viewer.app), log, index.end());
    Ok(stream::unfold(viewer, async |mut viewer| {
        let told = viewer.next().await.transpose()?;
        Some((told, viewer))
    }))
}

struct Viewer {
    app: Shared,
    /// As it is known in its attempt; one that was taken over has its log elsewhere.
    job: JobId,
    log: LogId,
    /// Only this claim is wanted.
    one_claim: bool,
    watch: Watch,
    /// The first line that is wanted.
    first: u64,
    /// What was there at the beginning.
    blocks: VecDeque<Block>,
    cursor: Cursor,
    ready: VecDeque<Told>,
    /// What was told of steps.
    steps: HashMap<u32, &'static str>,
    life: Option<Life>,
    /// All that there was has been told.
    caught_up: bool,
    over: bool,
}

impl Viewer {
    fn new(app: Shared, job: JobId, log: LogId, one_claim: bool) -> Self {
        Self {
            watch: Watch::new(&app, log),
            cursor: Cursor::at(Shared::clone(&app), log, (0, 1)),
            app,
            job,
            log,
            one_claim,
            first: 1,
            blocks: VecDeque::new(),
            ready: VecDeque::new(),
            steps: HashMap::new(),
            life: None,
            caught_up: false,
            over: false,
        }
    }

    async fn next(&mut self) -> io::Result<Option<Told>> {
        loop {
            if let Some(told) = self.ready.pop_front() {
                return Ok(Some(told));
            }
            if self.over {
                return Ok(None);
            }
            // What was read to its end is not read again before it has grown, which was watched for since.
            if !std::mem::take(&mut self.caught_up) {
                self.watch.begin_to_read();
                if self.read_on().await? {
                    self.caught_up = self.blocks.is_empty() && self.cursor.is_at_end();
                    continue;
                }
            }
            let life = match self.life {
                Some(life) => life,
                None => self.look().await?,
            };
            if life == Life::Over {
                if !self.read_on().await? {
                    self.end().await?;
                }
                continue;
            }
            if !self.ready.is_empty() {
                continue;
            }
            self.life = match self.watch.wait(life).await {
                Woken::Grew => Some(life),
                Woken::Look => None,
                Woken::Stopping => return Ok(None),
            };
        }
    }

    /// Whether there were more lines.
    async fn read_on(&mut self) -> io::Result<bool> {
        let piece = match self.blocks.pop_front() {
            Some(block) => Some(cursor::block(&*self.app.logs, self.log, &block).await?),
            None => self.cursor.next().await?,
        };
        let was_more = piece.is_some();
        self.tell_lines(piece);
        Ok(was_more)
    }

    fn tell_lines(&mut self, piece: Option<Piece>) {
        let Some(piece) = piece else { return };
        let (claim, first) = (self.log.claim, self.first);
        let lines = piece.lines().filter(|(number, _)| *number >= first);
        self.ready.extend(
            lines.map(|(line, text)| {
                (Some(Seat { claim, line }), Message::LogLine(told(line, &text)))
            }),
        );
    }

    /// How far the job is now, with what is new of its steps.
    async fn look(&mut self) -> io::Result<Life> {
        let life = self.watch.life().await.map_err(io::Error::other)?;
        self.life = Some(life);
        if life == Life::Over {
            self.watch.settle().await?;
        }
        self.tell_steps().await.map_err(io::Error::other)?;
        Ok(life)
    }

    async fn tell_steps(&mut self) -> Result<(), StoreError> {
        let job = self.job;
        let read = async move |tx: &mut Tx<'_>| runs::steps(tx, FIND, job.run(), None).await;
        for step in self.app.store.read(read).await?.into_iter().filter(|step| step.job == job) {
            let status = step.status.word();
            if self.steps.insert(step.number, status) != Some(status) {
                let message = Message::StepStatus {
                    step: step.number.saturating_add(1),
                    name: step.name,
                    status: status.to_owned(),
                    conclusion: step.conclusion.map(|end| end.github().to_owned()),
                    duration_ms: took(step.started, step.ended),
                };
                self.ready.push_back((None, message));
            }
        }
        Ok(())
    }

    /// The claim is over: so is the job, or it begins again.
    async fn end(&mut self) -> io::Result<()> {
        let last = self.cursor.last();
        self.tell_lines(last);
        let job = self.job;
        let read = async move |tx: &mut Tx<'_>| runs::view(tx, FIND, job.run(), None).await;
        let view = self.app.store.read(read).await.map_err(io::Error::other)?;
        let found = view.jobs.into_iter().find(|own| own.id == job);
        let again = found.as_ref().filter(|found| !found.state.is_done() && !self.one_claim);
        if again.is_some() {
            self.begin_again();
            return Ok(());
        }
        self.over = true;
        let conclusion = found.as_ref().and_then(|found| match found.state {
            kiln_core::run::LegState::Done(end) => Some(end.github().to_owned()),
            _ => None,
        });
        let times = found.map(|found| found.timings).unwrap_or_default();
        let duration_ms = took(times.started.or(times.claimed), times.ended);
        self.ready.push_back((None, Message::JobComplete { conclusion, duration_ms }));
        Ok(())
    }

    /// Goes on with the log of the next claim, which may have to be waited for.
    fn begin_again(&mut self) {
        let log = LogId { claim: self.log.claim + 1, ..self.log };
        let ready = std::mem::take(&mut self.ready);
        let next = Self::new(Shared::clone(&self.app), self.job, log, self.one_claim);
        *self = Self { ready, ..next };
        let seat = Seat { claim: log.claim, line: 0 };
        self.ready.push_back((Some(seat), Message::Restarted { attempt: log.claim }));
    }
}

/// How long something took, once it is over.
fn took(from: Option<Timestamp>, to: Option<Timestamp>) -> Option<u64> {
    let millis = from.zip(to).map(|(from, to)| to.since(from).as_millis())?;
    u64::try_from(millis).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_leads_back_to_itself_and_nothing_else_is_one() {
        let seat = Seat { claim: 2, line: 145 };
        assert_eq!(seat.to_string().parse(), Ok(seat));
        for text in ["", "1", "-", "1-", "-1", "1-x", "+1-2", "1-2-3", "99999999999-1"] {
            assert_eq!(text.parse::<Seat>(), Err(()), "{text}");
        }
    }
}
