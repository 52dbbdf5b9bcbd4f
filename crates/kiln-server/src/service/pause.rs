//! S22: the server, a queue or a repository is paused, and goes on again.

use std::collections::BTreeMap;

use kiln_core::access::Right;
use kiln_core::id::{OrgId, QueueId};
use kiln_core::queue::{Capabilities, Demand, matches};
use kiln_proto::api;
use kiln_store::directory::runners::{self, Runner, RunnerState};
use kiln_store::directory::{queues, repositories, settings};
use kiln_store::{Page, Refusal, Scope, StoreError, Tx};

use super::repos;
use super::runs::FIND;
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::Answer;

/// What can be paused.
#[derive(Debug, Clone)]
pub enum What {
    Server,
    Queue(QueueId),
    /// By its full name.
    Repo(String),
}

pub async fn pause(app: &App, caller: &Caller, what: What, reason: String) -> Answer<()> {
    let actor = caller.actor();
    match what {
        What::Server => {
            let scope = caller.require(Right::Admin, None, "server")?;
            let work = async move |tx: &mut Tx<'_>| {
                settings::pause_server(tx, scope, &actor, &reason).await
            };
            app.store.write(work).await?;
        }
        What::Queue(id) => {
            let scope = may_touch(app, caller, id).await?;
            let work =
                async move |tx: &mut Tx<'_>| queues::pause(tx, scope, &actor, id, &reason).await;
            app.store.write(work).await?;
        }
        What::Repo(name) => {
            let (repo, _) = repos::find(app, caller, Right::Write, &name).await?;
            let (scope, id) = (Scope::Org(repo.org), repo.id);
            let work = async move |tx: &mut Tx<'_>| {
                repositories::pause(tx, scope, &actor, id, &reason).await
            };
            app.store.write(work).await?;
        }
    }
    Ok(())
}

pub async fn resume(app: &App, caller: &Caller, what: What) -> Answer<()> {
    let actor = caller.actor();
    match what {
        What::Server => {
            let scope = caller.require(Right::Admin, None, "server")?;
            let work =
                async move |tx: &mut Tx<'_>| settings::resume_server(tx, scope, &actor).await;
            app.store.write(work).await?;
        }
        What::Queue(id) => {
            let scope = may_touch(app, caller, id).await?;
            let work = async move |tx: &mut Tx<'_>| queues::resume(tx, scope, &actor, id).await;
            app.store.write(work).await?;
        }
        What::Repo(name) => {
            let (repo, _) = repos::find(app, caller, Right::Write, &name).await?;
            let (scope, id) = (Scope::Org(repo.org), repo.id);
            let work =
                async move |tx: &mut Tx<'_>| repositories::resume(tx, scope, &actor, id).await;
            app.store.write(work).await?;
        }
    }
    Ok(())
}

/// A queue may serve several organizations, so it is for an administrator of the installation; whoever has
/// no jobs in it does not know of it.
async fn may_touch(app: &App, caller: &Caller, id: QueueId) -> Answer<Scope> {
    let scopes = caller.scopes(Right::Read);
    let work = async move |tx: &mut Tx<'_>| {
        for scope in &scopes {
            match queues::get(tx, *scope, id).await {
                Err(StoreError::Refused(Refusal::NotFound(_))) => {}
                answer => return answer.map(|_| ()),
            }
        }
        Err(Refusal::NotFound("queue").into())
    };
    app.store.read(work).await?;
    caller.require(Right::Admin, None, "queue")
}

/// What is paused, as far as it concerns the caller.
pub async fn paused(app: &App, caller: &Caller) -> Answer<api::Paused> {
    let pause = app.store.read(async |tx: &mut Tx<'_>| settings::server_pause(tx).await).await?;
    let (mut paused_queues, mut page) = (Vec::new(), Page::first(Page::LARGEST));
    loop {
        let piece = queues(app, caller, page).await?;
        let Some(last) = piece.last() else { break };
        page.after = Some(last.id);
        paused_queues.extend(piece.into_iter().filter(|queue| queue.paused.is_some()));
    }
    let (mut paused_repos, mut page) = (Vec::new(), Page::first(Page::LARGEST));
    loop {
        let piece = repos::list(app, caller, page).await?;
        let Some((last, _)) = piece.last() else { break };
        page.after = Some(last.id.0);
        paused_repos
            .extend(piece.iter().filter(|(repo, _)| repo.paused.is_some()).map(repos::shown));
    }
    Ok(api::Paused {
        server: pause.map(|pause| format!("{}: {}", pause.by, pause.reason)),
        queues: paused_queues,
        repos: paused_repos,
    })
}

/// The queues that the caller's jobs wait in, by age, with the runners that could serve them.
pub async fn queues(app: &App, caller: &Caller, page: Page) -> Answer<Vec<api::Queue>> {
    let scopes = caller.scopes(Right::Read);
    let work = async move |tx: &mut Tx<'_>| {
        let mut found: BTreeMap<i64, api::Queue> = BTreeMap::new();
        let fleet = fleet(tx).await?;
        for scope in &scopes {
            for queue in queues::list(tx, *scope, page).await? {
                let able = fleet.iter().filter(|(org, one)| {
                    let seen = match scope {
                        Scope::Org(own) => org.is_none_or(|org| org == *own),
                        Scope::System(_) => true,
                    };
                    seen && matches(&queue.requirements, one)
                });
                let able = able.count();
                let entry = found.entry(queue.id.0).or_insert_with(|| api::Queue {
                    id: queue.id.0,
                    requirements: words(queue.requirements.demand()),
                    waiting: 0,
                    runners: able as u64,
                    paused: queue.paused.clone(),
                });
                entry.waiting += queue.waiting;
            }
        }
        Ok(found.into_values().take(page.limit as usize).collect())
    };
    Ok(app.store.read(work).await?)
}

/// What the live runners can do, and whose they are.
async fn fleet(tx: &mut Tx<'_>) -> Result<Vec<(Option<OrgId>, Capabilities)>, StoreError> {
    let able = |runner: Runner| {
        let is_there = matches!(runner.state, RunnerState::Online | RunnerState::Busy);
        let capabilities = Capabilities::parse(&runner.about.capabilities).ok()?;
        (is_there && !runner.draining).then_some((runner.org, capabilities))
    };
    let (mut fleet, mut page) = (Vec::new(), Page::first(Page::LARGEST));
    loop {
        let piece = runners::list_all(tx, FIND, page).await?;
        let Some(last) = piece.last() else { return Ok(fleet) };
        page.after = Some(last.runner.id.0);
        fleet.extend(piece.into_iter().filter_map(|listed| able(listed.runner)));
    }
}

/// What a queue asks of a runner, for people.
fn words(demand: &Demand) -> String {
    let mut parts = Vec::new();
    let mut list = |what: &str, words: &[String]| {
        if !words.is_empty() {
            parts.push(format!("{what} {}", words.join(", ")));
        }
    };
    list("labels", &demand.labels);
    list("pool", demand.pool.as_slice());
    list("system", demand.system.as_slice());
    list("features", &demand.features);
    list("tools", &demand.tools);
    let least = [
        ("cores", demand.min_cores.map(u64::from)),
        ("MB of memory", demand.min_memory_mb),
        ("MB of disk", demand.min_disk_mb),
    ];
    for (what, least) in least {
        parts.extend(least.map(|least| format!("at least {least} {what}")));
    }
    if parts.is_empty() { "any runner".to_owned() } else { parts.join("; ") }
}
