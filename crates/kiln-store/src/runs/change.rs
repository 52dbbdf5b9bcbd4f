//! What happened to runs, applied to their rows: many events in one transaction.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::LazyLock;
use std::time::Duration;

use kiln_core::id::{JobId, RunId, RunnerId};
use kiln_core::run::{Conclusion, Event, LegNo, LegState, Rejected, Transition, Wanted};

use super::facts::Known;
use super::open::{Batch, Open};
use super::rows::{self, JOBS};
use super::{load, reports, save};
use crate::sql::Sql;
use crate::table::Pair;
use crate::tx::millis;
use crate::{StoreError, Tx};

/// Something that happened to a run or to one of its jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    Run { run: RunId, event: Event },
    Job(JobNews),
}

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobNews {
    pub job: JobId,
    /// The claim it is about: the fencing token. `None` is whichever is current.
    pub claim: Option<u32>,
    /// Who says so, if it is a runner: it must be the one that has the job.
    pub runner: Option<RunnerId>,
    pub word: Word,
    /// The number under which the runner said it, if nothing before it is missing: with the word, all up
    /// to it was heard.
    pub heard: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    Started,
    /// It has started, and its runner says how long it took to prepare it.
    Prepared {
        preparing: Duration,
    },
    Uploading,
    Finished {
        conclusion: Conclusion,
        outputs: Vec<(String, String)>,
    },
    /// It has started and finished, of which nothing was said before.
    Ran {
        preparing: Option<Duration>,
        conclusion: Conclusion,
        outputs: Vec<(String, String)>,
    },
    Lost {
        reason: String,
    },
    /// The runner gives it back before it began.
    Returned,
    /// Its lease has run out, unless it was renewed meanwhile.
    Expired {
        reason: String,
    },
    Wake,
    Cancel {
        reason: String,
    },
    /// No runner could ever take it.
    Unsupported {
        reason: String,
    },
}

impl Word {
    /// How the job is said to have ended.
    fn end(&self) -> Option<Conclusion> {
        match self {
            Self::Finished { conclusion, .. } | Self::Ran { conclusion, .. } => Some(*conclusion),
            _ => None,
        }
    }
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is so now, or was already.
    Accepted,
    /// It is so, and somebody has asked for the end of the job: whoever goes on with it should hear that now.
    Unwanted,
    /// The job had ended before, and otherwise than is said: so it stays.
    Otherwise(Conclusion),
    Refused(Refused),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("there is no such run")]
    NoSuchRun,
    #[error("there is no such job")]
    NoSuchJob,
    #[error("another runner has this job")]
    NotYours,
    #[error(transparent)]
    Rejected(#[from] Rejected),
}

impl Happened {
    pub fn run(&self) -> RunId {
        match self {
            Self::Run { run, .. } => *run,
            Self::Job(news) => news.job.run(),
        }
    }
}

static JOBS_BY_ID: LazyLock<Pair> = LazyLock::new(|| {
    let columns = JOBS.columns();
    Pair {
        sqlite: format!("SELECT {columns} FROM jobs AS t WHERE t.id = $2"),
        postgres: format!(
            "SELECT {columns} FROM unnest($1::bigint[], $2::bigint[]) AS u (run_id, id) \
             JOIN jobs AS t ON t.run_id = u.run_id AND t.id = u.id"
        ),
    }
});

/// Applies all of these, each for itself: one that is refused changes nothing, and the others go on.
pub(super) async fn apply_all(
    tx: &mut Tx<'_>,
    known: &Known,
    happened: &[Happened],
) -> Result<Vec<Answer>, StoreError> {
    let runs: BTreeSet<RunId> = happened.iter().map(Happened::run).collect();
    let mut batch = load::lock(tx, known, &runs).await?;
    let legs = find_jobs(tx, &mut batch, happened).await?;
    let leases = find_leases(tx, happened).await?;
    let mut work =
        Work { queues: BTreeMap::new(), answers: vec![Answer::Accepted; happened.len()] };
    for (at, happened) in happened.iter().enumerate() {
        match event_of(&mut batch, &legs, &leases, happened) {
            Ok(Some(event)) => {
                let queue = work.queues.entry(happened.run()).or_default();
                // Nobody asked whether it could start; a job that is over cannot, and that is no answer.
                queue.extend(start_before(happened, &event).map(|start| (None, start)));
                queue.push_back((Some(at), event));
            }
            Ok(None) => {}
            Err(refused) => work.answers[at] = Answer::Refused(refused),
        }
    }
    work.drive(tx, &mut batch).await?;
    tell_other_ends(&batch, &legs, happened, &mut work.answers);
    tell_of_cancels(&batch, &legs, happened, &mut work.answers);
    save::save(tx, known, &mut batch).await?;
    note_heard(tx, happened, &work.answers)?;
    Ok(work.answers)
}

/// A runner whose word about an end came too late hears how its job ended.
fn tell_other_ends(
    batch: &Batch,
    legs: &BTreeMap<JobId, Found>,
    happened: &[Happened],
    answers: &mut [Answer],
) {
    for (happened, answer) in happened.iter().zip(answers) {
        let Happened::Job(JobNews { job, word, .. }) = happened else { continue };
        let Some(conclusion) = word.end() else { continue };
        let Some(found) = legs.get(job).filter(|_| *answer == Answer::Accepted) else { continue };
        let hood = &batch.runs[&job.run()].hood;
        let current = hood.legs.get(&found.leg).filter(|_| hood.run.attempt == found.attempt);
        let state = current.map_or(&found.past.1, |leg| &leg.state);
        if let LegState::Done(end) = state
            && *end != conclusion
        {
            *answer = Answer::Otherwise(*end);
        }
    }
}

/// A runner that begins, or goes on, hears at once that its job is not wanted any more.
fn tell_of_cancels(
    batch: &Batch,
    legs: &BTreeMap<JobId, Found>,
    happened: &[Happened],
    answers: &mut [Answer],
) {
    for (happened, answer) in happened.iter().zip(answers) {
        let Happened::Job(news) = happened else { continue };
        let goes_on = matches!(news.word, Word::Started | Word::Prepared { .. } | Word::Uploading);
        if !goes_on || *answer != Answer::Accepted {
            continue;
        }
        let leg = |found: &Found| batch.runs[&news.job.run()].hood.legs.get(&found.leg);
        if legs.get(&news.job).and_then(leg).is_some_and(|leg| leg.cancelling) {
            *answer = Answer::Unwanted;
        }
    }
}

/// Keeps the numbers of the words that count, so that nobody hears them again.
fn note_heard(
    tx: &mut Tx<'_>,
    happened: &[Happened],
    answers: &[Answer],
) -> Result<(), StoreError> {
    let heard = |(happened, answer): (&Happened, &Answer)| match happened {
        Happened::Job(JobNews { job, claim: Some(claim), heard: Some(heard), .. })
            if matches!(answer, Answer::Accepted | Answer::Unwanted) =>
        {
            Some(reports::heard_row(*job, *claim, *heard))
        }
        _ => None,
    };
    tx.write_all(reports::HEARD, happened.iter().zip(answers).filter_map(heard).collect())
}

/// Applies an event to an attempt of a run, unless that was followed by another one.
pub(super) async fn apply_to(
    tx: &mut Tx<'_>,
    known: &Known,
    (run, attempt): (RunId, u32),
    event: Event,
) -> Result<(), StoreError> {
    let mut batch = load::lock(tx, known, &[run].into()).await?;
    if batch.runs.get(&run).is_some_and(|open| open.hood.run.attempt == attempt) {
        Work::single(run, event).drive(tx, &mut batch).await?;
        save::save(tx, known, &mut batch).await?;
    }
    Ok(())
}

/// Where the jobs of these news are: the attempt and the number of the leg, and how it stands if that
/// attempt is not the current one.
#[derive(Debug, Clone)]
struct Found {
    attempt: u32,
    leg: LegNo,
    past: (u32, LegState),
}

async fn find_jobs(
    tx: &mut Tx<'_>,
    batch: &mut Batch,
    happened: &[Happened],
) -> Result<BTreeMap<JobId, Found>, StoreError> {
    let news = happened.iter().filter_map(|happened| match happened {
        Happened::Job(news) => Some(news.job),
        Happened::Run { .. } => None,
    });
    let ids: BTreeSet<JobId> = news.filter(|job| batch.runs.contains_key(&job.run())).collect();
    let mut found = BTreeMap::new();
    let (mut keys, mut current) = (Vec::new(), Vec::new());
    for id in ids {
        match batch.runs[&id.run()].find(id) {
            Some((attempt, leg)) => {
                let past = (leg.attempt, leg.state.clone());
                found.insert(id, Found { attempt, leg: leg.number, past });
            }
            None => keys.push(vec![id.run().0.into(), id.0.into()]),
        }
    }
    for row in tx.rows_all(JOBS_BY_ID.sql(), &keys).await? {
        let (leg, job) = rows::job_of(&row)?;
        let attempt: u32 = row.get(1)?;
        let place = Found { attempt, leg: leg.number, past: (leg.attempt, leg.state) };
        found.insert(job.id, place);
        if batch.runs[&job.id.run()].hood.run.attempt == attempt {
            current.push(row);
        }
    }
    load::add_jobs(tx, batch, current).await?;
    Ok(found)
}

/// Whether leases that are said to have run out have.
async fn find_leases(
    tx: &mut Tx<'_>,
    happened: &[Happened],
) -> Result<BTreeMap<JobId, Lease>, StoreError> {
    let jobs = happened.iter().filter_map(|happened| match happened {
        Happened::Job(JobNews { job, word: Word::Expired { .. }, .. }) => Some(*job),
        _ => None,
    });
    let keys: Vec<_> = jobs.map(|job| vec![job.0.into()]).collect();
    let sql = Sql::of(
        "SELECT job_id, claim, acknowledged, expires_at FROM leases WHERE job_id = $1",
        // Held, so that no heartbeat renews one that is about to end; heartbeats pass it over.
        "SELECT job_id, claim, acknowledged, expires_at FROM leases WHERE job_id = ANY($1)
         ORDER BY job_id FOR UPDATE",
    );
    let now = millis(tx.now());
    let lease = |row: &crate::Row| {
        let expired = row.get::<i64>(3)? <= now;
        let lease = Lease { claim: row.get(1)?, acknowledged: row.get(2)?, expired };
        Ok((JobId(row.get(0)?), lease))
    };
    tx.rows_all(sql, &keys).await?.iter().map(lease).collect()
}

#[derive(Debug)]
struct Lease {
    claim: u32,
    acknowledged: bool,
    expired: bool,
}

/// What the engine is told, if there is anything to tell it.
fn event_of(
    batch: &mut Batch,
    legs: &BTreeMap<JobId, Found>,
    leases: &BTreeMap<JobId, Lease>,
    happened: &Happened,
) -> Result<Option<Event>, Refused> {
    let open = batch.runs.get_mut(&happened.run()).ok_or(Refused::NoSuchRun)?;
    let news = match happened {
        Happened::Run { event, .. } => return Ok(Some(event.clone())),
        Happened::Job(news) => news,
    };
    let found = legs.get(&news.job).ok_or(Refused::NoSuchJob)?;
    if found.attempt != open.hood.run.attempt {
        return about_the_past(found, news).map(|()| None);
    }
    let leg = open.hood.legs.get(&found.leg).ok_or(Refused::NoSuchJob)?;
    let holder = open.jobs.get(&found.leg).and_then(|job| job.runner);
    let claim = news.claim.unwrap_or(leg.attempt);
    // A stale word is refused as such by the engine, whoever says it.
    if news.runner.is_some_and(|runner| claim == leg.attempt && holder != Some(runner.0)) {
        return Err(Refused::NotYours);
    }
    let mut word = &news.word;
    if let (Word::Expired { .. }, Some(lease)) = (word, leases.get(&news.job)) {
        if lease.claim == leg.attempt && !lease.expired {
            return Ok(None);
        }
        if !lease.acknowledged && matches!(leg.state, LegState::Claimed { .. }) {
            let reason = "the claim was never acknowledged".to_owned();
            open.reasons.insert(found.leg, reason);
            word = &Word::Returned;
        }
    }
    Ok(Some(told(open, found.leg, claim, word)))
}

/// A job of an earlier attempt of its run never changes; repeating its last word does no harm.
fn about_the_past(found: &Found, news: &JobNews) -> Result<(), Refused> {
    let (claim, state) = &found.past;
    let repeated = news.word.end().is_some() && news.claim == Some(*claim) && state.is_done();
    if repeated { Ok(()) } else { Err(Rejected::Stale { leg: found.leg, current: *claim }.into()) }
}

fn told(open: &mut Open, leg: LegNo, attempt: u32, word: &Word) -> Event {
    match word.clone() {
        Word::Started => Event::Started { leg, attempt, preparing: None },
        Word::Prepared { preparing } => Event::Started { leg, attempt, preparing: Some(preparing) },
        Word::Uploading => Event::Uploading { leg, attempt },
        Word::Finished { conclusion, outputs } | Word::Ran { conclusion, outputs, .. } => {
            let outputs = outputs.into_iter().map(|(name, value)| (clean(name), clean(value)));
            Event::Finished { leg, attempt, conclusion, outputs: outputs.collect() }
        }
        Word::Lost { reason } | Word::Expired { reason } => {
            let reason = clean(reason);
            open.reasons.insert(leg, reason.clone());
            Event::Lost { leg, attempt, reason }
        }
        Word::Returned => {
            let reason = "the runner gave it back".to_owned();
            open.reasons.entry(leg).or_insert(reason);
            Event::Returned { leg, attempt }
        }
        Word::Wake => Event::Wake { leg },
        Word::Cancel { reason } => Event::CancelLeg { leg, reason: clean(reason) },
        Word::Unsupported { reason } => Event::Unsupported { leg, reason },
    }
}

/// The start of a job of which only the end is told.
fn start_before(happened: &Happened, end: &Event) -> Option<Event> {
    match (happened, end) {
        (
            Happened::Job(JobNews { word: Word::Ran { preparing, .. }, .. }),
            Event::Finished { leg, attempt, .. },
        ) => Some(Event::Started { leg: *leg, attempt: *attempt, preparing: *preparing }),
        _ => None,
    }
}

/// PostgreSQL keeps no text with the character 0, and nobody means it.
fn clean(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// Events under way, those of one run after the other, those of different runs side by side.
pub(super) struct Work {
    /// Each with the place of its answer, if anybody wants one.
    pub(super) queues: BTreeMap<RunId, VecDeque<(Option<usize>, Event)>>,
    pub(super) answers: Vec<Answer>,
}

impl Work {
    /// One event of one run.
    pub(super) fn single(run: RunId, event: Event) -> Self {
        let queues = BTreeMap::from([(run, VecDeque::from([(Some(0), event)]))]);
        Self { queues, answers: vec![Answer::Accepted] }
    }

    pub(super) async fn drive(
        &mut self,
        tx: &mut Tx<'_>,
        batch: &mut Batch,
    ) -> Result<(), StoreError> {
        let mut under_way: BTreeMap<RunId, (Option<usize>, Transition)> = BTreeMap::new();
        let runs: Vec<RunId> = self.queues.keys().copied().collect();
        loop {
            let mut wanted = Vec::new();
            for run in &runs {
                let mut current = under_way.remove(run);
                if let Some(rows) = self.advance(tx, batch, *run, &mut current) {
                    wanted.push((*run, rows));
                    under_way.extend(current.map(|current| (*run, current)));
                }
            }
            if wanted.is_empty() {
                return Ok(());
            }
            load::bring(tx, batch, &wanted).await?;
        }
    }

    /// Lets a run go on until it wants rows or nothing is left to do.
    fn advance(
        &mut self,
        tx: &Tx<'_>,
        batch: &mut Batch,
        run: RunId,
        current: &mut Option<(Option<usize>, Transition)>,
    ) -> Option<Wanted> {
        loop {
            let (at, mut transition) = match current.take() {
                Some(under_way) => under_way,
                None => {
                    let (at, event) = self.queues.get_mut(&run)?.pop_front()?;
                    (at, Transition::new(event))
                }
            };
            let wanted = batch.with_groups(run, |open| {
                let evaluator = &*open.facts.evaluator;
                transition.advance(&mut open.hood, &open.at_hand, tx.now(), evaluator)
            });
            match wanted {
                Err(rejected) => {
                    if let Some(at) = at {
                        self.answers[at] = Answer::Refused(rejected.into());
                    }
                }
                Ok(_) if transition.is_done() => {
                    batch.run(run).take_up(transition.into_effects());
                }
                Ok(wanted) => {
                    *current = Some((at, transition));
                    return Some(wanted);
                }
            }
        }
    }
}
