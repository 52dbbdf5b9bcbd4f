//! What a store answered, one line each, and whether a database still says so.

use std::fmt;
use std::str::FromStr;

use kiln_core::id::{JobId, RunId};
use kiln_store::{Store, StoreError, Tx};

/// Something that was answered, and so must never be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    Created {
        run: RunId,
    },
    Claimed {
        job: JobId,
        claim: u32,
        runner: i64,
    },
    Started {
        job: JobId,
    },
    Finished {
        job: JobId,
        claim: u32,
        conclusion: String,
    },
    /// A claim was given back or lost.
    Released {
        job: JobId,
        claim: u32,
    },
    Cancelled {
        run: RunId,
    },
    Again {
        run: RunId,
        attempt: u32,
    },
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created { run } => write!(f, "created {run}"),
            Self::Claimed { job, claim, runner } => write!(f, "claimed {job} {claim} {runner}"),
            Self::Started { job } => write!(f, "started {job}"),
            Self::Finished { job, claim, conclusion } => {
                write!(f, "finished {job} {claim} {conclusion}")
            }
            Self::Released { job, claim } => write!(f, "released {job} {claim}"),
            Self::Cancelled { run } => write!(f, "cancelled {run}"),
            Self::Again { run, attempt } => write!(f, "again {run} {attempt}"),
        }
    }
}

impl FromStr for Answered {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| {
            let word = words.get(at).and_then(|word| word.parse::<i64>().ok());
            word.ok_or_else(|| format!("`{line}` is no answer"))
        };
        let small = |at| number(at).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        Ok(match words[0] {
            "created" => Self::Created { run: RunId(number(1)?) },
            "claimed" => {
                Self::Claimed { job: JobId(number(1)?), claim: small(2)?, runner: number(3)? }
            }
            "started" => Self::Started { job: JobId(number(1)?) },
            "finished" => Self::Finished {
                job: JobId(number(1)?),
                claim: small(2)?,
                conclusion: words.get(3).copied().unwrap_or_default().to_owned(),
            },
            "released" => Self::Released { job: JobId(number(1)?), claim: small(2)? },
            "cancelled" => Self::Cancelled { run: RunId(number(1)?) },
            "again" => Self::Again { run: RunId(number(1)?), attempt: small(2)? },
            _ => return Err(format!("`{line}` is no answer")),
        })
    }
}

/// The answers that the database does not remember.
pub async fn forgotten(store: &Store, answers: Vec<Answered>) -> Vec<Answered> {
    let look = async move |tx: &mut Tx<'_>| {
        let mut forgotten = Vec::new();
        for answer in &answers {
            if !is_true(tx, answer).await? {
                forgotten.push(answer.clone());
            }
        }
        Ok(forgotten)
    };
    store.read(look).await.expect("the database can be read")
}

async fn is_true(tx: &mut Tx<'_>, answer: &Answered) -> Result<bool, StoreError> {
    match answer {
        Answered::Created { run } => {
            let sql = "SELECT 1 FROM run_attempts WHERE run_id = $1 AND attempt = 1";
            Ok(tx.row(sql, &[run.0.into()]).await?.is_some())
        }
        Answered::Again { run, attempt } => {
            let sql = "SELECT 1 FROM run_attempts WHERE run_id = $1 AND attempt = $2";
            Ok(tx.row(sql, &[run.0.into(), (*attempt).into()]).await?.is_some())
        }
        Answered::Cancelled { run } => {
            let sql = "SELECT 1 FROM events WHERE run_id = $1 AND kind = 'cancel_asked'";
            Ok(tx.row(sql, &[run.0.into()]).await?.is_some())
        }
        Answered::Started { job } => {
            let sql =
                "SELECT 1 FROM events WHERE run_id = $1 AND job_id = $2 AND kind = 'job_started'";
            Ok(tx.row(sql, &[job.run().0.into(), job.0.into()]).await?.is_some())
        }
        Answered::Claimed { job, claim, runner } => {
            let sql = "SELECT 1 FROM events WHERE run_id = $1 AND job_id = $2
                       AND kind = 'job_claimed' AND payload = $3";
            let payload = format!(r#"{{"runner":{runner},"claim":{claim}}}"#);
            Ok(tx.row(sql, &[job.run().0.into(), job.0.into(), payload.into()]).await?.is_some())
        }
        Answered::Finished { job, claim, conclusion } => {
            Ok(finished(tx, *job, *claim, conclusion).await?)
        }
        Answered::Released { job, claim } => {
            // A job that was about to be cancelled ends with the claim.
            let ended = finished(tx, *job, *claim, "cancelled").await?;
            Ok(ended || past_claim(tx, *job, *claim).await?.is_some() || lost(tx, *job).await?)
        }
    }
}

/// Done as it was said; or tried again, if that was declared; or ended by force before it was said.
async fn finished(
    tx: &mut Tx<'_>,
    job: JobId,
    claim: u32,
    conclusion: &str,
) -> Result<bool, StoreError> {
    let sql = "SELECT j.claim, j.conclusion, t.cancel_forced FROM jobs AS j JOIN run_attempts AS t
                   ON t.run_id = j.run_id AND t.attempt = j.attempt
               WHERE j.run_id = $1 AND j.id = $2";
    let Some(row) = tx.row(sql, &[job.run().0.into(), job.0.into()]).await? else {
        return Ok(false);
    };
    let (current, end): (u32, Option<String>) = (row.get(0)?, row.get(1)?);
    if current == claim && end.as_deref() == Some(conclusion) {
        return Ok(true);
    }
    let forced: bool = row.get(2)?;
    if forced && current == claim && end.as_deref() == Some("cancelled") {
        return Ok(true);
    }
    Ok(past_claim(tx, job, claim).await?.as_deref() == Some("retried"))
}

/// How a claim ended that did not end its job.
async fn past_claim(tx: &mut Tx<'_>, job: JobId, claim: u32) -> Result<Option<String>, StoreError> {
    let sql = "SELECT c.outcome FROM job_claims AS c JOIN jobs AS j
                   ON j.run_id = c.run_id AND j.attempt = c.attempt AND j.number = c.number
               WHERE j.run_id = $1 AND j.id = $2 AND c.claim = $3";
    let row = tx.row(sql, &[job.run().0.into(), job.0.into(), claim.into()]).await?;
    row.map(|row| row.get(0)).transpose()
}

/// Whether a job failed because too many runners lost it.
async fn lost(tx: &mut Tx<'_>, job: JobId) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM jobs WHERE run_id = $1 AND id = $2 AND state = 'done' AND losses > 3";
    Ok(tx.row(sql, &[job.run().0.into(), job.0.into()]).await?.is_some())
}
