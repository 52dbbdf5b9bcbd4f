//! The table of an action that somebody else published, as loose as GitHub's runner reads it.
//!
//! Such a file cannot be mended by whoever uses it, and it runs on GitHub: keys that mean nothing are
//! passed over, descriptions may be missing, and no type is demanded that nothing depends on. What
//! decides how the action runs is read by the strict table's parts.

use super::action::{DOCKER_ARGS, DOCKER_ENV, INPUT_DEFAULT, OUTPUT_VALUE, POST_IF, PRE_IF, STEPS};
use super::{ANYTHING, Def, Mapping, NON_EMPTY, NULL, Rest, Shape, TEXT, Variants, key, plain};

/// The root of a published action file.
pub static PUBLISHED_ACTION: Def = plain(Shape::Mapping(&ROOT));

const IGNORED: Option<Rest> =
    Some(Rest { placeholder: "<key>", value: &ANYTHING, doc: "Further keys are ignored." });

static ROOT: Mapping = Mapping {
    what: "an action",
    keys: &[
        key("name", &TEXT, "The action's name."),
        key("inputs", &INPUTS, "What it takes, by name."),
        key("outputs", &OUTPUTS, "What it gives, by name."),
        key("runs", &RUNS, "How it runs.").required(),
    ],
    rest: IGNORED,
};

static INPUTS: Def = plain(Shape::OneOf(&[&NULL, &INPUTS_BY_NAME]));
static INPUTS_BY_NAME: Def = plain(Shape::Mapping(&INPUT_MAP));
static INPUT_MAP: Mapping = Mapping {
    what: "inputs",
    keys: &[],
    rest: Some(Rest { placeholder: "<input>", value: &INPUT, doc: "An input of the action." }),
};
static INPUT: Def = plain(Shape::OneOf(&[&NULL, &INPUT_DEF]));
static INPUT_DEF: Def = plain(Shape::Mapping(&INPUT_KEYS));
static INPUT_KEYS: Mapping = Mapping {
    what: "an input of an action",
    keys: &[
        key("default", &INPUT_DEFAULT, "Its value when callers give none."),
        key("deprecationMessage", &TEXT, "A warning for callers that still give it."),
    ],
    rest: IGNORED,
};

static OUTPUTS: Def = plain(Shape::OneOf(&[&NULL, &OUTPUTS_BY_NAME]));
static OUTPUTS_BY_NAME: Def = plain(Shape::Mapping(&OUTPUT_MAP));
static OUTPUT_MAP: Mapping = Mapping {
    what: "outputs",
    keys: &[],
    rest: Some(Rest { placeholder: "<output>", value: &OUTPUT, doc: "An output of the action." }),
};
static OUTPUT: Def = plain(Shape::OneOf(&[&NULL, &OUTPUT_DEF]));
static OUTPUT_DEF: Def = plain(Shape::Mapping(&OUTPUT_KEYS));
static OUTPUT_KEYS: Mapping = Mapping {
    what: "an output of an action",
    keys: &[key("value", &OUTPUT_VALUE, "Its value, in a composite action.")],
    rest: IGNORED,
};

static RUNS: Def = plain(Shape::Variants(&Variants {
    what: "`runs`",
    choices: &[("main", &NODE), ("steps", &COMPOSITE), ("image", &DOCKER)],
    told_by: Some(("using", |using| match using.to_ascii_lowercase().as_str() {
        "composite" => Some(1),
        "docker" => Some(2),
        other => other.starts_with("node").then_some(0),
    })),
    missing: Some("`runs` needs `main` (JavaScript), `steps` (composite) or `image` (Docker)"),
}));
const USING: super::Key = key("using", &NON_EMPTY, "What runs it, in any case.").required();

static NODE: Mapping = Mapping {
    what: "a JavaScript action",
    keys: &[
        USING,
        key("main", &NON_EMPTY, "The script.").required(),
        key("pre", &NON_EMPTY, "A script before the job's first step."),
        PRE_IF,
        key("post", &NON_EMPTY, "A script after the job's last step."),
        POST_IF,
    ],
    rest: IGNORED,
};

static DOCKER: Mapping = Mapping {
    what: "a Docker action",
    keys: &[
        USING,
        key("image", &NON_EMPTY, "`Dockerfile` or `docker://image`.").required(),
        key("entrypoint", &NON_EMPTY, "Replaces the image's entrypoint."),
        key("args", &DOCKER_ARGS, "Arguments of the entrypoint."),
        key("env", &DOCKER_ENV, "Environment of the container."),
        key("pre-entrypoint", &NON_EMPTY, "A script before the job's first step."),
        PRE_IF,
        key("post-entrypoint", &NON_EMPTY, "A script after the job's last step."),
        POST_IF,
    ],
    rest: IGNORED,
};

static COMPOSITE: Mapping = Mapping {
    what: "a composite action",
    keys: &[USING, key("steps", &STEPS, "What it does, in order.").required()],
    rest: IGNORED,
};
