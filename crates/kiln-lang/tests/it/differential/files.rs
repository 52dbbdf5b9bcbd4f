//! The corpus, read by both: accepted or refused, which jobs in which order, under which conditions,
//! with which step ids, and the lines that are complained about.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use kiln_lang::workflow::ids::Generator;
use kiln_lang::workflow::{Document, FileKind, Step, StepWork, uses};
use kiln_lang::yaml::Node;
use serde_json::{Value as Json, json};

use super::expressions::KNOWN_TO_DIFFER;
use crate::corpus::{Reading, Sample, all_samples, updating};

/// A file and what about it differs.
type Difference = (String, &'static str);

/// P1
#[test]
fn every_difference_from_githubs_parser_is_explained() {
    let samples: Vec<Sample> =
        all_samples().into_iter().filter(|sample| sample.kind != FileKind::Companion).collect();
    let questions: Vec<Json> = samples.iter().map(question).collect();
    let mut found = BTreeMap::new();
    for (sample, github) in samples.iter().zip(super::ask_github("files", &questions)) {
        for (aspect, kiln, github) in compare(&sample.read(), &github) {
            let detail = format!("  Kiln:   {kiln}\n  GitHub: {github}");
            found.insert((sample.name.clone(), aspect), detail);
        }
    }
    let explained = Explanations::read();
    let mut wrong: Vec<String> = found
        .iter()
        .filter(|(difference, _)| !explained.covers(difference))
        .map(|((file, aspect), detail)| format!("{file} | {aspect}\n{detail}"))
        .collect();
    for difference in explained.differences() {
        if !found.keys().any(|(file, aspect)| (file.as_str(), *aspect) == difference) {
            wrong.push(format!(
                "{} | {} is explained, but no longer so",
                difference.0, difference.1
            ));
        }
    }
    assert!(wrong.is_empty(), "{} in {}:\n{}", wrong.len(), TABLE, wrong.join("\n"));
}

fn question(sample: &Sample) -> Json {
    let kind = if sample.kind == FileKind::Action { "action" } else { "workflow" };
    json!({"name": sample.name, "kind": kind, "text": sample.text})
}

/// What differs, with both sides in words.
fn compare(kiln: &Reading, github: &Json) -> Vec<(&'static str, String, String)> {
    let (our_lines, their_lines) = (our_lines(kiln), their_lines(github));
    let accepted = kiln.diagnostics.is_empty();
    let errors = github["errors"].as_array().expect("errors are a list");
    let mut different = Vec::new();
    let mut check = |aspect, ours: String, theirs: String| {
        if ours != theirs {
            different.push((aspect, ours, theirs));
        }
    };
    if accepted != errors.is_empty() {
        let ours = kiln.diagnostics.first().map_or("accepts", |found| &found.message);
        let theirs = errors.first().map_or("accepts", |error| words(&error["message"]));
        check("accept", ours.to_owned(), theirs.to_owned());
    } else if !accepted {
        check("lines", format!("{our_lines:?}"), format!("{their_lines:?}"));
    } else if let Some(document) = &kiln.document {
        let jobs = &github["jobs"];
        check(
            "jobs",
            our_jobs(document),
            each(jobs, |job| format!("{}{}", job["id"], job["needs"])),
        );
        check("job conditions", our_conditions(document), each(jobs, |job| condition(&job["if"])));
        for (key, ours, theirs) in
            our_steps(document).into_iter().zip(their_steps(github)).flat_map(|(ours, theirs)| {
                [("step conditions", ours.0, theirs.0), ("step ids", ours.1, theirs.1)]
            })
        {
            check(key, ours, theirs);
        }
    }
    different
}

fn words(json: &Json) -> &str {
    json.as_str().unwrap_or_default()
}

fn each(list: &Json, show: impl Fn(&Json) -> String) -> String {
    let items = list.as_array().map_or(&[][..], Vec::as_slice);
    items.iter().map(show).collect::<Vec<_>>().join(" ; ")
}

fn our_lines(kiln: &Reading) -> BTreeSet<usize> {
    kiln.diagnostics.iter().map(|found| kiln.sources.start(found.span).line).collect()
}

fn their_lines(github: &Json) -> BTreeSet<usize> {
    let errors = github["errors"].as_array().expect("errors are a list");
    let lines = errors.iter().filter_map(|error| error["line"].as_u64());
    lines.map(|line| usize::try_from(line).expect("lines are few")).collect()
}

fn our_jobs(document: &Document) -> String {
    let show = |job: kiln_lang::workflow::Job<'_>| {
        let needs: Vec<&str> = job.needs().iter().filter_map(|need| need.text()).collect();
        format!("{}{}", json!(job.id()), json!(needs))
    };
    document.jobs().map(show).collect::<Vec<_>>().join(" ; ")
}

fn our_conditions(document: &Document) -> String {
    let show = |job: kiln_lang::workflow::Job<'_>| {
        our_condition(document, job.get("if").map(|node| &**node))
    };
    document.jobs().map(show).collect::<Vec<_>>().join(" ; ")
}

fn our_condition(document: &Document, node: Option<&Node>) -> String {
    let condition = node.and_then(|node| document.checked.condition(node));
    condition.map_or_else(|| "success()".to_owned(), |condition| condition.text.clone())
}

/// GitHub's model leaves out the condition of steps that only wait.
fn condition(json: &Json) -> String {
    json.as_str().unwrap_or("success()").to_owned()
}

/// For each list of steps: the conditions and the ids, in order.
fn our_steps(document: &Document) -> Vec<(String, String)> {
    if document.kind == FileKind::Action {
        return vec![our_list(document, &document.action_steps())];
    }
    document.jobs().map(|job| our_list(document, &job.steps())).collect()
}

fn our_list(document: &Document, steps: &[Step<'_>]) -> (String, String) {
    let given = steps.iter().filter_map(|step| step.id().and_then(|id| id.text()));
    let mut generator = Generator::new(given.map(str::to_owned));
    let conditions =
        steps.iter().map(|step| our_condition(document, step.get("if").map(|node| &**node)));
    let ids = steps.iter().map(|step| match step.id().and_then(|id| id.text()) {
        Some(id) => id.to_owned(),
        None => generator.next(&stem(*step)),
    });
    (conditions.collect::<Vec<_>>().join(" ; "), ids.collect::<Vec<_>>().join(" ; "))
}

fn stem(step: Step<'_>) -> String {
    match step.work() {
        Some(StepWork::Uses(node)) => {
            let target = uses::action(node.text().unwrap_or_default());
            target.map_or_else(|_| "run".to_owned(), |target| uses::id_stem(&target))
        }
        Some(StepWork::Wait(_)) => "wait".to_owned(),
        Some(StepWork::WaitAll(_)) => "wait-all".to_owned(),
        Some(StepWork::Cancel(_)) => "cancel".to_owned(),
        Some(StepWork::Parallel(_)) => "parallel".to_owned(),
        Some(StepWork::Run(_)) | None => "run".to_owned(),
    }
}

fn their_steps(github: &Json) -> Vec<(String, String)> {
    let lists: Vec<&Json> = match github["jobs"].as_array().map(Vec::as_slice) {
        Some([]) | None => vec![&github["steps"]],
        Some(jobs) => jobs.iter().map(|job| &job["steps"]).collect(),
    };
    let show = |list: &&Json| {
        (
            each(list, |step| condition(&step["if"])),
            each(list, |step| words(&step["id"]).to_owned()),
        )
    };
    lists.iter().map(show).collect()
}

const TABLE: &str = "tests/it/differential/explained.txt";

/// The table of reasons. `# …` starts a group, `= …` a reason, `file | aspect` is what it explains.
struct Explanations {
    text: String,
}

impl Explanations {
    fn read() -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(TABLE);
        Self { text: fs::read_to_string(path).expect("there is a table of explanations") }
    }

    fn differences(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text.lines().filter_map(|line| line.split_once(" | "))
    }

    fn covers(&self, difference: &Difference) -> bool {
        self.differences().any(|(file, aspect)| (file, aspect) == (&*difference.0, difference.1))
    }

    /// The groups and reasons for people, with an example of each.
    fn document(&self) -> String {
        let mut document = vec![HEADER.to_owned()];
        let mut lines = self.text.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some(group) = line.strip_prefix("# ") {
                document.push(format!("\n## {group}\n\n"));
            } else if let Some(reason) = line.strip_prefix("= ") {
                let example = lines.peek().and_then(|line| line.split_once(" | "));
                let (file, _) = example.expect("a reason explains at least one difference");
                let path = format!("../crates/kiln-lang/tests/corpus/{file}");
                document.push(format!("- {reason} ([example]({path}))\n"));
            }
        }
        document.push("\n## Expressions\n\n".to_owned());
        for (text, reason) in KNOWN_TO_DIFFER {
            document.push(format!("- {reason}: `{text}`\n"));
        }
        document.concat()
    }
}

const HEADER: &str = "\
# Where Kiln differs from GitHub's parser

Kiln is compared with GitHub's published parser (`@actions/workflow-parser`, the one in GitHub's
editor extension) on the whole corpus in `crates/kiln-lang/tests/corpus`: accepted or refused, jobs,
conditions, step ids and the lines of errors; and with `@actions/expressions` on thousands of random
expressions. These are all the differences on those files and expressions: the test fails when one is
missing here, or no longer there.

This page is written by a test from `crates/kiln-lang/tests/it/differential/explained.txt`
(`UPDATE_EXPECT=1 scripts/test -p kiln-lang`).
";

#[test]
fn the_documentation_lists_every_reason() {
    let path = super::workspace().join("docs/differences.md");
    let document = Explanations::read().document();
    if updating() {
        fs::write(&path, &document).expect("the document can be written");
    }
    let current = fs::read_to_string(&path).unwrap_or_default();
    assert!(current == document, "docs/differences.md is out of date: UPDATE_EXPECT=1 writes it");
}
