//! The queue as people see it: what waits, why, and for how long yet.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use kiln_core::access::Right;
use kiln_core::id::{JobId, RepoId, RunId};
use kiln_core::queue::Policy;
use kiln_core::run::waits_for_group;
use kiln_core::time::Timestamp;
use kiln_proto::api;
use kiln_proto::held::{Held, Holder};
use kiln_store::claims::{self, Rank, ShownBefore, WaitingJob, Waits};
use kiln_store::directory::{organizations, settings};
use kiln_store::runs::{HeldPlace, Holds};
use kiln_store::{Scope, StoreError, Tx};

use super::names::Names;
use super::runs::FIND;
use super::{repos, runs};
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};

/// The waiting jobs that the caller may see, those that are likely to come first in front.
pub async fn waiting(
    app: &App,
    caller: &Caller,
    which: Asked,
    limit: usize,
) -> Answer<api::Page<api::Waiting>> {
    let Asked { repo, run, after } = which;
    let after = after.as_deref().map(shown_before).transpose()?;
    let repo = visible(app, caller, repo, run).await?;
    let behind = after.clone();
    let (scopes, policy) = (caller.scopes(Right::Read), app.traffic.policy());
    let work = async move |tx: &mut Tx<'_>| {
        let server_paused = server_paused(tx).await?;
        let after = after.clone();
        let waits = Waits { repo, run, server_paused, after, ..Waits::default() };
        let mut jobs = Vec::new();
        for scope in &scopes {
            // One more says whether there are more.
            jobs.extend(claims::waiting(tx, *scope, policy, &waits, limit + 1).await?);
        }
        Ok(jobs)
    };
    let mut jobs = app.store.read(work).await?;
    jobs.sort_by_key(WaitingJob::rank);
    if let Some(after) = &behind {
        jobs = claims::behind(jobs, after);
    }
    let more = jobs.len() > limit;
    jobs.truncate(limit);
    let next = if more { end_of(&jobs) } else { None };
    Ok(api::Page { items: jobs.into_iter().map(shown).collect(), next })
}

/// How many jobs the caller sees waiting, counted up to [`claims::COUNTED`] in each organization.
pub async fn total(app: &App, caller: &Caller) -> Answer<u64> {
    let scopes = caller.scopes(Right::Read);
    let work = async move |tx: &mut Tx<'_>| {
        let mut total = 0;
        for scope in &scopes {
            total += claims::waiting_total(tx, *scope, None).await?;
        }
        Ok(total)
    };
    Ok(app.store.read(work).await?)
}

/// Owners of repositories whose runs the caller may put first.
#[derive(Debug, Clone)]
pub enum Movable {
    All,
    Of(BTreeSet<String>),
}

impl Movable {
    /// Whether a repository, as `owner/name`, is among theirs.
    pub fn has(&self, repo: &str) -> bool {
        match self {
            Self::All => true,
            Self::Of(owners) => {
                repo.split_once('/').is_some_and(|(owner, _)| owners.contains(owner))
            }
        }
    }
}

pub async fn movable(app: &App, caller: &Caller) -> Answer<Movable> {
    let scopes = caller.scopes(Right::Admin);
    let work = async move |tx: &mut Tx<'_>| {
        let mut owners = BTreeSet::new();
        for scope in &scopes {
            let Scope::Org(org) = scope else { return Ok(Movable::All) };
            owners.insert(organizations::get(tx, *scope, *org).await?.name);
        }
        Ok(Movable::Of(owners))
    };
    Ok(app.store.read(work).await?)
}

/// How many jobs of a piece its end names, so that it is found again when some of them are handed out.
const BESIDE: usize = 8;

/// The end of a piece as its `next`: where its last job stands, and some of the others.
fn end_of(jobs: &[WaitingJob]) -> Option<String> {
    let (last, others) = jobs.split_last()?;
    let Rank { position, priority, queued, job } = last.rank();
    let mut text = format!("{position}.{}.{}.{}", priority.0, queued.0, job.0);
    let step = others.len().div_ceil(BESIDE).max(1);
    for other in others.iter().rev().step_by(step) {
        let _ = write!(text, ".{}", other.job.0);
    }
    Some(text)
}

fn shown_before(text: &str) -> Answer<ShownBefore> {
    let read = || {
        let mut parts = text.split('.');
        let last = Rank {
            position: parts.next()?.parse().ok()?,
            priority: Reverse(parts.next()?.parse().ok()?),
            queued: Timestamp(parts.next()?.parse().ok()?),
            job: JobId(parts.next()?.parse().ok()?),
        };
        let beside: Option<Vec<JobId>> =
            parts.map(|part| part.parse().ok().filter(|id| *id >= 0).map(JobId)).collect();
        Some(ShownBefore { last, beside: beside.filter(|beside| beside.len() <= BESIDE)? })
    };
    read().ok_or_else(not_a_place)
}

fn not_a_place() -> Failure {
    Failure::invalid("`after` is not the `next` of an earlier piece")
}

/// The repository that is asked for, once it is known that the caller may see it, and the run.
async fn visible(
    app: &App,
    caller: &Caller,
    repo: Option<String>,
    run: Option<RunId>,
) -> Answer<Option<RepoId>> {
    if let Some(run) = run {
        runs::find(app, caller, Right::Read, run).await?;
    }
    let Some(name) = repo else { return Ok(None) };
    Ok(Some(repos::find(app, caller, Right::Read, &name).await?.0.id))
}

/// Which of what waits is asked for.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// `owner/name`.
    pub repo: Option<String>,
    pub run: Option<RunId>,
    /// The `next` of the piece before.
    pub after: Option<String>,
}

/// What waits for concurrency groups, as far as the caller may see it: what was made first in front.
pub async fn held(
    app: &App,
    caller: &Caller,
    which: Asked,
    limit: usize,
) -> Answer<api::Page<Held>> {
    let repo = visible(app, caller, which.repo, which.run).await?;
    let after = which.after.as_deref().map(place).transpose()?;
    let holds = Holds { repo, run: which.run, after };
    let scopes = caller.scopes(Right::Read);
    let work = async move |tx: &mut Tx<'_>| {
        let mut found = Vec::new();
        for scope in &scopes {
            // One more says whether there are more.
            found.extend(kiln_store::runs::held(tx, *scope, holds, limit + 1).await?);
        }
        found.sort_by_key(|held| held.place);
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|last| cursor(last.place));
        let mut names = Names::default();
        let mut items = Vec::with_capacity(found.len());
        for held in found {
            items.push(held_shown(tx, &mut names, held).await?);
        }
        Ok(api::Page { items, next })
    };
    Ok(app.store.read(work).await?)
}

/// A place as the `next` of a piece: the run, and the leg behind a dot.
fn cursor((run, leg): HeldPlace) -> String {
    leg.map_or_else(|| run.0.to_string(), |leg| format!("{}.{leg}", run.0))
}

fn place(cursor: &str) -> Answer<HeldPlace> {
    let (run, leg) = cursor.split_once('.').map_or((cursor, None), |(run, leg)| (run, Some(leg)));
    let place = || Some((RunId(run.parse().ok()?), leg.map(str::parse).transpose().ok()?));
    place().ok_or_else(not_a_place)
}

async fn held_shown(
    tx: &mut Tx<'_>,
    names: &mut Names,
    held: kiln_store::runs::Held,
) -> Result<Held, StoreError> {
    let kiln_store::runs::Held { run, group, job, holder, before, .. } = held;
    let holder = match holder {
        Some(holder) => Some(Holder {
            run_id: holder.id.0,
            workflow: names.workflow(tx, holder.workflow).await?.name,
            number: holder.number,
        }),
        None => None,
    };
    Ok(Held {
        run_id: run.id.0,
        slug: run.id.slug(),
        repo: names.repo(tx, run.repo).await?.full(),
        workflow: names.workflow(tx, run.workflow).await?.name,
        number: run.number,
        reason: waits_for_group(&group, job.is_none()),
        job_id: job.as_ref().map(|(id, _)| id.0),
        name: job.map_or(run.title, |(_, name)| name),
        group,
        holder,
        before: before as u64,
        since: run.created.rfc3339(),
    })
}

/// Why each waiting job of a run waits. Whoever asks may see the run.
pub async fn reasons(
    tx: &mut Tx<'_>,
    policy: Policy,
    run: RunId,
) -> Result<HashMap<JobId, String>, StoreError> {
    let server_paused = server_paused(tx).await?;
    let waits = Waits { run: Some(run), server_paused, ..Waits::default() };
    let jobs = claims::waiting(tx, FIND, policy, &waits, usize::MAX).await?;
    Ok(jobs.into_iter().map(|job| (job.job, job.reason)).collect())
}

/// Who paused the server and why, as it is said of queues and repositories.
async fn server_paused(tx: &mut Tx<'_>) -> Result<Option<String>, StoreError> {
    let pause = settings::server_pause(tx).await?;
    Ok(pause.map(|pause| format!("{}: {}", pause.by, pause.reason)))
}

fn shown(job: WaitingJob) -> api::Waiting {
    api::Waiting {
        job_id: job.job.0,
        slug: job.job.slug(),
        run_id: job.run.0,
        repo: job.repo_name,
        name: job.name,
        queue_id: job.queue.0,
        queued_at: job.queued.rfc3339(),
        class: job.class.word().to_owned(),
        priority: job.priority,
        requirements: job.requirements,
        position: job.position,
        reason: job.reason,
        estimate: job.estimate.map(|left| left.as_secs()),
        runners: job.runners,
    }
}
