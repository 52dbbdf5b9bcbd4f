//! Runners come and go.

use std::time::Duration;

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kiln_core::id::{JobId, OrgId, RunnerId};
use kiln_core::queue::{Capabilities, Offer};
use kiln_proto::job::JobRef;
use kiln_proto::runner::{self as wire, HEARTBEAT, Register, Registered};
use kiln_proto::version::{OLDEST, PROTOCOL};
use kiln_store::claims::{self, Lease};
use kiln_store::directory::runners::{About, NewRunner};
use kiln_store::directory::{registration_keys, runners};
use kiln_store::runs::{Answer as Became, Happened, JobNews, Word};
use kiln_store::{Actor, ActorKind, Duty, Refusal, Scope, StoreError, Tx};

use crate::app::App;
use crate::clock;
use crate::http::error::{Answer, Failure};
use crate::seal::PUBLIC_KEY;
use crate::token::{self, Access, Kind, Secret};

/// How long an access token is good.
const ACCESS: Duration = Duration::from_secs(90);
/// How a runner may run steps.
const BACKENDS: [&str; 5] = ["host", "sandbox", "container", "vm", "dummy"];
const DUTY: Scope = Scope::System(Duty::Authentication);

/// Lets a new runner in with a key, or an old one with its credential.
pub async fn register(app: &App, asked: Register) -> Answer<Registered> {
    check_protocol(asked.protocol)?;
    let about = about(&asked)?;
    match (asked.id, asked.credential.as_deref(), asked.key.as_deref()) {
        (Some(id), Some(credential), _) => {
            again(app, RunnerId(id), credential, about, asked.jobs).await
        }
        (Some(_), None, _) => Err(missing("credential", "the one that came with the id")),
        (None, Some(_), _) => Err(missing("id", "the one that the credential belongs to")),
        (None, None, None) => Err(missing("key", "a registration key, or `id` and `credential`")),
        (None, None, Some(key)) => {
            let name = required("name", &asked.name)?.to_owned();
            let (id, credential) = enter(app, key, &name, about).await?;
            let credential = Some(credential.reveal().to_owned());
            answer(app, id, name, credential, "registered").await
        }
    }
}

fn check_protocol(protocol: u32) -> Answer<()> {
    if protocol >= OLDEST {
        return Ok(());
    }
    let detail = format!(
        "protocol: this server speaks the versions {OLDEST} to {PROTOCOL}, the runner {protocol}; \
         install a newer runner"
    );
    Err(Failure::new(StatusCode::UPGRADE_REQUIRED, "upgrade-required", detail))
}

fn missing(field: &str, expected: &str) -> Failure {
    Failure::invalid(format!("{field}: missing; expected {expected}"))
}

fn required<'t>(field: &str, text: &'t str) -> Answer<&'t str> {
    if text.trim().is_empty() { Err(missing(field, "a text that is not empty")) } else { Ok(text) }
}

/// What a runner says about itself, checked.
fn about(asked: &Register) -> Answer<About> {
    let said = &asked.capabilities;
    if let Some(odd) = said.backends.iter().find(|word| !BACKENDS.contains(&word.as_str())) {
        let known = BACKENDS.join("`, `");
        let detail = format!("capabilities.backends: `{odd}` is unknown; expected `{known}`");
        return Err(Failure::invalid(detail));
    }
    let key = asked.public_key.as_deref().ok_or_else(|| missing("public_key", PUBLIC_KEY_WORDS))?;
    let key = BASE64.decode(key).ok().filter(|key| key.len() == PUBLIC_KEY);
    let key =
        key.ok_or_else(|| Failure::invalid(format!("public_key: expected {PUBLIC_KEY_WORDS}")))?;
    Ok(About {
        capabilities: capabilities(said)?,
        max_parallel: said.max_parallel.max(1).into(),
        single_use: asked.single_use,
        os: required("capabilities.os", &said.os)?.to_owned(),
        architecture: required("capabilities.architecture", &said.architecture)?.to_owned(),
        version: required("version", &asked.version)?.to_owned(),
        protocol: asked.protocol.into(),
        public_key: Some(key),
    })
}

const PUBLIC_KEY_WORDS: &str = "32 bytes of X25519 in base64, to which secrets are sealed";

/// The kept form: what matching needs, and how it runs steps.
fn capabilities(said: &wire::Capabilities) -> Answer<String> {
    let offer = Offer {
        labels: said.labels.clone(),
        pool: None,
        systems: said.systems.clone(),
        features: said.features.clone(),
        tools: said.tools.clone(),
        cores: said.cores,
        memory_mb: said.memory_mb,
        disk_mb: said.disk_mb,
    };
    let wrong = |error| Failure::invalid(format!("capabilities: {error}"));
    let canonical = Capabilities::new(offer).map_err(wrong)?;
    let mut kept = serde_json::to_value(canonical.offer()).map_err(Failure::internal)?;
    kept["backends"] = said.backends.clone().into();
    Ok(kept.to_string())
}

/// Spends the key and makes the runner, both or neither.
pub(super) async fn enter(
    app: &App,
    key: &str,
    name: &str,
    about: About,
) -> Answer<(RunnerId, Secret)> {
    let secret = Secret::new(Kind::RunnerCredential);
    let (hash, credential, name) = (token::hash(key), secret.hash(), name.to_owned());
    let allow_host = app.config.allow_shared_host;
    let work = async move |tx: &mut Tx<'_>| {
        let actor = Actor::new(ActorKind::Runner, &name);
        let key = registration_keys::spend(tx, DUTY, &actor, &hash).await?;
        check_shared(key.org, &about, allow_host)?;
        let (name, credential, about) = (name.clone(), credential.clone(), about.clone());
        let new = NewRunner { pool: key.pool, name, credential, about };
        runners::register(tx, DUTY, &actor, new).await
    };
    match app.store.write(work).await {
        Ok(id) => Ok((id, secret)),
        Err(StoreError::Refused(Refusal::NotFound("registration key"))) => Err(Failure::forbidden(
            "there is no such registration key; make one with `kiln runners key`",
        )),
        Err(error) => Err(error.into()),
    }
}

/// Whoever shares a host can see the jobs of others on it, unless each job has its own.
fn check_shared(org: Option<OrgId>, about: &About, allow_host: bool) -> Result<(), StoreError> {
    let kept: serde_json::Value = serde_json::from_str(&about.capabilities).unwrap_or_default();
    let backends = kept["backends"].as_array().map_or(&[][..], Vec::as_slice);
    let on_host = backends.is_empty() || backends.iter().any(|word| word == "host");
    if org.is_some() || about.single_use || allow_host || !on_host {
        return Ok(());
    }
    let why = "capabilities.backends: all organizations share this pool, and a runner that runs steps on its host \
               would let their jobs see each other; use a key of `kiln runners key --owner NAME`, start the \
               runner with `--once`, or set `allow_shared_host = true` on the server";
    Err(Refusal::Denied(why.to_owned()).into())
}

async fn again(
    app: &App,
    id: RunnerId,
    credential: &str,
    about: About,
    jobs: Option<Vec<JobRef>>,
) -> Answer<Registered> {
    let name = return_with(app, id, credential, about).await?;
    if let Some(known) = jobs {
        forgotten(app, id, &known).await?;
    }
    answer(app, id, name, None, "re-registered").await
}

/// A runner comes back and keeps what it has. Says how it is called.
pub(super) async fn return_with(
    app: &App,
    id: RunnerId,
    credential: &str,
    about: About,
) -> Answer<String> {
    let hash = token::hash(credential);
    let allow_host = app.config.allow_shared_host;
    let work = async move |tx: &mut Tx<'_>| {
        let actor = Actor::new(ActorKind::Runner, id.slug());
        runners::register_again(tx, DUTY, &actor, id, &hash, about.clone()).await?;
        let runner = runners::get(tx, DUTY, id).await?;
        check_shared(runner.org, &about, allow_host)?;
        Ok(runner.name)
    };
    let name = app.store.write(work).await?;
    app.fleet.forget(id);
    Ok(name)
}

/// A runner that was started anew does not know what it claimed last if it died before that was written down.
/// Nobody waits for a lease to find out.
async fn forgotten(app: &App, runner: RunnerId, known: &[JobRef]) -> Answer<()> {
    let held = async move |tx: &mut Tx<'_>| claims::leases_of(tx, runner).await;
    let mut held = app.store.read(held).await?;
    let is_of =
        |lease: &Lease, job: &JobRef| job.job_id == lease.job.0 && job.attempt == lease.claim;
    held.retain(|lease| !known.iter().any(|job| is_of(lease, job)));
    give_all_back(app, runner, held, "the runner was started anew and knows nothing of it").await?;
    Ok(())
}

async fn answer(
    app: &App,
    id: RunnerId,
    name: String,
    credential: Option<String>,
    status: &str,
) -> Answer<Registered> {
    let member = app.fleet.member(id).await?;
    Ok(Registered {
        id: id.0,
        name,
        credential,
        access_token: access_token(app, id, member.runner.epoch),
        status: status.to_owned(),
        protocol: PROTOCOL,
        heartbeat: HEARTBEAT,
        lease: u32::try_from(claims::lease_lasts().as_secs()).unwrap_or(u32::MAX),
    })
}

/// A fresh token for a runner.
pub fn access_token(app: &App, runner: RunnerId, epoch: i64) -> String {
    app.signer.access(Access { runner, epoch, until: clock::now() + ACCESS })
}

/// The runner goes; what it has goes back to the queue. Says how many jobs that were.
pub async fn unregister(app: &App, id: RunnerId) -> Answer<u64> {
    let work = async move |tx: &mut Tx<'_>| {
        let actor = Actor::new(ActorKind::Runner, id.slug());
        let held = claims::leases_of(tx, id).await?;
        // First of all, so that it gets nothing more.
        runners::unregister(tx, DUTY, &actor, id).await?;
        Ok(held)
    };
    let held = app.store.write(work).await?;
    app.fleet.forget(id);
    give_all_back(app, id, held, "the runner has left").await
}

/// Gives back what a runner had; says how many jobs that were.
pub(super) async fn give_all_back(
    app: &App,
    runner: RunnerId,
    held: Vec<Lease>,
    reason: &str,
) -> Answer<u64> {
    let mut returned = 0;
    for lease in held {
        returned += u64::from(give_back(app, lease.job, lease.claim, runner, reason).await?);
    }
    Ok(returned)
}

/// Gives a job back: for nothing if it was not begun, else as one that was lost.
async fn give_back(
    app: &App,
    job: JobId,
    claim: u32,
    runner: RunnerId,
    reason: &str,
) -> Answer<bool> {
    for word in [Word::Returned, Word::Lost { reason: reason.to_owned() }] {
        let news = JobNews { job, claim: Some(claim), runner: Some(runner), word, heard: None };
        if app.traffic.happened(Happened::Job(news)).await? == Became::Accepted {
            return Ok(true);
        }
    }
    Ok(false)
}
