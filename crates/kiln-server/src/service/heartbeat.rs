//! A runner says what it has, and hears what it should do.

use std::collections::HashMap;
use std::time::Duration;

use kiln_core::id::JobId;
use kiln_proto::job::JobRef;
use kiln_proto::runner::{Command, HEARTBEAT, Heartbeat, HeartbeatAnswer};
use kiln_store::claims::{self, Beat, Held};
use kiln_store::directory::runners;
use kiln_store::{Duty, Scope, StoreError, Tx};
use tokio::time::{Instant, timeout_at};

use super::register::access_token;
use crate::app::App;
use crate::fleet::Member;
use crate::http::error::{Answer, Failure};

/// A runner has no more jobs at once than this.
const MOST_JOBS: usize = 10_000;
/// How many characters of a trouble are kept.
const LONGEST_TROUBLE: usize = 1_000;
const DUTY: Scope = Scope::System(Duty::Claims);

/// Renews leases. The answer waits until there is something new to say, or the time is over.
pub async fn heartbeat(app: &App, member: &Member, said: Heartbeat) -> Answer<HeartbeatAnswer> {
    if said.jobs.len() > MOST_JOBS {
        return Err(Failure::invalid(format!("jobs: expected {MOST_JOBS} at most")));
    }
    let id = member.runner.id;
    // A runner that asks again after each answer is heard several times while a lease lasts.
    let most = Duration::from_secs(HEARTBEAT.into()).min(claims::lease_lasts() / 4);
    let until = Instant::now() + Duration::from_secs(said.wait.into()).min(most);
    let mut nudges = app.fleet.nudges(id);
    keep_health(app, member, &said).await?;
    let mut states = renew(app, member, &said.jobs).await?;
    loop {
        let member = app.fleet.member(id).await?;
        let mut commands = states;
        commands.extend(member.runner.draining.then_some(Command::Drain));
        let is_over = Instant::now() >= until || app.stopping.is_cancelled();
        if app.fleet.tell(id, &commands) || is_over {
            let queue_size = app.fleet.queue_size(&member, member.queues()).await?;
            let access_token = access_token(app, id, member.runner.epoch);
            return Ok(HeartbeatAnswer { access_token, commands, queue_size });
        }
        tokio::select! {
            _ = timeout_at(until, nudges.changed()) => {}
            () = app.stopping.cancelled() => {}
        }
        nudges.mark_unchanged();
        states = look(app, member.runner.id, &said.jobs).await?;
    }
}

/// Renews the leases of these jobs, and says what the runner should do about them.
async fn renew(app: &App, member: &Member, jobs: &[JobRef]) -> Answer<Vec<Command>> {
    if jobs.is_empty() {
        app.fleet.seen(member.runner.id);
        return Ok(Vec::new());
    }
    let held = jobs.iter().map(|job| (JobId(job.job_id), job.attempt)).collect();
    let pulse = app.traffic.beat(Beat { runner: member.runner.id, held }).await;
    if pulse.as_ref().is_err_and(StoreError::concerns_all) {
        app.board.unheard();
    }
    let command = |(job, held): (&JobRef, Held)| match held {
        Held::Renewed { command, .. } => command.map(|command| told(command, *job)),
        Held::Gone => Some(Command::Abandon(*job)),
    };
    Ok(jobs.iter().zip(pulse?).filter_map(command).collect())
}

/// The same without renewing anything: a runner renews when it asks, not when we look.
async fn look(app: &App, runner: kiln_core::id::RunnerId, jobs: &[JobRef]) -> Answer<Vec<Command>> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let read = async move |tx: &mut Tx<'_>| claims::leases_of(tx, runner).await;
    let leases: HashMap<(i64, u32), Option<claims::Command>> = app
        .store
        .read(read)
        .await?
        .into_iter()
        .map(|lease| ((lease.job.0, lease.claim), lease.command))
        .collect();
    let command = |job: &JobRef| match leases.get(&(job.job_id, job.attempt)) {
        Some(command) => command.map(|command| told(command, *job)),
        None => Some(Command::Abandon(*job)),
    };
    Ok(jobs.iter().filter_map(command).collect())
}

fn told(command: claims::Command, job: JobRef) -> Command {
    match command {
        claims::Command::Cancel => Command::Cancel(job),
        claims::Command::Kill => Command::Kill(job),
    }
}

/// A runner that leaves, or has trouble, gets nothing more. How it does is written now and then.
async fn keep_health(app: &App, member: &Member, said: &Heartbeat) -> Answer<()> {
    let id = member.runner.id;
    let leaving = said.draining || said.health.trouble.is_some();
    if leaving == member.runner.leaving && !app.fleet.is_due(id) {
        return Ok(());
    }
    let mut health = said.health.clone();
    health.trouble = health.trouble.map(|text| text.chars().take(LONGEST_TROUBLE).collect());
    let health = serde_json::to_string(&health).map_err(Failure::internal)?;
    let work =
        async move |tx: &mut Tx<'_>| runners::set_health(tx, DUTY, id, &health, leaving).await;
    app.store.write(work).await?;
    app.fleet.forget(id);
    Ok(())
}
