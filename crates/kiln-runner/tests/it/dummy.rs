//! Jobs on the dummy backend: everything around the processes, without any.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kiln_core::run::Conclusion;
use kiln_core::value::Object;
use kiln_lang::compile::{NoLibrary, compile};
use kiln_lang::source::SourceMap;
use kiln_runner::action::{Nodes, Resolver};
use kiln_runner::backend::Dummy;
use kiln_runner::gateway::local::{Artifacts, Caches, OnShelf, Shelf};
use kiln_runner::git::Repository;
use kiln_runner::job::mask::Masker;
use kiln_runner::job::{
    Annotation, CLEAN_UP, Contexts, Host, Places, Report, Reporter, StepEnd, Task, run,
};
use kiln_runner::origin::{Origin, Served};
use kiln_runner::process::{Control, Tree};

/// Writes down what it hears.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn add(&self, note: String) {
        self.0.lock().unwrap().push(note);
    }
}

impl Reporter for Notes {
    fn step_started(&self, step: usize, name: &str) {
        self.add(format!("{step} starts: {name}"));
    }
    fn line(&self, step: usize, line: &[u8]) {
        self.add(format!("{step}: {}", String::from_utf8_lossy(line)));
    }
    fn step_retried(&self, step: usize, failed_try: u32) {
        self.add(format!("{step} retried after {failed_try}"));
    }
    fn step_finished(&self, step: usize, end: StepEnd) {
        self.add(format!("{step} ends: {}", end.conclusion.result()));
    }
    fn annotation(&self, step: usize, annotation: &Annotation) {
        self.add(format!("{step} annotates: {}", annotation.message));
    }
    fn summary(&self, step: usize, markdown: &str) {
        self.add(format!("{step} sums up: {markdown}"));
    }
    fn uploading(&self) {
        self.add("uploads".to_owned());
    }
}

fn dummy(steps: &str, control: &Control) -> (Report, Vec<String>) {
    dummy_within(steps, control, CLEAN_UP)
}

/// The same with another time for what runs after a cancel.
fn dummy_within(steps: &str, control: &Control, clean_up: Duration) -> (Report, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    let workflow = format!(
        "on: push\njobs:\n  a:\n    runs-on: x\n    outputs: {{v: '${{{{ steps.one.outputs.v }}}}'}}\n    steps:\n{steps}"
    );
    let compiled = compile(&mut SourceMap::new(), "ci.yml", &workflow, &NoLibrary, None);
    let plan = Arc::new(compiled.plan.unwrap_or_else(|| panic!("{:#?}", compiled.diagnostics)));
    let place = |name: &str| directory.path().join(name);
    let caches = Caches::new(place("caches"), "it".to_owned(), 0);
    let shelf = Arc::new(Shelf::new(Artifacts::new(directory.path()), caches));
    let task = Task {
        workflow: 0,
        job: 0,
        plan,
        name: "a".to_owned(),
        contexts: Contexts::default(),
        environment: None,
        secrets: vec![("KEY".to_owned(), "hush-hush".to_owned())],
        masker: Masker::default(),
        services: Arc::new(OnShelf::new(shelf, &Object::new(), None)),
        may_identify: false,
        reads_caches_only: false,
        may_write_actions: false,
        places: Places {
            workspace: place("work"),
            temp: place("temp"),
            scripts: directory.path().to_owned(),
            tool_cache: place("tools"),
            actions: place("actions"),
        },
    };
    let served = Served::of(&Repository::at(place("repository")), place("served"));
    let host = Host {
        backend: Box::new(Dummy),
        inherited: std::env::vars_os().collect(),
        resolver: Resolver::new(None, place("actions")),
        origin: Origin::new(served, "me/it", "", "", &[]).unwrap(),
        name: "kiln".to_owned(),
        nodes: Arc::new(Nodes::configured(|_| None)),
        silence: None,
        timeout: Duration::from_mins(1),
        clean_up,
    };
    let notes = Notes::default();
    let report = run(&task, &host, &notes, control, &Tree::new(None).unwrap());
    (report, notes.0.into_inner().unwrap())
}

/// P8
#[test]
fn outputs_masks_and_files_work_without_a_process() {
    let steps = "      - {id: one, name: One, run: \"echo v=7 >> \\\"$GITHUB_OUTPUT\\\"\\necho the key is hush-hush\"}\n";
    let (report, notes) = dummy(steps, &Control::new().unwrap());
    assert_eq!(report.conclusion, Conclusion::Success);
    assert_eq!(report.outputs, [("v".to_owned(), "7".to_owned())]);
    assert!(notes.contains(&"0: the key is ***".to_owned()), "{notes:#?}");
    assert_eq!(notes.last().map(String::as_str), Some("0 ends: success"));
}

/// P8
#[test]
fn what_the_dummy_does_not_know_fails_the_step() {
    let (report, notes) = dummy("      - run: make world\n", &Control::new().unwrap());
    assert_eq!(report.conclusion, Conclusion::Failure);
    let expect = "0 annotates: the dummy backend cannot run `make world`";
    assert!(notes.iter().any(|note| note == expect), "{notes:#?}");
}

/// S13, S14
#[test]
fn time_limits_and_cancels_reach_the_dummy() {
    let limited = "      - {run: sleep 600, timeout-minutes: 0.0005}\n";
    let (report, notes) = dummy(limited, &Control::new().unwrap());
    assert_eq!(report.conclusion, Conclusion::Failure);
    assert!(notes.iter().any(|note| note.contains("ran longer than")), "{notes:#?}");

    let control = Control::new().unwrap();
    let steps = "      - run: sleep 600\n      - {if: always(), run: echo swept}\n";
    let (report, notes) = std::thread::scope(|scope| {
        let running = scope.spawn(|| dummy(steps, &control));
        std::thread::sleep(Duration::from_millis(20));
        control.cancel();
        running.join().unwrap()
    });
    assert_eq!(report.conclusion, Conclusion::Cancelled);
    assert!(notes.contains(&"1: swept".to_owned()), "{notes:#?}");
}

/// S14: whenever the cancel comes, the step does not run to its end.
#[test]
fn a_cancel_between_a_condition_and_its_step_ends_the_step() {
    let steps = "      - run: sleep 600\n";
    for micros in (0..4_000).step_by(200) {
        let control = Control::new().unwrap();
        let report = std::thread::scope(|scope| {
            let running = scope.spawn(|| dummy(steps, &control).0);
            std::thread::sleep(Duration::from_micros(micros));
            control.cancel();
            running.join().unwrap()
        });
        assert_eq!(report.conclusion, Conclusion::Cancelled, "after {micros} µs");
    }
}

/// S14: what runs all the same has its time, and not the time of the job.
#[test]
fn a_step_that_always_runs_and_hangs_ends_after_a_cancel() {
    let steps = "      - run: echo never\n      - {if: always(), run: sleep 600}\n      - {if: always(), run: echo too late}\n";
    let control = Control::new().unwrap();
    control.cancel();
    let (report, notes) = dummy_within(steps, &control, Duration::from_secs(1));
    assert_eq!(report.conclusion, Conclusion::Cancelled);
    let has = |text: &str| notes.iter().any(|note| note.contains(text));
    assert!(has("0 ends: skipped") && has("1 ends: cancelled") && has("2 ends: skipped"));
    assert!(has("the job was cancelled 1.0 s ago: what still ran was ended"), "{notes:#?}");
    assert!(has("2: ##[warning]not run: the time for cleaning up is over"), "{notes:#?}");
    assert!(!has("2: too late") && !has("0: never"), "{notes:#?}");
}

/// S14: a time limit of its own is still a failure of the step.
#[test]
fn a_step_after_a_cancel_may_have_less_time_than_all_of_them() {
    let steps = "      - {if: always(), run: sleep 600, timeout-minutes: 0.0005}\n      - {if: always(), run: echo in time}\n";
    let control = Control::new().unwrap();
    control.cancel();
    let (report, notes) = dummy(steps, &control);
    assert_eq!(report.conclusion, Conclusion::Failure);
    assert!(notes.contains(&"1: in time".to_owned()), "{notes:#?}");
}

/// S6: only a job that leaves something says that it is being stored, and says so before.
#[test]
fn what_is_stored_at_the_end_is_announced() {
    let control = Control::new().unwrap();
    let steps =
        "      - {uses: actions/cache@v4, with: {path: left, key: k}}\n      - run: echo done\n";
    let (report, notes) = dummy(steps, &control);
    assert_eq!(report.conclusion, Conclusion::Success, "{notes:#?}");
    let at = |note: &str| notes.iter().position(|known| known.contains(note));
    assert!(at("1 ends").is_some() && at("1 ends") < at("uploads"), "{notes:#?}");
    assert!(at("uploads") < at("2 starts: Post"), "{notes:#?}");
    let (_, notes) = dummy("      - run: echo done\n", &control);
    assert!(!notes.contains(&"uploads".to_owned()), "{notes:#?}");
}
