//! The log of a job: read to its end or followed as it grows, by bytes or by lines.

mod archive;
mod cursor;
mod feed;
pub mod live;
mod matcher;
pub mod room;
pub mod search;
mod select;
mod shape;
pub mod usage;
mod watch;

use std::io;

use bytes::Bytes;
use futures_util::{Stream, stream};

use super::jobs::Seen;
use crate::app::{App, Shared};
use crate::clock;
use crate::http::error::{Answer, Failure};
use crate::logs::LogId;
pub use archive::archive;
use feed::Feed;
pub use matcher::Matcher;
pub use select::Selection;
pub use shape::Form;
pub(crate) use watch::{Life, life_of};
use watch::{Watch, Woken};

/// What is wanted of a log.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The last claim, if none is named.
    pub claim: Option<u32>,
    /// Where to begin, in bytes as they are kept.
    pub from: u64,
    /// Bytes as they are kept.
    pub limit: Option<u64>,
    pub follow: bool,
    pub form: Form,
    /// Which lines; all of them, by bytes, when it says nothing.
    pub lines: Option<Selection>,
}

/// A log on its way to a client: how much is kept of it now, and its pieces.
#[derive(Debug)]
pub struct Opened<S> {
    pub length: u64,
    /// Where lines were asked for.
    pub lines: Option<u64>,
    pub pieces: S,
}

/// The log of a job that is meant.
fn log_of(job: &Seen, claim: Option<u32>) -> Answer<LogId> {
    // Whoever follows a job that waits follows its first claim.
    let last = job.claim.max(1);
    let claim = claim.unwrap_or(last);
    let log = job.log(claim).filter(|_| claim <= last);
    log.ok_or_else(|| Failure::not_found("log"))
}

/// The place where logs lie cannot be read at the moment.
fn unreadable(reason: impl std::fmt::Display) -> Failure {
    tracing::error!(%reason, "a log cannot be read");
    Failure::unavailable("the log cannot be read at the moment; try again")
}

/// Why there is nothing of a log, if that is because its job ended long ago. It is gone with all logs of its run.
pub fn expired(app: &App, job: &Seen) -> Option<Failure> {
    let ended = job.timings.ended.filter(|_| job.claim > 0)?;
    let at = ended + app.config.keep_logs.min(app.config.keep.runs);
    let day = at.rfc3339();
    let day = day.get(..10).unwrap_or(&day);
    (at <= clock::now()).then(|| Failure::gone(format!("the log expired on {day}")))
}

/// The log as a stream that ends with the log or its limit, or with the job when it is followed.
pub async fn read(
    app: Shared,
    job: &Seen,
    reading: Reading,
) -> Answer<Opened<impl Stream<Item = io::Result<Bytes>> + Send + 'static>> {
    let log = log_of(job, reading.claim)?;
    let watch = Watch::new(&app, log);
    let length = app.logs.length(log).await.map_err(unreadable)?;
    if let Some(gone) = expired(&app, job).filter(|_| length == 0) {
        return Err(gone);
    }
    let mut lines = None;
    let feed = match reading.lines {
        None => Feed::bytes(app, log, reading.from, reading.limit, reading.form),
        Some(selection) => {
            let index = app.logs.index(log).await.map_err(unreadable)?;
            lines = Some(index.lines());
            let feed = Feed::lines(app, log, selection, reading.form, &index).await;
            feed.map_err(unreadable)?
        }
    };
    let reader = Reader { watch, feed, follow: reading.follow, life: None, over: false };
    let pieces = stream::unfold(reader, async |mut reader| {
        let piece = reader.next().await.transpose()?;
        Some((piece, reader))
    });
    Ok(Opened { length, lines, pieces })
}

struct Reader {
    watch: Watch,
    feed: Feed,
    follow: bool,
    life: Option<Life>,
    over: bool,
}

impl Reader {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if self.over {
                return Ok(None);
            }
            self.watch.begin_to_read();
            if let Some(piece) = self.feed.more().await? {
                return Ok(Some(piece));
            }
            let goes_on = self.follow && !self.feed.is_done();
            let life = match self.life {
                _ if !goes_on => Life::Over,
                Some(life) => life,
                None => self.watch.life().await.map_err(io::Error::other)?,
            };
            if life == Life::Over {
                self.life = Some(life);
                if goes_on {
                    self.watch.settle().await?;
                }
                // What was written until the end is there by now.
                let last = self.feed.more().await?;
                self.over = last.is_none();
                let piece = last.or_else(|| self.feed.last());
                if piece.is_some() {
                    return Ok(piece);
                }
                continue;
            }
            self.life = match self.watch.wait(life).await {
                Woken::Grew => Some(life),
                Woken::Look(_) => None,
                Woken::Stopping => {
                    self.over = true;
                    None
                }
            };
        }
    }
}
