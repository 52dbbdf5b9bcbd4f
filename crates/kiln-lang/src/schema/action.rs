//! The table of the action file (`action.yml`).

use super::workflow::WITH;
use super::{
    ANYTHING, Allowed, BOOLEAN, Def, Key, Mapping, NON_EMPTY, Rest, Shape, TEXT, Variants, def,
    key, plain,
};

/// The root of an action file.
pub static ACTION: Def = plain(Shape::Mapping(&ROOT));

static ROOT: Mapping = Mapping {
    what: "an action",
    keys: &[
        key("name", &NON_EMPTY, "The action's name.").required(),
        key("description", &TEXT, "What it does.").required(),
        key("author", &TEXT, "Who made it."),
        key("inputs", &INPUTS, "What it takes, by name."),
        key("outputs", &OUTPUTS, "What it gives, by name."),
        key("runs", &RUNS, "How it runs.").required(),
        key("branding", &BRANDING, "Its look in GitHub's marketplace; nothing on Kiln."),
    ],
    rest: None,
};

static INPUTS: Def = plain(Shape::Mapping(&INPUT_MAP));
static INPUT_MAP: Mapping = Mapping {
    what: "inputs",
    keys: &[],
    rest: Some(Rest { placeholder: "<input>", value: &INPUT, doc: "An input of the action." }),
};
static INPUT: Def = plain(Shape::OneOf(&[&super::NULL, &INPUT_DEF]));
static INPUT_DEF: Def = plain(Shape::Mapping(&INPUT_KEYS));
pub(super) static INPUT_DEFAULT: Def = def(Shape::Text, Allowed::INPUT_DEFAULT);
static INPUT_KEYS: Mapping = Mapping {
    what: "an input of an action",
    keys: &[
        key("description", &TEXT, "What it is for."),
        key("required", &BOOLEAN, "Whether callers should give it; not enforced, as on GitHub."),
        key("default", &INPUT_DEFAULT, "Its value when callers give none."),
        key("deprecationMessage", &TEXT, "A warning for callers that still give it."),
    ],
    // GitHub takes further keys here and ignores them; published actions rely on that.
    rest: Some(Rest {
        placeholder: "<key>",
        value: &ANYTHING,
        doc: "Further keys are ignored, as on GitHub.",
    }),
};

static OUTPUTS: Def = plain(Shape::Mapping(&OUTPUT_MAP));
static OUTPUT_MAP: Mapping = Mapping {
    what: "outputs",
    keys: &[],
    rest: Some(Rest { placeholder: "<output>", value: &OUTPUT, doc: "An output of the action." }),
};
static OUTPUT: Def = plain(Shape::Mapping(&OUTPUT_KEYS));
pub(super) static OUTPUT_VALUE: Def = def(Shape::Text, Allowed::ACTION_OUTPUT);
static OUTPUT_KEYS: Mapping = Mapping {
    what: "an output of an action",
    keys: &[
        key("description", &TEXT, "What it holds."),
        key("value", &OUTPUT_VALUE, "Its value, in a composite action."),
    ],
    rest: None,
};

static RUNS: Def = plain(Shape::Variants(&Variants {
    what: "`runs`",
    choices: &[("main", &NODE), ("steps", &COMPOSITE), ("image", &DOCKER)],
    told_by: Some(("using", |using| match using {
        "composite" => Some(1),
        "docker" => Some(2),
        _ => using.starts_with("node").then_some(0),
    })),
    missing: Some("`runs` needs `main` (JavaScript), `steps` (composite) or `image` (Docker)"),
}));
static USING_NODE: Def = plain(Shape::Word(&["node12", "node16", "node20", "node24"]));
static USING_DOCKER: Def = plain(Shape::Word(&["docker"]));
static USING_COMPOSITE: Def = plain(Shape::Word(&["composite"]));
static RUNS_IF: Def = def(Shape::Condition, Allowed::PRE_POST_IF);
pub(super) const PRE_IF: Key = key("pre-if", &RUNS_IF, "Whether the preparation runs.");
pub(super) const POST_IF: Key = key("post-if", &RUNS_IF, "Whether the clean-up runs.");

static NODE: Mapping = Mapping {
    what: "a JavaScript action",
    keys: &[
        key("using", &USING_NODE, "The version of Node; a newer one serves when it is missing.")
            .required(),
        key("main", &NON_EMPTY, "The script.").required(),
        key("pre", &NON_EMPTY, "A script before the job's first step."),
        PRE_IF,
        key("post", &NON_EMPTY, "A script after the job's last step."),
        POST_IF,
    ],
    rest: None,
};

static DOCKER_TEXT: Def = def(Shape::Text, Allowed::INPUTS);
pub(super) static DOCKER_ARGS: Def = plain(Shape::Sequence(&DOCKER_TEXT));
pub(super) static DOCKER_ENV: Def = def(Shape::Mapping(&DOCKER_ENV_MAP), Allowed::INPUTS);
static DOCKER_ENV_MAP: Mapping = Mapping {
    what: "an environment",
    keys: &[],
    rest: Some(Rest { placeholder: "<name>", value: &TEXT, doc: "A variable and its value." }),
};
static DOCKER: Mapping = Mapping {
    what: "a Docker action",
    keys: &[
        key("using", &USING_DOCKER, "`docker`.").required(),
        key("image", &NON_EMPTY, "`Dockerfile` or `docker://image`.").required(),
        key("entrypoint", &NON_EMPTY, "Replaces the image's entrypoint."),
        key("args", &DOCKER_ARGS, "Arguments of the entrypoint."),
        key("env", &DOCKER_ENV, "Environment of the container."),
        key("pre-entrypoint", &NON_EMPTY, "A script before the job's first step."),
        PRE_IF,
        key("post-entrypoint", &NON_EMPTY, "A script after the job's last step."),
        POST_IF,
    ],
    rest: None,
};

static COMPOSITE: Mapping = Mapping {
    what: "a composite action",
    keys: &[
        key("using", &USING_COMPOSITE, "`composite`.").required(),
        key("steps", &STEPS, "What it does, in order.").required(),
    ],
    rest: None,
};
pub(super) static STEPS: Def = plain(Shape::Sequence(&STEP));
static STEP: Def = plain(Shape::Variants(&Variants {
    what: "a step",
    choices: &[("run", &RUN_STEP), ("uses", &USES_STEP)],
    told_by: None,
    missing: Some("a step of a composite action needs `run` or `uses`"),
}));
static STEP_TEXT: Def = def(Shape::Text, Allowed::COMPOSITE);
static STEP_BOOLEAN: Def = def(Shape::Boolean, Allowed::COMPOSITE);
static STEP_IF: Def = def(Shape::Condition, Allowed::COMPOSITE_IF);
static STEP_ENV: Def = def(Shape::Mapping(&DOCKER_ENV_MAP), Allowed::COMPOSITE);
static STEP_WITH: Def = def(Shape::Mapping(&WITH), Allowed::COMPOSITE);
const NAME: Key = key("name", &STEP_TEXT, "The name people see.");
const ID: Key = key("id", &NON_EMPTY, "The name by which later steps find its outputs.");
const IF: Key = key("if", &STEP_IF, "Whether it runs.");
const ENV: Key = key("env", &STEP_ENV, "Its environment.");
const CONTINUE: Key =
    key("continue-on-error", &STEP_BOOLEAN, "Whether the action goes on as if it had succeeded.");
static RUN_STEP: Mapping = Mapping {
    what: "a `run` step",
    keys: &[
        ID,
        IF,
        NAME,
        key("run", &STEP_TEXT, "A script for the shell.").required(),
        key("shell", &STEP_TEXT, "The shell; a composite action must name it.").required(),
        key("working-directory", &STEP_TEXT, "Where the script runs."),
        ENV,
        CONTINUE,
    ],
    rest: None,
};
static USES_STEP: Mapping = Mapping {
    what: "a `uses` step",
    keys: &[
        ID,
        IF,
        NAME,
        key("uses", &NON_EMPTY, "An action: `owner/repo@ref`, `./path` or `docker://image`.")
            .required(),
        key("with", &STEP_WITH, "Its inputs."),
        ENV,
        CONTINUE,
    ],
    rest: None,
};

static BRANDING: Def = plain(Shape::Mapping(&BRANDING_KEYS));
static COLOR: Def = plain(Shape::Word(&[
    "white",
    "yellow",
    "blue",
    "green",
    "orange",
    "red",
    "purple",
    "gray-dark",
]));
static BRANDING_KEYS: Mapping = Mapping {
    what: "branding",
    keys: &[key("icon", &NON_EMPTY, "A Feather icon."), key("color", &COLOR, "The background.")],
    rest: None,
};
