//! What can be typed to ask a server: start runs, look at them, stop them.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kiln_core::time::Timestamp;

use super::access::{ContextArgs, LoginArgs, TokenArgs, WhoamiArgs};
use super::content::{ArtifactsArgs, CacheArgs};
use super::fleet::{DutiesArgs, PauseArgs, QueueArgs, ResumeArgs, RunnersArgs};
use super::look::{OpenArgs, ShowArgs, StatusArgs, SummaryArgs};
use super::objects::{ManifestsArgs, ObjectsArgs, TagsArgs};
use super::storage::StorageArgs;
use super::workflows::WorkflowsArgs;
use super::{
    ProgressView,
    repo::{OrgArgs, RepoArgs},
};
use crate::client::target::Lines;
use crate::output::time::{self, span};

/// Commands that ask a server.
#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    Trigger(TriggerArgs),
    Runs(RunsArgs),
    Watch(WatchArgs),
    Logs(LogsArgs),
    Show(ShowArgs),
    Summary(SummaryArgs),
    Open(OpenArgs),
    Cancel(CancelArgs),
    Rerun(RerunArgs),
    Status(StatusArgs),
    Repo(RepoArgs),
    Org(OrgArgs),
    Workflows(WorkflowsArgs),
    Runners(RunnersArgs),
    Queue(QueueArgs),
    Duties(DutiesArgs),
    Artifacts(ArtifactsArgs),
    Cache(CacheArgs),
    Objects(ObjectsArgs),
    Tags(TagsArgs),
    Manifests(ManifestsArgs),
    Storage(StorageArgs),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Token(TokenArgs),
    Login(LoginArgs),
    Context(ContextArgs),
    Whoami(WhoamiArgs),
}

/// Which server is asked, and how it is answered.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    /// The server; `KILN_SERVER` by default, else that of `kiln login`, else that of `kiln up` here
    #[arg(long, value_name = "URL", display_order = 90)]
    pub(crate) server: Option<String>,

    /// A server by the name that `kiln login --context` gave it; `KILN_CONTEXT` by default
    #[arg(long, value_name = "NAME", conflicts_with = "server", display_order = 90)]
    pub(crate) context: Option<String>,

    /// The token to show; `KILN_TOKEN` by default, else that of `kiln login` or `kiln up` for the
    /// server. Others on this machine can read what is typed here
    #[arg(long, value_name = "TOKEN", display_order = 91)]
    pub(crate) token: Option<String>,

    /// Print one JSON object on each line
    #[arg(long, display_order = 92)]
    pub(crate) json: bool,
}

/// Start runs on the server
///
/// Starts one workflow, or all that listen to an event, at a commit of a repository. Without
/// `--repo` it is the repository around you, with the branch that is checked out.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln trigger                                  all that a push to this branch starts
  kiln trigger ci.yml --watch                   one workflow, and see it through
  kiln trigger deploy.yml --input env=staging   with inputs
  kiln trigger --repo me/app --ref v1.2         a tag of another repository
  kiln trigger --event pull_request --payload event.json
  kiln trigger ci.yml --once-key nightly-7      safe to repeat: starts it once
  kiln trigger ci.yml --within 10m              unless this commit was started just now
  kiln trigger hotfix.yml --first               before all that waits
  kiln trigger --add                            adds this repository to the server first

Exit codes:
  0    runs were started, and with --watch all succeeded
  1    no workflow was started, or with --watch one failed
  2    wrong usage, or the server could not be asked
  130  with --watch: a run was cancelled")]
pub(crate) struct TriggerArgs {
    /// The file name of one workflow [default: all that listen to the event]
    #[arg(value_name = "WORKFLOW")]
    pub(crate) workflow: Option<String>,

    /// The repository [default: the one around you]
    #[arg(long, value_name = "OWNER/NAME|URL")]
    pub(crate) repo: Option<String>,

    /// A branch, tag or full ref [default: the branch that is checked out here, else the default branch]
    #[arg(long = "ref", value_name = "REF")]
    pub(crate) reference: Option<String>,

    /// Before all other jobs that wait, of whatever repository; for administrators
    #[arg(long, conflicts_with = "priority")]
    pub(crate) first: bool,

    /// Where its jobs stand among those of the same class: 0 (usual) to 100 (first); for administrators
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..=100))]
    pub(crate) priority: Option<i64>,

    /// A commit, when it is not the tip of the ref
    #[arg(long, value_name = "COMMIT")]
    pub(crate) sha: Option<String>,

    /// The event [default: `workflow_dispatch` with a workflow, else push]
    #[arg(long, value_name = "EVENT")]
    pub(crate) event: Option<String>,

    /// An input of the workflow; may be given more than once
    #[arg(long, value_name = "NAME=VALUE", requires = "workflow")]
    pub(crate) input: Vec<String>,

    /// The payload of the event, a JSON object; `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) payload: Option<PathBuf>,

    /// Starts the runs once, however often it is repeated with the same key
    #[arg(long, value_name = "KEY")]
    pub(crate) once_key: Option<String>,

    /// Starts no second run of the same commit, ref and inputs within this time, such as 10m, up to 24h: the one that
    /// is there is the answer
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) within: Option<u64>,

    /// Watch the runs until they end
    #[arg(long)]
    pub(crate) watch: bool,

    /// Add the repository around you if the server does not know it
    #[arg(long, conflicts_with = "repo")]
    pub(crate) add: bool,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// List runs, newest first
///
/// Inside a repository that the server knows, its runs; elsewhere, or with `--all`, those of all
/// repositories.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln runs                              the latest runs of this repository
  kiln runs --all --status in_progress   what runs now, everywhere
  kiln runs --branch main --limit 5
  kiln runs --actor ada --event push --search parser
  kiln runs --repo https://ci.example.com/me/app
  kiln runs --status failure --json | jq -r .url

Exit codes:
  0  the list was shown, even if it is empty
  2  wrong usage, or the server could not be asked")]
pub(crate) struct RunsArgs {
    /// Only of this repository
    #[arg(long, value_name = "OWNER/NAME|URL", conflicts_with = "all")]
    pub(crate) repo: Option<String>,

    /// Of all repositories
    #[arg(long)]
    pub(crate) all: bool,

    /// Only with this status or conclusion: queued, `in_progress`, completed, success, failure,
    /// cancelled, …
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<String>,

    /// Only of this branch or tag
    #[arg(long, value_name = "BRANCH")]
    pub(crate) branch: Option<String>,

    /// Only of this workflow: its file name, path or name
    #[arg(long, value_name = "WORKFLOW")]
    pub(crate) workflow: Option<String>,

    /// Only started by this event, such as push
    #[arg(long, value_name = "EVENT")]
    pub(crate) event: Option<String>,

    /// Only triggered by this person
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,

    /// Only with this text in the title or the branch
    #[arg(long, short, value_name = "TEXT")]
    pub(crate) search: Option<String>,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Watch a run until it ends
///
/// Shows its jobs with their steps, and for each that waits why it does. Goes on by itself when the
/// connection breaks or the server starts again.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln watch                    the latest run of this repository
  kiln watch r-9ix
  kiln watch https://ci.example.com/me/app/actions/runs/12345
  kiln watch r-9ix --cancel-on-interrupt
  kiln watch r-9ix --json       one object for each thing that happens

Ctrl-C stops watching; the run goes on.

Exit codes:
  0    the run succeeded, or was skipped
  1    the run failed
  2    wrong usage, or the server could not be asked
  130  the run was cancelled, or you stopped watching")]
pub(crate) struct WatchArgs {
    /// A run: its slug, number or address [default: the latest of this repository]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,

    /// Cancel the run on Ctrl-C, and see it end; a second one stops watching
    #[arg(long)]
    pub(crate) cancel_on_interrupt: bool,

    /// How to show what happens
    #[arg(long, value_enum, value_name = "VIEW", default_value_t = ProgressView::Auto, conflicts_with = "json")]
    pub(crate) progress: ProgressView,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Show the log of a job
///
/// Of a run it shows the first job that failed, else the one that runs, else the first; a note says
/// which one, and which others there are.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "\
Examples:
  kiln logs                              the latest run of this repository
  kiln logs r-9ix --job 'test (linux)'
  kiln logs r-9ix --failed               the steps that failed, of all jobs
  kiln logs r-9ix --follow               as it is written, until the job ends
  kiln logs https://ci.example.com/me/app/actions/runs/12345/job/67890
  kiln logs j-2kq --step 3 --tail 50 --timestamps
  kiln logs r-9ix --grep 'error.E' -E    lines that fit, of all its jobs and attempts
  kiln logs --all --grep 'timed out'     in all runs of this repository, the newest first
  kiln logs j-2kq --since 10m --follow   what came in the last ten minutes, and what comes
  kiln logs j-2kq --lines 120-130        or the address of a page, with #L120-L130
  kiln logs j-2kq --raw > job.txt        as it was printed, byte for byte

Exit codes:
  0    the log was shown, however the job ended
  1    there is nothing to show: no such job or step, nothing failed, or no line fits
  2    wrong usage, or the server could not be asked
  130  you stopped following")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option that can be given or not")]
pub(crate) struct LogsArgs {
    /// A run or a job: its slug, number or address [default: the latest run of this repository]
    #[arg(value_name = "RUN|JOB")]
    pub(crate) target: Option<String>,

    /// The job of the run: its name, or the beginning of it
    #[arg(long, short, value_name = "NAME")]
    pub(crate) job: Option<String>,

    /// Only this step: its number, its name, or the beginning of it
    #[arg(long, value_name = "STEP", conflicts_with = "failed")]
    pub(crate) step: Option<String>,

    /// Only the steps that failed, of all jobs
    #[arg(long, conflicts_with = "follow")]
    pub(crate) failed: bool,

    /// Go on until the job ends; waits for one that has not started
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// Put the time before each line
    #[arg(long, short, conflicts_with = "raw")]
    pub(crate) timestamps: bool,

    /// Only the last lines
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<u64>,

    /// Only these lines, by their numbers: `120`, `120-130` or `120-`
    #[arg(long, value_name = "FROM[-TO]", conflicts_with_all = ["tail", "follow", "failed", "all"])]
    pub(crate) lines: Option<Lines>,

    /// Only lines with this text; of all jobs of all attempts, unless one is named
    #[arg(long, short, value_name = "TEXT")]
    pub(crate) grep: Option<String>,

    /// `--grep` looks into all runs of the repository, the newest first
    #[arg(
        long, requires = "grep",
        conflicts_with_all = ["target", "job", "step", "failed", "follow", "since", "attempt", "claim"]
    )]
    pub(crate) all: bool,

    /// The repository of `--all` [default: the one around you]
    #[arg(long, value_name = "OWNER/NAME|URL", requires = "all")]
    pub(crate) repo: Option<String>,

    /// `--grep` is a regular expression
    #[arg(long, short = 'E', requires = "grep")]
    pub(crate) regex: bool,

    /// `--grep` finds capital and small letters alike
    #[arg(long, short, requires = "grep")]
    pub(crate) ignore_case: bool,

    /// Only lines from this time on: `10m` ago, or `2026-11-16T09:30:00Z`
    #[arg(long, value_name = "TIME", value_parser = time::since)]
    pub(crate) since: Option<Timestamp>,

    /// As it was printed: no headings, nothing left out
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,

    /// Of an earlier attempt of the run [default: the latest]
    #[arg(long, value_name = "N")]
    pub(crate) attempt: Option<u32>,

    /// Of an earlier try of the job, when a runner was lost [default: the latest]
    #[arg(long, value_name = "N")]
    pub(crate) claim: Option<u32>,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Cancel runs
///
/// Jobs that wait never start; those that run get time to clean up, and their `always()` steps run.
/// With `--force` they do not.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln cancel r-9ix
  kiln cancel r-9ix r-9iy --reason 'wrong branch'
  kiln cancel r-9ix --force      when it does not stop

Exit codes:
  0  all are being cancelled, or were over already
  2  wrong usage, or the server could not be asked or refused one")]
pub(crate) struct CancelArgs {
    /// Runs: slugs, numbers or addresses
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<String>,

    /// End the jobs at once, without `always()` steps
    #[arg(long)]
    pub(crate) force: bool,

    /// Why; shown with the run
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Run a run again, or one of its jobs, as a new attempt
///
/// The commit, inputs and variables are those of the run. Without options all jobs of a run run again; of a
/// job, it and what depends on it.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln rerun r-9ix
  kiln rerun r-9ix --failed --watch      what failed, and what depends on it
  kiln rerun r-9ix --job 'test (linux)'
  kiln rerun j-2kq                       one job, and what depends on it
  kiln rerun j-2kq --from-step Test      the same, without the scripts before that step
  kiln rerun https://ci.example.com/me/app/actions/runs/12345/job/67890

Exit codes:
  0    the new attempt was started, and with --watch it succeeded
  1    with --watch: it failed
  2    wrong usage, or the server could not be asked or refused it
  130  with --watch: it was cancelled")]
pub(crate) struct RerunArgs {
    /// A run or a job: its slug, number or address
    #[arg(value_name = "RUN|JOB")]
    pub(crate) run: String,

    /// Only what failed, and what depends on it
    #[arg(long)]
    pub(crate) failed: bool,

    /// Only this job, and what depends on it: its name or slug
    #[arg(long, value_name = "JOB", conflicts_with = "failed")]
    pub(crate) job: Option<String>,

    /// Let the job begin at this step: its number (from 1), id or name
    ///
    /// Steps before it that use an action run all the same, because they prepare the place; scripts before it are left
    /// out, and what they would have given out is empty. Jobs that depend on it run whole.
    #[arg(long, value_name = "STEP", conflicts_with = "failed")]
    pub(crate) from_step: Option<String>,

    /// Watch the new attempt until it ends
    #[arg(long)]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
