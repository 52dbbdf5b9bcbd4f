//! Jobs as they should go.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

use kiln_runner::git::Repository;
use kiln_runner::origin::{Origin, Served};
use kiln_runner::process::Tree;

use super::server::Wrong;
use super::{Case, job, wait};

/// S1, S6
#[test]
fn a_job_runs_in_an_empty_workspace_and_all_about_it_arrives() {
    let case = Case::new();
    let runner = case.start();
    let steps = r#"
      - {id: one, name: One, run: 'echo v=7 >> "$GITHUB_OUTPUT"; ls -A | wc -l; echo $RUNNER_NAME'}
      - run: 'cat "$GITHUB_EVENT_PATH"; echo "::warning::careful"; echo Sum >> "$GITHUB_STEP_SUMMARY"'
      - {run: exit 3, continue-on-error: true}
      - run: 'mkdir -p locked/in && touch locked/in/x && chmod 0 locked; echo ${{ github.token }}'
"#;
    case.server.queue(job(1, steps));
    wait("it is complete", || case.server.told(1).complete.is_some());
    let told = case.server.told(1);
    let complete = told.complete.clone().unwrap();
    assert_eq!(complete.conclusion, "success", "{}", told.text());
    assert_eq!(complete.outputs["v"], "7");
    assert!(complete.used.memory_peak_kb > 0 && complete.transient.is_none());
    let text = told.text();
    for shown in ["0\n", "tester\n", "\"hello\": \"world\"", "***"] {
        assert!(text.contains(shown), "{shown} is missing in\n{text}");
    }
    let kinds = told.kinds();
    assert_eq!(kinds[..2], ["started", "step_started"]);
    for (kind, count) in [("step_started", 4), ("step_finished", 4), ("summary", 1)] {
        assert_eq!(kinds.iter().filter(|known| *known == kind).count(), count, "{kind}");
    }
    assert!(kinds.contains(&"annotation".to_owned()));
    let ended = runner.drained();
    assert_eq!((ended.given_back, ended.unregistered), (0, false));
    let left = |folder: &str| fs::read_dir(case.data().join(folder)).unwrap().count();
    assert_eq!((left("jobs"), left("work/_trash")), (0, 0));
    let base = case.data().join("work/1");
    assert_eq!(fs::read_dir(base.join("work/app/app")).unwrap().count(), 0);
    for entry in fs::read_dir(base).unwrap().flatten() {
        let found = entry.metadata().unwrap();
        assert!(found.is_dir() || found.len() == 0, "nothing is left of the job: {entry:?}");
    }
    let mode = fs::metadata(case.data().join("runner.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Steps that wait until a file is there.
fn waiting_for(marker: &Path) -> String {
    let marker = marker.display();
    format!(
        "      - run: 'for i in $(seq 1000); do [ -e {marker} ] && exit 0; sleep 0.02; done; exit 1'\n"
    )
}

fn has_begun(case: &Case, id: i64) -> bool {
    case.server.told(id).kinds().contains(&"step_started".to_owned())
}

/// S17
#[test]
fn several_jobs_run_at_once_and_no_more_than_it_has_slots() {
    let case = Case::new();
    let runner = case.start();
    let marker = case.data().join("go");
    for id in 1..=3 {
        case.server.queue(job(id, &waiting_for(&marker)));
    }
    wait("two have begun", || (1..=2).all(|id| has_begun(&case, id)));
    assert_eq!(case.server.world().queue.len(), 1, "the third waits at the server");
    fs::write(marker, "").unwrap();
    wait("all are done", || (1..=3).all(|id| case.server.told(id).complete.is_some()));
    runner.drained();
}

/// Q1
#[test]
fn free_slots_are_filled_with_one_question() {
    for wrong in [None, Some(Wrong::Lost)] {
        let case = Case::new();
        let marker = case.data().join("go");
        for id in 1..=4 {
            case.server.queue(job(id, &waiting_for(&marker)));
        }
        if let Some(wrong) = wrong {
            case.server.break_next("claim", wrong);
        }
        let runner = case.start_with(|options| options.capabilities.max_parallel = 3);
        wait("three have begun", || (1..=3).all(|id| has_begun(&case, id)));
        // A question whose answer got lost is asked again, and has the same answer.
        assert_eq!(case.server.world().calls["claim"], 1 + usize::from(wrong.is_some()));
        assert_eq!(case.server.world().queue.len(), 1, "there is no slot for the fourth");
        fs::write(marker, "").unwrap();
        wait("all are done", || (1..=4).all(|id| case.server.told(id).complete.is_some()));
        runner.drained();
    }
}

/// S14: a server that was set back, or another one behind the same address.
#[test]
fn a_server_that_became_older_gives_one_job_at_a_time() {
    let case = Case::new();
    let runner = case.start_with(|options| options.capabilities.max_parallel = 3);
    wait("it asks", || case.server.world().calls.contains_key("claim"));
    case.server.world().is_old = true;
    for id in 1..=3 {
        case.server.queue(job(id, "      - run: 'true'\n"));
    }
    wait("all are done", || (1..=3).all(|id| case.server.told(id).complete.is_some()));
    runner.drained();
}

/// A job that checks out its own repository, which the runner has never seen.
#[test]
fn a_checkout_fetches_the_commit_into_a_mirror_that_stays() {
    let case = Case::new();
    let root = case.data().join("user");
    fs::create_dir_all(root.join("act")).unwrap();
    let user = Repository::at(&root);
    let git = |words: &[&str]| user.ask(words).unwrap();
    git(&["init", "-q", "-b", "main"]);
    let action = "runs:\n  using: composite\n  steps:\n    - {run: echo acted, shell: bash}\n";
    fs::write(root.join("act/action.yml"), format!("name: a\ndescription: b\n{action}")).unwrap();
    git(&["add", "-A"]);
    git(&["-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-qm", "one"]);
    let head = git(&["rev-parse", "HEAD"]);
    // The origin of `kiln run` plays the server's git.
    let steps =
        "      - uses: actions/checkout@v4\n      - uses: ./act\n      - run: git log --oneline\n";
    let mut first = job(1, steps);
    let secrets = [1, 2].map(|id| ("T".to_owned(), job(id, steps).token));
    let served = Served::of(&user, case.data().join("served.git"));
    let origin = Origin::new(served, "acme/app", &head, "refs/heads/main", &secrets).unwrap();
    let tree = Tree::new(None).unwrap();
    let url = format!("{}/acme/app.git", origin.address(&tree).unwrap());
    let runner = case.start();
    for id in [1, 2] {
        let mut next = job(id, steps);
        next.source.clone_url.clone_from(&url);
        next.source.commit.clone_from(&head);
        let github = next.contexts.github.get().replace(&"0".repeat(40), &head);
        next.contexts.github = serde_json::value::RawValue::from_string(github).unwrap();
        first = next.clone();
        case.server.queue(next);
        wait("it is complete", || case.server.told(id).complete.is_some());
        let told = case.server.told(id);
        assert_eq!(told.complete.clone().unwrap().conclusion, "success", "{}", told.text());
        assert!(told.text().contains("acted\n") && told.text().contains("one\n"));
    }
    assert_eq!(first.repo, "acme/app");
    let mirror = case.data().join("mirrors/acme/app.git");
    assert_eq!(Repository::at(mirror).ask(&["rev-parse", "refs/heads/main"]).unwrap(), head);
    runner.drained();
    origin.stop();
}

/// A repository that cannot be had is not the job's fault.
#[test]
fn a_repository_that_cannot_be_fetched_makes_the_failure_transient() {
    let case = Case::new();
    let runner = case.start();
    case.server.queue(job(1, "      - uses: actions/checkout@v4\n"));
    wait("it is complete", || case.server.told(1).complete.is_some());
    let complete = case.server.told(1).complete.unwrap();
    assert_eq!(complete.conclusion, "failure");
    assert!(complete.transient.unwrap().contains("fetched"));
    runner.drained();
}

/// Q2: what the agent adds between the answer of a claim and the first line.
#[test]
fn the_first_line_arrives_soon_after_the_job_is_there() {
    let case = Case::new();
    let runner = case.start();
    wait("it asks", || case.server.world().calls.contains_key("claim"));
    let mut best = u128::MAX;
    for id in 1..=8 {
        let begun = Instant::now();
        case.server.queue(job(id, "      - run: echo first\n"));
        while !case.server.told(id).text().contains("first") {
            assert!(begun.elapsed() < super::BOUND, "no line came");
            std::thread::yield_now();
        }
        best = best.min(begun.elapsed().as_micros());
        wait("it is complete", || case.server.told(id).complete.is_some());
    }
    println!("the first line came {best} µs after the job was there");
    assert!(best < 500_000, "{best} µs");
    runner.drained();
}
