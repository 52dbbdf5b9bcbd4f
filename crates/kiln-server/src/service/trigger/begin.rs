//! Runs are made of what was decided, all in one transaction.

use std::sync::Arc;
use std::time::Duration;

use kiln_core::id::{RunId, WorkflowId};
use kiln_core::plan::Plan;
use kiln_core::queue::Class;
use kiln_core::value::{Object, Value};
use kiln_lang::engine::run_name;
use kiln_lang::{dispatch, github};
use kiln_proto::api;
use kiln_store::directory::audit;
use kiln_store::directory::workflows::{self, FoundWorkflow};
use kiln_store::runs::{Created, NewFailedRun, NewRun, Runs};
use kiln_store::{Actor, Scope, StoreError, Tx};
use serde_json::json;

use super::trust::trust_of;
use super::{Happening, Wanted, payload};
use crate::app::App;
use crate::auth::Caller;
use crate::http::addresses::GITHUB;
use crate::http::error::Answer;
use crate::service::context::Context;
use crate::sources::Workflow;

/// A run that a trigger made, or had made before.
#[derive(Debug, Clone)]
pub struct Started {
    pub run: RunId,
    pub workflow: String,
    pub existed: bool,
    /// Why it could not start.
    pub problem: Option<String>,
}

/// What the transaction needs; it may be run more than once.
struct Work {
    runs: Runs,
    actor: Actor,
    public_url: String,
    happening: Happening,
    wanted: Vec<Wanted>,
}

pub(super) async fn begin(
    app: &App,
    caller: &Caller,
    happening: Happening,
    wanted: Vec<Wanted>,
) -> Answer<(Vec<Started>, Vec<api::SkippedWorkflow>)> {
    if wanted.is_empty() {
        return Ok((Vec::new(), Vec::new()));
    }
    let work = Arc::new(Work {
        runs: app.runs.clone(),
        actor: caller.actor(),
        public_url: app.config.public_url.clone(),
        happening,
        wanted,
    });
    let alone = work.wanted.len() == 1;
    let all = async move |tx: &mut Tx<'_>| {
        let (mut started, mut skipped) = (Vec::new(), Vec::new());
        for wanted in &work.wanted {
            match work.one(tx, wanted).await {
                Ok(one) => started.push(one),
                // One that is disabled, or asks for too much, does not keep the others from starting.
                Err(StoreError::Refused(refusal)) if !alone => {
                    let workflow = work.happening.snapshot.files[wanted.at].path.clone();
                    skipped.push(api::SkippedWorkflow { workflow, reason: refusal.to_string() });
                }
                Err(error) => return Err(error),
            }
        }
        work.remember(tx, &started).await?;
        Ok((started, skipped))
    };
    Ok(app.store.write(all).await?)
}

impl Work {
    /// The key of the caller is for this request from now on. Where it was for another, nothing starts.
    async fn remember(&self, tx: &mut Tx<'_>, started: &[Started]) -> Result<(), StoreError> {
        let (asked, repo) = (&self.happening.asked, self.happening.place.repo.id);
        let (Some(key), Some(first)) = (&asked.key, started.first()) else { return Ok(()) };
        kiln_store::runs::asked(tx, repo, key, &asked.request(), first.run).await
    }

    async fn one(&self, tx: &mut Tx<'_>, wanted: &Wanted) -> Result<Started, StoreError> {
        let (repo, file) = (&self.happening.place.repo, &self.happening.snapshot.files[wanted.at]);
        let scope = Scope::Org(repo.org);
        let found = FoundWorkflow {
            path: file.path.clone(),
            name: file.name.clone(),
            triggers: file.events(),
        };
        let workflow = workflows::upsert(tx, scope, &self.actor, repo.id, found).await?;
        let number = workflows::coming_run_number(tx, scope, workflow).await?;
        let new = self.run_of(file, workflow, number, &wanted.inputs);
        let (created, problem) = match (&file.plan, new) {
            (Ok(_), Ok(new)) => (self.runs.create_in(tx, &new).await?, None),
            (_, Ok(run)) => {
                let note = file.plan.as_ref().err().cloned().unwrap_or_default();
                self.failed(tx, run, note).await?
            }
            (_, Err(failed)) => {
                let (run, note) = *failed;
                self.failed(tx, run, note).await?
            }
        };
        if let Created::New(run) = created {
            let Happening { event, reference, commit, .. } = &self.happening;
            let detail = json!({
                "event": event, "workflow": file.path, "ref": reference, "sha": commit,
            });
            audit::done(tx, &self.actor, repo.org, "run.create", run.0, detail).await?;
        }
        Ok(Started {
            run: created.run(),
            workflow: file.path.clone(),
            existed: matches!(created, Created::Before(_)),
            problem,
        })
    }

    async fn failed(
        &self,
        tx: &mut Tx<'_>,
        run: NewRun,
        note: String,
    ) -> Result<(Created, Option<String>), StoreError> {
        let new = NewFailedRun { run, note: note.clone() };
        Ok((self.runs.create_failed_in(tx, &new).await?, Some(note)))
    }

    /// The run, or one that cannot start because of its own expressions.
    fn run_of(
        &self,
        file: &Workflow,
        workflow: WorkflowId,
        number: i64,
        inputs: &Object,
    ) -> Result<NewRun, Box<(NewRun, String)>> {
        let happening = &self.happening;
        let repo = &happening.place.repo;
        let context = self.context(file, number, inputs);
        let plan = file.plan.as_ref().map_or_else(|_| Arc::new(Plan::default()), Arc::clone);
        let named = match file.plan.as_ref() {
            Ok(plan) => run_name(&context.clone().expressions(RunId(0), 1), plan.root()),
            Err(_) => Ok(None),
        };
        let usual = || payload::title(&happening.event, &happening.payload, &file.name);
        let is_default = happening.reference == format!("refs/heads/{}", repo.default_branch);
        let mut new = NewRun {
            org: repo.org,
            repo: repo.id,
            workflow,
            root: None,
            event: happening.event.clone(),
            actor: happening.actor.clone(),
            trust: self.trust().to_owned(),
            reference: happening.reference.clone(),
            head_sha: happening.commit.clone(),
            head_branch: payload::branch(&happening.reference),
            title: named.as_ref().ok().cloned().flatten().unwrap_or_else(usual),
            plan,
            context: context.write(),
            class: Class::of(false, is_default, happening.event == "schedule"),
            priority: happening.asked.priority,
            once: Vec::new(),
        };
        new.once = self.once(&new);
        match named {
            Ok(_) => Ok(new),
            Err(message) => Err(Box::new((new, format!("{}: `run-name`: {message}", file.path)))),
        }
    }

    fn trust(&self) -> &'static str {
        let Happening { event, reference, payload, place, .. } = &self.happening;
        trust_of(event, reference, payload, &place.full_name())
    }

    /// By what the same trigger is known again: the caller's key, else that it is the same event, else what was asked
    /// for.
    fn once(&self, new: &NewRun) -> Vec<(String, Duration)> {
        let asked = &self.happening.asked;
        let key = asked.key.as_ref().map(|key| new.callers_key(key));
        let within = asked.within.map(|window| new.fingerprint_within(window, &asked.inputs));
        let usual = if key.is_none() { new.fingerprint() } else { None };
        key.into_iter().chain(within.or(usual)).collect()
    }

    fn context(&self, file: &Workflow, number: i64, inputs: &Object) -> Context {
        let happening = &self.happening;
        let mut payload = happening.payload.clone();
        if happening.event == "workflow_dispatch" {
            payload.insert("inputs", Value::object(dispatch::texts(inputs)));
            payload.insert("workflow", Value::from(file.path.as_str()));
        }
        let github = github::context(github::Facts {
            repository: &happening.place.full_name(),
            sha: &happening.commit,
            reference: &happening.reference,
            event: &happening.event,
            payload,
            workflow: &file.name,
            workflow_path: &file.path,
            actor: &happening.actor,
            run_id: 0,
            run_number: number,
            server_url: &self.public_url,
            api_url: &format!("{}{GITHUB}", self.public_url),
        });
        Context { github, vars: happening.place.vars.clone(), inputs: inputs.clone() }
    }
}
