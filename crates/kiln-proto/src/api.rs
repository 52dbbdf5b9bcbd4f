//! Kiln's own REST interface, below `/api`. Times are RFC 3339, ids are numbers, slugs are for people.
//!
//! Lists answer with [`Page`]; `after` of the next request is the `next` of the last answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::report::{Allowed, Deployment, Used};
use crate::result::ReusedFrom;

/// A piece of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the list goes on; `null` at its end.
    pub next: Option<String>,
}

/// `GET /api/me`: who the server takes the caller for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// `person`, `token`, `runner`, `job` or `anonymous`.
    pub kind: String,
    pub name: String,
    pub admin: bool,
    pub version: String,
    /// What the server's clock says, so that others can compare theirs.
    #[serde(default)]
    pub time: Option<String>,
}

/// `POST /api/repos`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewRepo {
    /// The organization; it is made if it does not exist.
    pub owner: String,
    pub name: String,
    /// A folder on the server, or an address that git fetches from.
    pub source: String,
    /// What the source says, when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_branch: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Repo {
    pub id: i64,
    pub owner: String,
    pub name: String,
    /// Without user name and password.
    pub source: String,
    pub default_branch: String,
    pub enabled: bool,
    /// Why its jobs wait.
    pub paused: Option<String>,
    /// How much it gets of what its organization gets, compared with others; usually 100.
    #[serde(default)]
    pub shares: i64,
    /// Seconds by which jobs of each class (`urgent`, `high`, `normal`, `low`) count as queued earlier than they were.
    #[serde(default)]
    pub head_starts: BTreeMap<String, i64>,
}

/// The head starts of a repository's priority classes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum HeadStarts {
    /// `true` for the usual ones, `false` for none: first in, first out.
    Switch(bool),
    /// Seconds for some of the classes `urgent`, `high`, `normal` and `low`, up to a day; what is less than 0 holds
    /// back. The others have the usual ones.
    Seconds(BTreeMap<String, i64>),
}

/// `PATCH /api/repos/{owner}/{repo}`. What is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ChangeRepo {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_branch: Option<String>,
    /// A folder on the server, or an address that git fetches from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How much it gets of what its organization gets, compared with others.
    #[schema(minimum = 1, maximum = 1_000_000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<i64>,
    /// Whether it starts runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// By how much its priority classes go first, for jobs that are queued from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_starts: Option<HeadStarts>,
}

/// `GET /api/orgs` and `GET /api/orgs/{owner}`: who shares the runners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Organization {
    pub id: i64,
    pub name: String,
    /// How much of the runners it gets, compared with others; usually 100.
    pub shares: i64,
    /// How many of its jobs may run at once; `null` for any number.
    pub job_limit: Option<i64>,
}

/// `PATCH /api/orgs/{owner}`. What is left out stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ChangeOrganization {
    /// How much of the runners it gets, compared with others.
    #[schema(minimum = 1, maximum = 1_000_000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<i64>,
    /// How many of its jobs may run at once.
    #[schema(minimum = 0, maximum = 1_000_000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_limit: Option<i64>,
    /// Any number of its jobs may run at once; not beside `job_limit`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unlimited: bool,
}

/// `POST /api/repos/{owner}/{repo}/trigger`, with an `Idempotency-Key` if the caller may repeat it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Trigger {
    /// The file name of one workflow; all that listen to the event when it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// `push` when it is left out, or `workflow_dispatch` when there is a workflow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// A branch, tag or full ref; the default branch when it is left out.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// A commit, when it is not the tip of the ref.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha: Option<String>,
    /// For `workflow_dispatch`.
    #[schema(value_type = BTreeMap<String, Object>)]
    pub inputs: BTreeMap<String, serde_json::Value>,
    /// What the `github.event` context holds, if the caller knows better.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<serde_json::Value>,
    /// From 0, the usual one, to 100, which goes before all others; only administrators may ask for more than 0.
    #[schema(minimum = 0, maximum = 100)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Seconds: a run of the same workflow, event, ref, commit and inputs that began within this time is the answer,
    /// and no second one is made. When it is left out, five minutes for what forges tell, and none for what people
    /// start.
    #[schema(minimum = 1, maximum = 86_400)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<u64>,
}

/// What a trigger did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Triggered {
    pub runs: Vec<TriggeredRun>,
    /// Workflows that did not start, and why.
    pub skipped: Vec<SkippedWorkflow>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TriggeredRun {
    pub id: i64,
    pub slug: String,
    pub workflow: String,
    /// The same trigger had made it before.
    pub existed: bool,
    /// Where a person can look at it.
    pub url: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkippedWorkflow {
    pub workflow: String,
    pub reason: String,
}

/// A run in lists, with its current attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    pub id: i64,
    pub slug: String,
    pub repo: String,
    /// The path of the workflow's file.
    pub workflow: String,
    /// What the workflow calls itself.
    pub name: String,
    pub title: String,
    /// Counts the runs of the workflow.
    pub number: i64,
    pub attempt: u32,
    pub event: String,
    pub actor: String,
    #[serde(rename = "ref")]
    pub reference: String,
    pub sha: String,
    /// `queued`, `pending`, `in_progress` or `completed`.
    pub status: String,
    pub conclusion: Option<String>,
    /// Why the whole run waits: in words. Nothing when it does not, or when its jobs say it.
    #[serde(default)]
    pub reason: Option<String>,
    pub created_at: String,
    pub started_at: Option<String>,
    pub ended_at: Option<String>,
    pub url: String,
}

/// `GET /api/runs/{run}`, with `?attempt=N` for an earlier attempt. Its times are those of the attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunDetail {
    #[serde(flatten)]
    pub run: Run,
    pub cancelled_by: Option<String>,
    pub cancel_reason: Option<String>,
    /// Why it could not start, with the place in the file: a broken workflow.
    pub note: Option<String>,
    pub jobs: Vec<Job>,
}

/// `GET /api/runs/{run}/annotations`: what a step said about a place in the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RunAnnotation)]
pub struct Annotation {
    /// `error`, `warning` or `notice`.
    pub level: String,
    pub message: String,
    pub title: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub end_line: Option<u32>,
    pub column: Option<u32>,
    pub end_column: Option<u32>,
    /// What the tool calls it.
    pub code: Option<String>,
    pub job_id: Option<i64>,
    /// The name of the job.
    pub job: Option<String>,
    /// The step that said it, from 1.
    pub step: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Nothing for a job that ended before it could be queued.
    pub id: Option<i64>,
    pub slug: Option<String>,
    pub run_id: i64,
    /// The attempt of the run that it ran in.
    pub run_attempt: u32,
    pub name: String,
    /// `pending`, `waiting`, `queued`, `in_progress` or `completed`.
    pub status: String,
    pub conclusion: Option<String>,
    /// Why it waits, or why it ended so: in words.
    pub reason: String,
    /// How often it was claimed; the log of each claim is kept.
    pub attempt: u32,
    pub runner: Option<String>,
    pub runner_id: Option<i64>,
    pub queued_at: Option<String>,
    pub claimed_at: Option<String>,
    /// Its runner had all that it needs.
    #[serde(default)]
    pub prepared_at: Option<String>,
    pub started_at: Option<String>,
    pub ended_at: Option<String>,
    pub steps: Vec<Step>,
    pub outputs: BTreeMap<String, String>,
    /// Whose result stands for it: it did not run itself.
    #[serde(default)]
    pub reused_from: Option<ReusedFrom>,
    /// What it used, once its runner has said so.
    #[serde(default)]
    pub used: Option<Used>,
    /// What it was allowed, likewise.
    #[serde(default)]
    pub allowed: Option<Allowed>,
    /// Where it deployed to, likewise.
    #[serde(default)]
    pub deployment: Option<Deployment>,
    /// The claims before the current one: why it was tried again.
    #[serde(default)]
    pub claims: Vec<PastClaim>,
    /// Its number among the jobs of the workflow; all legs of a matrix have the same.
    #[serde(default)]
    pub node: u32,
    /// The numbers of the jobs that it waits for.
    #[serde(default)]
    pub needs: Vec<u32>,
}

/// A claim that did not end its job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PastClaim {
    /// Its number, by which its log is found.
    pub attempt: u32,
    /// Nothing when the runner is gone for good.
    pub runner: Option<String>,
    pub runner_id: i64,
    /// `lost` with its runner, `retried` because the job says so, or `returned` before it began.
    pub outcome: String,
    pub reason: Option<String>,
    pub claimed_at: Option<String>,
    pub prepared_at: Option<String>,
    pub started_at: Option<String>,
    pub ended_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// From 1, as GitHub counts.
    pub number: u32,
    pub name: String,
    pub status: String,
    pub conclusion: Option<String>,
    /// What its process ended with, if it was one and ended by itself.
    #[serde(default)]
    pub exit_code: Option<i32>,
    pub started_at: Option<String>,
    pub ended_at: Option<String>,
}

/// `GET /api/events` and `GET /api/runs/{run}/events`: as a page, or as a stream of server-sent events
/// where `id` is [`Event::cursor`] and `Last-Event-ID` goes on after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    pub cursor: String,
    pub at: String,
    pub kind: String,
    pub run_id: i64,
    pub attempt: u32,
    pub job_id: Option<i64>,
    #[schema(value_type = Object)]
    pub detail: serde_json::Value,
}

/// `POST /api/runs/{run}/cancel` and `…/force-cancel`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cancel {
    pub reason: Option<String>,
}

/// What a cancel is answered with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cancelling {
    #[serde(flatten)]
    pub run: Run,
    /// The run was being cancelled before: by whom, since when, and what ends it sooner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub already: Option<String>,
}

/// `POST /api/runs/{run}/priority`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Prioritize {
    /// From 0, the usual one, to 100, which goes before all others; only administrators may ask for more than 0.
    #[schema(minimum = 0, maximum = 100)]
    pub priority: i64,
}

/// What a change of priority is answered with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Prioritized {
    pub id: i64,
    pub slug: String,
    pub priority: i64,
    /// What it was.
    pub before: i64,
}

/// `POST /api/runs/{run}/rerun`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rerun {
    /// Only what failed, and what depends on it.
    pub failed: bool,
    /// Only this job (id or name), and what depends on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// With `job`: that begins at this step (number from 1, id or name). Steps before it that use an action run all the
    /// same; scripts before it are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rerunning {
    pub id: i64,
    pub slug: String,
    pub attempt: u32,
}

/// `GET /api/queue`: a job that waits for a runner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Waiting {
    pub job_id: i64,
    pub slug: String,
    pub run_id: i64,
    pub repo: String,
    pub name: String,
    pub queue_id: i64,
    pub queued_at: String,
    pub class: String,
    pub priority: i64,
    /// What it asks of a runner, in words.
    pub requirements: String,
    /// How many jobs are likely to be handed out before it, plus one.
    pub position: u64,
    /// Why it waits: in words.
    pub reason: String,
    /// Seconds until it is likely to start; nothing when nobody can say.
    pub estimate: Option<u64>,
    /// Names of runners that could take it.
    pub runners: Vec<String>,
}

/// `GET /api/queues`: a set of requirements, and how much waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    pub id: i64,
    pub requirements: String,
    pub waiting: u64,
    /// Live runners that can serve it.
    pub runners: u64,
    pub paused: Option<String>,
}

/// `PUT /api/pause` (the server), `PUT /api/queues/{id}/pause`, `PUT /api/repos/{owner}/{repo}/pause`.
/// `DELETE` of the same resumes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pause {
    /// Shown to everybody who waits.
    pub reason: String,
}

/// `GET /api/pause`: what is paused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Paused {
    /// The reason, if the whole server is paused.
    pub server: Option<String>,
    pub queues: Vec<Queue>,
    pub repos: Vec<Repo>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Runner {
    pub id: i64,
    pub slug: String,
    pub name: String,
    pub pool: String,
    /// The organization it belongs to; nothing when it is shared.
    pub owner: Option<String>,
    /// `idle`, `busy`, `draining`, `offline` or `forgotten`.
    pub status: String,
    pub labels: Vec<String>,
    pub os: String,
    pub architecture: String,
    pub cores: u32,
    pub memory_mb: u64,
    pub disk_mb: u64,
    pub max_parallel: u32,
    pub single_use: bool,
    pub version: String,
    pub jobs: u32,
    pub completed: u64,
    pub failed: u64,
    /// Above 1 it is faster than others.
    pub speed: f64,
    pub last_seen_at: String,
    /// Why it takes no jobs.
    pub trouble: Option<String>,
}

/// `POST /api/registration-keys`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewRegistrationKey {
    /// The pool of its runners; `default` when it is left out. It is made if it does not exist.
    pub pool: Option<String>,
    /// The organization of its runners; an administrator of the installation makes it by naming it. When it is left
    /// out: all share them if the server has `allow_shared_host`, else the only organization has them.
    pub owner: Option<String>,
    /// Whether all organizations share them, whatever the server has set.
    pub shared: bool,
    /// Seconds; an hour when it is left out.
    pub expires_in: Option<u64>,
    /// How many runners it lets in; 1 when it is left out, 0 for any number.
    pub uses: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegistrationKey {
    pub id: i64,
    /// Only in the answer that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub pool: String,
    pub owner: Option<String>,
    pub expires_at: String,
    pub uses_left: Option<u32>,
    /// Only in the answer that made it: it lets in nobody but runners of a single job (`kiln runner --once`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub single_use_only: bool,
}

/// `POST /api/tokens`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewToken {
    pub name: String,
    /// Such as `read`, `write`, `runners`, `admin`; `read` when it is left out.
    pub scopes: Vec<String>,
    /// Only for this organization; all of the person's when it is left out.
    pub owner: Option<String>,
    /// Seconds; 90 days when it is left out, 0 for never.
    pub expires_in: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    pub id: i64,
    pub name: String,
    /// Only in the answer that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    pub scopes: Vec<String>,
    pub owner: Option<String>,
    pub created_at: String,
    pub expires_at: Option<String>,
    pub last_used_at: Option<String>,
}

/// `POST /welcome/{secret}`, asked for as `application/json`: what a one-time link gives, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Welcomed {
    /// An API token.
    pub token: String,
}

/// `GET /api/tasks`: what was to be done after a change, failed too often and was put aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ParkedTask {
    pub id: i64,
    /// `admit`, `cancel_member`, `continue` or `notify`.
    pub kind: String,
    /// The run that it is about.
    pub run_id: Option<i64>,
    pub tries: u32,
    /// Why it failed the last time.
    pub error: String,
    /// When it was put aside.
    pub since: String,
}

/// `POST /api/tasks/retry`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryTasks {
    /// Which ones; all that were put aside when there are none.
    pub ids: Vec<i64>,
}

/// How many tasks got a new start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetriedTasks {
    pub retried: u64,
}

/// `GET /api/duties`: what the server does by itself, and how that went last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Duty {
    pub name: String,
    /// Whether this server does it now; another may.
    pub here: bool,
    pub last_run_at: Option<String>,
    pub last_took_ms: u64,
    /// What the last pass did, in words.
    pub last_report: String,
    /// When a pass found something to do, as far as this server remembers, and what it did.
    #[serde(default)]
    pub last_useful_at: Option<String>,
    #[serde(default)]
    pub last_useful_report: Option<String>,
    pub last_error: Option<String>,
    pub passes: u64,
    pub failures: u64,
    /// Seconds between passes when nothing calls for one earlier.
    pub every: u64,
}

/// `GET /api/audit`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    pub id: i64,
    pub at: String,
    /// The organization that it was about; nothing for the whole installation.
    #[serde(default)]
    pub owner: Option<String>,
    pub actor_kind: String,
    pub actor: String,
    pub action: String,
    pub subject: Option<i64>,
    pub address: Option<String>,
    /// What it was about; none where the action says all.
    #[schema(value_type = Option<Object>)]
    pub detail: serde_json::Value,
}

/// `GET /api/doctor`: what the server knows about its own health.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Checkup {
    /// `ok`, `warning` or `error`.
    pub level: String,
    /// Such as `database`, `disk`, `clock`, `runners`, `queue`, `outbox`, `duties`.
    pub what: String,
    pub finding: String,
    /// What to do about it.
    pub advice: Option<String>,
}

/// `GET …/log/search`: lines in which something was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogMatches {
    pub items: Vec<LogMatch>,
    /// Where the search goes on, as `after` of the next request; `null` when everything was searched. There may be
    /// no items yet: a request searches for a few seconds at most.
    pub next: Option<String>,
    /// How many logs, and how many of their bytes, this request has searched.
    pub logs: u64,
    pub bytes: u64,
}

/// A line in which something was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogMatch {
    pub run_id: i64,
    pub job_id: i64,
    /// The name of the job.
    pub job: String,
    /// The claim whose log it is.
    pub attempt: u32,
    /// The attempt of the run that the job was part of.
    #[serde(default = "first")]
    pub run_attempt: u32,
    pub line: u64,
    pub step: u32,
    pub at: String,
    /// The line, cut if it is very long.
    pub text: String,
    /// Lines before and after it, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
}

/// What servers meant that did not say it.
fn first() -> u32 {
    1
}
