//! The services that published actions expect, for one job: caches, artifacts, a few calls of GitHub's
//! REST interface, and words for who the job is.
//!
//! They are offered on loopback to whoever has the job's tokens, from the first action that could ask to
//! the end of the job. What the clients of GitHub say is understood here and nowhere else; behind it stand
//! [`Services`], which are folders of this machine in `kiln run` ([`local`]) and a server for its runners.

mod blobs;
mod cache_v1;
mod door;
mod grants;
pub mod local;
mod oidc;
mod passes;
mod request;
mod rest;
mod services;
mod spool;
#[cfg(test)]
mod tests;
mod token;
mod twirp;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use kiln_core::value::{Object, Value};

use crate::job::Task;
use crate::loopback::server::{self, Server};
use crate::process::Leader;

use door::Door;
pub(crate) use passes::Pass;
pub use services::{Kind, Reason, Refusal, Results, Services, Spooled, Stored};
use spool::Spool;
use token::Tokens;
pub(crate) use twirp::check_artifact_name;

/// What the gateway knows of its job.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "what a job may do, each for itself")]
pub(crate) struct Facts {
    /// `owner/name`.
    repository: String,
    default_branch: String,
    reference: String,
    run: String,
    /// The `GITHUB_TOKEN` of the job.
    token: String,
    /// It has `id-token: write`.
    may_identify: bool,
    /// It may find caches and not leave any.
    reads_caches_only: bool,
    /// It has `actions: write`.
    may_write_actions: bool,
    /// The token was given to the job by somebody who has an interface for it.
    elsewhere: bool,
}

impl Facts {
    pub(crate) fn of(task: &Task, elsewhere: bool) -> Self {
        let github = &task.contexts.github;
        let text = |name: &str| github.get(name).and_then(Value::as_str).unwrap_or_default();
        Self {
            repository: text("repository").to_owned(),
            default_branch: default_branch(github),
            reference: text("ref").to_owned(),
            run: text("run_id").to_owned(),
            token: text("token").to_owned(),
            may_identify: task.may_identify,
            reads_caches_only: task.reads_caches_only,
            may_write_actions: task.may_write_actions,
            elsewhere,
        }
    }
}

/// As far as the event tells, else the branch of the run.
fn default_branch(github: &Object) -> String {
    let told = github.path(&["event", "repository", "default_branch"]).and_then(Value::as_str);
    let own = github.get("ref_name").and_then(Value::as_str);
    let is_branch = github.get("ref_type").and_then(Value::as_str) == Some("branch");
    told.or_else(|| own.filter(|name| is_branch && !name.is_empty())).unwrap_or("main").to_owned()
}

/// The gateway of a job; it is not there before it is needed.
#[derive(Debug)]
pub(crate) struct Gateway {
    services: Arc<dyn Services>,
    facts: Facts,
    /// Where uploads lie until they are complete.
    directory: PathBuf,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    server: Server,
    door: Arc<Door>,
}

/// What an action is told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) variables: Vec<(&'static str, String)>,
    /// What must not be shown; empty unless it is new.
    pub(crate) secrets: Vec<String>,
    /// With what its process may ask who the job is, if the job may say so.
    pub(crate) pass: Option<Pass>,
}

impl Gateway {
    pub(crate) fn new(services: Arc<dyn Services>, facts: Facts, directory: PathBuf) -> Self {
        Self { services, facts, directory, running: Mutex::default() }
    }

    /// The variables by which an action finds the gateway, which is started if it is not there yet. They are for
    /// one process, which is about to start.
    pub(crate) fn tell(&self) -> Result<Told, String> {
        let failed = |error: io::Error| {
            format!("cannot offer caches and artifacts to actions on loopback: {error}")
        };
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = running.is_none();
        let running = match &mut *running {
            Some(running) => running,
            none => none.insert(self.start().map_err(failed)?),
        };
        let door = &running.door;
        let give = || door.passes.give(Leader::default());
        let pass = self.facts.may_identify.then(give).transpose().map_err(failed)?;
        let mut secrets: Vec<String> = pass.iter().map(|pass| pass.word().to_owned()).collect();
        if is_new {
            secrets.push(door.tokens.runtime.clone());
        }
        Ok(Told { variables: self.variables(door, pass.as_ref()), secrets, pass })
    }

    fn start(&self) -> io::Result<Running> {
        let door = Arc::new(Door::new(
            Arc::clone(&self.services),
            self.facts.clone(),
            Tokens::mint(&self.facts.run, &self.facts.reference)?,
            Spool::new(self.directory.clone())?,
        ));
        let theirs = Arc::clone(&door);
        let answer: Arc<server::Answer> = Arc::new(move |stream: &_| theirs.answer(stream));
        let server = Server::start("gateway", &answer)?;
        door.open_at(server.port());
        Ok(Running { server, door })
    }

    fn variables(&self, door: &Door, pass: Option<&Pass>) -> Vec<(&'static str, String)> {
        let base = door.address("");
        let mut all = vec![
            ("ACTIONS_RUNTIME_URL", base.clone()),
            ("ACTIONS_RUNTIME_TOKEN", door.tokens.runtime.clone()),
            ("ACTIONS_RESULTS_URL", base.clone()),
            ("ACTIONS_CACHE_URL", base),
            ("ACTIONS_CACHE_SERVICE_V2", "True".to_owned()),
        ];
        if self.facts.reads_caches_only {
            // So that clients that know of it do not pack what would be refused.
            all.push(("ACTIONS_CACHE_MODE", "read".to_owned()));
        }
        if let Some(pass) = pass {
            all.push(("ACTIONS_ID_TOKEN_REQUEST_URL", door.address(oidc::PATH_AND_QUERY)));
            all.push(("ACTIONS_ID_TOKEN_REQUEST_TOKEN", pass.word().to_owned()));
        }
        if !self.facts.elsewhere {
            let api = door.address(rest::BASE);
            all.push(("GITHUB_GRAPHQL_URL", format!("{api}/graphql")));
            all.push(("GITHUB_API_URL", api));
        }
        all
    }

    /// Ends it with every transfer under way; its tokens and addresses are good for nothing any more.
    pub(crate) fn stop(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { server, .. }) = running {
            server.stop();
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
    }
}
