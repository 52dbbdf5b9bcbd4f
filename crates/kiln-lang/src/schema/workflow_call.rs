//! The tables of events that carry more than filters: `workflow_call`, `workflow_dispatch` and
//! `schedule`.

use super::{
    Allowed, BOOLEAN, Def, Mapping, NON_EMPTY, NULL, Rest, SCALAR, Shape, TEXT, def, key, plain,
};

pub(super) static CALL: Def = plain(Shape::Mapping(&CALL_KEYS));
static CALL_KEYS: Mapping = Mapping {
    what: "`workflow_call`",
    keys: &[
        key("inputs", &CALL_INPUTS, "What callers give, by name."),
        key("secrets", &CALL_SECRETS, "Secrets that callers give, by name."),
        key("outputs", &CALL_OUTPUTS, "What callers get, by name."),
    ],
    rest: None,
};
static CALL_INPUTS: Def = plain(Shape::Mapping(&CALL_INPUT_MAP));
static CALL_INPUT_MAP: Mapping = Mapping {
    what: "inputs",
    keys: &[],
    rest: Some(Rest {
        placeholder: "<input>",
        value: &CALL_INPUT,
        doc: "An input of the workflow.",
    }),
};
static CALL_INPUT: Def = plain(Shape::Mapping(&CALL_INPUT_KEYS));
static CALL_TYPE: Def = plain(Shape::Word(&["boolean", "number", "string"]));
static CALL_DEFAULT: Def = def(Shape::OneOf(&[&SCALAR]), Allowed::EVENT);
static CALL_INPUT_KEYS: Mapping = Mapping {
    what: "an input",
    keys: &[
        key("description", &TEXT, "What it is for."),
        key("type", &CALL_TYPE, "Its type.").required(),
        key("required", &BOOLEAN, "Whether callers must give it."),
        key("default", &CALL_DEFAULT, "Its value when callers give none."),
    ],
    rest: None,
};
static CALL_SECRETS: Def = plain(Shape::Mapping(&CALL_SECRET_MAP));
static CALL_SECRET_MAP: Mapping = Mapping {
    what: "secrets",
    keys: &[],
    rest: Some(Rest {
        placeholder: "<secret>",
        value: &CALL_SECRET,
        doc: "A secret of the workflow.",
    }),
};
static CALL_SECRET: Def = plain(Shape::OneOf(&[&NULL, &CALL_SECRET_DEF]));
static CALL_SECRET_DEF: Def = plain(Shape::Mapping(&CALL_SECRET_KEYS));
static CALL_SECRET_KEYS: Mapping = Mapping {
    what: "a secret",
    keys: &[
        key("description", &TEXT, "What it is for."),
        key("required", &BOOLEAN, "Whether callers must give it."),
    ],
    rest: None,
};
static CALL_OUTPUTS: Def = plain(Shape::Mapping(&CALL_OUTPUT_MAP));
static CALL_OUTPUT_MAP: Mapping = Mapping {
    what: "outputs",
    keys: &[],
    rest: Some(Rest {
        placeholder: "<output>",
        value: &CALL_OUTPUT,
        doc: "An output of the workflow.",
    }),
};
static CALL_OUTPUT: Def = plain(Shape::Mapping(&CALL_OUTPUT_KEYS));
static CALL_OUTPUT_VALUE: Def = def(Shape::Text, Allowed::EVENT.and(Allowed::JOBS));
static CALL_OUTPUT_KEYS: Mapping = Mapping {
    what: "an output",
    keys: &[
        key("description", &TEXT, "What it holds."),
        key("value", &CALL_OUTPUT_VALUE, "Its value, from the outputs of jobs.").required(),
    ],
    rest: None,
};

pub(super) static DISPATCH: Def = plain(Shape::Mapping(&DISPATCH_KEYS));
static DISPATCH_KEYS: Mapping = Mapping {
    what: "`workflow_dispatch`",
    keys: &[key("inputs", &DISPATCH_INPUTS, "What the person who starts it is asked for.")],
    rest: None,
};
static DISPATCH_INPUTS: Def = plain(Shape::OneOf(&[&NULL, &DISPATCH_INPUT_DEF]));
static DISPATCH_INPUT_DEF: Def = plain(Shape::Mapping(&DISPATCH_INPUT_MAP));
static DISPATCH_INPUT_MAP: Mapping = Mapping {
    what: "inputs",
    keys: &[],
    rest: Some(Rest {
        placeholder: "<input>",
        value: &DISPATCH_INPUT,
        doc: "An input of the form.",
    }),
};
static DISPATCH_INPUT: Def = plain(Shape::OneOf(&[&NULL, &DISPATCH_INPUT_FIELDS]));
static DISPATCH_INPUT_FIELDS: Def = plain(Shape::Mapping(&DISPATCH_INPUT_KEYS));
static DISPATCH_TYPE: Def =
    plain(Shape::Word(&["string", "boolean", "number", "choice", "environment"]));
static OPTIONS: Def = plain(Shape::Sequence(&TEXT));
static DISPATCH_INPUT_KEYS: Mapping = Mapping {
    what: "an input",
    keys: &[
        key("description", &TEXT, "What it is for."),
        key("type", &DISPATCH_TYPE, "Its type; `string` by default."),
        key("required", &BOOLEAN, "Whether it must be given."),
        key("default", &SCALAR, "Its value when it is not given."),
        key("options", &OPTIONS, "What a `choice` offers."),
    ],
    rest: None,
};

pub(super) static SCHEDULE: Def = plain(Shape::Sequence(&CRON_ENTRY));
static CRON_ENTRY: Def = plain(Shape::Mapping(&CRON_KEYS));
static CRON_KEYS: Mapping = Mapping {
    what: "a schedule",
    keys: &[
        key("cron", &NON_EMPTY, "Minute, hour, day, month and weekday.").required(),
        key("timezone", &NON_EMPTY, "An IANA time zone; UTC by default."),
    ],
    rest: None,
};
