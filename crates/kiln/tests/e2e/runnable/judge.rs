//! Compares a run with what its workflow said about it.

use std::collections::{BTreeMap, BTreeSet};

use super::events::Outcome;
use super::expectation::{End, Expectation};

/// Everything that is not as it must be.
pub(super) fn faults(expected: &Expectation, outcome: &Outcome) -> Vec<String> {
    let mut faults = Faults(Vec::new());
    let code = expected.end.code();
    faults.unless(outcome.code == code, || {
        format!("the exit code is {}, expected {code}", outcome.code)
    });
    for text in &expected.stderr {
        faults.unless(outcome.err.contains(text), || format!("standard error lacks `{text}`"));
    }
    for text in &expected.secrets {
        faults.unless(!outcome.everything.contains(text), || format!("`{text}` leaked"));
    }
    if expected.end.runs() {
        ends(expected, outcome, &mut faults);
        log(expected, outcome, &mut faults);
        annotations(expected, outcome, &mut faults);
    } else {
        faults.unless(outcome.conclusion.is_none(), || "it ran".to_owned());
    }
    faults.0
}

struct Faults(Vec<String>);

impl Faults {
    fn unless(&mut self, good: bool, fault: impl FnOnce() -> String) {
        if !good {
            self.0.push(fault());
        }
    }
}

fn ends(expected: &Expectation, outcome: &Outcome, faults: &mut Faults) {
    let conclusion = outcome.conclusion.as_deref().unwrap_or("nothing");
    let word = expected.end.word();
    faults.unless(conclusion == word, || format!("the run is {conclusion}, expected {word}"));

    let mut jobs: BTreeMap<&str, &str> =
        outcome.jobs.keys().map(|name| (name.as_str(), "success")).collect();
    for failing in &expected.fails {
        jobs.insert(&failing.job, "failure");
    }
    jobs.extend(expected.jobs.iter().map(|(name, end)| (name.as_str(), end.as_str())));
    let found: BTreeMap<&str, &str> =
        outcome.jobs.iter().map(|(name, end)| (name.as_str(), end.as_str())).collect();
    faults.unless(found == jobs, || format!("the jobs are {found:?}, expected {jobs:?}"));

    let skipped: BTreeSet<&str> = named(outcome, "skipped").map(|(_, step)| step).collect();
    let wanted: BTreeSet<&str> = expected.skipped.iter().map(String::as_str).collect();
    faults.unless(skipped == wanted, || format!("skipped are {skipped:?}, expected {wanted:?}"));

    let failed: BTreeSet<(&str, &str)> = named(outcome, "failure").collect();
    let wanted: BTreeSet<(&str, &str)> =
        expected.fails.iter().map(|failing| (&*failing.job, &*failing.step)).collect();
    faults.unless(failed == wanted, || {
        format!("the failed steps are {failed:?}, expected {wanted:?}")
    });
    for failing in &expected.fails {
        let step =
            outcome.steps.iter().find(|step| step.job == failing.job && step.name == failing.step);
        let errors = step.map_or(&[][..], |step| &step.errors);
        faults.unless(errors.iter().any(|error| error.contains(&failing.message)), || {
            format!("`{}` has no error with `{}`: {errors:?}", failing.step, failing.message)
        });
    }
}

/// The jobs and names of the steps with this conclusion.
fn named<'a>(
    outcome: &'a Outcome,
    conclusion: &'a str,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let steps = outcome.steps.iter().filter(move |step| step.conclusion == conclusion);
    steps.map(|step| (&*step.job, &*step.name))
}

fn log(expected: &Expectation, outcome: &Outcome, faults: &mut Faults) {
    let has = |text: &str| outcome.lines.iter().any(|line| line.contains(text));
    for text in &expected.log {
        faults.unless(has(text), || format!("the log lacks `{text}`"));
    }
    for text in &expected.no_log {
        faults.unless(!has(text), || format!("the log has `{text}`"));
    }
    let mut lines = outcome.lines.iter();
    for text in &expected.order {
        faults.unless(lines.any(|line| line.contains(text)), || {
            format!("`{text}` is not there, or not in its order")
        });
    }
    for text in &expected.summaries {
        let found = outcome.summaries.iter().any(|summary| summary.contains(text));
        faults.unless(found, || format!("no summary has `{text}`"));
    }
    for text in &expected.no_summaries {
        let found = outcome.summaries.iter().any(|summary| summary.contains(text));
        faults.unless(!found, || format!("a summary has `{text}`"));
    }
}

fn annotations(expected: &Expectation, outcome: &Outcome, faults: &mut Faults) {
    let all = &outcome.annotations;
    for text in &expected.annotations {
        faults.unless(all.contains(text), || format!("no annotation `{text}` among {all:#?}"));
    }
    for text in &expected.annotations_like {
        let found = all.iter().any(|annotation| annotation.contains(text));
        faults.unless(found, || format!("no annotation with `{text}` among {all:#?}"));
    }
    for text in &expected.no_annotations {
        let found = all.iter().any(|annotation| annotation.contains(text));
        faults.unless(!found, || format!("there is an annotation with `{text}`"));
    }
    if let Some(count) = expected.annotation_count {
        faults.unless(all.len() == count, || format!("{} annotations: {all:#?}", all.len()));
    }
    let long = all.iter().any(|annotation| annotation.chars().count() > 4200);
    faults.unless(!long, || "an annotation is not cut".to_owned());
    if expected.end == End::Success && expected.fails.is_empty() {
        let failed = outcome.lines.iter().find(|line| line.starts_with("check failed"));
        faults.unless(failed.is_none(), || format!("a check failed without effect: {failed:?}"));
    }
}
