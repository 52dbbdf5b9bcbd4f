//! Whether the server lives, and whether it can work.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use kiln_core::time::Timestamp;
use kiln_proto::problem::Problem;
use kiln_store::directory::runners::{self, RunnerState};
use kiln_store::{Duty, Page, Scope, Tx, claims};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use utoipa::ToSchema;

use super::error::{Answer, Failure};
use crate::app::{App, Shared};
use crate::http::routes::{Routes, routes};
use crate::{clock, token};

/// How long an answer about the database is good for.
const FRESH: Duration = Duration::from_secs(1);
/// How long the database may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many runners are counted.
const COUNTED: u32 = 1_000;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(health)).routes(routes!(ready)).routes(routes!(startup))
}

/// Which process this is, and what was found out about its database a moment ago.
#[derive(Debug)]
pub struct Probe {
    /// Names this process among several.
    pub instance: String,
    pub started: Timestamp,
    last: Mutex<Option<(Instant, Result<Work, String>)>>,
}

impl Probe {
    pub fn new() -> Self {
        let instance = token::random::<6>()
            .iter()
            .fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        Self { instance, started: clock::now(), last: Mutex::default() }
    }
}

impl Default for Probe {
    fn default() -> Self {
        Self::new()
    }
}

/// `GET /health`: the process lives.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: &'static str,
    pub instance: String,
    pub version: &'static str,
    pub started_at: String,
}

/// `GET /ready`: the server can work.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Ready {
    #[serde(flatten)]
    pub health: Health,
    #[serde(flatten)]
    pub work: Work,
}

/// How much there is to do, and who does it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Work {
    /// The schema of the database.
    pub schema: i64,
    /// Jobs that wait for a runner, counted up to 10,000.
    pub queued: u64,
    pub runners: Runners,
}

#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub struct Runners {
    pub idle: u64,
    pub busy: u64,
    pub offline: u64,
}

/// The process lives
#[utoipa::path(get, path = "/health", tag = "health", security(()),
    responses((status = 200, body = Health)))]
async fn health(State(app): State<Shared>) -> Json<Health> {
    Json(about(&app))
}

/// The server has started
#[utoipa::path(get, path = "/startup", tag = "health", security(()),
    responses((status = 200, body = Health)))]
async fn startup(State(app): State<Shared>) -> Json<Health> {
    // It listens before it can answer: whoever gets an answer sees that everything is open.
    Json(about(&app))
}

/// The server can work: the database answers, has the right schema, and nobody told the server to stop
#[utoipa::path(get, path = "/ready", tag = "health", security(()),
    responses((status = 200, body = Ready), (status = 503, description = "not now, and why", body = Problem)))]
async fn ready(State(app): State<Shared>) -> Answer<Json<Ready>> {
    if app.stopping.is_cancelled() {
        return Err(Failure::unavailable("the server is stopping"));
    }
    let mut last = app.probe.last.lock().await;
    let fresh = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH);
    let found = match fresh {
        Some((_, found)) => found.clone(),
        None => {
            let found = look(&app).await;
            *last = Some((Instant::now(), found.clone()));
            found
        }
    };
    drop(last);
    let work =
        found.map_err(|why| Failure::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", why))?;
    Ok(Json(Ready { health: about(&app), work }))
}

fn about(app: &App) -> Health {
    Health {
        status: "ok",
        instance: app.probe.instance.clone(),
        version: env!("CARGO_PKG_VERSION"),
        started_at: app.probe.started.rfc3339(),
    }
}

async fn look(app: &App) -> Result<Work, String> {
    let late = || format!("the database did not answer within {} s", PATIENCE.as_secs());
    let looked = async {
        app.store.check().map_err(|error| error.to_string())?;
        let status = app.store.status().await.map_err(|error| error.to_string())?;
        if status.version < status.newest {
            return Err(format!(
                "the database has schema {}, not {}",
                status.version, status.newest
            ));
        }
        let work = async move |tx: &mut Tx<'_>| work(tx, status.version).await;
        app.store.read(work).await.map_err(|error| error.to_string())
    };
    timeout(PATIENCE, looked).await.map_err(|_| late())?
}

async fn work(tx: &mut Tx<'_>, schema: i64) -> Result<Work, kiln_store::StoreError> {
    let scope = Scope::System(Duty::Administration);
    let queues: Vec<_> = claims::queues(tx).await?.into_iter().map(|(queue, _)| queue).collect();
    let queued = claims::waiting_count(tx, &queues, None).await?;
    let mut counts = Runners::default();
    for listed in runners::list_all(tx, scope, Page::first(COUNTED)).await? {
        match listed.runner.state {
            RunnerState::Online => counts.idle += 1,
            RunnerState::Busy => counts.busy += 1,
            RunnerState::Offline | RunnerState::Forgotten => counts.offline += 1,
        }
    }
    Ok(Work { schema, queued, runners: counts })
}
