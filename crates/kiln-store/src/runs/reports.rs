//! What runners say while they work: steps, annotations, summaries.
//!
//! Events of a claim are numbered from 1 without gaps, and the lease keeps how far they were heard, so a
//! report can be repeated as often as its answer gets lost. The lease's row is held meanwhile: nothing is
//! heard of a job that has ended, and its last word stands behind all others. The run is not locked.

use std::collections::{BTreeMap, HashMap, HashSet};

use kiln_core::id::{JobId, OrgId, RepoId, RunnerId};
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;

use super::change::Refused;
use super::steps::{self, Key, Step};
use crate::events::{self, Annotation, EventKind};
use crate::sql::{Row, Sql, Value};
use crate::{Signal, StoreError, Tx};

/// How much of an annotation and of a summary is kept, in bytes.
const ANNOTATION: usize = 64 << 10;
const SUMMARY: usize = 1 << 20;
/// How many characters of the name of a step are kept.
const NAME: usize = 1_000;
/// A job has no more steps than this; what is said of others is not kept.
const MOST_STEPS: u32 = 100_000;

/// What a runner has to say about a job that it has.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub job: JobId,
    pub claim: u32,
    pub runner: RunnerId,
    /// In the order of their numbers.
    pub events: Vec<Reported>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    /// From 1, without gaps.
    pub sequence: u64,
    /// By the runner's clock.
    pub at: Timestamp,
    pub what: Said,
}

/// Something that happened in a job. Steps have the runner's numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// Nothing to be kept here: the job's own states go another way, and a newer runner may know more.
    Counted,
    StepStarted {
        step: u32,
        name: String,
    },
    StepRetried {
        step: u32,
        failed_try: u32,
    },
    StepFinished {
        step: u32,
        /// How it was.
        outcome: Conclusion,
        /// What counts, after `continue-on-error`.
        conclusion: Conclusion,
        exit_code: Option<i32>,
    },
    Annotation(Annotation),
    Summary {
        step: u32,
        text: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportAnswer {
    /// All up to this number was heard.
    Heard(u64),
    /// Nothing of it was heard, because events before it are missing, from this number on.
    Gap {
        wanted: u64,
    },
    Refused(Refused),
}

/// Notes up to which number a runner was heard.
pub(super) const HEARD: Sql = Sql::of(
    "UPDATE leases SET heard = $3 WHERE job_id = $1 AND claim = $2 AND heard < $3",
    "UPDATE leases AS t SET heard = u.heard
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (job_id, claim, heard)
     WHERE t.job_id = u.job_id AND t.claim = u.claim AND t.job_id = ANY($1) AND t.heard < u.heard",
);

pub(super) fn heard_row(job: JobId, claim: u32, heard: u64) -> Vec<Value> {
    vec![job.into(), claim.into(), i64::try_from(heard).unwrap_or(i64::MAX).into()]
}

/// A lease under which something is said.
#[derive(Debug, Clone)]
struct Held {
    org: OrgId,
    repo: RepoId,
    attempt: u32,
    number: u32,
    claim: u32,
    runner: RunnerId,
    claimed: Timestamp,
    heard: u64,
}

/// Hears reports, each for itself. Those who have no lease any more are told that all was heard, if the
/// job was theirs once: they repeat themselves, or what they say comes too late.
pub async fn report(tx: &mut Tx<'_>, reports: &[Report]) -> Result<Vec<ReportAnswer>, StoreError> {
    let mut held = hold(tx, reports).await?;
    let lapsed: Vec<&Report> = reports.iter().filter(|report| !is_holder(&held, report)).collect();
    let past = past_claims(tx, &lapsed).await?;
    let known = known_jobs(tx, &lapsed).await?;
    let mut news = News::default();
    let mut answers = Vec::with_capacity(reports.len());
    for report in reports {
        answers.push(if is_holder(&held, report) {
            let lease = held.get_mut(&report.job).expect("its holder was found");
            hear(tx.now(), lease, report, &mut news)
        } else if past.contains(&(report.job, report.claim, report.runner)) {
            ReportAnswer::Heard(report.events.last().map_or(0, |event| event.sequence))
        } else if known.contains(&report.job) {
            ReportAnswer::Refused(Refused::NotYours)
        } else {
            ReportAnswer::Refused(Refused::NoSuchJob)
        });
    }
    news.write(tx, &held)?;
    Ok(answers)
}

fn is_holder(held: &HashMap<JobId, Held>, report: &Report) -> bool {
    held.get(&report.job)
        .is_some_and(|lease| lease.claim == report.claim && lease.runner == report.runner)
}

/// Hears what is new in a report.
fn hear(now: Timestamp, lease: &mut Held, report: &Report, news: &mut News) -> ReportAnswer {
    let before = lease.heard;
    let mut next = before;
    let fresh: Vec<&Reported> =
        report.events.iter().filter(|event| event.sequence > before).collect();
    for event in &fresh {
        if event.sequence != next + 1 {
            return ReportAnswer::Gap { wanted: next + 1 };
        }
        next = event.sequence;
    }
    for event in fresh {
        // A clock that is wrong does not make a step older than its job, or later than now.
        let at = event.at.clamp(lease.claimed.min(now), now);
        news.add(report.job, lease, at, &event.what);
    }
    lease.heard = next;
    if next > before {
        news.heard.insert(report.job, next);
    }
    ReportAnswer::Heard(next)
}

/// What is written for all reports together.
#[derive(Debug, Default)]
struct News {
    heard: BTreeMap<JobId, u64>,
    steps: BTreeMap<Key, Step>,
    events: Vec<events::Event>,
}

impl News {
    fn add(&mut self, job: JobId, lease: &Held, at: Timestamp, said: &Said) {
        let Some(kind) = kind_of(said) else { return };
        if let Some(number) = step_of(said) {
            let Held { attempt, number: job_number, claim, .. } = *lease;
            let key = Key { run: job.run(), attempt, job: job_number, claim, number };
            self.steps.entry(key).or_default().hear(at, &kind);
        }
        self.events.push(events::Event {
            org: lease.org,
            repo: lease.repo,
            run: job.run(),
            attempt: lease.attempt,
            job: Some(job),
            kind,
        });
    }

    fn write(self, tx: &mut Tx<'_>, held: &HashMap<JobId, Held>) -> Result<(), StoreError> {
        let row = |(job, heard): (&JobId, &u64)| heard_row(*job, held[job].claim, *heard);
        tx.write_all(HEARD, self.heard.iter().map(row).collect())?;
        steps::write(tx, self.steps)?;
        for event in &self.events {
            tx.signal(Signal::Run(event.run));
        }
        events::append(tx, &self.events)
    }
}

/// The step that a row is kept of.
fn step_of(said: &Said) -> Option<u32> {
    match said {
        Said::StepStarted { step, .. }
        | Said::StepRetried { step, .. }
        | Said::StepFinished { step, .. } => Some(*step),
        _ => None,
    }
}

/// The event that readers get, bounded.
fn kind_of(said: &Said) -> Option<EventKind> {
    let (Said::StepStarted { step, .. }
    | Said::StepRetried { step, .. }
    | Said::StepFinished { step, .. }
    | Said::Summary { step, .. }) = said
    else {
        return match said {
            Said::Annotation(annotation) => Some(EventKind::Annotation(bounded(annotation))),
            _ => None,
        };
    };
    if *step >= MOST_STEPS {
        return None;
    }
    let number = *step;
    Some(match said {
        Said::StepStarted { name, .. } => {
            EventKind::StepStarted { number, name: name.chars().take(NAME).collect() }
        }
        Said::StepRetried { failed_try, .. } => {
            EventKind::StepRetried { number, failed_try: *failed_try }
        }
        Said::StepFinished { outcome, conclusion, exit_code, .. } => EventKind::StepFinished {
            number,
            conclusion: *conclusion,
            outcome: Some(*outcome),
            exit_code: *exit_code,
        },
        Said::Summary { text, .. } => EventKind::Summary { step: number, text: cut(text, SUMMARY) },
        Said::Counted | Said::Annotation(_) => return None,
    })
}

/// An annotation whose texts fit together.
fn bounded(annotation: &Annotation) -> Annotation {
    let mut bounded = annotation.clone();
    let mut room = ANNOTATION;
    for text in [&mut bounded.title, &mut bounded.file, &mut bounded.code].into_iter().flatten() {
        *text = cut(text, room.min(4_096));
        room -= written(text);
    }
    // What stands around the texts is short.
    bounded.message = cut(&bounded.message, room.saturating_sub(512));
    bounded
}

/// The beginning of a text that is at most this long when it is written as JSON.
fn cut(text: &str, longest: usize) -> String {
    let mut length = 0;
    let fits = |one: &char| {
        length += written_char(*one);
        length <= longest
    };
    text.chars().take_while(fits).collect()
}

fn written(text: &str) -> usize {
    text.chars().map(written_char).sum()
}

/// How long a character is in JSON.
fn written_char(one: char) -> usize {
    match one {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        one if (one as u32) < 0x20 => 6,
        one => one.len_utf8(),
    }
}

/// The leases of these jobs, held until the transaction ends.
async fn hold(tx: &mut Tx<'_>, reports: &[Report]) -> Result<HashMap<JobId, Held>, StoreError> {
    let sql = Sql::of(
        "SELECT job_id, org_id, repo_id, attempt, number, claim, runner_id, claimed_at, heard
         FROM leases WHERE job_id = $1",
        "SELECT job_id, org_id, repo_id, attempt, number, claim, runner_id, claimed_at, heard
         FROM leases WHERE job_id = ANY($1) ORDER BY job_id FOR UPDATE",
    );
    let jobs: HashSet<JobId> = reports.iter().map(|report| report.job).collect();
    let keys: Vec<Vec<Value>> = jobs.into_iter().map(|job| vec![job.into()]).collect();
    let lease = |row: &Row| {
        let held = Held {
            org: row.get(1)?,
            repo: row.get(2)?,
            attempt: row.get(3)?,
            number: row.get(4)?,
            claim: row.get(5)?,
            runner: row.get(6)?,
            claimed: row.get(7)?,
            heard: row.get::<i64>(8)?.unsigned_abs(),
        };
        Ok((row.get(0)?, held))
    };
    tx.rows_all(sql, &keys).await?.iter().map(lease).collect()
}

type Claim = (JobId, u32, RunnerId);

/// Which of these claims their runners had once.
async fn past_claims(tx: &mut Tx<'_>, reports: &[&Report]) -> Result<HashSet<Claim>, StoreError> {
    let sql = Sql::of(
        "SELECT j.id, j.claim, j.runner_id FROM jobs AS j
         WHERE j.run_id = $1 AND j.id = $2 AND j.claim = $3 AND j.runner_id = $4
         UNION ALL
         SELECT j.id, c.claim, c.runner_id FROM jobs AS j JOIN job_claims AS c
             ON c.run_id = j.run_id AND c.attempt = j.attempt AND c.number = j.number
         WHERE j.run_id = $1 AND j.id = $2 AND c.claim = $3 AND c.runner_id = $4",
        "SELECT j.id, u.claim, u.runner_id
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
             AS u (run_id, id, claim, runner_id)
         CROSS JOIN LATERAL (
             SELECT * FROM jobs AS j WHERE j.run_id = u.run_id AND j.id = u.id OFFSET 0
         ) AS j
         WHERE (j.claim = u.claim AND j.runner_id = u.runner_id) OR EXISTS (
             SELECT 1 FROM job_claims AS c WHERE c.run_id = j.run_id AND c.attempt = j.attempt
                 AND c.number = j.number AND c.claim = u.claim AND c.runner_id = u.runner_id)",
    );
    let key = |report: &&Report| -> Vec<Value> {
        vec![report.job.run().into(), report.job.into(), report.claim.into(), report.runner.into()]
    };
    let keys: Vec<Vec<Value>> = reports.iter().map(key).collect();
    let claim = |row: &Row| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    tx.rows_all(sql, &keys).await?.iter().map(claim).collect()
}

/// Which of these jobs there are.
async fn known_jobs(tx: &mut Tx<'_>, reports: &[&Report]) -> Result<HashSet<JobId>, StoreError> {
    let sql = Sql::of(
        "SELECT id FROM jobs WHERE run_id = $1 AND id = $2",
        "SELECT j.id FROM unnest($1::bigint[], $2::bigint[]) AS u (run_id, id)
         CROSS JOIN LATERAL (
             SELECT id FROM jobs AS j WHERE j.run_id = u.run_id AND j.id = u.id OFFSET 0
         ) AS j",
    );
    let key = |report: &&Report| -> Vec<Value> { vec![report.job.run().into(), report.job.into()] };
    let keys: Vec<Vec<Value>> = reports.iter().map(key).collect();
    tx.rows_all(sql, &keys).await?.iter().map(|row| row.get(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::{ANNOTATION, Annotation, bounded, cut, written};
    use crate::events::Level;

    #[test]
    fn a_text_is_cut_by_what_it_takes_in_json() {
        for (text, longest, expected) in
            [("abc", 3, "abc"), ("abc", 2, "ab"), ("\n\n", 3, "\n"), ("\0", 5, ""), ("äb", 1, "")]
        {
            let found = cut(text, longest);
            assert_eq!(found, expected);
            assert_eq!(serde_json::to_string(&found).unwrap().len(), written(&found) + 2);
        }
    }

    #[test]
    fn an_annotation_stays_within_its_bounds() {
        let long = || "\u{1}".repeat(100_000);
        let annotation = Annotation {
            level: Level::Error,
            message: long(),
            title: Some(long()),
            file: Some(long()),
            code: Some(long()),
            step: Some(u32::MAX),
            line: Some(u32::MAX),
            end_line: Some(u32::MAX),
            column: Some(u32::MAX),
            end_column: Some(u32::MAX),
        };
        let text = serde_json::to_string(&bounded(&annotation)).unwrap();
        assert!(text.len() <= ANNOTATION && text.len() > ANNOTATION / 2, "{}", text.len());
    }
}
