//! Results of jobs that are used again: one whose fingerprint was green before need not run.
//!
//! The runner knows what a result depends on, and asks before it begins. The server decides whose results count:
//! those of the same repository and the same trust, that are not too old, and of which everything is still there.

use std::time::Duration;

use kiln_blob::Digest;
use kiln_core::run::Conclusion;
use kiln_proto::result::{AskResult, EarlierResult, FoundResult, ResultPart, ReusedFrom};
use kiln_store::claims::Lease;
use kiln_store::content::handed::{self, Handed};
use kiln_store::runs::{self, Candidate};
use kiln_store::{Scope, StoreError, Tx};

use super::{actor, kinds};
use crate::app::App;
use crate::config::Content;
use crate::http::error::{Answer, Failure};

/// How many parts a fingerprint may have, and how long the names of these.
const MOST_PARTS: usize = 16;
const LONGEST_NAME: usize = 80;
/// How many bytes are kept of the whole, and of each part.
const WHOLE: usize = 32;
const PART: usize = 8;

/// What a result depends on: as a whole, and part by part behind that.
#[derive(Debug, Clone)]
struct Fingerprint {
    bytes: Vec<u8>,
    /// The names of the parts.
    names: Vec<String>,
}

impl Fingerprint {
    fn read(asked: &AskResult) -> Answer<Self> {
        let wrong = |_| Failure::invalid("`fingerprint`: expected 64 hexadecimals");
        let whole: Digest = asked.fingerprint.parse().map_err(wrong)?;
        let mut bytes = whole.0.to_vec();
        let is_odd = |part: &ResultPart| {
            let name = &part.name;
            name.is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control)
        };
        if asked.parts.len() > MOST_PARTS || asked.parts.iter().any(is_odd) {
            let message = format!("`parts`: expected {MOST_PARTS} at most, with short names");
            return Err(Failure::invalid(message));
        }
        for part in &asked.parts {
            let number = u64::from_str_radix(&part.fingerprint, 16).ok();
            let number = number.filter(|_| part.fingerprint.len() == 2 * PART);
            let wrong = || Failure::invalid("`parts`: expected 16 hexadecimals for each");
            bytes.extend(number.ok_or_else(wrong)?.to_be_bytes());
        }
        Ok(Self { bytes, names: asked.parts.iter().map(|part| part.name.clone()).collect() })
    }

    /// What is not as it was in an earlier run, in words; nothing if that is not known.
    fn since(&self, then: &[u8], run: i64) -> Option<String> {
        if then.len() != self.bytes.len() {
            return None;
        }
        let pairs = self.bytes[WHOLE..].chunks(PART).zip(then[WHOLE..].chunks(PART));
        let changed: Vec<&str> = self
            .names
            .iter()
            .zip(pairs)
            .filter(|(_, (now, then))| now != then)
            .map(|(name, _)| name.as_str())
            .collect();
        let (last, others) = changed.split_last()?;
        let list = if others.is_empty() {
            (*last).to_owned()
        } else {
            format!("{} and {last}", others.join(", "))
        };
        Some(format!("changed since run #{run}: {list}"))
    }
}

/// Looks for a result that can stand for the job of the lease, and if there is none, remembers what its own
/// will depend on. Asking again has the same answer.
pub async fn ask(app: &App, lease: &Lease, asked: &AskResult) -> Answer<FoundResult> {
    let fingerprint = Fingerprint::read(asked)?;
    let (lease, content) = (lease.clone(), app.config.content);
    let work = async move |tx: &mut Tx<'_>| {
        let reason = match find(tx, &lease, &fingerprint, content.results).await? {
            Ok(found) => match hand_on(tx, &content, &found, &lease).await? {
                Handed::All(artifacts) => {
                    runs::note_reuse(tx, &lease, &found).await?;
                    return Ok(reused(found, artifacts));
                }
                Handed::Expired(name) => {
                    format!("the artifact `{name}` of {} has expired", called(&found))
                }
                Handed::Taken(name) => {
                    format!("another job of this run has an artifact `{name}` already")
                }
            },
            Err(reason) => reason,
        };
        handed::remove_own(tx, &lease).await?;
        runs::note_fingerprint(tx, &lease, &fingerprint.bytes).await?;
        Ok(FoundResult { reused: None, reason })
    };
    Ok(app.store.write(work).await?)
}

async fn hand_on(
    tx: &mut Tx<'_>,
    content: &Content,
    found: &Candidate,
    lease: &Lease,
) -> Result<Handed, StoreError> {
    let retention = kinds::longest(tx, Scope::Org(lease.org), content, lease.run).await?;
    handed::hand_on(tx, &actor(lease.job), found, lease, retention).await
}

/// A result that may be used again, or why there is none.
async fn find(
    tx: &mut Tx<'_>,
    lease: &Lease,
    fingerprint: &Fingerprint,
    longest: Duration,
) -> Result<Result<Candidate, String>, StoreError> {
    if lease.attempt > 1 {
        return Ok(Err("somebody asked to run it again".to_owned()));
    }
    let Some(found) = runs::latest_result(tx, lease, &fingerprint.bytes).await? else {
        let earlier = runs::earlier_fingerprint(tx, lease).await?;
        let changed = earlier.and_then(|(then, run)| fingerprint.since(&then, run));
        let changed = changed.map(|changed| format!("; {changed}")).unwrap_or_default();
        return Ok(Err(format!("no earlier job had this fingerprint{changed}")));
    };
    let called = called(&found);
    let is_old = found.ended.is_none_or(|ended| ended + longest <= tx.now());
    Ok(match found.conclusion {
        Conclusion::Success if found.is_spoilt => {
            Err(format!("not all that {called} left is still there"))
        }
        Conclusion::Success if is_old => Err(format!("the result of {called} is too old")),
        Conclusion::Success => Ok(found),
        other => Err(format!(
            "{called}, the latest with this fingerprint, ended with {}",
            other.github()
        )),
    })
}

fn called(found: &Candidate) -> String {
    let Candidate { name, number, attempt, .. } = found;
    format!("job `{name}` of run #{number}, attempt {attempt}")
}

fn reused(found: Candidate, artifacts: Vec<String>) -> FoundResult {
    let from = ReusedFrom {
        run_id: found.run.0,
        run_number: found.number,
        run_attempt: found.attempt,
        job_id: found.job.0,
    };
    let outputs = found.outputs.into_iter().collect();
    let reused = EarlierResult { from, job_name: found.name, outputs, artifacts };
    FoundResult { reused: Some(reused), reason: String::new() }
}
