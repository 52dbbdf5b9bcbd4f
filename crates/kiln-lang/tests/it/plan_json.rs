//! Plans are kept as JSON: those of all workflows we have come back as they were.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiln_core::plan::{Action, Plan};
use kiln_lang::compile::{self, Library, LoadedFile, Lookup, NoLibrary};
use kiln_lang::source::SourceMap;
use kiln_lang::workflow::FileKind;
use kiln_lang::workflow::uses::CallTarget;
use kiln_lang::yaml;

use crate::corpus::{all_samples, updating};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn runnable() -> PathBuf {
    tests().join("../../kiln/tests/runnable")
}

/// A folder with workflows that are called.
struct Callees(PathBuf);

impl Library for Callees {
    fn workflow(&self, target: &CallTarget) -> Lookup {
        let CallTarget::Local(path) = target else { return Lookup::OutOfReach };
        let name = Path::new(path).file_name().expect("a workflow has a name");
        match fs::read_to_string(self.0.join(name)) {
            Ok(text) => Lookup::Found(LoadedFile { path: path.clone(), text }),
            Err(_) => Lookup::Missing,
        }
    }

    fn companion(&self, workflow_path: &str) -> Option<LoadedFile> {
        let path = workflow_path.replace(".yml", ".companion.yml");
        let text = fs::read_to_string(self.0.join(&path)).ok()?;
        Some(LoadedFile { path, text })
    }
}

fn compile(path: &str, text: &str, library: &dyn Library) -> Option<Plan> {
    compile::compile(&mut SourceMap::new(), path, text, library, None).plan
}

fn write(plan: &Plan) -> String {
    serde_json::to_string(plan).expect("every plan can be written")
}

/// Writes and reads the plan, and gives back its text.
fn round_trip(name: &str, plan: &Plan) -> String {
    let text = write(plan);
    let back: Plan = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{name} does not come back: {error}\n{text}"));
    assert_eq!(format!("{back:?}"), format!("{plan:?}"), "{name}");
    assert_eq!(write(&back), text, "{name}");
    text
}

fn files_below(folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("the folder can be listed") {
        let path = entry.expect("the folder can be listed").path();
        if path.is_dir() {
            files_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yml") {
            let text = fs::read_to_string(&path).expect("the text is UTF-8");
            found.insert(path.display().to_string(), text);
        }
    }
}

#[test]
fn the_plan_of_every_workflow_comes_back_as_it_was() {
    let library = Callees(runnable().join("fixture/.github/workflows"));
    let mut files = BTreeMap::new();
    files_below(&runnable(), &mut files);
    let samples = all_samples().into_iter().filter(|sample| sample.kind == FileKind::Workflow);
    files.extend(samples.map(|sample| (sample.name, sample.text)));
    let plans = files.iter().filter_map(|(name, text)| {
        compile(name, text, &library).map(|plan| round_trip(name, &plan))
    });
    let calls = plans.map(|text| text.contains("\"workflow\":")).collect::<Vec<_>>();
    let (plans, calls) = (calls.len(), calls.iter().filter(|calls| **calls).count());
    assert!(plans >= 280 && calls >= 8, "{plans} plans, {calls} of them with calls");
}

#[test]
fn every_action_comes_back_as_it_was() {
    let mut files = BTreeMap::new();
    files_below(&runnable().join("fixture/.github/actions"), &mut files);
    let samples = all_samples().into_iter().filter(|sample| sample.kind == FileKind::Action);
    files.extend(samples.map(|sample| (sample.name, sample.text)));
    let mut count = 0;
    for (name, text) in &files {
        let Some(action) = compile::action(&mut SourceMap::new(), name, text).0 else { continue };
        let text = serde_json::to_string(&action).expect("every action can be written");
        let back: Action = serde_json::from_str(&text).expect(name);
        assert_eq!(format!("{back:?}"), format!("{action:?}"), "{name}");
        count += 1;
    }
    assert!(count >= 20, "{count} actions");
}

fn rich() -> Plan {
    let text = fs::read_to_string(tests().join("plan/rich.yml")).expect("the file is there");
    let mut sources = SourceMap::new();
    let library = Callees(tests().join("plan"));
    let compiled = compile::compile(&mut sources, "rich.yml", &text, &library, None);
    compiled.plan.unwrap_or_else(|| panic!("{:#?}", compiled.diagnostics))
}

/// Plans of earlier versions lie in databases. A difference here is right only if what was written
/// before can still be read: then keep the old file beside the new one, and read both.
#[test]
fn the_form_of_a_plan_changes_only_on_purpose() {
    let plan = rich();
    round_trip("rich.yml", &plan);
    let found = serde_json::to_string_pretty(&plan).expect("every plan can be written") + "\n";
    let path = tests().join("plan/rich.json");
    if updating() {
        fs::write(&path, &found).expect("the expectation can be written");
    }
    let expected = fs::read_to_string(&path).expect("the expectation is there");
    assert!(expected == found, "tests/plan/rich.json is out of date: UPDATE_EXPECT=1 writes it");
    let back: Plan = serde_json::from_str(&expected).expect("it is a plan");
    assert_eq!(format!("{back:?}"), format!("{plan:?}"));
}

#[test]
fn a_cut_or_damaged_text_is_an_error_or_another_plan_but_never_a_panic() {
    let text = write(&rich());
    // Every seventh place, since each costs as much as the whole text.
    for at in (0..text.len()).step_by(7).filter(|at| text.is_char_boundary(*at)) {
        assert!(serde_json::from_str::<Plan>(&text[..at]).is_err(), "cut at {at}");
        for other in ["{", "]", "\"", "null", "9", "$"] {
            let damaged = [&text[..at], other, text.get(at + 1..).unwrap_or_default()].concat();
            let _ = serde_json::from_str::<Plan>(&damaged);
        }
    }
}

/// The language stops at 100 levels of YAML, the reader of JSON at 128 of its own.
#[test]
fn the_deepest_tree_of_the_language_comes_back() {
    let job = |matrix: &str| {
        format!(
            "on: push\njobs:\n  a:\n    runs-on: x\n    strategy: {{matrix: {matrix}}}\n    steps: []\n"
        )
    };
    let nested = |depth: usize, leaf: &str| {
        let (open, close) = ("[{a: ".repeat(depth / 2), "}]".repeat(depth / 2));
        job(&format!("{{v: {open}{leaf}{close}}}"))
    };
    for leaf in ["''", "null", ".nan", "'${{ github.ref }}'"] {
        let plans = |depth: usize| compile("deep.yml", &nested(depth, leaf), &NoLibrary);
        let deepest = (0..=yaml::MAX_DEPTH).rev().find(|depth| plans(*depth).is_some());
        let deepest = deepest.expect("some depth is allowed");
        assert!(deepest >= 90, "{deepest}");
        round_trip(leaf, &plans(deepest).expect("it was just compiled"));
    }
}

/// Far above what it takes without optimization: a guard against anything worse than linear.
const SOON: Duration = Duration::from_secs(5);

#[test]
fn the_plan_of_ten_thousand_jobs_is_read_soon() {
    let mut text = String::from("on: push\njobs:\n  j0: {runs-on: x}\n");
    for at in 1..10_000 {
        writeln!(text, "  j{at}: {{needs: j{}, runs-on: x}}", at - 1).expect("strings take all");
    }
    let plan = compile("many.yml", &text, &NoLibrary).expect("it has no errors");
    let text = write(&plan);
    let start = Instant::now();
    let back: Plan = serde_json::from_str(&text).expect("it was just written");
    let took = start.elapsed();
    println!("{} bytes of JSON for 10,000 jobs, read in {took:?}", text.len());
    assert_eq!(back.root().jobs.len(), 10_000);
    assert!(took < SOON, "reading took {took:?}");
    assert!(text.len() < 2_000_000, "{} bytes", text.len());
}
