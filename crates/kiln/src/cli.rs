//! What can be typed: commands, options, their help and examples.

mod access;
mod cache_key;
mod client;
mod content;
mod db;
mod fleet;
mod look;
mod objects;
mod repo;
mod runner;
mod server;
mod sim;
mod storage;
mod workflows;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::limits;

pub(crate) use access::{
    ContextArgs, ContextCommand, LoginArgs, TokenArgs, TokenCommand, WhoamiArgs,
};
pub(crate) use cache_key::CacheKeyArgs;
pub(crate) use client::{
    CancelArgs, ClientCommand, LogsArgs, RerunArgs, RunsArgs, ServerArgs, TriggerArgs, WatchArgs,
};
pub(crate) use content::{
    Artifact, ArtifactsArgs, ArtifactsCommand, CacheArgs, CacheCommand, CacheOrder,
};
pub(crate) use db::{DatabaseArg, DbArgs, DbCommand};
pub(crate) use fleet::{
    DutiesArgs, DutiesCommand, MoveArgs, PauseArgs, PauseScope, QueueArgs, QueueCommand,
    ResumeArgs, RunnerArgs, RunnerShowArgs, RunnersArgs, RunnersCommand,
};
pub(crate) use look::{OpenArgs, ShowArgs, StatusArgs, SummaryArgs};
pub(crate) use objects::{ManifestsArgs, ManifestsCommand, ObjectsArgs, ObjectsCommand, TagsArgs};
pub(crate) use repo::{JobLimit, OneRepoArgs, OrgArgs, OrgCommand, RepoArgs, RepoCommand};
pub(crate) use runner::{AgentArgs, AgentCommand, AgentOptions, DataArg, LogFormat, RunnerBackend};
pub(crate) use server::{ConfigArgs, ConfigCommand, DoctorArgs, ServeArgs, SettingArgs, UpArgs};
pub(crate) use sim::{RecordArgs, SimArgs, SimCommand};
pub(crate) use storage::{StorageArgs, StorageCommand};
pub(crate) use workflows::{OneWorkflowArgs, WorkflowsArgs, WorkflowsCommand};

/// Check, explain, draw and run GitHub Actions workflows, here or on a server of your own
///
/// Kiln reads the workflows and actions of a repository exactly as GitHub does. `run`, `lint`, `eval`, `plan`, `graph` and `sim`
/// work on this machine, without a server; `up`, `server`, `runner`, `config` and `db` are a server or look after one. The other
/// commands ask a server: the one of `--server` or `kiln login`, else the one that runs here.
///
/// Exit codes: 0 all is well (warnings allowed), 1 the workflow or expression has errors, or a run failed, 2 kiln could not do
/// what was asked, 130 a run was cancelled, or you stopped watching it.
#[derive(Debug, Parser)]
#[command(name = "kiln", version, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// When to use colour
    ///
    /// `auto` uses it on a terminal unless the environment variable `NO_COLOR` is set.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t = Color::Auto, display_order = 100)]
    pub(crate) color: Color,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The whole command tree, for completions, man pages and the reference.
pub fn command() -> clap::Command {
    Cli::command()
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Up(UpArgs),
    Run(RunArgs),
    Lint(LintArgs),
    Eval(EvalArgs),
    Plan(PlanArgs),
    Graph(GraphArgs),
    #[command(flatten)]
    Client(ClientCommand),
    #[command(name = "server")]
    Serve(ServeArgs),
    Config(ConfigArgs),
    Doctor(DoctorArgs),
    Db(DbArgs),
    Runner(AgentArgs),
    Sim(SimArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    /// Ends the processes of a run whose kiln is gone
    #[command(name = "__guard", hide = true)]
    Guard {
        token: String,
    },
}

/// Run workflows of this repository on this machine
///
/// Runs the jobs of the workflows that an event would start, each in a clean copy of the commit,
/// without a server and without Docker. Logs are kept.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln run                                    what a push would run
  kiln run --workflow ci.yml --job test       one job and what it needs
  kiln run --event pull_request --dirty       the working tree, as a pull request
  kiln run --secret TOKEN --var MODE=fast     a secret from the environment, a variable
  kiln run --label ubuntu-latest              skip the jobs for other machines
  kiln run --progress plain | tee run.txt     every line of every job
  kiln run --from-failed                      what failed last time, and what depends on it

Exit codes:
  0    all jobs succeeded or were skipped
  1    a job failed
  2    wrong usage, or a workflow that is not valid
  130  cancelled")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option that can be given or not")]
pub(crate) struct RunArgs {
    /// A workflow file, or a directory with workflows; may be given more than once
    #[arg(long, short, value_name = "PATH")]
    pub(crate) workflow: Vec<PathBuf>,

    /// The event to answer
    #[arg(long, value_name = "EVENT", default_value = "push")]
    pub(crate) event: String,

    /// The payload of the event, a JSON object
    #[arg(long, value_name = "FILE")]
    pub(crate) event_file: Option<PathBuf>,

    /// Run this job and what it needs
    #[arg(long, short, value_name = "JOB")]
    pub(crate) job: Option<String>,

    /// Let that job begin at this step: its number (from 1), id or name
    ///
    /// Steps before it that use an action run all the same, because they prepare the place; scripts before it are left
    /// out, and what they would have given out is empty. What the job needs runs whole.
    #[arg(long, value_name = "STEP", requires = "job")]
    pub(crate) from_step: Option<String>,

    /// Run only the legs of matrices that have this value
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) matrix: Vec<String>,

    /// An input of a dispatched workflow
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) input: Vec<String>,

    /// A variable of the `vars` context
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) var: Vec<String>,

    /// A secret; without a value it is taken from the environment
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) secret: Vec<String>,

    /// A file with a secret on each line, `NAME=VALUE`
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,

    /// Where actions come from: a directory with `owner/repository`, or an address with `{owner}`
    /// and `{repository}` in it; `KILN_ACTIONS` by default
    #[arg(long, value_name = "MIRROR")]
    pub(crate) actions: Option<String>,

    /// How many jobs run at once; one for each core by default
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,

    /// Run the files of the working tree instead of those of the commit
    #[arg(long)]
    pub(crate) dirty: bool,

    /// Run again what failed in the last run here, and what depends on it
    ///
    /// Jobs that succeeded are taken over with their outputs. The workflow, event, inputs and
    /// variables are those of the last run; secrets are not kept and must be given again.
    #[arg(long, conflicts_with_all = ["workflow", "event", "event_file", "job", "matrix", "dry_run"])]
    pub(crate) from_failed: bool,

    /// Only show what would run
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// A label that this machine answers to; may be given more than once [default: every label]
    ///
    /// A job whose `runs-on` has another label cannot run here: it is skipped, and says so.
    #[arg(long, value_name = "LABEL")]
    pub(crate) label: Vec<String>,

    /// How long a job may take that sets no `timeout-minutes`
    #[arg(long, value_name = "MINUTES", default_value = "360", value_parser = limits::some_minutes)]
    pub(crate) timeout: Duration,

    /// How long a step may print nothing before it is ended; 0 for as long as it likes
    #[arg(long, value_name = "MINUTES", default_value = "30", value_parser = limits::minutes)]
    pub(crate) silence: Duration,

    /// How large the log of a job may become; the job goes on, the log says where it was cut
    #[arg(long, value_name = "SIZE", default_value = "4GB", value_parser = limits::size)]
    pub(crate) log_limit: u64,

    /// How large the caches of all repositories on this machine may become; the least used go first
    #[arg(long, value_name = "SIZE", default_value = "10GB", value_parser = limits::size)]
    pub(crate) cache_limit: u64,

    /// How long earlier runs stay with their logs and artifacts; the last run of each repository always does
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = limits::duration)]
    pub(crate) keep_runs: Duration,

    /// How large earlier runs of all repositories on this machine may be together; the oldest go first
    #[arg(long, value_name = "SIZE", default_value = "20GB", value_parser = limits::size)]
    pub(crate) runs_limit: u64,

    /// How to show what happens
    #[arg(long, value_enum, value_name = "VIEW", default_value_t = ProgressView::Auto)]
    pub(crate) progress: ProgressView,

    /// Print one JSON object for each thing that happens
    #[arg(long, conflicts_with = "progress")]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressView {
    /// Live on a terminal, else plain; plain as well where `CI` is set or `TERM` is `dumb`
    Auto,
    /// One moving line for each running job
    Live,
    /// Every line of every job, with its name in front
    Plain,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// Check workflows and actions
///
/// Reports everything that GitHub would refuse, and what it would accept but most likely is a
/// mistake. All findings are shown, not only the first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln lint                              the repository you are in
  kiln lint .github/workflows/ci.yml     one file
  kiln lint --format sarif > kiln.sarif  for code scanning
  kiln lint --format github              annotations inside a workflow
  git show HEAD:ci.yml | kiln lint -     standard input

Exit codes:
  0  no errors (there may be warnings)
  1  at least one error
  2  wrong usage, or a path that does not exist")]
pub(crate) struct LintArgs {
    /// Files or directories to check, `-` for standard input [default: this repository]
    ///
    /// In a directory, kiln checks `.github/workflows/*.yml` and every `action.yml` below it; a
    /// directory without `.github` also has its own `*.yml` files checked as workflows. `.yaml`
    /// works as well. `.git`, `node_modules` and `target` are not searched.
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// How to print the findings
    #[arg(long, value_enum, default_value_t = LintFormat::Human)]
    pub(crate) format: LintFormat,

    /// Report only what the language itself refuses
    ///
    /// Leaves out the checks for likely mistakes, such as unpinned actions or script injection.
    #[arg(long)]
    pub(crate) no_checks: bool,

    /// Leave out the warnings of this check; may be given more than once
    #[arg(long, value_name = "CHECK")]
    pub(crate) allow: Vec<String>,

    /// Exit with 1 when there are warnings, too
    #[arg(long)]
    pub(crate) deny_warnings: bool,

    /// Show errors only: no warnings, no summary
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LintFormat {
    /// For people, with the source underlined
    Human,
    /// One JSON array of objects with file, line, column, `end_line`, `end_column`, severity, code,
    /// message and help; lines and columns count from one, columns in characters, ends exclusive
    Json,
    /// The same objects, one per line
    Jsonl,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// Workflow commands that GitHub shows as annotations
    Github,
}

/// Evaluate an expression
///
/// The expression may stand with or without `${{ }}`. A string is printed as it is, every other
/// value as JSON. Numbers that JSON cannot write become the strings "NaN", "Infinity" and
/// "-Infinity".
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln eval \"startsWith('kiln', 'k') && 1 < 2\"
  kiln eval \"hashFiles('**/Cargo.lock')\"
  kiln eval 'github.ref_name' --context contexts.json
  kiln eval --json \"fromJSON('[1, 2]')\"

With --jsonl, each line of standard input is an object such as
  {\"expr\": \"github.actor\", \"contexts\": {\"github\": {\"actor\": \"mona\"}}}
and each line of output is one of
  {\"kind\": \"String\", \"value\": \"mona\"}
  {\"error\": {\"kind\": \"parsing\", \"message\": \"...\"}}
where the kind of a value is Boolean, Number, String, Array, Object or Null, and the kind of an
error is lexing, parsing, evaluation or, for a line that cannot be read, input. Blank lines are
ignored. The exit code is 0 even if single lines have errors.")]
pub(crate) struct EvalArgs {
    /// The expression
    #[arg(value_name = "EXPR", required_unless_present = "jsonl", allow_negative_numbers = true)]
    pub(crate) expr: Option<String>,

    /// A JSON file with the contexts: {"github": {...}, "env": {...}}
    #[arg(long, value_name = "FILE")]
    pub(crate) context: Option<PathBuf>,

    /// Print {"kind": ..., "value": ...} or {"error": ...}
    #[arg(long)]
    pub(crate) json: bool,

    /// Evaluate one expression per line of standard input
    #[arg(long, conflicts_with_all = ["expr", "context", "json"])]
    pub(crate) jsonl: bool,
}

/// Show what a workflow would run for an event, and why not
///
/// Without --event, shows the jobs and what starts the workflow. What only the run itself can
/// answer stays an expression in `${{ }}`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln plan .github/workflows/ci.yml
  kiln plan ci.yml --event push --ref main --changed src/lib.rs
  kiln plan ci.yml --event pull_request --event-file payload.json --json

The exit code is 0 whether the workflow runs or is skipped, 1 if it has errors.")]
pub(crate) struct PlanArgs {
    /// The workflow file, `-` for standard input
    #[arg(value_name = "WORKFLOW")]
    pub(crate) workflow: PathBuf,

    /// The event, such as push, `pull_request` or `workflow_dispatch`
    #[arg(long, value_name = "EVENT")]
    pub(crate) event: Option<String>,

    /// A JSON file with the payload of the event
    #[arg(long, value_name = "FILE", requires = "event")]
    pub(crate) event_file: Option<PathBuf>,

    /// The branch or the full ref; for pull requests the base branch [default: `ref` of the payload]
    #[arg(long = "ref", value_name = "REF", requires = "event")]
    pub(crate) reference: Option<String>,

    /// A file that the event changed, for path filters; may be repeated
    #[arg(long, value_name = "FILE", requires = "event")]
    pub(crate) changed: Vec<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Draw the jobs of a workflow
///
/// Jobs stand in the order in which they can start. A matrix is one box with the number of its
/// legs, a reusable workflow shows its own jobs inside.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln graph .github/workflows/ci.yml
  kiln graph ci.yml --format svg -o ci.svg
  kiln graph ci.yml --format dot | dot -Tpng > ci.png")]
pub(crate) struct GraphArgs {
    /// The workflow file, `-` for standard input
    #[arg(value_name = "WORKFLOW")]
    pub(crate) workflow: PathBuf,

    /// How to draw
    #[arg(long, value_enum, default_value_t = GraphFormat::Text)]
    pub(crate) format: GraphFormat,

    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// Boxes and lines for a terminal
    Text,
    /// A Mermaid flowchart, for Markdown
    Mermaid,
    /// Graphviz
    Dot,
    /// A self-contained picture, light or dark as the viewer prefers
    Svg,
}

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln completions bash > ~/.local/share/bash-completion/completions/kiln
  kiln completions zsh > ~/.zfunc/_kiln
  kiln completions fish > ~/.config/fish/completions/kiln.fish")]
pub(crate) struct CompletionsArgs {
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// Print the man page, or write all of them
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln man | man -l -
  kiln man --out ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write kiln.1 and a page for each command into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definitions_are_sound() {
        super::command().debug_assert();
    }
}
