//! The server's side of the protocol, in memory. What it should do wrong is told to it beforehand.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{post, put};
use axum::{Json, Router};
use kiln_proto::headers::ACCESS_TOKEN;
use kiln_proto::job::{Job, JobRef};
use kiln_proto::log::Line;
use kiln_proto::report::{Complete, Completed, Ended, Ends, Event, Events};
use kiln_proto::runner::{Claim, Command, Heartbeat, Jobs, Register};
use kiln_proto::version::{OLDEST, PROTOCOL};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

pub(super) const KEY: &str = "krk_the-key";

/// What goes wrong with the next call of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Nothing is done, and this is answered.
    Answer(u16),
    /// All is done, but the answer gets lost.
    Lost,
}

/// What a runner said of a job.
#[derive(Default, Clone)]
pub(super) struct Told {
    pub(super) log: Vec<u8>,
    pub(super) events: Vec<Event>,
    pub(super) complete: Option<Complete>,
    /// How many events came with the end.
    pub(super) along: usize,
    pub(super) returned: Option<String>,
    /// What its runner is to hear.
    pub(super) command: Option<Command>,
    /// It is not that runner's any more.
    pub(super) gone: bool,
    /// How many times something was said after that.
    pub(super) late: usize,
}

impl Told {
    /// What follows on the events that are there; else which it wants.
    fn hear(&mut self, events: Vec<Event>) -> Result<(), u64> {
        for event in events {
            let have = self.events.len() as u64;
            if event.sequence > have + 1 {
                return Err(have + 1);
            }
            if event.sequence == have + 1 {
                self.events.push(event);
            }
        }
        Ok(())
    }

    /// The conclusion, unless something before the end is missing.
    fn end(&mut self, mut said: Complete) -> Result<String, u64> {
        self.along = said.events.len();
        self.hear(std::mem::take(&mut said.events))?;
        if (self.events.len() as u64) < said.sequence {
            return Err(self.events.len() as u64 + 1);
        }
        if (self.log.len() as u64) < said.log_bytes {
            return Err(self.log.len() as u64);
        }
        assert!(self.complete.as_ref().is_none_or(|before| *before == said), "told otherwise");
        let conclusion = said.conclusion.clone();
        self.complete = Some(said);
        Ok(conclusion)
    }

    /// What its steps printed.
    pub(super) fn text(&self) -> String {
        let mut is_head = false;
        let all = self.all();
        let printed = all.lines().filter(|line| {
            is_head |= line.starts_with("##[group]Run ");
            let was_head = is_head;
            is_head &= *line != "##[endgroup]";
            !was_head
        });
        printed.flat_map(|line| [line, "\n"]).collect()
    }

    /// The text of its log.
    fn all(&self) -> String {
        let lines = self.log.split_inclusive(|byte| *byte == b'\n');
        let line = |line: &[u8]| {
            let line = Line::parse(line.strip_suffix(b"\n").expect("only whole lines are sent"));
            format!("{}\n", String::from_utf8_lossy(line.text))
        };
        lines.map(line).collect()
    }

    /// What happened, in the words of the protocol.
    pub(super) fn kinds(&self) -> Vec<String> {
        let kind = |event: &Event| {
            let value = serde_json::to_value(event).expect("it came as JSON");
            value["kind"].as_str().expect("it has one").to_owned()
        };
        self.events.iter().map(kind).collect()
    }
}

#[derive(Default)]
pub(super) struct World {
    pub(super) queue: VecDeque<Job>,
    pub(super) jobs: BTreeMap<i64, Told>,
    pub(super) wrong: HashMap<&'static str, VecDeque<Wrong>>,
    /// The calls of each kind.
    pub(super) calls: HashMap<&'static str, usize>,
    /// The credentials of runners, by id.
    pub(super) runners: BTreeMap<i64, String>,
    /// Tokens of an older epoch are not good any more.
    pub(super) epoch: u64,
    pub(super) registrations: Vec<Register>,
    pub(super) heartbeats: Vec<Heartbeat>,
    /// Speaks the first version of the protocol.
    pub(super) is_old: bool,
    /// Who registers gets the answer later.
    pub(super) holds_registrations: bool,
    /// What each question was answered.
    nonces: HashMap<String, Vec<Job>>,
}

impl World {
    fn protocol(&self) -> u32 {
        if self.is_old { OLDEST } else { PROTOCOL }
    }

    fn call(&mut self, kind: &'static str) -> Option<Wrong> {
        *self.calls.entry(kind).or_default() += 1;
        self.wrong.get_mut(kind)?.pop_front()
    }
}

struct Shared {
    world: Mutex<World>,
    changed: Notify,
}

pub(super) struct Fake {
    shared: Arc<Shared>,
    address: SocketAddr,
    runtime: Mutex<Option<Runtime>>,
}

impl Fake {
    pub(super) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { world: Mutex::default(), changed: Notify::new() });
        let fake = Self { shared, address, runtime: Mutex::default() };
        fake.serve(listener);
        fake
    }

    fn serve(&self, listener: TcpListener) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let router = Router::new()
            .route("/api/runners/register", post(register))
            .route("/api/runners/{id}/unregister", post(unregister))
            .route("/actions/runners/{id}/jobs/claim", post(claim))
            .route("/actions/runners/{id}/jobs/complete", post(complete_all))
            .route("/actions/runners/{id}/heartbeat", post(heartbeat))
            .route("/actions/jobs/{id}/attempts/{n}/log", put(log))
            .route("/actions/jobs/{id}/attempts/{n}/events", post(events))
            .route("/actions/jobs/{id}/attempts/{n}/complete", post(complete))
            .route("/actions/jobs/{id}/attempts/{n}/return", post(give_back))
            .with_state(Arc::clone(&self.shared));
        listener.set_nonblocking(true).unwrap();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router).await.unwrap();
        });
        *self.runtime.lock().unwrap() = Some(runtime);
    }

    pub(super) fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world.lock().unwrap()
    }

    pub(super) fn told(&self, job: i64) -> Told {
        self.world().jobs.get(&job).cloned().unwrap_or_default()
    }

    pub(super) fn queue(&self, job: Job) {
        self.world().queue.push_back(job);
        self.shared.changed.notify_waiters();
    }

    pub(super) fn command(&self, job: i64, command: Command) {
        self.world().jobs.entry(job).or_default().command = Some(command);
        self.shared.changed.notify_waiters();
    }

    pub(super) fn hold_registrations(&self, holds: bool) {
        self.world().holds_registrations = holds;
        self.shared.changed.notify_waiters();
    }

    pub(super) fn break_next(&self, kind: &'static str, wrong: Wrong) {
        self.world().wrong.entry(kind).or_default().push_back(wrong);
    }

    /// All connections end, and none is taken.
    pub(super) fn go_away(&self) {
        if let Some(runtime) = self.runtime.lock().unwrap().take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }

    pub(super) fn come_back(&self) {
        self.serve(TcpListener::bind(self.address).unwrap());
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.lock().unwrap().take() {
            runtime.shutdown_background();
        }
    }
}

type Server = State<Arc<Shared>>;

fn problem(status: u16, wanted: Option<u64>) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    let body = json!({
        "type": "about:blank", "title": "no", "status": status.as_u16(), "wanted": wanted,
        "detail": format!("answered {status} on purpose, or not"),
    });
    (status, Json(body)).into_response()
}

/// The answer to a call, unless something is to go wrong with it.
fn answer(wrong: Option<Wrong>, done: impl FnOnce() -> Response) -> Response {
    match wrong {
        Some(Wrong::Answer(status)) => problem(status, None),
        Some(Wrong::Lost) => {
            done();
            problem(502, None)
        }
        None => done(),
    }
}

fn bearer(headers: &HeaderMap) -> &str {
    let value = headers.get("authorization").and_then(|value| value.to_str().ok());
    value.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default()
}

fn token(world: &World, id: i64) -> String {
    format!("kra_{id}.{}", world.epoch)
}

async fn register(State(server): Server, Json(asked): Json<Register>) -> Response {
    let answer = registered(&server, &asked);
    loop {
        let changed = server.changed.notified();
        if !server.world.lock().unwrap().holds_registrations {
            return answer;
        }
        changed.await;
    }
}

fn registered(server: &Shared, asked: &Register) -> Response {
    let mut world = server.world.lock().unwrap();
    let wrong = world.call("register");
    answer(wrong, || {
        world.registrations.push(asked.clone());
        let known = asked.id.and_then(|id| world.runners.get(&id).cloned());
        if asked.credential.is_some() {
            if known != asked.credential {
                return problem(404, None);
            }
            let id = asked.id.unwrap();
            let body = json!({"id": id, "name": asked.name, "access_token": token(&world, id),
                "status": "re-registered", "protocol": world.protocol(), "heartbeat": 15, "lease": 60});
            return Json(body).into_response();
        }
        if asked.key.as_deref() != Some(KEY) {
            return problem(403, None);
        }
        let id = i64::try_from(world.registrations.len()).unwrap();
        world.runners.insert(id, format!("krc_{id}"));
        let body = json!({"id": id, "name": asked.name, "credential": format!("krc_{id}"),
            "access_token": token(&world, id), "status": "registered",
            "protocol": world.protocol(), "heartbeat": 15, "lease": 60});
        Json(body).into_response()
    })
}

async fn unregister(State(server): Server, Path(id): Path<i64>, headers: HeaderMap) -> Response {
    let mut world = server.world.lock().unwrap();
    let wrong = world.call("unregister");
    answer(wrong, || {
        if bearer(&headers) != token(&world, id) || world.runners.remove(&id).is_none() {
            return problem(404, None);
        }
        Json(json!({"jobs_returned": 0})).into_response()
    })
}

async fn claim(
    State(server): Server,
    Path(id): Path<i64>,
    headers: HeaderMap,
    Json(asked): Json<Claim>,
) -> Response {
    let until = tokio::time::Instant::now() + Duration::from_secs(asked.wait.into());
    loop {
        let changed = server.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        {
            let mut world = server.world.lock().unwrap();
            if !world.runners.contains_key(&id) {
                return problem(404, None);
            }
            if bearer(&headers) != token(&world, id) {
                return problem(401, None);
            }
            let given = world.nonces.get(&asked.nonce).cloned();
            let wrong = world.call("claim");
            // As the real one: who has said that it leaves gets nothing new.
            let is_leaving = world.heartbeats.last().is_some_and(|said| said.draining);
            let jobs = given.unwrap_or_else(|| {
                let is_done = is_leaving || matches!(wrong, Some(Wrong::Answer(_)));
                let want = if world.is_old { 1 } else { asked.want.max(1) };
                let most = if is_done { 0 } else { want as usize }.min(world.queue.len());
                world.queue.drain(..most).collect()
            });
            let over = tokio::time::Instant::now() >= until;
            if !jobs.is_empty() || wrong.is_some() || over {
                return answer(wrong, || {
                    let token = [(ACCESS_TOKEN, token(&world, id))];
                    if jobs.is_empty() {
                        return (StatusCode::NO_CONTENT, token).into_response();
                    }
                    world.nonces.insert(asked.nonce, jobs.clone());
                    for job in &jobs {
                        world.jobs.entry(job.job_id).or_default();
                    }
                    if asked.want > 1 && !world.is_old {
                        return (token, Json(Jobs { jobs })).into_response();
                    }
                    (token, Json(&jobs[0])).into_response()
                });
            }
        }
        let _ = tokio::time::timeout_at(until, changed).await;
    }
}

async fn heartbeat(
    State(server): Server,
    Path(id): Path<i64>,
    headers: HeaderMap,
    Json(said): Json<Heartbeat>,
) -> Response {
    let until = tokio::time::Instant::now() + Duration::from_secs(said.wait.into());
    loop {
        let changed = server.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        {
            let mut world = server.world.lock().unwrap();
            if bearer(&headers) != token(&world, id) || !world.runners.contains_key(&id) {
                return problem(401, None);
            }
            let wrong = world.call("heartbeat");
            world.heartbeats.push(said.clone());
            let heard = |job: &JobRef| {
                let told = world.jobs.get_mut(&job.job_id)?;
                if told.gone { Some(Command::Abandon(*job)) } else { told.command.take() }
            };
            let commands: Vec<Command> = said.jobs.iter().filter_map(heard).collect();
            if !commands.is_empty() || wrong.is_some() || tokio::time::Instant::now() >= until {
                let body = json!({"access_token": token(&world, id), "commands": commands});
                return answer(wrong, || Json(body).into_response());
            }
        }
        let _ = tokio::time::timeout_at(until, changed).await;
    }
}

/// Does something with what was told of a job, if the caller may speak of it.
fn about(
    server: &Shared,
    kind: &'static str,
    (job, attempt): (i64, u32),
    headers: &HeaderMap,
    done: impl FnOnce(&mut Told) -> Response,
) -> Response {
    let mut world = server.world.lock().unwrap();
    let wrong = world.call(kind);
    let Some(told) = world.jobs.get_mut(&job) else { return problem(404, None) };
    if !bearer(headers).starts_with(&format!("kjt_token-of-job-{job}-")) || attempt != 1 {
        return problem(401, None);
    }
    if told.gone {
        told.late += 1;
        return problem(409, None);
    }
    answer(wrong, || done(told))
}

async fn log(
    State(server): Server,
    Path(job): Path<(i64, u32)>,
    Query(query): Query<HashMap<String, usize>>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    about(&server, "log", job, &headers, |told| {
        let (from, have) = (query["from"], told.log.len());
        if from > have {
            return problem(409, Some(have as u64));
        }
        assert!(bytes.len() <= 1 << 20, "a piece is too large");
        let known = (have - from).min(bytes.len());
        assert_eq!(told.log[from..from + known], bytes[..known], "it is told otherwise now");
        told.log.extend_from_slice(&bytes[known..]);
        Json(json!({"offset": told.log.len()})).into_response()
    })
}

async fn events(
    State(server): Server,
    Path(job): Path<(i64, u32)>,
    headers: HeaderMap,
    Json(said): Json<Events>,
) -> Response {
    about(&server, "events", job, &headers, |told| match told.hear(said.events) {
        Err(wanted) => problem(409, Some(wanted)),
        Ok(()) => Json(json!({"sequence": told.events.len()})).into_response(),
    })
}

async fn complete(
    State(server): Server,
    Path(job): Path<(i64, u32)>,
    headers: HeaderMap,
    Json(said): Json<Complete>,
) -> Response {
    about(&server, "complete", job, &headers, |told| match told.end(said) {
        Err(wanted) => problem(409, Some(wanted)),
        Ok(conclusion) => Json(json!({"conclusion": conclusion})).into_response(),
    })
}

async fn complete_all(
    State(server): Server,
    Path(id): Path<i64>,
    headers: HeaderMap,
    Json(said): Json<Ends>,
) -> Response {
    let mut world = server.world.lock().unwrap();
    if bearer(&headers) != token(&world, id) {
        return problem(401, None);
    }
    let wrong = world.call("ends");
    answer(wrong, || {
        let ended = said.ends.into_iter().map(|end| {
            let told = world.jobs.get_mut(&end.job_id).filter(|told| !told.gone)?;
            let token = format!("kjt_token-of-job-{}-", end.job_id);
            let is_its = end.token.starts_with(&token) && end.attempt == 1;
            let conclusion = is_its.then(|| told.end(end.complete).ok()).flatten()?;
            Some(Completed { conclusion })
        });
        Json(Ended { ended: ended.collect() }).into_response()
    })
}

async fn give_back(
    State(server): Server,
    Path(job): Path<(i64, u32)>,
    headers: HeaderMap,
    Json(said): Json<kiln_proto::report::GiveBack>,
) -> Response {
    about(&server, "return", job, &headers, |told| {
        told.returned = Some(said.reason);
        StatusCode::NO_CONTENT.into_response()
    })
}
