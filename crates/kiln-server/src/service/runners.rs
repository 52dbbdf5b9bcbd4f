//! Runners as people see them, and what they tell them.

use std::cmp::Reverse;

use kiln_core::access::Right;
use kiln_core::id::{JobId, RunnerId};
use kiln_core::queue::Capabilities;
use kiln_core::time::Timestamp;
use kiln_proto::api;
use kiln_proto::history::RunnerJob;
use kiln_store::claims::{End, Past, PastJob, Work};
use kiln_store::directory::pools;
use kiln_store::directory::runners::{self, Listed, Runner, RunnerState};
use kiln_store::{Page, Refusal, Scope, Signal, StoreError, Tx, claims};

use super::names::Names;
use super::register;
use super::runs::FIND;
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};

/// How many jobs a list of runners shows.
const MOST_WORK: u32 = 2_000;

/// Runners that the caller may see, by age. Shared ones are for administrators of the installation.
pub async fn list(app: &App, caller: &Caller, page: Page) -> Answer<Vec<api::Runner>> {
    Ok(listed(app, caller, page).await?.iter().map(shown).collect())
}

async fn listed(app: &App, caller: &Caller, page: Page) -> Answer<Vec<Listed>> {
    let scopes = caller.scopes(Right::Read);
    let work = async move |tx: &mut Tx<'_>| {
        let mut found = Vec::new();
        for scope in &scopes {
            found.extend(runners::list_all(tx, *scope, page).await?);
        }
        found.sort_by_key(|listed| listed.runner.id);
        found.truncate(page.limit as usize);
        Ok(found)
    };
    Ok(app.store.read(work).await?)
}

/// Those of them that are still known and have this text in their name, a label or another word about them, and of each
/// whether the caller may tell it something; and after which one there are more.
pub async fn sift(
    app: &App,
    caller: &Caller,
    text: &str,
    (after, limit): (Option<i64>, usize),
) -> Answer<(Vec<(api::Runner, bool)>, Option<i64>)> {
    let text = text.to_lowercase();
    let (mut found, mut page) = (Vec::new(), Page { after, limit: Page::LARGEST });
    loop {
        let piece = listed(app, caller, page).await?;
        let Some(last) = piece.last().map(|listed| listed.runner.id.0) else {
            return Ok((found, None));
        };
        for listed in &piece {
            let runner = shown(listed);
            if runner.status == "forgotten" || !is_about(&runner, &text) {
                continue;
            }
            if found.len() == limit {
                let next = found.last().map(|(runner, _): &(api::Runner, bool)| runner.id);
                return Ok((found, next));
            }
            found.push((runner, may_order(caller, listed)));
        }
        page.after = Some(last);
    }
}

fn is_about(runner: &api::Runner, text: &str) -> bool {
    let owner = runner.owner.as_deref().unwrap_or_default();
    let words = [&runner.name, &runner.pool, &runner.status, &runner.os, &runner.architecture];
    let words = words.into_iter().chain(&runner.labels).map(String::as_str);
    words.chain([owner, &runner.slug]).any(|word| word.to_lowercase().contains(text))
}

/// Whoever administers the organization of a runner may tell it what to do; shared ones hear administrators of the
/// installation only.
fn may_order(caller: &Caller, listed: &Listed) -> bool {
    caller.grants().allow(Right::Runners, listed.runner.org).is_ok()
}

/// What these runners do, as far as the caller may see it.
pub async fn work(app: &App, caller: &Caller, runners: Vec<RunnerId>) -> Answer<Vec<Work>> {
    let scopes = caller.scopes(Right::Read);
    let work = async move |tx: &mut Tx<'_>| {
        let mut found = Vec::new();
        for scope in &scopes {
            found.extend(claims::work_of(tx, *scope, &runners, MOST_WORK).await?);
        }
        Ok(found)
    };
    Ok(app.store.read(work).await?)
}

pub async fn one(app: &App, caller: &Caller, id: RunnerId) -> Answer<api::Runner> {
    let (_, listed) = find(app, caller, Right::Read, id).await?;
    Ok(shown(&listed))
}

/// A runner, and whether the caller may tell it something.
pub async fn one_with_orders(
    app: &App,
    caller: &Caller,
    id: RunnerId,
) -> Answer<(api::Runner, bool)> {
    let (_, listed) = find(app, caller, Right::Read, id).await?;
    Ok((shown(&listed), may_order(caller, &listed)))
}

/// How many jobs of all runners a look at the history of one goes along.
const LOOKED: u32 = 5_000;

/// What a runner did, as far as the caller may see it, the newest first; and before which job to look further.
pub async fn history(
    app: &App,
    caller: &Caller,
    id: RunnerId,
    (before, limit): (Option<JobId>, u32),
) -> Answer<api::Page<RunnerJob>> {
    find(app, caller, Right::Read, id).await?;
    let scopes = caller.scopes(Right::Read);
    let past = Past { before, limit, most: LOOKED };
    let work = async move |tx: &mut Tx<'_>| {
        let (mut found, mut further) = (Vec::new(), None);
        for scope in &scopes {
            let (jobs, next) = claims::history(tx, *scope, id, past).await?;
            found.extend(jobs);
            further = further.max(next);
        }
        Ok((found, further))
    };
    let (mut found, further) = app.store.read(work).await?;
    found.sort_by_key(|past| (Reverse(past.job), Reverse(past.claim)));
    // Beyond where one organization was looked through, nothing is shown yet.
    found.retain(|past| further.is_none_or(|edge| past.job >= edge));
    let items = found.iter().map(past_shown).collect();
    Ok(api::Page { items, next: further.map(|job| job.to_string()) })
}

fn past_shown(past: &PastJob) -> RunnerJob {
    let time = |at: Option<Timestamp>| at.map(Timestamp::rfc3339);
    let (outcome, reason) = match &past.end {
        End::Open => ("in_progress", None),
        End::Ended(conclusion) => (conclusion.github(), None),
        End::LetGo { how, why } => (how.as_str(), why.clone()),
    };
    RunnerJob {
        job_id: past.job.0,
        slug: past.job.slug(),
        run_id: past.job.run().0,
        repo: past.repo.clone(),
        name: past.name.clone(),
        attempt: past.claim,
        outcome: outcome.to_owned(),
        reason,
        claimed_at: time(past.claimed),
        started_at: time(past.started),
        ended_at: time(past.ended),
    }
}

async fn find(app: &App, caller: &Caller, right: Right, id: RunnerId) -> Answer<(Scope, Listed)> {
    let work = async move |tx: &mut Tx<'_>| look_up(tx, id).await;
    let listed = app.store.read(work).await?;
    let org = listed.runner.org;
    if org.is_none() && !caller.grants().sees_everything() {
        return Err(Failure::not_found("runner"));
    }
    Ok((caller.require(right, org, "runner")?, listed))
}

async fn look_up(tx: &mut Tx<'_>, id: RunnerId) -> Result<Listed, StoreError> {
    let runner = runners::get(tx, FIND, id).await?;
    let org_name = match runner.org {
        Some(org) => Some(Names::default().org(tx, org).await?),
        None => None,
    };
    let pool_name = pools::get(tx, FIND, runner.pool).await?.name;
    Ok(Listed { runner, org_name, pool_name })
}

/// What can be told to a runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Drain,
    Undrain,
    Revoke,
}

pub async fn order(app: &App, caller: &Caller, id: RunnerId, order: Order) -> Answer<api::Runner> {
    let (scope, _) = find(app, caller, Right::Runners, id).await?;
    let actor = caller.actor();
    let work = async move |tx: &mut Tx<'_>| {
        match order {
            Order::Drain => runners::set_draining(tx, scope, &actor, id, true).await?,
            Order::Undrain => runners::set_draining(tx, scope, &actor, id, false).await?,
            Order::Revoke => {
                runners::revoke_tokens(tx, scope, &actor, id).await?;
            }
        }
        tx.signal(Signal::Runner(id));
        look_up(tx, id).await
    };
    Ok(shown(&app.store.write(work).await?))
}

/// One that is gone already is not found.
pub async fn remove(app: &App, caller: &Caller, id: RunnerId) -> Answer<()> {
    let (scope, _) = find(app, caller, Right::Runners, id).await?;
    let actor = caller.actor();
    let work = async move |tx: &mut Tx<'_>| {
        tx.signal(Signal::Runner(id));
        let held = claims::leases_of(tx, id).await?;
        runners::unregister(tx, scope, &actor, id).await?;
        Ok(held)
    };
    let held = match app.store.write(work).await {
        Err(StoreError::Refused(Refusal::NotFound(_))) => Err(Failure::not_found("runner")),
        answer => Ok(answer?),
    }?;
    app.fleet.forget(id);
    register::give_all_back(app, id, held, "the runner was removed").await?;
    Ok(())
}

fn shown(listed: &Listed) -> api::Runner {
    let Listed { runner, org_name, pool_name } = listed;
    let capabilities = Capabilities::parse(&runner.about.capabilities).unwrap_or_default();
    let offer = capabilities.offer();
    let count = |number: i64| u64::try_from(number).unwrap_or_default();
    api::Runner {
        id: runner.id.0,
        slug: runner.id.slug(),
        name: runner.name.clone(),
        pool: pool_name.clone(),
        owner: org_name.clone(),
        status: status(runner).to_owned(),
        labels: offer.labels.clone(),
        os: runner.about.os.clone(),
        architecture: runner.about.architecture.clone(),
        cores: offer.cores,
        memory_mb: offer.memory_mb,
        disk_mb: offer.disk_mb,
        max_parallel: u32::try_from(runner.about.max_parallel).unwrap_or_default(),
        single_use: runner.about.single_use,
        version: runner.about.version.clone(),
        jobs: u32::try_from(runner.leases).unwrap_or_default(),
        completed: count(runner.completed),
        failed: count(runner.failed),
        speed: runner.speed,
        last_seen_at: runner.last_seen_at.rfc3339(),
        trouble: trouble(runner),
    }
}

fn status(runner: &Runner) -> &'static str {
    match runner.state {
        RunnerState::Forgotten => "forgotten",
        RunnerState::Offline => "offline",
        _ if runner.draining || runner.leaving => "draining",
        RunnerState::Busy => "busy",
        RunnerState::Online => "idle",
    }
}

/// Why it takes no jobs, as it says itself.
fn trouble(runner: &Runner) -> Option<String> {
    let health: serde_json::Value = serde_json::from_str(runner.health.as_deref()?).ok()?;
    let words = health.get("trouble").or_else(|| health.get("problem"))?.as_str()?;
    (!words.is_empty()).then(|| words.to_owned())
}
