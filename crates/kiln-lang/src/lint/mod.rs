//! Checks beyond the language: what GitHub accepts and a person most likely did not mean.
//!
//! Each check is one file with its rule, its page in the documentation and its tests. The pages
//! under `docs/checks/` are printed from [`CHECKS`], and one test proves for every check that its
//! bad example triggers it and that its good example is clean under all checks.

mod boolean_input;
mod broad_permissions;
mod constant_condition;
mod context;
mod cron_schedule;
mod deprecated_command;
mod deprecated_runtime;
mod duplicate_need;
mod env_name;
mod flow;
mod impossible_event;
mod inherited_secrets;
mod lost_error;
mod merge_key;
mod plain_password;
mod reads;
mod ref_comparison;
mod rounded_number;
mod runner_label;
mod script;
mod script_injection;
mod shell;
#[cfg(test)]
mod testing;
mod unknown_property;
mod unknown_reference;
mod unpinned_action;
mod untrusted_checkout;
mod unused_input;
mod unused_need;
mod unused_output;

use crate::diag::{self, Diagnostic, Severity};
use crate::source::SourceMap;
use crate::workflow::{Document, FileKind};

use context::Context;

/// A check and its page in the documentation.
#[derive(Debug)]
pub struct Check {
    /// The code of its findings and the name of its page.
    pub code: &'static str,
    /// One line that says what it finds.
    pub summary: &'static str,
    /// How bad a finding is; a check may report single cases as worse.
    pub severity: Severity,
    /// Why a finding matters and what the check leaves alone, in Markdown.
    pub why: &'static str,
    pub bad: Example,
    pub good: Example,
    run: fn(&Context<'_>, &mut Vec<Diagnostic>),
}

/// A whole file that shows a check at work.
#[derive(Debug)]
pub struct Example {
    pub kind: FileKind,
    pub text: &'static str,
}

const fn workflow(text: &'static str) -> Example {
    Example { kind: FileKind::Workflow, text }
}

const fn action(text: &'static str) -> Example {
    Example { kind: FileKind::Action, text }
}

/// All checks, by code.
pub static CHECKS: &[Check] = &[
    boolean_input::CHECK,
    broad_permissions::CHECK,
    constant_condition::CHECK,
    cron_schedule::CHECK,
    deprecated_command::CHECK,
    deprecated_runtime::CHECK,
    duplicate_need::CHECK,
    env_name::CHECK,
    impossible_event::CHECK,
    inherited_secrets::CHECK,
    lost_error::CHECK,
    merge_key::CHECK,
    plain_password::CHECK,
    ref_comparison::CHECK,
    rounded_number::CHECK,
    runner_label::CHECK,
    script_injection::CHECK,
    unknown_property::CHECK,
    unknown_reference::CHECK,
    unpinned_action::CHECK,
    untrusted_checkout::CHECK,
    unused_input::CHECK,
    unused_need::CHECK,
    unused_output::CHECK,
];

/// Runs all checks on a document that was read; the findings come in the order of the text.
pub fn check(document: &Document, sources: &SourceMap) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if document.kind != FileKind::Companion {
        let context = Context::new(document, sources);
        for check in CHECKS {
            (check.run)(&context, &mut found);
        }
    }
    diag::tidy(&mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P6
    #[test]
    fn every_bad_example_triggers_its_check_and_every_good_one_is_clean() {
        for check in CHECKS {
            let bad = testing::findings(&check.bad);
            assert!(bad.iter().any(|found| found.code == check.code), "{}: {bad:#?}", check.code);
            let good = testing::findings(&check.good);
            assert!(good.is_empty(), "{}: {good:#?}", check.code);
        }
    }

    #[test]
    fn findings_have_the_severity_of_their_check_or_a_worse_one() {
        for check in CHECKS {
            for found in testing::findings(&check.bad) {
                let own = CHECKS.iter().find(|own| own.code == found.code);
                let own = own.expect("a finding carries the code of a check");
                assert!(found.severity <= own.severity, "{found:?}");
            }
        }
    }

    #[test]
    fn checks_are_listed_by_code_and_documented() {
        assert!(CHECKS.is_sorted_by_key(|check| check.code));
        for check in CHECKS {
            assert!(!check.summary.ends_with('.') && !check.why.is_empty(), "{}", check.code);
        }
    }

    #[test]
    fn a_companion_file_has_nothing_to_check() {
        let text = "jobs:\n  a:\n    retry: {max: 1}\n";
        assert!(testing::findings(&Example { kind: FileKind::Companion, text }).is_empty());
    }

    #[test]
    fn a_broken_document_is_checked_as_far_as_it_goes() {
        for text in [
            "on: [push\n",
            "on: push\njobs: []\n",
            "on: 1\njobs:\n  a: {needs: {b: c}, steps: {x: y}, outputs: [1], strategy: {matrix: 3}}\n",
            "on: {schedule: {cron: x}}\njobs:\n  a: {steps: [1, [2], {run: [x]}, {uses: {}}], env: 7}\n",
            "on: {workflow_call: [1]}\njobs:\n  a: {if: '${{', runs-on: {labels: {}}, permissions: 4}\n",
            "inputs: [1]\nruns: {using: [1], steps: {}}\n",
        ] {
            for kind in [FileKind::Workflow, FileKind::Action] {
                testing::all(kind, text);
            }
        }
    }
}
