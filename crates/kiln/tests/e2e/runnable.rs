//! Workflows that check themselves, run by the real binary in a repository made from one fixture.
//!
//! Each file in `tests/runnable/<area>` says at its top which rule it is about and what its run must
//! come to; see `expectation`. A rule that is broken shows there, and not only in a unit test.

mod act;
mod events;
mod expectation;
mod judge;
mod place;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use events::Outcome;
use expectation::Expectation;
use place::Repository;

/// Every area has a test in which its workflows hold, one in which their checks are broken, and one
/// in which act runs them, too.
macro_rules! areas {
    ($($name:ident: $area:literal,)*) => {
        const AREAS: &[&str] = &[$($area),*];

        mod workflows_hold {
            $(
                #[test]
                fn $name() {
                    super::holds($area);
                }
            )*
        }

        mod differences_from_act_are_explained {
            $(
                #[test]
                fn $name() {
                    super::act::compare_area($area);
                }
            )*
        }

        mod broken_checks_are_noticed {
            $(
                #[test]
                fn $name() {
                    super::notices($area);
                }
            )*
        }
    };
}

areas! {
    about_anchors: "anchors",
    about_background_steps: "background",
    about_checkout: "checkout",
    about_commands: "commands",
    about_composite_actions: "composite",
    about_concurrency: "concurrency",
    about_conditions: "conditions",
    about_containers: "containers",
    about_contexts: "contexts",
    about_continue_on_error: "continue-on-error",
    about_defaults: "defaults",
    about_env: "env",
    about_events: "events",
    about_expressions: "expressions",
    about_file_commands: "file-commands",
    about_hash_files: "hash-files",
    about_javascript_actions: "javascript",
    about_masks: "masks",
    about_matrices: "matrix",
    about_needs: "needs",
    about_outputs: "outputs",
    about_permissions: "permissions",
    about_post_parts: "post",
    about_problem_matchers: "problem-matchers",
    about_retry: "retry",
    about_reusable_workflows: "reusable",
    about_shells: "shells",
    about_steps: "steps",
    about_strategy: "strategy",
    about_summaries: "summaries",
    about_timeouts: "timeouts",
    about_working_directories: "working-directory",
}

/// A workflow of the corpus.
struct Workflow {
    area: String,
    name: String,
    text: String,
    /// What stands in `.kiln/workflows`, from the file `<name>.kiln.yml` beside it.
    companion: Option<String>,
    expectation: Expectation,
}

impl Workflow {
    /// `area/name.yml`
    fn title(&self) -> String {
        format!("{}/{}.yml", self.area, self.name)
    }

    /// Whether a step compares something by the program `check`.
    fn checks(&self) -> bool {
        self.text.contains("check ") && self.expectation.end.runs()
    }
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runnable")
}

fn workflows(area: &str) -> Vec<Workflow> {
    let directory = corpus().join(area);
    let entries = fs::read_dir(&directory).expect("the area has a directory");
    let names: BTreeSet<String> = entries
        .map(|entry| entry.expect("it is listed").file_name().to_string_lossy().into_owned())
        .collect();
    let read = |name: &str| fs::read_to_string(directory.join(name)).expect("it is text");
    names
        .iter()
        .filter(|name| !name.ends_with(".kiln.yml"))
        .map(|file| {
            let name = file.strip_suffix(".yml").expect("only .yml files are in an area");
            let text = read(file);
            let companion = names.get(&format!("{name}.kiln.yml")).map(|file| read(file));
            let expectation = Expectation::read(&text)
                .unwrap_or_else(|message| panic!("{area}/{file}: {message}"));
            Workflow { area: area.to_owned(), name: name.to_owned(), text, companion, expectation }
        })
        .collect()
}

/// What is wrong with the runs of an area.
fn holds(area: &str) {
    let workflows = workflows(area);
    let repository = Repository::new(&workflows, "tools");
    let mut wrong = Vec::new();
    for workflow in workflows.iter().filter(|workflow| workflow.expectation.waits_for.is_none()) {
        let outcome = repository.run(workflow);
        let faults = judge::faults(&workflow.expectation, &outcome);
        if !faults.is_empty() {
            wrong.push(report(workflow, &faults, &outcome));
        }
    }
    assert!(wrong.is_empty(), "{} wrong in {area}:\n{}", wrong.len(), wrong.join("\n"));
}

/// With a `check` that always fails, every workflow that uses it must be found wrong: a check that
/// is never reached proves nothing.
fn notices(area: &str) {
    let workflows = workflows(area);
    let repository = Repository::new(&workflows, "broken-tools");
    let blind: Vec<String> = workflows
        .iter()
        .filter(|workflow| workflow.checks() && workflow.expectation.waits_for.is_none())
        .filter(|workflow| {
            judge::faults(&workflow.expectation, &repository.run(workflow)).is_empty()
        })
        .map(Workflow::title)
        .collect();
    assert!(blind.is_empty(), "their checks do not matter: {blind:?}");
}

fn report(workflow: &Workflow, faults: &[String], outcome: &Outcome) -> String {
    let faults: Vec<String> = faults.iter().map(|fault| format!("  - {fault}")).collect();
    let all: Vec<&str> = outcome.lines.iter().map(String::as_str).collect();
    let tail = all[all.len().saturating_sub(20)..].join("\n    ");
    format!(
        "{} ({})\n{}\n  the end of its log:\n    {tail}\n  standard error:\n{}",
        workflow.title(),
        workflow.expectation.rule,
        faults.join("\n"),
        outcome.err
    )
}

#[test]
fn every_area_has_its_test_and_the_corpus_is_large() {
    let entries = fs::read_dir(corpus()).expect("there is a corpus");
    let found: BTreeSet<String> = entries
        .map(|entry| entry.expect("it is listed"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !["fixture", "tools", "broken-tools"].contains(&name.as_str()))
        .collect();
    let known: BTreeSet<String> = AREAS.iter().map(|area| (*area).to_owned()).collect();
    assert_eq!(found, known);
    let count: usize = AREAS.iter().map(|area| workflows(area).len()).sum();
    assert!(count >= 150, "there are only {count} workflows");
}

/// A workflow that waits for a feature must be one that does not work yet: whoever makes the feature
/// is told by this test to remove the mark.
#[test]
fn what_waits_for_a_feature_does_not_work_yet() {
    let mut works = Vec::new();
    for area in AREAS {
        let mut waiting = workflows(area);
        waiting.retain(|workflow| workflow.expectation.waits_for.is_some());
        if waiting.is_empty() {
            continue;
        }
        let repository = Repository::new(&waiting, "tools");
        for workflow in &waiting {
            eprintln!(
                "left out: {} waits for {:?}",
                workflow.title(),
                workflow.expectation.waits_for
            );
            if judge::faults(&workflow.expectation, &repository.run(workflow)).is_empty() {
                works.push(workflow.title());
            }
        }
    }
    assert!(works.is_empty(), "remove the line `# waits for:`, as these work now: {works:?}");
}

/// The harness itself: a workflow whose assertion is wrong must not pass.
#[test]
fn a_workflow_that_asserts_something_wrong_is_found_out() {
    let job = "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      ";
    let check = |head: &str, steps: &str, fault: &str| {
        let text = format!("# rule: a test of the harness\n{head}\n{job}{steps}\n");
        let expectation = Expectation::read(&text).expect("the head is right");
        let workflow = Workflow {
            area: "harness".to_owned(),
            name: "wrong".to_owned(),
            text,
            companion: None,
            expectation,
        };
        let repository = Repository::new(std::slice::from_ref(&workflow), "tools");
        let outcome = repository.run(&workflow);
        let faults = judge::faults(&workflow.expectation, &outcome);
        assert!(faults.iter().any(|found| found.contains(fault)), "{fault} not in {faults:#?}");
    };
    let success = "# expect: success";
    check(success, "- run: check one 1 2", "exit code");
    check(success, "- {name: n, if: false, run: 'true'}", "skipped");
    check("# expect: failure", "- run: 'true'", "exit code");
    check(
        "# expect: failure\n# fails: a > n > exit code 4",
        "- {name: n, run: exit 3}",
        "exit code 4",
    );
    check("# expect: failure\n# fails: a > m > exit", "- {name: n, run: exit 3}", "failed steps");
    check("# expect: success\n# job: b = success", "- run: 'true'", "jobs");
    check("# expect: success\n# log: said", "- run: 'echo nothing # said'", "said");
    check("# expect: success\n# no log: said", "- run: echo said", "said");
    check("# expect: success\n# secret: said", "- run: 'true # said'", "said");
    check("# expect: success\n# annotation: error|-|-|-|-|x", "- run: 'true'", "error|");
    check("# expect: success\n# summary: x", "- run: 'true'", "summary");
    check("# expect: success\n# order: b | a", "- run: echo a; echo b", "order");
    check("# expect: invalid\n# stderr: x", "- run: 'true'", "exit code");
    check("# expect: nothing", "- run: 'true'", "ran");
}
