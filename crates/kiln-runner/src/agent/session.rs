//! The runner's standing with its server: registered, with a token that is good for the next call.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kiln_proto::job::{Job, JobRef};
use kiln_proto::report::{Ended, Ends};
use kiln_proto::runner::{
    Capabilities, Claim, Heartbeat, HeartbeatAnswer, Jobs, Register, Registered, Unregistered,
};
use kiln_proto::version::{PROTOCOL, SEVERAL_AT_ONCE};

use super::AgentError;
use super::backoff::Backoff;
use super::http::{Answer, Body, Fault, Http};
use super::identity::Identity;
use super::seal::Keys;

/// What a runner says of itself when it registers.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) server: String,
    /// Whatever was kept is of this server.
    pub(super) beside: bool,
    pub(super) data: PathBuf,
    pub(super) key: Option<String>,
    pub(super) name: String,
    pub(super) capabilities: Capabilities,
    pub(super) single_use: bool,
}

/// Why a call of the session gave no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The server is away: the same again later.
    Later(String, Option<Duration>),
    /// It will never work.
    Fatal(AgentError),
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) http: Http,
    card: Card,
    state: Mutex<State>,
    /// Held while the runner registers, so that it does so once however many calls were refused.
    registering: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    identity: Option<std::sync::Arc<Identity>>,
    token: String,
    /// What an earlier process left, until the server was told.
    left: Option<Vec<JobRef>>,
    /// Of the server, since it registered this runner.
    protocol: u32,
}

/// A runner as the server knows it at the moment.
#[derive(Debug, Clone)]
struct Standing {
    id: i64,
    token: String,
}

impl Session {
    /// A runner that was registered before is known by what it kept, unless that is of another server.
    pub(super) fn new(http: Http, card: Card) -> Result<Self, AgentError> {
        let kept = Identity::load(&card.data).map_err(AgentError::Data)?;
        let is_of_it = |kept: &Identity| card.beside || kept.server == card.server;
        let identity = kept.filter(is_of_it).map(std::sync::Arc::new);
        if identity.is_none() && card.key.is_none() {
            return Err(AgentError::NoKey);
        }
        let state = Mutex::new(State { identity, ..State::default() });
        Ok(Self { http, card, state, registering: tokio::sync::Mutex::default() })
    }

    pub(super) fn identity(&self) -> Option<std::sync::Arc<Identity>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).identity.clone()
    }

    /// What the server speaks.
    pub(super) fn server_protocol(&self) -> u32 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).protocol
    }

    fn standing(&self) -> Option<Standing> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let id = state.identity.as_ref()?.id;
        (!state.token.is_empty()).then(|| Standing { id, token: state.token.clone() })
    }

    fn renew_token(&self, token: Option<String>) {
        if let Some(token) = token.filter(|token| !token.is_empty()) {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).token = token;
        }
    }

    /// Registers until it worked, or never can. Of whatever this runner had before and is not among the jobs
    /// that are `left`, nobody knows anything.
    pub(super) async fn register(&self, left: Vec<JobRef>) -> Result<(), AgentError> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).left = Some(left);
        let mut backoff = Backoff::default();
        loop {
            match self.register_once(None).await {
                Ok(_) => return Ok(()),
                Err(Trouble::Fatal(error)) => return Err(error),
                Err(Trouble::Later(why, after)) => {
                    let pause = backoff.pause(after);
                    tracing::warn!(why, "cannot register yet, trying again in {pause:?}");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Waits until no registration waits for its answer.
    pub(super) async fn has_asked(&self) {
        let _turn = self.registering.lock().await;
    }

    /// Registers, unless somebody has done so since the token that was refused.
    async fn register_once(&self, refused: Option<&Standing>) -> Result<Standing, Trouble> {
        let _turn = self.registering.lock().await;
        if let Some(now) = self.standing()
            && refused.is_none_or(|refused| refused.token != now.token)
        {
            return Ok(now);
        }
        if let Some(known) = self.identity() {
            match self.come_back(&known).await {
                Ok(registered) => return self.take(registered, None),
                Err(Fault::Away { why, after }) => return Err(Trouble::Later(why, after)),
                Err(fault @ Fault::Unknown(_)) if self.card.key.is_some() => {
                    tracing::warn!("the server does not know this runner any more ({fault})");
                }
                Err(fault) => return Err(refusal(&fault, false)),
            }
        }
        let keys = Keys::generate().map_err(|error| {
            Trouble::Fatal(AgentError::Data(format!("no random numbers: {error}")))
        })?;
        let body = Register {
            key: self.card.key.clone(),
            public_key: Some(keys.public()),
            ..self.introduction()
        };
        let answer = self.post_register(&body).await;
        match answer {
            Ok(registered) => self.take(registered, Some(keys)),
            Err(Fault::Away { why, after }) => Err(Trouble::Later(why, after)),
            Err(fault) => Err(refusal(&fault, true)),
        }
    }

    async fn come_back(&self, known: &Identity) -> Result<Registered, Fault> {
        let body = Register {
            id: Some(known.id),
            credential: Some(known.credential.clone()),
            public_key: Some(known.keys.public()),
            jobs: self.state.lock().unwrap_or_else(PoisonError::into_inner).left.clone(),
            ..self.introduction()
        };
        self.post_register(&body).await
    }

    fn introduction(&self) -> Register {
        Register {
            name: self.card.name.clone(),
            capabilities: self.card.capabilities.clone(),
            single_use: self.card.single_use,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            ..Register::default()
        }
    }

    async fn post_register(&self, body: &Register) -> Result<Registered, Fault> {
        let body = Body::of(body);
        let answer = self.http.post("/api/runners/register", None, body, Duration::ZERO).await?;
        answer.json()
    }

    /// Keeps what the server gave: a new runner has new keys and a credential.
    fn take(&self, registered: Registered, keys: Option<Keys>) -> Result<Standing, Trouble> {
        let Registered { id, name, credential, access_token, status, protocol, .. } = registered;
        self.state.lock().unwrap_or_else(PoisonError::into_inner).protocol = protocol;
        let damaged = |why: &str| Trouble::Fatal(AgentError::Data(why.to_owned()));
        let new = match (keys, credential) {
            (Some(keys), Some(credential)) => {
                let server = self.card.server.clone();
                Some(Identity { server, id, name: name.clone(), credential, keys })
            }
            (Some(_), None) => return Err(damaged("the server gave this runner no credential")),
            (None, _) => None,
        };
        if let Some(identity) = new {
            identity.save(&self.card.data).map_err(|error| {
                let data = self.card.data.display();
                damaged(&format!("cannot write `runner.json` into `{data}`: {error}"))
            })?;
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.identity = Some(std::sync::Arc::new(identity));
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner).left = None;
        self.renew_token(Some(access_token.clone()));
        tracing::info!(id, name, status, "registered");
        Ok(Standing { id, token: access_token })
    }

    /// A call in the name of the runner. A token that is not good any more is renewed.
    async fn call(
        &self,
        path: impl Fn(i64) -> String,
        body: &impl serde::Serialize,
        wait: Duration,
    ) -> Result<Answer, Trouble> {
        let mut standing = match self.standing() {
            Some(standing) => standing,
            None => self.register_once(None).await?,
        };
        // Twice at most: a server that refuses its own new token is not well.
        for _ in 0..2 {
            let (path, token) = (path(standing.id), Some(&*standing.token));
            match self.http.post(&path, token, Body::of(body), wait).await {
                Ok(answer) => {
                    self.renew_token(answer.access_token.clone());
                    return Ok(answer);
                }
                Err(Fault::Unknown(_)) => standing = self.register_once(Some(&standing)).await?,
                Err(Fault::Away { why, after }) => return Err(Trouble::Later(why, after)),
                Err(other) => return Err(Trouble::Later(other.to_string(), None)),
            }
        }
        Err(Trouble::Later("the server refuses the token that it just gave".to_owned(), None))
    }

    /// Asks for as many jobs as are wanted, of a server that gives several at once.
    pub(super) async fn claim(&self, claim: &Claim) -> Result<Vec<Job>, Trouble> {
        let wait = Duration::from_secs(claim.wait.into());
        let path = |id| format!("/actions/runners/{id}/jobs/claim");
        let want = if self.server_protocol() >= SEVERAL_AT_ONCE { claim.want } else { 1 };
        let claim = Claim { want, ..claim.clone() };
        let answer = self.call(path, &claim, wait).await?;
        if answer.is_empty() {
            return Ok(Vec::new());
        }
        // Another server than the one that registered this runner may answer, and be older.
        let several = answer.json().map(|several: Jobs| several.jobs);
        let jobs = several.or_else(|_| answer.json().map(|job| vec![job]));
        jobs.map_err(|fault| Trouble::Later(fault.to_string(), None))
    }

    /// Tells how several jobs ended. Without an answer perhaps none of it was heard; each can be told again.
    pub(super) async fn complete_all(&self, ends: &Ends) -> Option<Ended> {
        let knows = self.server_protocol() >= SEVERAL_AT_ONCE;
        let standing = self.standing().filter(|_| knows)?;
        let path = format!("/actions/runners/{}/jobs/complete", standing.id);
        let body = Body::of(ends);
        let answer = self.http.post(&path, Some(&standing.token), body, Duration::ZERO).await;
        answer.ok()?.json().ok()
    }

    pub(super) async fn heartbeat(
        &self,
        heartbeat: &Heartbeat,
    ) -> Result<HeartbeatAnswer, Trouble> {
        let wait = Duration::from_secs(heartbeat.wait.into());
        let path = |id| format!("/actions/runners/{id}/heartbeat");
        let answer = self.call(path, heartbeat, wait).await?;
        let answer: HeartbeatAnswer =
            answer.json().map_err(|fault| Trouble::Later(fault.to_string(), None))?;
        self.renew_token(Some(answer.access_token.clone()));
        Ok(answer)
    }

    /// Leaves the fleet. A runner that the server does not know has left already.
    pub(super) async fn unregister(&self) -> Result<u64, String> {
        let Some(identity) = self.identity() else { return Ok(0) };
        let token = match self.standing() {
            Some(standing) => standing.token,
            None => match self.come_back(&identity).await {
                Ok(registered) => registered.access_token,
                Err(Fault::Away { why, .. }) => return Err(why),
                Err(_) => return self.forget().map(|()| 0),
            },
        };
        let path = format!("/api/runners/{}/unregister", identity.id);
        let body = Body::Json(b"{}".to_vec());
        let answer = self.http.post(&path, Some(&token), body, Duration::ZERO).await;
        let returned = match answer {
            Ok(answer) => answer.json::<Unregistered>().unwrap_or_default().jobs_returned,
            Err(Fault::Unknown(_)) => 0,
            Err(fault) => return Err(fault.to_string()),
        };
        self.forget().map(|()| returned)
    }

    fn forget(&self) -> Result<(), String> {
        Identity::forget(&self.card.data).map_err(|error| error.to_string())
    }

    /// Gives a job back before it began. It is the server's anyway when its lease ends.
    pub(super) async fn give_back(&self, job: JobRef, token: &str, reason: &str) {
        let body = kiln_proto::report::GiveBack { reason: reason.to_owned() };
        let path = format!("/actions/jobs/{}/attempts/{}/return", job.job_id, job.attempt);
        let mut backoff = Backoff::default();
        while backoff.failures() < 4 {
            match self.http.post(&path, Some(token), Body::of(&body), Duration::ZERO).await {
                Err(Fault::Away { after, .. }) => tokio::time::sleep(backoff.pause(after)).await,
                _ => return,
            }
        }
    }
}

/// Why the server does not want this runner.
fn refusal(fault: &Fault, with_key: bool) -> Trouble {
    let message = fault.to_string();
    Trouble::Fatal(match fault {
        Fault::Refused { status: 403, .. } | Fault::Unknown(_) if with_key => {
            AgentError::KeyRefused(message)
        }
        Fault::Unknown(_) => AgentError::CredentialRefused(message),
        _ => AgentError::Refused(message),
    })
}
