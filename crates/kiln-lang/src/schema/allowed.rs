//! Which contexts and functions the expressions of a place may use.

use crate::expr::names::{CONTEXTS, Function, JOB_CONDITION, Names, STEP, STEP_CONDITION};

/// A set of contexts and functions. A context's bit is its position in [`CONTEXTS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Allowed {
    contexts: u16,
    functions: u8,
}

const fn context(bit: u16) -> Allowed {
    Allowed { contexts: 1 << bit, functions: 0 }
}

impl Allowed {
    pub const NOTHING: Allowed = Allowed { contexts: 0, functions: 0 };
    const ENV: Allowed = context(1);
    pub(super) const JOBS: Allowed = context(4);
    pub(super) const SECRETS: Allowed = context(7);
    pub(super) const INPUTS: Allowed = context(11);
    /// `success()` and its siblings over the needs of a job, which may be named.
    const JOB_STATUS: Allowed = Allowed { contexts: 0, functions: 1 };
    /// The same over the steps so far.
    const STEP_STATUS: Allowed = Allowed { contexts: 0, functions: 2 };
    pub(super) const HASH_FILES: Allowed = Allowed { contexts: 0, functions: 4 };

    /// `github`, `inputs` and `vars`: known before a run starts.
    pub(super) const EVENT: Allowed = context(0).and(Self::INPUTS).and(context(2));
    pub(super) const NEEDS: Allowed = Self::EVENT.and(context(10));
    pub(super) const LEG: Allowed = Self::NEEDS.and(context(8)).and(context(9));
    pub(super) const LEG_AND_SECRETS: Allowed = Self::LEG.and(Self::SECRETS);
    pub(super) const JOB_DEFAULTS: Allowed = Self::LEG.and(Self::ENV);
    pub(super) const CREDENTIALS: Allowed = Self::EVENT.and(Self::SECRETS).and(Self::ENV);
    /// On the runner, without secrets.
    pub(super) const RUNNER: Allowed =
        Self::LEG.and(context(5)).and(context(3)).and(context(6)).and(Self::ENV);
    pub(super) const RUNNER_AND_SECRETS: Allowed = Self::RUNNER.and(Self::SECRETS);
    pub(super) const STEP: Allowed = Self::RUNNER_AND_SECRETS.and(Self::HASH_FILES);
    pub(super) const JOB_IF: Allowed = Self::NEEDS.and(Self::JOB_STATUS);
    pub(super) const STEP_IF: Allowed = Self::RUNNER.and(Self::STEP_STATUS).and(Self::HASH_FILES);

    const ACTION_BASE: Allowed =
        context(0).and(context(8)).and(context(9)).and(context(3)).and(context(6));
    pub(super) const INPUT_DEFAULT: Allowed = Self::ACTION_BASE.and(Self::HASH_FILES);
    pub(super) const ACTION_OUTPUT: Allowed =
        Self::ACTION_BASE.and(context(5)).and(Self::INPUTS).and(Self::ENV);
    pub(super) const COMPOSITE: Allowed = Self::ACTION_OUTPUT.and(Self::HASH_FILES);
    pub(super) const COMPOSITE_IF: Allowed = Self::COMPOSITE.and(Self::STEP_STATUS);
    pub(super) const PRE_POST_IF: Allowed = Self::ACTION_BASE
        .and(Self::INPUTS)
        .and(Self::ENV)
        .and(Self::STEP_STATUS)
        .and(Self::HASH_FILES);

    #[must_use]
    pub const fn and(self, other: Allowed) -> Allowed {
        Allowed {
            contexts: self.contexts | other.contexts,
            functions: self.functions | other.functions,
        }
    }

    pub fn is_empty(self) -> bool {
        self == Self::NOTHING
    }

    pub fn contexts(self) -> impl Iterator<Item = &'static str> {
        let chosen = move |(bit, _): &(usize, &'static str)| self.contexts & (1 << bit) != 0;
        CONTEXTS.iter().copied().enumerate().filter(chosen).map(|(_, name)| name)
    }

    /// The functions beyond the ones that every expression has.
    pub fn functions(self) -> &'static [Function] {
        if self.functions & Self::JOB_STATUS.functions != 0 {
            JOB_CONDITION
        } else if self.functions & Self::STEP_STATUS.functions != 0 {
            STEP_CONDITION
        } else if self.functions & Self::HASH_FILES.functions != 0 {
            STEP
        } else {
            &[]
        }
    }

    pub fn names(self) -> Names {
        Names::with_contexts(self.contexts(), self.functions())
    }
}
