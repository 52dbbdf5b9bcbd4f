//! A claimed job becomes an answer with everything that its runner needs.

mod text;

use std::sync::Arc;

use bytes::Bytes;
use kiln_core::id::{EnvironmentId, RepoId, RunnerId};
use kiln_core::plan::{self, JobKind, Workflow};
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
    assignment: Option<Box<Assignment>>,
) -> Result<Option<Job>, Unpreparable> {
    let assignment = match assignment {
        Some(assignment) => *assignment,
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
        let (workflow, job) = self.place()?;
        let JobKind::Steps(steps) = &job.kind else {
            return Err(Unpreparable::Ever("the job calls a workflow and has no steps".to_owned()));
        };
        let granted = run::granted(&assignment.hood, &assignment.plan.workflows, assignment.leg);
        let plan = text::reduced(workflow, job, granted, self.begins_late());
        let reference = JobRef { job_id: claimed.job.0, attempt: claimed.claim };
        Ok(Job {
            job_id: reference.job_id,
            run_id: claimed.run.0,
            attempt: reference.attempt,
            workflow: run.workflow_path.clone(),
            job_name: job_display_name(&self.expressions, &assignment.hood, assignment.leg),
            steps: text::step_names(&steps.steps),
            secrets: self.sealed(reference, &own.secrets)?,
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
            plan: to_raw_value(&plan)?,
            contexts: self.contexts(&job.id, own.variables)?,
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

    /// What steps see as `github.token`: with it they read their repository, while only the runner can speak
    /// for the job.
    fn step_token(&self) -> String {
        self.app.signer.reading(self.access)
    }

    fn repo(&self) -> String {
        format!("{}/{}", self.assignment.run.org_name, self.assignment.run.repo_name)
    }

    /// The workflow and the job of the leg, in the plan.
    fn place(&self) -> Result<(&Workflow, &plan::Job), String> {
        let hood = &self.assignment.hood;
        let found = || {
            let node = hood.nodes.get(&hood.legs.get(&self.assignment.leg)?.node)?;
            let workflow =
                self.assignment.plan.workflows.get(hood.scopes.get(&node.scope)?.workflow)?;
            Some((workflow, workflow.jobs.get(node.job)?))
        };
        found().ok_or_else(|| "the plan of the run lacks this job".to_owned())
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
    ) -> Result<kiln_proto::job::Sealed, Unpreparable> {
        let mut run: Object =
            own.iter().map(|(name, value)| (name.as_str(), Value::from(value.as_str()))).collect();
        run.insert("GITHUB_TOKEN", Value::from(self.step_token()));
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
        variables: Vec<(String, String)>,
    ) -> Result<Contexts, serde_json::Error> {
        let LegContexts { inputs, needs, matrix, strategy } =
            leg_contexts(&self.expressions, &self.assignment.hood, self.assignment.leg);
        let mut vars = self.expressions.vars.clone();
        for (name, value) in variables {
            vars.insert(name, Value::from(value));
        }
        Ok(Contexts {
            github: raw(&self.github(job))?,
            vars: raw(&vars)?,
            inputs: raw(&inputs)?,
            needs: raw(&needs)?,
            matrix: raw(&matrix)?,
            strategy: raw(&strategy)?,
        })
    }

    /// What was known when the run began, completed by what is known now.
    fn github(&self, job: &str) -> Object {
        let run = &self.assignment.run;
        let (repo, url) = (self.repo(), &self.app.config.public_url);
        // Where clients of GitHub Enterprise look, which know only this way to say where.
        let api = format!("{url}{GITHUB}");
        let mut github = self.expressions.github.clone();
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
            ("job", job.to_owned()),
            ("token", self.step_token()),
        ];
        for (name, value) in now {
            github.insert(name, Value::from(value));
        }
        github
    }
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
