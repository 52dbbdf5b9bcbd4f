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
use kiln_core::id::{JOBS_PER_RUN, JobId, RepoId, RunId};
use kiln_core::time::Timestamp;
use kiln_proto::api::{LogMatch, LogMatches};
use kiln_proto::log::Line;
use kiln_store::runs::{self, LoggedJob, RunFilter};
use kiln_store::{Page, Refusal, Scope, StoreError, Tx};
use tokio::time::Instant;

use super::cursor::{self, Piece};
use super::matcher::Matcher;
use super::unreadable;
use crate::app::App;
use crate::http::error::{Answer, Failure};
use crate::logs::index::{Block, Index};
use crate::logs::{LogId, Logs};
use crate::service::jobs::Seen;

/// How long a request searches before it says what it has.
pub const PATIENCE: Duration = Duration::from_secs(5);
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

impl Spot {
    /// Behind all logs of a run, also of one that has none.
    fn behind(run: RunId) -> Self {
        let log = LogId { job: JobId::of(run, JOBS_PER_RUN - 1), claim: u32::MAX };
        Self { log, line: u64::MAX }
    }

    fn is_behind_a_run(&self) -> bool {
        *self == Self::behind(self.log.job.run())
    }
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
    /// Only of this one: the claim of a job, the attempt of runs.
    pub attempt: Option<u32>,
    /// How long it searches before it says what it has; at least one log or run is searched.
    pub patience: Duration,
}

/// A log to search, with the name of its job and the attempt of the run that it was part of.
#[derive(Debug, Clone)]
pub struct Place {
    pub log: LogId,
    pub job: String,
    pub run_attempt: u32,
}

impl Place {
    /// The logs of a job: each of its claims has one.
    pub fn of(job: &LoggedJob) -> impl Iterator<Item = Self> {
        (1..=job.claims).map(|claim| Self {
            log: LogId { job: job.id, claim },
            job: job.name.clone(),
            run_attempt: job.attempt,
        })
    }
}

/// Searches these logs, one after the other. Those before the place to go on from are passed over.
pub async fn in_logs(app: &App, places: Vec<Place>, query: Query) -> Answer<LogMatches> {
    let mut search = Search::new(app, query);
    search.all(places).await?;
    Ok(search.found)
}

/// How many lines were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Count {
    pub lines: u64,
    /// Where to go on counting, as `after`; none when everything was searched.
    pub next: Option<Spot>,
}

/// Counts lines of a log, for as long as a search may take.
pub async fn count(app: &App, place: &Place, query: Query) -> Answer<Count> {
    let search = Search::new(app, query);
    let mut found = Count::default();
    let Some(first) = search.first(place.log) else { return Ok(found) };
    let index = app.logs.index(place.log).await.map_err(unreadable)?;
    let counts = search.in_blocks(place.log, &index, first, number_of);
    let mut counts = stream::iter(counts).buffered(width());
    while let Some(counted) = counts.next().await {
        let (block, lines) = counted?;
        found.lines += lines;
        if Instant::now() >= search.until {
            found.next = Some(Spot { log: place.log, line: block.next_line() - 1 });
            break;
        }
    }
    Ok(found)
}

/// The log of a job, that of its last claim unless another one is named.
pub fn of_job(job: &Seen, claim: Option<u32>) -> Option<Place> {
    let claim = claim.unwrap_or(job.claim).min(job.claim);
    Some(Place { log: job.log(claim)?, job: job.name.clone(), run_attempt: job.run_attempt })
}

/// Searches all runs of a repository, the newest first.
pub async fn in_repo(app: &App, scope: Scope, repo: RepoId, query: Query) -> Answer<LogMatches> {
    let mut page = match query.after {
        Some(spot) if spot.is_behind_a_run() => Page::after(spot.log.job.run().0, RUNS),
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
            let places = of_run(app, scope, run.id, search.query.attempt).await?;
            // A run may have no logs at all, and there may be many such.
            if search.all(places).await? || search.is_late(run.id) {
                return Ok(search.found);
            }
        }
        page = Page::after(last.0, RUNS);
    }
}

/// All logs of a run: of every attempt or of one, of every claim.
pub async fn of_run(
    app: &App,
    scope: Scope,
    run: RunId,
    attempt: Option<u32>,
) -> Answer<Vec<Place>> {
    let read = async move |tx: &mut Tx<'_>| runs::logged(tx, scope, run, attempt).await;
    let jobs = match app.store.read(read).await {
        // It went while others were searched.
        Err(StoreError::Refused(Refusal::NotFound(_))) => Vec::new(),
        jobs => jobs?,
    };
    let mut places: Vec<Place> = jobs.iter().flat_map(Place::of).collect();
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
        let until = Instant::now() + query.patience;
        Self { app, query, until, found: LogMatches::default() }
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

    /// Whether time is up after all logs of a run. Then the search goes on behind them.
    fn is_late(&mut self, run: RunId) -> bool {
        Instant::now() >= self.until && self.full(Spot::behind(run))
    }

    /// The first line that is to be searched; none if all of it was.
    fn first(&self, log: LogId) -> Option<u64> {
        match self.query.after {
            Some(spot) if spot.log == log => Some(spot.line.saturating_add(1)),
            // Runs are searched from the newest on, jobs of a run as they are numbered.
            Some(spot) if spot.log.job.run() == log.job.run() && log < spot.log => None,
            _ => Some(1),
        }
    }

    async fn one(&mut self, place: &Place) -> Answer<bool> {
        let Some(first) = self.first(place.log) else { return Ok(false) };
        if self.found.logs > 0 && Instant::now() >= self.until {
            return Ok(self.full(Spot { log: place.log, line: first - 1 }));
        }
        let index = self.app.logs.index(place.log).await.map_err(unreadable)?;
        self.found.logs += 1;
        let searches = self.in_blocks(place.log, &index, first, hits);
        let mut searches = stream::iter(searches).buffered(width());
        while let Some(searched) = searches.next().await {
            let (block, hits) = searched?;
            self.found.bytes += block.end - block.start;
            for hit in hits {
                let line = hit.line;
                let shown = self.shown(place, &index, hit).await?;
                self.found.items.push(shown);
                if self.found.items.len() >= self.query.limit {
                    return Ok(self.full(Spot { log: place.log, line }));
                }
            }
            if Instant::now() >= self.until {
                let line = block.next_line() - 1;
                return Ok(self.full(Spot { log: place.log, line }));
            }
        }
        Ok(false)
    }

    /// A search for each block that can have what is wanted, from a line on.
    fn in_blocks<T: Default + Send + 'static>(
        &self,
        log: LogId,
        index: &Index,
        first: u64,
        look: Look<T>,
    ) -> Vec<impl Future<Output = Answer<(Block, T)>> + use<T>> {
        let wanted = |block: &&Block| block.next_line() > first && has_steps(block, &self.query);
        let query = Arc::new(self.query.clone());
        let search = |block: &Block| {
            let (logs, query) = (Arc::clone(&self.app.logs), Arc::clone(&query));
            search_block(logs, log, *block, first, query, look)
        };
        index.blocks.iter().filter(wanted).map(search).collect()
    }

    fn full(&mut self, spot: Spot) -> bool {
        self.found.next = Some(spot.to_string());
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
            run_attempt: place.run_attempt,
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

/// What is wanted of the lines of a block, from one on, in which it is found.
type Look<T> = fn(&Piece, u64, &Query) -> T;

/// How many blocks are searched at a time. What is slow is unpacking; each processor does some.
fn width() -> usize {
    std::thread::available_parallelism().map_or(2, NonZero::get).clamp(2, 8)
}

async fn search_block<T: Default + Send + 'static>(
    logs: Arc<dyn Logs>,
    log: LogId,
    block: Block,
    first: u64,
    query: Arc<Query>,
    look: Look<T>,
) -> Answer<(Block, T)> {
    let piece = cursor::block(&*logs, log, &block).await.map_err(unreadable)?;
    let work = move || {
        if query.matcher.may_be_in(&piece.bytes) {
            look(&piece, first, &query)
        } else {
            T::default()
        }
    };
    let found = tokio::task::spawn_blocking(work).await.map_err(Failure::internal)?;
    Ok((block, found))
}

fn found_in<'p>(
    piece: &'p Piece,
    first: u64,
    query: &'p Query,
) -> impl Iterator<Item = (u64, Line<'p>)> {
    piece.lines().filter(move |(number, line)| {
        *number >= first
            && (query.steps.is_empty() || query.steps.contains(&line.step))
            && query.matcher.matches(line.text)
    })
}

fn number_of(piece: &Piece, first: u64, query: &Query) -> u64 {
    found_in(piece, first, query).count() as u64
}

fn hits(piece: &Piece, first: u64, query: &Query) -> Vec<Hit> {
    found_in(piece, first, query)
        .take(query.limit)
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
        let piece = cursor::block(logs, log, block).await.map_err(unreadable)?;
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
