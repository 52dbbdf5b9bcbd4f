//! A claimed job becomes an answer with everything that its runner needs.

mod kept;
mod text;

use std::sync::Arc;

use bytes::Bytes;
use kiln_core::id::{EnvironmentId, RepoId, RunnerId};
use kiln_core::plan::{JobKind, Permissions, StepsJob};
use kiln_core::run::{self, Conclusion};
use kiln_core::value::{Object, Value};
use kiln_lang::engine::{
    Expressions, LegContexts, job_display_name, leg_contexts, leg_environment, leg_secrets,
};
use kiln_lang::expr::coerce::to_text;
use kiln_proto::job::{Contexts, Form, Job, JobRef, Limits, Secrets, Source};
use kiln_proto::log::Line;
use kiln_store::claims::{self, Claimed};
use kiln_store::directory::holder::Holder;
use kiln_store::directory::{environments, secrets, variables};
use kiln_store::events::{Annotation, Level};
use kiln_store::runs::{Assignment, Happened, JobNews, Report, Reported, RunFacts, Said, Word};
use kiln_store::{Actor, ActorKind, Duty, Page, Refusal, Scope, StoreError, Tx};
use serde_json::value::{RawValue, to_raw_value};

pub use kept::Texts;

use self::kept::OfJob;
use super::content::cache_write_denied;
use super::context::expressions;
use crate::app::App;
use crate::clock;
use crate::fleet::Member;
use crate::http::addresses::GITHUB;
use crate::logs::LogId;
use crate::token::JobAccess;

/// Secrets are for runs of code that the owners of the repository let in.
pub(crate) const TRUSTED: &str = "trusted";
const DUTY: Scope = Scope::System(Duty::Claims);

/// Why a job could not be handed out.
#[derive(Debug)]
pub enum Unpreparable {
    /// It may work later.
    Now(StoreError),
    /// It never will: the reason is for people.
    Ever(String),
}

impl From<StoreError> for Unpreparable {
    fn from(error: StoreError) -> Self {
        Self::Now(error)
    }
}

impl From<String> for Unpreparable {
    fn from(reason: String) -> Self {
        Self::Ever(reason)
    }
}

impl From<serde_json::Error> for Unpreparable {
    fn from(error: serde_json::Error) -> Self {
        Self::Ever(format!("the job cannot be written as JSON: {error}"))
    }
}

/// All that the runner must know. None if the claim is over by now.
pub async fn prepare(
    app: &App,
    member: &Member,
    claimed: &Claimed,
    assignment: Option<Assignment>,
) -> Result<Option<Job>, Unpreparable> {
    let assignment = match assignment {
        Some(assignment) => assignment,
        None => match app.traffic.assignment(claimed.clone()).await? {
            Some(assignment) => assignment,
            None => return Ok(None),
        },
    };
    let run = &assignment.run;
    let expressions = expressions(&assignment.evaluator)?;
    let environment = leg_environment(&expressions, &assignment.hood, assignment.leg)?;
    let own = belongings(app, member.runner.id, run, environment.as_deref()).await?;
    let access = JobAccess {
        job: claimed.job,
        claim: claimed.claim,
        runner: member.runner.id,
        org: claimed.org,
        repo: claimed.repo,
    };
    let preparing = Preparing {
        app,
        member,
        claimed,
        assignment: &assignment,
        expressions,
        environment,
        access,
    };
    preparing.job(own).map(Some)
}

/// What a job has beside its text: secrets, and the variables of its environment.
#[derive(Default)]
struct Belongings {
    secrets: Vec<(String, String)>,
    variables: Vec<(String, String)>,
}

async fn belongings(
    app: &App,
    runner: RunnerId,
    run: &RunFacts,
    environment: Option<&str>,
) -> Result<Belongings, Unpreparable> {
    let environment = match environment {
        Some(name) => of_environment(app, run.repo, name).await?,
        None => OfEnvironment::default(),
    };
    let any_secret = run.has_secrets || environment.has_secrets;
    let secrets = if any_secret && run.trust == TRUSTED {
        open_secrets(app, runner, run, environment.id).await?
    } else {
        Vec::new()
    };
    Ok(Belongings { secrets, variables: environment.variables })
}

/// What the environment of a job adds; one that nobody set up adds nothing.
#[derive(Default)]
struct OfEnvironment {
    id: Option<EnvironmentId>,
    has_secrets: bool,
    variables: Vec<(String, String)>,
}

async fn of_environment(app: &App, repo: RepoId, name: &str) -> Result<OfEnvironment, StoreError> {
    let name = name.to_owned();
    let look = async move |tx: &mut Tx<'_>| {
        let Some(it) = found(environments::by_name(tx, DUTY, repo, &name).await)? else {
            return Ok(OfEnvironment::default());
        };
        let variables = variables::for_job(tx, DUTY, repo, Some(it.id)).await?;
        let holder = Holder::Environment(it.id);
        Ok(OfEnvironment {
            id: Some(it.id),
            has_secrets: !secrets::list(tx, DUTY, holder, Page::first(1)).await?.is_empty(),
            variables: variables.into_iter().map(|one| (one.name, one.value)).collect(),
        })
    };
    app.store.read(look).await
}

/// Reads the secrets of a job, which leaves a row in the audit.
async fn open_secrets(
    app: &App,
    runner: RunnerId,
    run: &RunFacts,
    environment: Option<EnvironmentId>,
) -> Result<Vec<(String, String)>, Unpreparable> {
    let repo = run.repo;
    let read = async move |tx: &mut Tx<'_>| {
        let actor = Actor::new(ActorKind::Runner, runner.slug());
        secrets::for_job(tx, DUTY, &actor, repo, environment).await
    };
    let kept = app.store.write(read).await?;
    let open = |secret: secrets::Secret| {
        let plain = app.vault.open(&secret).map_err(|error| error.to_string())?;
        let text = String::from_utf8(plain)
            .map_err(|_| format!("the secret `{}` is no text; set it again", secret.name))?;
        Ok((secret.name, text))
    };
    kept.into_iter().map(open).collect::<Result<_, String>>().map_err(Unpreparable::Ever)
}

/// What there may not be.
fn found<T>(answer: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::Refused(Refusal::NotFound(_))) => Ok(None),
        Err(error) => Err(error),
    }
}

struct Preparing<'a> {
    app: &'a App,
    member: &'a Member,
    claimed: &'a Claimed,
    assignment: &'a Assignment,
    expressions: Arc<Expressions>,
    environment: Option<String>,
    access: JobAccess,
}

impl Preparing<'_> {
    fn job(self, own: Belongings) -> Result<Job, Unpreparable> {
        let Self { app, claimed, assignment, .. } = &self;
        let run = &assignment.run;
        let repo = self.repo();
        let place = self.place()?;
        let (job, steps) = self.steps_at(place)?;
        let written = self.written(place)?;
        // What steps see: with it they read their repository, while only the runner can speak for the job.
        let token = app.signer.reading(self.access);
        let reference = JobRef { job_id: claimed.job.0, attempt: claimed.claim };
        Ok(Job {
            job_id: reference.job_id,
            run_id: claimed.run.0,
            attempt: reference.attempt,
            workflow: run.workflow_path.clone(),
            job_name: job_display_name(&self.expressions, &assignment.hood, assignment.leg),
            steps: written.steps.clone(),
            secrets: self.sealed(reference, &own.secrets, &token)?,
            services: text::service_names(steps),
            timeout_minutes: text::minutes(steps),
            lease: u32::try_from(claims::lease_lasts().as_secs()).unwrap_or(u32::MAX),
            source: Source {
                clone_url: format!("{}/{repo}.git", app.config.public_url),
                commit: run.head_sha.clone(),
                reference: run.reference.clone(),
            },
            environment: self.environment.clone(),
            reads_caches_only: cache_write_denied(run).is_some(),
            plan: written.text.clone(),
            contexts: self.contexts(job, &token, own.variables)?,
            limits: Limits {
                log_bytes: app.config.log_bytes,
                wall: app.config.limits.job.as_secs(),
                silence: app.config.limits.silence.as_secs(),
                clean_up: Some(app.config.limits.clean_up.as_secs()),
            },
            repo,
            token: app.signer.job(self.access),
        })
    }

    fn repo(&self) -> String {
        format!("{}/{}", self.assignment.run.org_name, self.assignment.run.repo_name)
    }

    /// Where the workflow and the job of the leg stand in the plan.
    fn place(&self) -> Result<(usize, usize), String> {
        let hood = &self.assignment.hood;
        let found = || {
            let node = hood.nodes.get(&hood.legs.get(&self.assignment.leg)?.node)?;
            Some((hood.scopes.get(&node.scope)?.workflow, node.job))
        };
        found().ok_or_else(lacking)
    }

    /// The id of the job there, and its steps.
    fn steps_at(&self, (workflow, job): (usize, usize)) -> Result<(&str, &StepsJob), String> {
        let workflow = self.assignment.plan.workflows.get(workflow);
        let job = workflow.and_then(|workflow| workflow.jobs.get(job)).ok_or_else(lacking)?;
        match &job.kind {
            JobKind::Steps(steps) => Ok((&job.id, steps)),
            JobKind::Call(_) => Err("the job calls a workflow and has no steps".to_owned()),
        }
    }

    /// What the plan says of the job there.
    fn written(&self, place: (usize, usize)) -> Result<Arc<OfJob>, Unpreparable> {
        let plan = &self.assignment.plan;
        let granted = run::granted(&self.assignment.hood, &plan.workflows, self.assignment.leg);
        let (_, steps) = self.steps_at(place)?;
        let write = |late: Option<u32>, granted: Option<Permissions>| {
            let workflow = &plan.workflows[place.0];
            let reduced = text::reduced(workflow, &workflow.jobs[place.1], granted.clone(), late);
            let (text, steps) = (to_raw_value(&reduced)?, text::step_names(&steps.steps));
            Ok(OfJob { plan: Arc::downgrade(plan), granted, text, steps })
        };
        Ok(match self.begins_late() {
            None => self.app.texts.job(plan, place, granted, |granted| write(None, granted))?,
            late => Arc::new(write(late, granted)?),
        })
    }

    /// The step at which this job begins in this attempt, if it is not the first.
    fn begins_late(&self) -> Option<u32> {
        let leg = self.assignment.hood.legs.get(&self.assignment.leg)?;
        self.assignment.run.from.filter(|from| from.node == leg.node).map(|from| from.step)
    }

    fn sealed(
        &self,
        job: JobRef,
        own: &[(String, String)],
        token: &str,
    ) -> Result<kiln_proto::job::Sealed, Unpreparable> {
        let mut run: Object =
            own.iter().map(|(name, value)| (name.as_str(), Value::from(value.as_str()))).collect();
        run.insert("GITHUB_TOKEN", Value::from(token));
        let seen =
            leg_secrets(&self.expressions, &self.assignment.hood, self.assignment.leg, &run)?;
        let visible =
            seen.iter().map(|(name, value)| (name.to_owned(), to_text(value).into_owned()));
        let secrets = Secrets { visible: visible.collect(), hidden: Vec::new() };
        let plain = serde_json::to_vec(&secrets)?;
        let about = &self.member.runner.about;
        let key = about.public_key.as_deref().unwrap_or_default();
        let form = Form::of_protocol(about.protocol);
        let sealed = self.app.letters.seal(form, key, job, &plain);
        sealed.map_err(|error| Unpreparable::Ever(error.to_string()))
    }

    fn contexts(
        &self,
        job: &str,
        token: &str,
        variables: Vec<(String, String)>,
    ) -> Result<Contexts, serde_json::Error> {
        let LegContexts { inputs, needs, matrix, strategy } =
            leg_contexts(&self.expressions, &self.assignment.hood, self.assignment.leg);
        let mut vars = self.expressions.vars.clone();
        for (name, value) in variables {
            vars.insert(name, Value::from(value));
        }
        Ok(Contexts {
            github: self.app.texts.github(
                &self.assignment.run,
                [("job", job), ("token", token)],
                || serde_json::to_string(&self.github()),
            )?,
            vars: raw(&vars)?,
            inputs: raw(&inputs)?,
            needs: raw(&needs)?,
            matrix: raw(&matrix)?,
            strategy: raw(&strategy)?,
        })
    }

    /// What was known when the run began, completed by what is known now and is the same for all its jobs.
    fn github(&self) -> Object {
        let run = &self.assignment.run;
        let (repo, url) = (self.repo(), &self.app.config.public_url);
        // Where clients of GitHub Enterprise look, which know only this way to say where.
        let api = format!("{url}{GITHUB}");
        let own = |name: &str| matches!(name, "job" | "token");
        let known = self.expressions.github.iter().filter(|(name, _)| !own(name));
        let mut github: Object = known.map(|(name, value)| (name, value.clone())).collect();
        let now = [
            ("repository", repo.clone()),
            ("repository_owner", run.org_name.clone()),
            ("repository_id", run.repo.to_string()),
            ("repository_owner_id", run.org.to_string()),
            ("repositoryUrl", format!("{url}/{repo}.git")),
            ("sha", run.head_sha.clone()),
            ("ref", run.reference.clone()),
            ("event_name", run.event.clone()),
            ("workflow", run.workflow_name.clone()),
            ("workflow_ref", format!("{repo}/{}@{}", run.workflow_path, run.reference)),
            ("workflow_sha", run.head_sha.clone()),
            ("actor", run.actor.clone()),
            ("triggering_actor", run.triggering_actor.clone()),
            ("run_id", run.id.to_string()),
            ("run_number", run.number.to_string()),
            ("run_attempt", run.attempt.to_string()),
            ("server_url", url.clone()),
            ("api_url", api.clone()),
            ("graphql_url", format!("{api}/graphql")),
        ];
        for (name, value) in now {
            github.insert(name, Value::from(value));
        }
        github
    }
}

fn lacking() -> String {
    "the plan of the run lacks this job".to_owned()
}

fn raw(object: &Object) -> Result<Box<RawValue>, serde_json::Error> {
    to_raw_value(object)
}

/// Ends a job that no runner could begin, so that it is in nobody's way: the reason is in its log and
/// among its annotations.
pub async fn fail(
    app: &App,
    runner: RunnerId,
    claimed: &Claimed,
    reason: &str,
) -> Result<(), crate::http::error::Failure> {
    tracing::warn!(job = %claimed.job, reason, "a job cannot be handed out");
    let Claimed { job, claim, .. } = *claimed;
    let message = format!("The job could not be prepared: {reason}");
    let mut line = Vec::new();
    let text = message.replace(['\n', '\r'], " ");
    Line { at: clock::now().0, step: 0, text: text.as_bytes() }.write(&mut line);
    if let Err(error) = app.logs.append(LogId { job, claim }, 0, Bytes::from(line)).await {
        tracing::warn!(%error, "the reason is not in the log of the job");
    }
    let annotation = Annotation {
        level: Level::Error,
        message,
        title: None,
        file: None,
        line: None,
        end_line: None,
        column: None,
        end_column: None,
        step: None,
        code: None,
    };
    let said = Reported { sequence: 1, at: clock::now(), what: Said::Annotation(annotation) };
    app.traffic.report(Report { job, claim, runner, events: vec![said] }).await?;
    let word = Word::Finished { conclusion: Conclusion::Failure, outputs: Vec::new() };
    let news = JobNews { job, claim: Some(claim), runner: Some(runner), word, heard: None };
    app.traffic.happened(Happened::Job(news)).await?;
    Ok(())
}
