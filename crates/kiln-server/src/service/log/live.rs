//! A job as it is followed: its lines, how far its steps have come, and its end, from claim to claim.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, stream};
use kiln_core::id::JobId;
use kiln_core::time::Timestamp;
use kiln_proto::live::Message;
use kiln_store::runs::StepView;
use kiln_store::{Tx, runs};
use tokio::time::Instant;

use super::cursor::{self, Cursor, Piece};
use super::room::{Looked, Part, Room};
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

/// How much of a log is told at once, unless a line alone is longer.
const TOGETHER: usize = 64 << 10;

/// What a viewer is told.
#[derive(Debug)]
pub enum Told {
    /// Lines that follow each other.
    Lines(Arc<Part>),
    /// Something else, and where to go on after it.
    Message(Option<Seat>, Message),
}

impl Told {
    /// As `text/event-stream` has it.
    pub fn events(&self) -> Bytes {
        match self {
            Self::Lines(part) => part.events(),
            Self::Message(seat, message) => {
                let mut event = Vec::new();
                write_event(*seat, message, &mut event);
                event.into()
            }
        }
    }
}

pub(super) fn write_event(seat: Option<Seat>, message: &Message, to: &mut Vec<u8>) {
    to.extend_from_slice(b"event: ");
    to.extend_from_slice(message.kind().as_bytes());
    // JSON has no line breaks of its own.
    to.extend_from_slice(b"\ndata: ");
    to.extend_from_slice(&serde_json::to_vec(message).unwrap_or_default());
    if let Some(seat) = seat {
        to.extend_from_slice(format!("\nid: {seat}").as_bytes());
    }
    to.extend_from_slice(b"\n\n");
}

/// The messages in such events, each as JSON.
pub fn messages_of(events: &Bytes) -> impl Iterator<Item = Bytes> {
    let lines = events.split(|byte| *byte == b'\n');
    lines.filter_map(|line| line.strip_prefix(b"data: ")).map(|json| events.slice_ref(json))
}

/// Messages until the job is over, or the server stops; whoever follows comes back with the last seat.
///
/// They are read from the log when the viewer takes them, a piece at a time: a viewer that is slow or gone costs
/// nobody else anything. Those who keep up take the same bytes.
pub async fn follow(
    app: Shared,
    job: &Seen,
    from: From,
) -> Answer<impl Stream<Item = io::Result<Told>> + Send + 'static> {
    let claim = from.after.map(|seat| seat.claim).or(from.claim);
    let log = log_of(job, claim)?;
    let shown = job.id.unwrap_or(log.job);
    let mut viewer = Box::new(Viewer::new(app, shown, log, from.claim.is_some()));
    let index = viewer.room.index(&viewer.app).await.map_err(unreadable)?;
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
    viewer.cursor = viewer.cursor_at(index.end());
    // Thousands follow at once: each holds what it needs, once.
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
    room: Arc<Room>,
    watch: Watch,
    /// The first line that is wanted.
    first: u64,
    /// What was there at the beginning.
    blocks: VecDeque<Block>,
    /// What is left of the last of these.
    block: Piece,
    cursor: Cursor,
    ready: VecDeque<Told>,
    /// How far the job was when it was last told.
    looked: Option<Arc<Looked>>,
    /// How far its claim is; none if it must be asked again.
    life: Option<Life>,
    /// What is asked must have been true since then.
    since: Instant,
    /// All that there was has been told.
    caught_up: bool,
    over: bool,
}

impl Viewer {
    fn new(app: Shared, job: JobId, log: LogId, one_claim: bool) -> Self {
        Self {
            room: app.rooms.enter(log, job),
            watch: Watch::new(&app, log),
            cursor: Cursor::at(Shared::clone(&app), log, TOGETHER, (0, 1)),
            app,
            job,
            log,
            one_claim,
            first: 1,
            blocks: VecDeque::new(),
            block: Piece { first: 1, bytes: Bytes::new() },
            ready: VecDeque::new(),
            looked: None,
            life: None,
            since: Instant::now(),
            caught_up: false,
            over: false,
        }
    }

    fn cursor_at(&self, end: (u64, u64)) -> Cursor {
        Cursor::at(Shared::clone(&self.app), self.log, TOGETHER, end)
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
            if !self.caught_up {
                if let Some(part) = self.read_on().await? {
                    return Ok(Some(Told::Lines(part)));
                }
                self.caught_up = true;
            }
            match self.life {
                None => self.look().await?,
                Some(Life::Over) => match self.read_on().await? {
                    Some(part) => return Ok(Some(Told::Lines(part))),
                    // It comes once, and is larger than all the rest.
                    None => Box::pin(self.end()).await?,
                },
                Some(life) => match self.watch.wait(life).await {
                    Woken::Grew => self.caught_up = false,
                    Woken::Look(since) => (self.life, self.since) = (None, since),
                    Woken::Stopping => return Ok(None),
                },
            }
        }
    }

    /// The next lines, if there are any now.
    async fn read_on(&mut self) -> io::Result<Option<Arc<Part>>> {
        loop {
            if let Some(front) = self.block.take_front(TOGETHER) {
                return Ok(Some(self.part(front)));
            }
            let Some(block) = self.blocks.pop_front() else { break };
            let block = cursor::block(&*self.app.logs, self.log, &block).await?;
            self.block = block.starting_at(self.first);
        }
        loop {
            let length = self.watch.begin_to_read();
            let Some(part) = self.room.next(&mut self.cursor, length).await? else {
                return Ok(None);
            };
            self.caught_up = self.cursor.is_at_end() && !self.is_behind();
            let wanted = part.starting_at(self.first);
            if wanted.is_some() {
                return Ok(wanted);
            }
        }
    }

    fn part(&self, piece: Piece) -> Arc<Part> {
        Arc::new(Part::new(self.log.claim, piece))
    }

    /// Whether the log was known to be longer than what was read of it.
    fn is_behind(&self) -> bool {
        self.looked.as_ref().is_some_and(|looked| looked.length > self.cursor.offset())
    }

    /// Asks how far the job is now, and tells what is new of its steps.
    async fn look(&mut self) -> io::Result<()> {
        let looked = self.room.look(&self.app, self.since).await?;
        let before = self.looked.as_ref().map_or(&[][..], |before| &before.steps);
        let news = looked.steps.iter().filter(|step| {
            let told = before.binary_search_by_key(&step.number, |before| before.number);
            told.is_err() || told.is_ok_and(|at| before[at].status != step.status)
        });
        self.ready.extend(news.map(|step| Told::Message(None, status_of(step))));
        self.life = Some(looked.life);
        self.looked = Some(looked);
        self.caught_up = !self.is_behind();
        Ok(())
    }

    /// The claim is over: so is the job, or it begins again.
    async fn end(&mut self) -> io::Result<()> {
        let last = self.cursor.last().and_then(|last| self.part(last).starting_at(self.first));
        self.ready.extend(last.map(Told::Lines));
        let job = self.job;
        let read = async move |tx: &mut Tx<'_>| runs::view(tx, FIND, job.run(), None).await;
        // In a task of its own: a viewer is not always asked for more, and must not keep the turn of others to read.
        let store = self.app.store.clone();
        let reading = tokio::spawn(async move { store.read(read).await });
        let view = reading.await.map_err(io::Error::other)?.map_err(io::Error::other)?;
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
        self.ready.push_back(Told::Message(None, Message::JobComplete { conclusion, duration_ms }));
        Ok(())
    }

    /// Goes on with the log of the next claim, which may have to be waited for.
    fn begin_again(&mut self) {
        let log = LogId { claim: self.log.claim + 1, ..self.log };
        let ready = std::mem::take(&mut self.ready);
        let next = Self::new(Shared::clone(&self.app), self.job, log, self.one_claim);
        *self = Self { ready, ..next };
        let seat = Seat { claim: log.claim, line: 0 };
        let message = Message::Restarted { attempt: log.claim };
        self.ready.push_back(Told::Message(Some(seat), message));
    }
}

fn status_of(step: &StepView) -> Message {
    Message::StepStatus {
        step: step.number.saturating_add(1),
        name: step.name.clone(),
        status: step.status.word().to_owned(),
        conclusion: step.conclusion.map(|end| end.github().to_owned()),
        duration_ms: took(step.started, step.ended),
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

    #[test]
    fn messages_are_found_again_in_their_events() {
        let line = b"1000 0 a \"quoted\"\ttext\r and data: of its own";
        let piece = Piece { first: 7, bytes: Bytes::from_static(line) };
        let part = Told::Lines(Arc::new(Part::new(2, piece)));
        let events = part.events();
        let text = String::from_utf8_lossy(&events);
        assert!(text.starts_with("event: log_line\ndata: {") && text.ends_with("\nid: 2-7\n\n"));
        let found: Vec<Message> =
            messages_of(&events).map(|json| serde_json::from_slice(&json).unwrap()).collect();
        assert!(
            matches!(&found[..], [Message::LogLine(line)] if line.line_number == 7
            && line.content == "a \"quoted\"\ttext\r and data: of its own"),
            "{found:?}"
        );
        // It is written once.
        assert_eq!(part.events().as_ptr(), events.as_ptr());
        let told = Told::Message(None, Message::Restarted { attempt: 2 }).events();
        assert_eq!(
            &told[..],
            b"event: restarted\ndata: {\"type\":\"restarted\",\"attempt\":2}\n\n"
        );
    }

    fn size<'v, F>(_: impl FnOnce(&'v mut Viewer) -> F) -> usize {
        size_of::<F>()
    }

    /// W3: thousands wait in it.
    #[test]
    fn a_viewer_that_waits_takes_little_room() {
        let all = size_of::<Viewer>() + size(Viewer::next);
        assert!(all <= 1_536, "{} and {}", size_of::<Viewer>(), size(Viewer::next));
    }
}
