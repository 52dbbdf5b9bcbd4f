//! The same workflows by act, on this machine without containers, and every difference explained.
//!
//! act is a Python package that `scripts/test` installs. It runs in namespaces of its own, without a
//! network and with all its processes, which end with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value as Json;

use super::events::Outcome;
use super::place::Repository;
use super::{AREAS, Workflow, workflows};

/// How a workflow ended, in the words of both.
#[derive(Debug, PartialEq, Eq)]
struct End {
    succeeded: bool,
    /// The results of the jobs that ran; act does not tell the others.
    jobs: Vec<String>,
    values: Vec<String>,
}

/// A workflow and what about it differs, with both sides in words.
type Differences = BTreeMap<(String, &'static str), String>;

/// P1
pub(super) fn compare_area(area: &str) {
    let mut workflows = workflows(area);
    workflows.retain(Workflow::is_for_act);
    let repository = Repository::new(&workflows, "tools");
    let found: Differences =
        workflows.iter().flat_map(|workflow| compare(workflow, &repository)).collect();
    let wrong = Explanations::read().wrong(area, &found);
    assert!(wrong.is_empty(), "{} in {TABLE}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn most_of_the_corpus_is_compared_with_act() {
    let compared =
        AREAS.iter().flat_map(|area| workflows(area)).filter(Workflow::is_for_act).count();
    assert!(compared >= 140, "only {compared} workflows are compared");
}

impl Workflow {
    fn is_for_act(&self) -> bool {
        let expected = &self.expectation;
        expected.not_for_act.is_none() && expected.waits_for.is_none()
    }
}

fn compare(workflow: &Workflow, repository: &Repository) -> Differences {
    let kiln = ours(&repository.run(workflow));
    let act = theirs(workflow, repository);
    let mut different = Differences::new();
    let mut check = |aspect, kiln: String, act: String| {
        if kiln != act {
            let detail = format!("  Kiln: {kiln}\n  act:  {act}");
            different.insert((workflow.title(), aspect), detail);
        }
    };
    check("outcome", kiln.succeeded.to_string(), act.succeeded.to_string());
    if workflow.expectation.end.runs() {
        check("jobs", kiln.jobs.join(" "), act.jobs.join(" "));
        check("values", kiln.values.join(" ; "), act.values.join(" ; "));
    }
    different
}

fn ours(outcome: &Outcome) -> End {
    let ran = |end: &&String| *end != "skipped";
    let mut jobs: Vec<String> = outcome.jobs.values().filter(ran).cloned().collect();
    jobs.sort();
    End { succeeded: outcome.code == 0, jobs, values: outcome.values() }
}

fn theirs(workflow: &Workflow, repository: &Repository) -> End {
    let home = tempfile::tempdir().expect("the system has a directory for such files");
    let output = command(workflow, repository, home.path()).output().expect("act can be started");
    let code = output.status.code().expect("it was not killed");
    assert!(code < 124, "act did not end by itself: {}\n{output:#?}", workflow.title());
    let mut end = End { succeeded: code == 0, jobs: Vec::new(), values: Vec::new() };
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(event) = serde_json::from_str::<Json>(line) else { continue };
        let text =
            |key: &str| event[key].as_str().map(|text| text.trim_end_matches('\n').to_owned());
        end.jobs.extend(text("jobResult"));
        if event["raw_output"] == true {
            end.values.extend(text("msg").filter(|text| text.starts_with("value: ")));
        }
    }
    end.jobs.sort();
    end.values.sort();
    end
}

fn command(workflow: &Workflow, repository: &Repository, home: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=1", "30", "unshare", "--map-root-user", "--net", "--pid"]);
    command.args(["--fork", "--kill-child", "--mount-proc"]).arg(act());
    let (event, args) = arguments(&workflow.expectation.args);
    command.arg(event).arg("--workflows");
    command.arg(format!(".github/workflows/{}.yml", workflow.name));
    command.args(["--json", "--platform", "ubuntu-latest=-self-hosted"]);
    command.args(["--no-cache-server", "--pull=false", "--action-offline-mode"]);
    // One after the other, so that what a failure cancels is the same each time.
    command.args(["--concurrent-jobs", "1"]);
    command.args(["--container-daemon-socket", "-", "--action-cache-path"]).arg(home.join("cache"));
    command.args(args);
    command
        .current_dir(repository.path())
        .env("PATH", repository.search_path())
        .env("HOME", home)
        .env("XDG_CACHE_HOME", home)
        .env("XDG_CONFIG_HOME", home)
        .env("DOCKER_HOST", "unix:///nonexistent/docker.sock")
        .env("ACT_DISABLE_VERSION_CHECK", "1")
        .stdin(Stdio::null());
    command
}

/// The event and the other arguments of `kiln run`, as act wants them.
fn arguments(ours: &[String]) -> (String, Vec<String>) {
    let mut event = "push".to_owned();
    let mut theirs = Vec::new();
    for pair in ours.chunks(2) {
        let [option, value] = pair else { panic!("each argument has a value: {ours:?}") };
        let option = match option.as_str() {
            "--event" => {
                event.clone_from(value);
                continue;
            }
            "--event-file" => "--eventpath",
            // It runs as many as there are cores.
            "--jobs" => continue,
            same => same,
        };
        theirs.extend([option.to_owned(), value.clone()]);
    }
    (event, theirs)
}

fn act() -> PathBuf {
    let fallback = workspace().join("target/pypi/bin/act");
    let act = std::env::var_os("KILN_TEST_ACT").map_or(fallback, PathBuf::from);
    assert!(act.exists(), "act is not at {}: run `scripts/test`, which installs it", act.display());
    act
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const TABLE: &str = "tests/runnable/explained.txt";

/// The table of reasons. `# …` starts a group, `= …` a reason, `file | aspect` is what it explains.
struct Explanations(String);

impl Explanations {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(TABLE);
        Self(fs::read_to_string(path).expect("there is a table of explanations"))
    }

    fn known(&self) -> BTreeSet<(&str, &str)> {
        self.0.lines().filter_map(|line| line.split_once(" | ")).collect()
    }

    /// Differences without an explanation, and explanations without a difference.
    fn wrong(&self, area: &str, found: &Differences) -> Vec<String> {
        let mut known = self.known();
        known.retain(|(file, _)| file.split('/').next() == Some(area));
        let surprising = found
            .iter()
            .filter(|((file, aspect), _)| !known.contains(&(file.as_str(), *aspect)))
            .map(|((file, aspect), detail)| format!("{file} | {aspect}\n{detail}"));
        let gone = known
            .iter()
            .filter(|(file, aspect)| {
                !found.keys().any(|(title, about)| (title.as_str(), *about) == (*file, *aspect))
            })
            .map(|(file, aspect)| format!("{file} | {aspect} is explained, but no longer so"));
        surprising.chain(gone).collect()
    }

    fn document(&self) -> String {
        let mut document = vec![HEADER.to_owned()];
        let mut lines = self.0.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some(group) = line.strip_prefix("# ") {
                document.push(format!("\n## {group}\n\n"));
            } else if let Some(reason) = line.strip_prefix("= ") {
                let example = lines.peek().and_then(|line| line.split_once(" | "));
                let (file, _) = example.expect("a reason explains at least one difference");
                let path = format!("../crates/kiln/tests/runnable/{file}");
                document.push(format!("- {reason} ([example]({path}))\n"));
            }
        }
        document.push("\n## Not compared\n\n".to_owned());
        let mut reasons: BTreeMap<String, String> = BTreeMap::new();
        for workflow in AREAS.iter().flat_map(|area| workflows(area)) {
            if let Some(reason) = &workflow.expectation.not_for_act {
                reasons.entry(reason.clone()).or_insert_with(|| workflow.title());
            }
        }
        for (reason, file) in reasons {
            document
                .push(format!("- {reason} ([example](../crates/kiln/tests/runnable/{file}))\n"));
        }
        document.concat()
    }
}

const HEADER: &str = "\
# Where Kiln differs from act

The runnable corpus in `crates/kiln/tests/runnable` is run by Kiln and by [act](https://github.com/nektos/act) in its mode
without containers: success or failure, the results of jobs and the values that steps print. These are all the differences on
those files: the test fails when one is missing here, or no longer there.

This page is written by a test from `crates/kiln/tests/runnable/explained.txt` (`UPDATE_EXPECT=1 scripts/test -p kiln`).
";

#[test]
fn the_page_about_act_lists_every_reason() {
    let path = workspace().join("docs/compare-act.md");
    let document = Explanations::read().document();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &document).expect("the document can be written");
    }
    let current = fs::read_to_string(&path).unwrap_or_default();
    assert!(current == document, "docs/compare-act.md is out of date: UPDATE_EXPECT=1 writes it");
}
