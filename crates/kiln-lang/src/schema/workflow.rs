//! The table of the workflow file.

use super::{
    ANYTHING, Allowed, BOOLEAN, Def, Key, Mapping, NON_EMPTY, NON_EMPTY_LIST, NULL, ONE_OR_MORE,
    POSITIVE, Rest, SCALAR, Shape, TEXT, Variants, def, key, plain,
};

/// The root of a workflow file.
pub static WORKFLOW: Def = plain(Shape::Mapping(&ROOT));

static ROOT: Mapping = Mapping {
    what: "a workflow",
    keys: &[
        key("name", &TEXT, "The name people see."),
        key("description", &TEXT, "What it is for."),
        key("run-name", &RUN_NAME, "The title of each run."),
        key("on", &ON, "The events that start a run.").required(),
        key("permissions", &PERMISSIONS, "What the job token may do, for all jobs."),
        key("env", &WORKFLOW_ENV, "Environment of all jobs."),
        key("defaults", &WORKFLOW_DEFAULTS, "Shell and directory of all `run` steps."),
        key("concurrency", &WORKFLOW_CONCURRENCY, "Runs that must not overlap."),
        key("jobs", &JOBS, "The jobs, by id.").required(),
    ],
    rest: None,
};

static ON: Def = plain(Shape::Events);
static RUN_NAME: Def = def(Shape::Text, Allowed::EVENT);

const fn text_values(placeholder: &'static str, doc: &'static str) -> Rest {
    Rest { placeholder, value: &TEXT, doc }
}

static ENV: Mapping = Mapping {
    what: "an environment",
    keys: &[],
    rest: Some(text_values("<name>", "A variable and its value.")),
};
static WORKFLOW_ENV: Def = def(Shape::Mapping(&ENV), Allowed::EVENT.and(Allowed::SECRETS));
static JOB_ENV: Def = def(Shape::Mapping(&ENV), Allowed::LEG_AND_SECRETS);
pub(super) static STEP_ENV: Def = def(Shape::Mapping(&ENV), Allowed::STEP);
static CONTAINER_ENV: Def = def(Shape::Mapping(&ENV), Allowed::RUNNER_AND_SECRETS);

static WORKFLOW_DEFAULTS: Def = plain(Shape::Mapping(&DEFAULTS));
static DEFAULTS: Mapping = Mapping {
    what: "defaults",
    keys: &[key("run", &DEFAULTS_RUN, "Defaults of `run` steps.")],
    rest: None,
};
static DEFAULTS_RUN: Def = plain(Shape::Mapping(&RUN_SETTINGS));
static JOB_DEFAULTS: Def = def(Shape::Mapping(&DEFAULTS), Allowed::JOB_DEFAULTS);
static RUN_SETTINGS: Mapping = Mapping {
    what: "run defaults",
    keys: &[
        key("shell", &NON_EMPTY, "The shell, or a command with `{0}` for the script."),
        key("working-directory", &NON_EMPTY, "The directory, relative to the workspace."),
    ],
    rest: None,
};

pub(super) static PERMISSIONS: Def = plain(Shape::OneOf(&[&PERMISSION_WORD, &PERMISSION_MAP]));
static PERMISSION_WORD: Def = plain(Shape::Word(&["read-all", "write-all"]));
static PERMISSION_MAP: Def = plain(Shape::Mapping(&PERMISSION_KEYS));
static ANY_LEVEL: Def = plain(Shape::Word(&["read", "write", "none"]));
static READ_LEVEL: Def = plain(Shape::Word(&["read", "none"]));
static WRITE_LEVEL: Def = plain(Shape::Word(&["write", "none"]));
static PERMISSION_KEYS: Mapping = Mapping {
    what: "permissions",
    keys: &[
        key("actions", &ANY_LEVEL, "Runs, jobs, caches and artifacts of the repository."),
        key("artifact-metadata", &ANY_LEVEL, "Records about stored artifacts."),
        key("attestations", &ANY_LEVEL, "Signed statements about artifacts."),
        key("checks", &ANY_LEVEL, "Check runs on commits."),
        key("code-quality", &ANY_LEVEL, "Code quality findings."),
        key("contents", &ANY_LEVEL, "The repository's files, commits and releases."),
        key(
            "copilot-requests",
            &WRITE_LEVEL,
            "Requests to GitHub's assistant; grants nothing on Kiln.",
        ),
        key("deployments", &ANY_LEVEL, "Deployments and their statuses."),
        key("discussions", &ANY_LEVEL, "Discussions."),
        key("drives", &ANY_LEVEL, "Drives; grants nothing on Kiln."),
        key("id-token", &WRITE_LEVEL, "Ask for an OpenID Connect token of this job."),
        key("issues", &ANY_LEVEL, "Issues and their comments."),
        key("models", &READ_LEVEL, "GitHub's model service; grants nothing on Kiln."),
        key("packages", &ANY_LEVEL, "Packages."),
        key("pages", &ANY_LEVEL, "Pages builds."),
        key("pull-requests", &ANY_LEVEL, "Pull requests and their comments."),
        key("repository-projects", &ANY_LEVEL, "Classic projects."),
        key("security-events", &ANY_LEVEL, "Code scanning alerts."),
        key("statuses", &ANY_LEVEL, "Statuses of commits."),
        key("vulnerability-alerts", &READ_LEVEL, "Dependency alerts."),
    ],
    rest: None,
};

static WORKFLOW_CONCURRENCY: Def = def(Shape::OneOf(&[&TEXT, &CONCURRENCY_MAP]), Allowed::EVENT);
static JOB_CONCURRENCY: Def = def(Shape::OneOf(&[&NON_EMPTY, &CONCURRENCY_MAP]), Allowed::LEG);
static CONCURRENCY_MAP: Def = plain(Shape::Mapping(&CONCURRENCY));
static QUEUE: Def = plain(Shape::Word(&["single", "max"]));
static CONCURRENCY: Mapping = Mapping {
    what: "concurrency",
    keys: &[
        key("group", &NON_EMPTY, "Its members run one at a time.").required(),
        key("cancel-in-progress", &BOOLEAN, "A newcomer cancels the one that runs."),
        key("queue", &QUEUE, "How many may wait: one, or up to a hundred in order."),
    ],
    rest: None,
};

static JOBS: Def = plain(Shape::Mapping(&JOB_MAP));
static JOB_MAP: Mapping = Mapping {
    what: "jobs",
    keys: &[],
    rest: Some(Rest {
        placeholder: "<job_id>",
        value: &JOB,
        doc: "A job, or a call of a reusable workflow.",
    }),
};
static JOB: Def = plain(Shape::Variants(&Variants {
    what: "a job",
    choices: &[("runs-on", &STEPS_JOB), ("uses", &CALL_JOB)],
    told_by: None,
    missing: None,
}));

static JOB_IF: Def = def(Shape::Condition, Allowed::JOB_IF);
static LEG_TEXT: Def = def(Shape::Text, Allowed::LEG);
static LEG_NUMBER: Def = def(Shape::Number, Allowed::LEG);
static LEG_POSITIVE: Def = def(Shape::Positive, Allowed::LEG);
static LEG_BOOLEAN: Def = def(Shape::Boolean, Allowed::LEG);

static STEPS_JOB: Mapping = Mapping {
    what: "a job",
    keys: &[
        key("name", &LEG_TEXT, "The name people see."),
        key("permissions", &PERMISSIONS, "What the job token may do; replaces the workflow's."),
        NEEDS_KEY,
        key("if", &JOB_IF, "Whether the job runs at all."),
        key("runs-on", &RUNS_ON, "Labels that the runner must have.").required(),
        key(
            "environment",
            &ENVIRONMENT,
            "The environment it deploys to, with its rules and secrets.",
        ),
        key("concurrency", &JOB_CONCURRENCY, "Jobs that must not overlap."),
        key("outputs", &OUTPUTS, "Values for the jobs that need this one."),
        key("env", &JOB_ENV, "Environment of all steps."),
        key("defaults", &JOB_DEFAULTS, "Shell and directory of its `run` steps."),
        key("steps", &STEPS, "What it does, in order."),
        key("timeout-minutes", &LEG_POSITIVE, "The longest it may run; 360 by default."),
        key(
            "cancel-timeout-minutes",
            &LEG_NUMBER,
            "The longest its clean-up may take once cancelled; 5 by default.",
        ),
        key("strategy", &STRATEGY, "The matrix that multiplies the job."),
        key("continue-on-error", &LEG_BOOLEAN, "Whether the run stays green when it fails."),
        key("container", &CONTAINER, "The container its steps run in."),
        key("services", &SERVICES, "Containers beside it, by id."),
        key("snapshot", &SNAPSHOT, "A custom image of a hosted runner.").refused(
            "it makes images of GitHub's hosted runners, which a self-hosted runner does not have",
        ),
    ],
    rest: None,
};

static CALL_JOB: Mapping = Mapping {
    what: "a job that calls a workflow",
    keys: &[
        key("name", &LEG_TEXT, "The name people see."),
        key("uses", &NON_EMPTY, "`./path` or `owner/repo/path@ref` of a reusable workflow.")
            .required(),
        key("with", &CALL_WITH, "Its inputs."),
        key("secrets", &CALL_SECRETS, "Its secrets, or `inherit`."),
        NEEDS_KEY,
        key("if", &JOB_IF, "Whether it is called at all."),
        key("permissions", &PERMISSIONS, "The most its jobs may have."),
        key("concurrency", &JOB_CONCURRENCY, "Calls that must not overlap."),
        key("strategy", &STRATEGY, "The matrix that multiplies the call."),
    ],
    rest: None,
};

const NEEDS_KEY: Key = key("needs", &ONE_OR_MORE, "Jobs that must end before this one starts.");

static CALL_WITH: Def = def(Shape::Mapping(&CALL_INPUTS), Allowed::LEG);
static CALL_INPUTS: Mapping = Mapping {
    what: "inputs",
    keys: &[],
    rest: Some(Rest {
        placeholder: "<input>",
        value: &SCALAR,
        doc: "An input that the called workflow declares.",
    }),
};
static CALL_SECRETS: Def = plain(Shape::OneOf(&[&INHERIT, &CALL_SECRET_MAP]));
static INHERIT: Def = plain(Shape::Word(&["inherit"]));
static CALL_SECRET_MAP: Def = def(Shape::Mapping(&SECRET_VALUES), Allowed::LEG_AND_SECRETS);
static SECRET_VALUES: Mapping = Mapping {
    what: "secrets",
    keys: &[],
    rest: Some(Rest {
        placeholder: "<secret>",
        value: &SCALAR,
        doc: "A secret that the called workflow declares.",
    }),
};

static STRATEGY: Def = def(Shape::Mapping(&STRATEGY_KEYS), Allowed::NEEDS);
static STRATEGY_KEYS: Mapping = Mapping {
    what: "a strategy",
    keys: &[
        key("matrix", &MATRIX, "Variables whose combinations each make a job."),
        key(
            "fail-fast",
            &BOOLEAN,
            "Whether the first failure cancels the other legs; true by default.",
        ),
        key("max-parallel", &POSITIVE, "How many legs may run at once."),
    ],
    rest: None,
};
static MATRIX: Def = plain(Shape::Mapping(&MATRIX_KEYS));
static MATRIX_KEYS: Mapping = Mapping {
    what: "a matrix",
    keys: &[
        key("include", &MATRIX_FILTERS, "Combinations to add or extend."),
        key("exclude", &MATRIX_FILTERS, "Combinations to leave out."),
    ],
    rest: Some(Rest {
        placeholder: "<variable>",
        value: &VECTOR,
        doc: "A variable and its values.",
    }),
};
static VECTOR: Def = plain(Shape::Sequence(&ANYTHING));
static MATRIX_FILTERS: Def = plain(Shape::Sequence(&MATRIX_FILTER));
static MATRIX_FILTER: Def = plain(Shape::Mapping(&MATRIX_VALUES));
static MATRIX_VALUES: Mapping = Mapping {
    what: "a matrix combination",
    keys: &[],
    rest: Some(Rest {
        placeholder: "<variable>",
        value: &ANYTHING,
        doc: "A variable and its value.",
    }),
};

static RUNS_ON: Def = def(Shape::OneOf(&[&NON_EMPTY, &NON_EMPTY_LIST, &RUNS_ON_MAP]), Allowed::LEG);
static RUNS_ON_MAP: Def = plain(Shape::Mapping(&RUNS_ON_KEYS));
static RUNS_ON_KEYS: Mapping = Mapping {
    what: "a runner choice",
    keys: &[
        key("group", &NON_EMPTY, "The pool of runners."),
        key("labels", &ONE_OR_MORE, "Labels that the runner must have."),
    ],
    rest: None,
};

static ENVIRONMENT: Def = def(Shape::OneOf(&[&TEXT, &ENVIRONMENT_MAP]), Allowed::LEG);
static ENVIRONMENT_MAP: Def = plain(Shape::Mapping(&ENVIRONMENT_KEYS));
static ENVIRONMENT_URL: Def = def(Shape::Text, Allowed::RUNNER);
static ENVIRONMENT_KEYS: Mapping = Mapping {
    what: "an environment",
    keys: &[
        key("name", &TEXT, "The environment's name.").required(),
        key(
            "url",
            &ENVIRONMENT_URL,
            "Where the deployment can be seen; evaluated at the job's end.",
        ),
        key("deployment", &BOOLEAN, "Whether the job counts as a deployment; true by default."),
    ],
    rest: None,
};

static OUTPUTS: Def = def(Shape::Mapping(&OUTPUT_MAP), Allowed::RUNNER_AND_SECRETS);
static OUTPUT_MAP: Mapping = Mapping {
    what: "outputs",
    keys: &[],
    rest: Some(text_values("<output>", "An output and its value, evaluated at the job's end.")),
};

static CONTAINER: Def = def(Shape::OneOf(&[&TEXT, &CONTAINER_MAP]), Allowed::LEG);
static CONTAINER_MAP: Def = plain(Shape::Mapping(&CONTAINER_KEYS));
static CREDENTIALS: Def = def(Shape::Mapping(&CREDENTIAL_KEYS), Allowed::CREDENTIALS);
static CREDENTIAL_KEYS: Mapping = Mapping {
    what: "credentials",
    keys: &[
        key("username", &NON_EMPTY, "The user at the registry."),
        key("password", &NON_EMPTY, "The password or token."),
    ],
    rest: None,
};
const IMAGE: Key =
    key("image", &NON_EMPTY, "The image to start; none when it evaluates to nothing.");
const OPTIONS: Key =
    key("options", &TEXT, "Further options for the container, within what the pool allows.");
const PORTS: Key = key("ports", &NON_EMPTY_LIST, "Ports to publish.");
const VOLUMES: Key =
    key("volumes", &NON_EMPTY_LIST, "Volumes to mount, within what the pool allows.");
static CONTAINER_KEYS: Mapping = Mapping {
    what: "a container",
    keys: &[
        IMAGE,
        key("credentials", &CREDENTIALS, "The login for the registry."),
        key("env", &CONTAINER_ENV, "Environment of the container."),
        PORTS,
        VOLUMES,
        OPTIONS,
    ],
    rest: None,
};
static SERVICES: Def = def(Shape::Mapping(&SERVICE_MAP), Allowed::LEG);
static SERVICE_MAP: Mapping = Mapping {
    what: "services",
    keys: &[],
    rest: Some(Rest {
        placeholder: "<service_id>",
        value: &SERVICE,
        doc: "A container that runs beside the job.",
    }),
};
static SERVICE: Def = plain(Shape::OneOf(&[&NON_EMPTY, &SERVICE_DEF]));
static SERVICE_DEF: Def = plain(Shape::Mapping(&SERVICE_KEYS));
static SERVICE_KEYS: Mapping = Mapping {
    what: "a service",
    keys: &[
        IMAGE,
        key("credentials", &CREDENTIALS, "The login for the registry."),
        key("env", &CONTAINER_ENV, "Environment of the container."),
        PORTS,
        VOLUMES,
        OPTIONS,
        key("entrypoint", &TEXT, "Replaces the image's entrypoint."),
        key("command", &TEXT, "Replaces the image's command."),
    ],
    rest: None,
};

static SNAPSHOT: Def = plain(Shape::OneOf(&[&NON_EMPTY, &SNAPSHOT_MAP]));
static SNAPSHOT_MAP: Def = plain(Shape::Mapping(&SNAPSHOT_KEYS));
static SNAPSHOT_IF: Def = def(Shape::Condition, Allowed::LEG);
static SNAPSHOT_KEYS: Mapping = Mapping {
    what: "a snapshot",
    keys: &[
        key("image-name", &NON_EMPTY, "The image to make.").required(),
        key("if", &SNAPSHOT_IF, "Whether it is made."),
        key("version", &NON_EMPTY, "Its version."),
    ],
    rest: None,
};

static STEPS: Def = plain(Shape::Sequence(&STEP));
static STEP: Def = plain(Shape::Variants(&Variants {
    what: "a step",
    choices: &[
        ("run", &RUN_STEP),
        ("uses", &USES_STEP),
        ("wait", &WAIT_STEP),
        ("wait-all", &WAIT_ALL_STEP),
        ("cancel", &CANCEL_STEP),
        ("parallel", &PARALLEL_STEP),
    ],
    told_by: None,
    missing: Some("a step needs `run` or `uses` (or `wait`, `wait-all`, `cancel`, `parallel`)"),
}));

pub(super) static STEP_TEXT: Def = def(Shape::Text, Allowed::STEP);
static STEP_POSITIVE: Def = def(Shape::Positive, Allowed::STEP);
static STEP_BOOLEAN: Def = def(Shape::Boolean, Allowed::STEP);
static STEP_IF: Def = def(Shape::Condition, Allowed::STEP_IF);
static STEP_WITH: Def = def(Shape::Mapping(&WITH), Allowed::STEP);
pub(super) static WITH: Mapping = Mapping {
    what: "inputs",
    keys: &[],
    rest: Some(text_values("<input>", "An input of the action.")),
};

const STEP_NAME: Key = key("name", &STEP_TEXT, "The name people see.");
const STEP_ID: Key = key("id", &NON_EMPTY, "The name by which later steps find its outputs.");
const STEP_CONTINUE: Key =
    key("continue-on-error", &STEP_BOOLEAN, "Whether the job goes on as if it had succeeded.");
const STEP_TIMEOUT: Key = key("timeout-minutes", &STEP_POSITIVE, "The longest it may run.");
const STEP_IF_KEY: Key = key("if", &STEP_IF, "Whether it runs.");
const STEP_ENV_KEY: Key = key("env", &STEP_ENV, "Its environment.");
const BACKGROUND: Key = key("background", &BOOLEAN, "Go on with the next step while it runs.");

static RUN_STEP: Mapping = Mapping {
    what: "a `run` step",
    keys: &[
        STEP_ID,
        STEP_IF_KEY,
        STEP_NAME,
        key("run", &STEP_TEXT, "A script for the shell.").required(),
        key("working-directory", &STEP_TEXT, "Where the script runs."),
        key("shell", &NON_EMPTY, "The shell, or a command with `{0}` for the script."),
        STEP_ENV_KEY,
        STEP_CONTINUE,
        STEP_TIMEOUT,
        BACKGROUND,
    ],
    rest: None,
};
static USES_STEP: Mapping = Mapping {
    what: "a `uses` step",
    keys: &[
        STEP_ID,
        STEP_IF_KEY,
        STEP_NAME,
        key("uses", &NON_EMPTY, "An action: `owner/repo@ref`, `./path` or `docker://image`.")
            .required(),
        key("with", &STEP_WITH, "Its inputs."),
        STEP_ENV_KEY,
        STEP_CONTINUE,
        STEP_TIMEOUT,
        BACKGROUND,
    ],
    rest: None,
};
static WAIT_STEP: Mapping = Mapping {
    what: "a `wait` step",
    keys: &[
        STEP_ID,
        STEP_NAME,
        key("wait", &ONE_OR_MORE, "Ids of background steps to wait for.").required(),
        STEP_CONTINUE,
    ],
    rest: None,
};
static WAIT_ALL: Def = plain(Shape::OneOf(&[&NULL, &BOOLEAN]));
static WAIT_ALL_STEP: Mapping = Mapping {
    what: "a `wait-all` step",
    keys: &[
        STEP_ID,
        STEP_NAME,
        key("wait-all", &WAIT_ALL, "Wait for every background step so far.").required(),
        STEP_CONTINUE,
    ],
    rest: None,
};
static CANCEL_STEP: Mapping = Mapping {
    what: "a `cancel` step",
    keys: &[
        STEP_ID,
        STEP_NAME,
        key("cancel", &NON_EMPTY, "Id of the background step to end.").required(),
        STEP_CONTINUE,
    ],
    rest: None,
};
static PARALLEL_STEP: Mapping = Mapping {
    what: "a `parallel` step",
    keys: &[key("parallel", &STEPS, "Steps that run at the same time.").required()],
    rest: None,
};
