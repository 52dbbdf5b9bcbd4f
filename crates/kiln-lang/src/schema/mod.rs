//! The syntax of workflow and action files as a table.
//!
//! One table says which keys a place takes, of which type, which contexts and functions its
//! expressions may use, and whether Kiln supports it. The reader checks files against it, and
//! `docs/compatibility.md` is printed from it, so the two cannot disagree.

mod action;
mod allowed;
mod check;
mod companion;
mod describe;
mod events;
mod expressions;
mod homes;
mod keys;
mod published_action;
pub mod reference;
mod workflow;
mod workflow_call;

pub use action::ACTION;
pub use allowed::Allowed;
pub use check::{Checked, Found, FoundKind, check};
pub use companion::COMPANION;
pub use published_action::PUBLISHED_ACTION;
pub use workflow::WORKFLOW;

use crate::trigger::Support;

/// What may stand at one place.
#[derive(Debug)]
pub struct Def {
    pub shape: Shape,
    /// What expressions may use here, besides what the places around it already allow.
    pub allowed: Allowed,
}

#[derive(Debug)]
pub enum Shape {
    Null,
    Boolean,
    Number,
    /// A finite number above zero.
    Positive,
    /// Any scalar, taken as text.
    Text,
    NonEmptyText,
    /// The condition of an `if`: an expression even without `${{ }}`.
    Condition,
    /// One of these words.
    Word(&'static [&'static str]),
    Sequence(&'static Def),
    Mapping(&'static Mapping),
    /// The first alternative that fits the kind of node.
    OneOf(&'static [&'static Def]),
    /// One of several mappings, told apart by the keys they have.
    Variants(&'static Variants),
    /// `on`: events with their own filters.
    Events,
    Anything,
}

#[derive(Debug)]
pub struct Mapping {
    /// What it is to a person: "a job", "a step".
    pub what: &'static str,
    pub keys: &'static [Key],
    /// Keys that the author chooses.
    pub rest: Option<Rest>,
}

#[derive(Debug)]
pub struct Rest {
    /// How the documentation names such a key: `<job_id>`.
    pub placeholder: &'static str,
    pub value: &'static Def,
    pub doc: &'static str,
}

/// Which choice a value stands for.
pub type Tell = fn(&str) -> Option<usize>;

#[derive(Debug)]
pub struct Variants {
    pub what: &'static str,
    /// Each mapping with the key that only it has. The first one is meant when none is there.
    pub choices: &'static [(&'static str, &'static Mapping)],
    /// A key whose value tells, and which choice it stands for.
    pub told_by: Option<(&'static str, Tell)>,
    /// What to say when no telling key is there; `None` when the first choice will say it itself.
    pub missing: Option<&'static str>,
}

/// A key that the language knows.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    pub def: &'static Def,
    pub required: bool,
    pub support: Support,
    /// One line for the reference.
    pub doc: &'static str,
}

const fn key(name: &'static str, def: &'static Def, doc: &'static str) -> Key {
    Key { name, def, required: false, support: Support::Supported, doc }
}

impl Key {
    const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    const fn refused(mut self, reason: &'static str) -> Self {
        self.support = Support::Refused(reason);
        self
    }
}

const fn def(shape: Shape, allowed: Allowed) -> Def {
    Def { shape, allowed }
}

/// A place whose expressions, if any, are allowed by the places around it.
const fn plain(shape: Shape) -> Def {
    def(shape, Allowed::NOTHING)
}

static NULL: Def = plain(Shape::Null);
static BOOLEAN: Def = plain(Shape::Boolean);
static NUMBER: Def = plain(Shape::Number);
static POSITIVE: Def = plain(Shape::Positive);
static TEXT: Def = plain(Shape::Text);
static NON_EMPTY: Def = plain(Shape::NonEmptyText);
static NON_EMPTY_LIST: Def = plain(Shape::Sequence(&NON_EMPTY));
static ONE_OR_MORE: Def = plain(Shape::OneOf(&[&NON_EMPTY, &NON_EMPTY_LIST]));
static SCALAR: Def = plain(Shape::OneOf(&[&BOOLEAN, &NUMBER, &TEXT]));
static ANYTHING: Def = plain(Shape::Anything);
