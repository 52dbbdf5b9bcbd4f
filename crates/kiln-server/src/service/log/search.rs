//! Search in logs: of a job, of a run, of all runs of a repository.
//!
//! Logs are read block by block, a few at a time; nothing is held but what was found. A search that takes long
//! ends with a place to go on from.

use std::fmt;
use std::num::NonZero;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use kiln_core::id::{JobId, RepoId, RunId};
use kiln_core::time::Timestamp;
use kiln_proto::api::{LogMatch, LogMatches};
use kiln_proto::log::Line;
use kiln_store::runs::{self, RunFilter, RunView};
use kiln_store::{Page, Scope, Tx};
use tokio::time::Instant;

use super::cursor::{self, Piece};
use super::matcher::Matcher;
use crate::app::App;
use crate::http::error::{Answer, Failure};
use crate::logs::index::{Block, Index};
use crate::logs::{LogId, Logs};

/// How long a request searches before it says what it has.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much of a line is shown.
const LONGEST: usize = 4 << 10;
/// How many runs of a repository are looked up at a time.
const RUNS: u32 = 50;

/// The last line that was searched. Written `job.claim.line`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    log: LogId,
    line: u64,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.log.job, self.log.claim, self.line)
    }
}

impl FromStr for Spot {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(3, '.');
        let mut next = || parts.next().ok_or(());
        let job: JobId = next()?.parse().map_err(|_| ())?;
        let claim = next()?.parse().map_err(|_| ())?;
        let line = next()?.parse().map_err(|_| ())?;
        Ok(Self { log: LogId { job, claim }, line })
    }
}

/// What is looked for.
#[derive(Debug, Clone)]
pub struct Query {
    pub matcher: Matcher,
    /// Steps as the log counts them; all when it is empty.
    pub steps: Vec<u32>,
    /// How many lines before and after.
    pub context: u64,
    /// How many lines are answered with.
    pub limit: usize,
    /// Behind this line.
    pub after: Option<Spot>,
}

/// A log to search, with the name of its job.
#[derive(Debug, Clone)]
pub struct Place {
    pub log: LogId,
    pub job: String,
}

/// Searches these logs, one after the other. Those before the place to go on from are passed over.
pub async fn in_logs(app: &App, places: Vec<Place>, query: Query) -> Answer<LogMatches> {
    let mut search = Search::new(app, query);
    search.all(places).await?;
    Ok(search.found)
}

/// Searches all runs of a repository, the newest first.
pub async fn in_repo(app: &App, scope: Scope, repo: RepoId, query: Query) -> Answer<LogMatches> {
    let mut page = match query.after {
        // That run itself comes first again.
        Some(spot) => Page::after(spot.log.job.run().0.saturating_add(1), RUNS),
        None => Page::first(RUNS),
    };
    let mut search = Search::new(app, query);
    loop {
        let filter = RunFilter { repo: Some(repo), ..RunFilter::default() };
        let list = async move |tx: &mut Tx<'_>| runs::search(tx, scope, &filter, page).await;
        let found = app.store.read(list).await?;
        let Some(last) = found.last().map(|run| run.id) else { return Ok(search.found) };
        for run in found {
            let places = of_run(app, scope, run.id).await?;
            if search.all(places).await? {
                return Ok(search.found);
            }
        }
        page = Page::after(last.0, RUNS);
    }
}

/// The last log of each job of a run's last attempt.
pub async fn of_run(app: &App, scope: Scope, run: RunId) -> Answer<Vec<Place>> {
    let read = async move |tx: &mut Tx<'_>| runs::view(tx, scope, run, None).await;
    let view: RunView = app.store.read(read).await?;
    let claimed = view.jobs.into_iter().filter(|job| job.claim > 0);
    let place =
        |job: runs::JobView| Place { log: LogId { job: job.id, claim: job.claim }, job: job.name };
    let mut places: Vec<Place> = claimed.map(place).collect();
    places.sort_by_key(|place| place.log);
    Ok(places)
}

struct Search<'a> {
    app: &'a App,
    query: Query,
    until: Instant,
    found: LogMatches,
}

/// A line that was found.
#[derive(Debug)]
struct Hit {
    line: u64,
    step: u32,
    at: u64,
    text: String,
}

impl<'a> Search<'a> {
    fn new(app: &'a App, query: Query) -> Self {
        Self { app, query, until: Instant::now() + PATIENCE, found: LogMatches::default() }
    }

    /// Whether the answer is full.
    async fn all(&mut self, places: Vec<Place>) -> Answer<bool> {
        for place in places {
            if self.one(&place).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The first line that is to be searched; none if all of it was.
    fn first(&self, log: LogId) -> Option<u64> {
        match self.query.after {
            Some(spot) if spot.log == log => Some(spot.line + 1),
            // Runs are searched from the newest on, jobs of a run as they are numbered.
            Some(spot) if spot.log.job.run() == log.job.run() && log < spot.log => None,
            _ => Some(1),
        }
    }

    async fn one(&mut self, place: &Place) -> Answer<bool> {
        let Some(first) = self.first(place.log) else { return Ok(false) };
        let logs = Arc::clone(&self.app.logs);
        let index = logs.index(place.log).await.map_err(Failure::internal)?;
        self.found.logs += 1;
        let wanted = |block: &&Block| block.next_line() > first && has_steps(block, &self.query);
        let blocks: Vec<Block> = index.blocks.iter().filter(wanted).copied().collect();
        let query = Arc::new(self.query.clone());
        let searches = blocks.into_iter().map(|block| {
            let (logs, query, log) = (Arc::clone(&logs), Arc::clone(&query), place.log);
            async move { search_block(&*logs, log, block, first, query).await }
        });
        // What is slow is unpacking; each processor does some.
        let width = std::thread::available_parallelism().map_or(2, NonZero::get).clamp(2, 8);
        let mut searches = stream::iter(searches).buffered(width);
        while let Some(searched) = searches.next().await {
            let (block, hits) = searched?;
            self.found.bytes += block.end - block.start;
            for hit in hits {
                let line = hit.line;
                let shown = self.shown(place, &index, hit).await?;
                self.found.items.push(shown);
                if self.found.items.len() >= self.query.limit {
                    return Ok(self.full(place.log, line));
                }
            }
            if Instant::now() >= self.until {
                return Ok(self.full(place.log, block.next_line() - 1));
            }
        }
        Ok(false)
    }

    fn full(&mut self, log: LogId, line: u64) -> bool {
        self.found.next = Some(Spot { log, line }.to_string());
        true
    }

    async fn shown(&self, place: &Place, index: &Index, hit: Hit) -> Answer<LogMatch> {
        let Hit { line, step, at, text } = hit;
        let (logs, log) = (&*self.app.logs, place.log);
        let context = self.query.context;
        let before = lines(logs, log, index, line.saturating_sub(context)..line).await?;
        let after = lines(logs, log, index, line + 1..line + 1 + context).await?;
        Ok(LogMatch {
            run_id: log.job.run().0,
            job_id: log.job.0,
            job: place.job.clone(),
            attempt: log.claim,
            line,
            step: step.saturating_add(1),
            at: Timestamp(at).rfc3339(),
            text,
            before,
            after,
        })
    }
}

fn has_steps(block: &Block, query: &Query) -> bool {
    let has = |step: &u32| (block.first_step..=block.last_step).contains(step);
    query.steps.is_empty() || query.steps.iter().any(has)
}

/// The lines of a block, from one on, in which it is found.
async fn search_block(
    logs: &dyn Logs,
    log: LogId,
    block: Block,
    first: u64,
    query: Arc<Query>,
) -> Answer<(Block, Vec<Hit>)> {
    let piece = cursor::block(logs, log, &block).await.map_err(Failure::internal)?;
    let work = move || {
        if query.matcher.may_be_in(&piece.bytes) { hits(&piece, first, &query) } else { Vec::new() }
    };
    let hits = tokio::task::spawn_blocking(work).await.map_err(Failure::internal)?;
    Ok((block, hits))
}

fn hits(piece: &Piece, first: u64, query: &Query) -> Vec<Hit> {
    let wanted = |(number, line): &(u64, Line<'_>)| {
        *number >= first
            && (query.steps.is_empty() || query.steps.contains(&line.step))
            && query.matcher.matches(line.text)
    };
    let found = piece.lines().filter(wanted).take(query.limit);
    found
        .map(|(line, found)| Hit { line, step: found.step, at: found.at, text: cut(found.text) })
        .collect()
}

/// A line as it is shown: not without end.
fn cut(text: &[u8]) -> String {
    if text.len() <= LONGEST {
        return String::from_utf8_lossy(text).into_owned();
    }
    format!("{}…", String::from_utf8_lossy(&text[..LONGEST]))
}

/// Lines of a log by their numbers, as far as there are such.
async fn lines(
    logs: &dyn Logs,
    log: LogId,
    index: &Index,
    wanted: std::ops::Range<u64>,
) -> Answer<Vec<String>> {
    let mut found = Vec::new();
    if wanted.is_empty() {
        return Ok(found);
    }
    let blocks = index.blocks.iter();
    for block in blocks.filter(|block| block.line < wanted.end && block.next_line() > wanted.start)
    {
        let piece = cursor::block(logs, log, block).await.map_err(Failure::internal)?;
        let lines = piece.lines().filter(|(number, _)| wanted.contains(number));
        found.extend(lines.map(|(_, line)| cut(line.text)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spot_leads_back_to_itself_and_nothing_else_is_one() {
        let spot = Spot { log: LogId { job: JobId(7), claim: 2 }, line: 9 };
        assert_eq!(spot.to_string().parse(), Ok(spot));
        for text in ["", "7.2", "7.2.x", "x.2.9", "7.-2.9", "7.2.9.1"] {
            assert_eq!(text.parse::<Spot>(), Err(()), "{text}");
        }
    }
}
