//! The table of the companion file (`.kiln/workflows/<same name>`): what Kiln adds to a workflow.

use super::{
    BOOLEAN, Def, Mapping, NON_EMPTY, NON_EMPTY_LIST, NUMBER, ONE_OR_MORE, Rest, Shape, key, plain,
};

/// The root of a companion file.
pub static COMPANION: Def = plain(Shape::Mapping(&ROOT));

static ROOT: Mapping = Mapping {
    what: "a companion file",
    keys: &[key("jobs", &JOBS, "The workflow's jobs that Kiln treats specially, by id.").required()],
    rest: None,
};
static JOBS: Def = plain(Shape::Mapping(&JOB_MAP));
static JOB_MAP: Mapping = Mapping {
    what: "jobs",
    keys: &[],
    rest: Some(Rest { placeholder: "<job_id>", value: &JOB, doc: "A job of the workflow." }),
};
static JOB: Def = plain(Shape::Mapping(&JOB_KEYS));
static JOB_KEYS: Mapping = Mapping {
    what: "a companion job",
    keys: &[
        key("retry", &RETRY, "Try again when the job fails."),
        key("cache-result", &CACHE_RESULT, "Reuse the result of a green run with the same inputs."),
        key("requires", &REQUIRES, "What a runner must have beyond what `runs-on` says."),
        key("prefer", &PREFER, "Runners to try first, and for how long."),
        key("limits", &LIMITS, "How much of a machine the job may use."),
        key("steps", &STEPS, "Settings of single steps, by their id."),
    ],
    rest: None,
};
static RETRY: Def = plain(Shape::Mapping(&RETRY_KEYS));
static RETRY_ON: Def = plain(Shape::Word(&["failure", "timeout", "any"]));
static RETRY_KEYS: Mapping = Mapping {
    what: "a retry",
    keys: &[
        key("max", &NUMBER, "How often to try again, 1 to 10.").required(),
        key(
            "backoff",
            &NUMBER,
            "Seconds before the first new try, doubled each time; 0 by default.",
        ),
        key("on", &RETRY_ON, "What is worth a new try; `failure` by default."),
    ],
    rest: None,
};
static CACHE_RESULT: Def = plain(Shape::OneOf(&[&BOOLEAN, &CACHE_RESULT_MAP]));
static CACHE_RESULT_MAP: Def = plain(Shape::Mapping(&CACHE_RESULT_KEYS));
static CACHE_RESULT_KEYS: Mapping = Mapping {
    what: "a result cache",
    keys: &[key(
        "inputs",
        &NON_EMPTY_LIST,
        "Globs of the files that count; the whole commit by default.",
    )],
    rest: None,
};
static REQUIRES: Def = plain(Shape::Mapping(&REQUIRES_KEYS));
static REQUIRES_KEYS: Mapping = Mapping {
    what: "a requirement",
    keys: &[
        key("system", &NON_EMPTY, "The system that runs it, such as `x86_64-linux`."),
        key("features", &ONE_OR_MORE, "Features of the machine, such as `kvm`."),
        key("tools", &ONE_OR_MORE, "Programs that must be installed, such as `docker`."),
        key("cores", &NUMBER, "How many processor cores there must be at least."),
        key("memory", &NON_EMPTY, "How much memory there must be at least, such as `8 GB`."),
        key("disk", &NON_EMPTY, "How much disk there must be at least, such as `50 GB`."),
    ],
    rest: None,
};
static LIMITS: Def = plain(Shape::Mapping(&LIMITS_KEYS));
static LIMITS_KEYS: Mapping = Mapping {
    what: "a limit",
    keys: &[
        key("cores", &NUMBER, "How many processor cores it may use; parts of one are possible."),
        key("memory", &NON_EMPTY, "How much memory it may use, such as `4 GB`."),
        key("disk", &NON_EMPTY, "How much disk it may fill, such as `20 GB`."),
    ],
    rest: None,
};
static PREFER: Def = plain(Shape::Sequence(&PREFERENCE));
static PREFERENCE: Def = plain(Shape::Mapping(&PREFERENCE_KEYS));
static PREFERENCE_KEYS: Mapping = Mapping {
    what: "a preference",
    keys: &[
        key("labels", &ONE_OR_MORE, "Labels beyond those of `runs-on`."),
        key("pool", &NON_EMPTY, "The pool of runners."),
        key("after", &NUMBER, "Seconds after which the next entry is tried too; 30 by default."),
    ],
    rest: None,
};
static STEPS: Def = plain(Shape::Mapping(&STEP_MAP));
static STEP_MAP: Mapping = Mapping {
    what: "steps",
    keys: &[],
    rest: Some(Rest { placeholder: "<step_id>", value: &STEP, doc: "A step of the job." }),
};
static STEP: Def = plain(Shape::Mapping(&STEP_KEYS));
static STEP_KEYS: Mapping = Mapping {
    what: "a companion step",
    keys: &[key("retry", &RETRY, "Try again when the step fails.")],
    rest: None,
};
