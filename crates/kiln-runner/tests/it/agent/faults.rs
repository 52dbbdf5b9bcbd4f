//! What goes wrong between a runner and its server.

use std::fs;

use kiln_proto::runner::Command;
use kiln_runner::agent::{Agent, AgentError, Stop};
use kiln_runner::process::VARIABLE;

use super::server::Wrong;
use super::{Case, job, wait};

const ECHO: &str = "      - run: echo hello; echo world\n";

fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// S5, PEERS 4
#[test]
fn answers_that_get_lost_and_errors_of_the_server_cost_nothing() {
    let case = Case::new();
    for wrong in [Wrong::Answer(503), Wrong::Lost] {
        for kind in ["register", "claim", "events", "log", "complete"] {
            case.server.break_next(kind, wrong);
        }
    }
    let runner = case.start();
    case.server.queue(job(1, ECHO));
    case.server.queue(job(2, ECHO));
    wait("both are done", || (1..=2).all(|id| case.server.told(id).complete.is_some()));
    for id in 1..=2 {
        let told = case.server.told(id);
        assert_eq!(told.text(), "hello\nworld\n");
        assert_eq!(told.kinds(), ["started", "step_started", "step_finished"]);
    }
    runner.drained();
}

/// S1: a server of the first version hears no events with the end of a job. The short job of another is told at once.
#[test]
fn events_come_with_the_end_only_where_they_are_heard() {
    for is_old in [true, false] {
        let case = Case::new();
        case.server.world().is_old = is_old;
        let runner = case.start();
        case.server.queue(job(1, ECHO));
        wait("it is done", || case.server.told(1).complete.is_some());
        let told = case.server.told(1);
        assert_eq!(told.kinds(), ["started", "step_started", "step_finished"]);
        if is_old {
            assert_eq!(told.along, 0);
        }
        runner.drained();
    }
}

/// A server that lost a part of what it had gets it again.
#[test]
fn what_the_server_lost_is_told_again_from_where_it_wants() {
    let case = Case::new();
    let runner = case.start();
    let marker = case.data().join("go");
    let wait_for =
        format!("for i in $(seq 1000); do [ -e {} ] && break; sleep 0.02; done", marker.display());
    case.server
        .queue(job(1, &format!("      - run: 'echo one; echo two; {wait_for}; echo three'\n")));
    wait("two lines are there", || case.server.told(1).text().contains("two"));
    wait("the step is there", || case.server.told(1).events.len() == 2);
    {
        let mut world = case.server.world();
        let told = world.jobs.get_mut(&1).unwrap();
        told.log.truncate(3);
        told.events.clear();
    }
    fs::write(marker, "").unwrap();
    wait("it is complete", || case.server.told(1).complete.is_some());
    let told = case.server.told(1);
    assert_eq!(told.text(), "one\ntwo\nthree\n");
    assert_eq!(told.kinds(), ["started", "step_started", "step_finished"]);
    runner.drained();
}

/// PEERS 3
#[test]
fn a_job_goes_on_while_the_server_is_away_and_all_of_it_arrives_afterwards() {
    let case = Case::new();
    let runner = case.start();
    let marker = case.data().join("done");
    let steps = format!(
        "      - run: 'echo before; sleep 0.5; for i in $(seq 2000); do echo line $i; done; touch {}'\n",
        marker.display()
    );
    case.server.queue(job(1, &steps));
    wait("it has begun", || case.server.told(1).text().contains("before"));
    case.server.go_away();
    wait("the job has ended", || marker.exists());
    case.server.come_back();
    wait("it is complete", || case.server.told(1).complete.is_some());
    let text = case.server.told(1).text();
    assert_eq!(text.lines().count(), 2001);
    assert!(text.ends_with("line 2000\n"));
    case.server.queue(job(2, ECHO));
    wait("the next one is done", || case.server.told(2).complete.is_some());
    runner.drained();
}

/// S5
#[test]
fn a_refused_token_makes_it_register_again_as_itself_and_keep_its_jobs() {
    let case = Case::new();
    let runner = case.start();
    case.server.queue(job(1, "      - run: sleep 1; echo end\n"));
    wait("it has begun", || case.server.told(1).kinds().contains(&"step_started".to_owned()));
    case.server.world().epoch += 1;
    case.server.queue(job(2, ECHO));
    wait("both are done", || (1..=2).all(|id| case.server.told(id).complete.is_some()));
    assert_eq!(case.server.told(1).complete.unwrap().conclusion, "success");
    let registrations = case.server.world().registrations.clone();
    assert_eq!(registrations.len(), 2, "once for all that was refused");
    assert_eq!(registrations[1].id, Some(1));
    assert_eq!(registrations[0].public_key, registrations[1].public_key);
    assert_eq!(case.server.world().runners.len(), 1);
    runner.drained();
}

/// S1
#[test]
fn it_comes_back_with_its_credential_and_anew_when_that_is_refused() {
    let case = Case::new();
    let register = |key: bool| {
        let asked = case.server.world().calls.get("claim").copied();
        let runner = case.start_with(|options| {
            if !key {
                options.key = None;
            }
        });
        wait("it asks or ends", || {
            runner.thread.is_finished() || case.server.world().calls.get("claim").copied() > asked
        });
        let _ = runner.stop.send(Stop::Drain);
        runner.ended()
    };
    register(true).unwrap();
    register(false).unwrap();
    assert_eq!(case.server.world().registrations[1].credential.as_deref(), Some("krc_1"));
    case.server.world().runners.clear();
    let error = register(false).unwrap_err();
    assert!(matches!(error, AgentError::CredentialRefused(_)), "{error}");
    register(true).unwrap();
    assert_eq!(case.server.world().runners.len(), 1, "it is a new one");
    let mut options = case.options();
    options.data = case.data().join("other");
    options.key = None;
    assert!(matches!(Agent::new(options), Err(AgentError::NoKey)));
    let runner = case.start_with(|options| {
        options.data = case.data().join("another");
        options.key = Some("krk_wrong".to_owned());
    });
    assert!(matches!(runner.ended(), Err(AgentError::KeyRefused(_))));
}

/// PEERS 5
#[test]
fn a_lost_lease_ends_the_job_and_nothing_more_is_said() {
    let case = Case::new();
    let runner = case.start();
    case.server.queue(job(1, "      - run: echo pid $$; sleep 600\n"));
    // Its first events wait a moment for others, so that the log may come before them.
    wait("it has begun", || {
        let told = case.server.told(1);
        told.text().contains("pid") && told.kinds().contains(&"step_started".to_owned())
    });
    let text = case.server.told(1).text();
    let pid = text.trim().trim_start_matches("pid ").to_owned();
    case.server.world().jobs.get_mut(&1).unwrap().gone = true;
    let at = case.server.world().heartbeats.len();
    case.server.command(2, Command::Drain);
    wait("its process is gone", || !is_running(&pid));
    assert!(case.server.world().heartbeats.len() >= at);
    case.server.queue(job(3, ECHO));
    wait("the next one is done", || case.server.told(3).complete.is_some());
    let told = case.server.told(1);
    assert_eq!((told.complete, told.late), (None, 0));
    runner.drained();
}

/// PEERS 2: what a runner that was killed left on disk, and the processes that it left.
#[test]
fn a_start_after_a_crash_clears_up_and_tells_what_was_left() {
    let case = Case::new();
    let spool = |id: i64, tree: &str| {
        let folder = case.data().join(format!("jobs/{id}.1"));
        fs::create_dir_all(&folder).unwrap();
        let token = job(id, ECHO).token;
        let state = serde_json::json!({
            "job": {"job_id": id, "attempt": 1}, "name": "a", "token": token, "tree": tree,
        });
        fs::write(folder.join("state.json"), state.to_string()).unwrap();
        fs::write(folder.join("log"), "1 0 said\n2 0 half a li").unwrap();
        fs::write(folder.join("events"), "{\"sequence\":1,\"at\":1,\"kind\":\"started\"}\n")
            .unwrap();
        case.server.world().jobs.insert(id, super::server::Told::default());
        folder
    };
    let tree = "0123456789abcdef0123456789abcdef";
    spool(1, tree);
    let complete = "{\"conclusion\":\"success\",\"log_bytes\":9,\"sequence\":1}";
    fs::write(spool(2, &tree.replace('0', "9")).join("complete.json"), complete).unwrap();
    case.server.world().jobs.get_mut(&2).unwrap().log = b"1 0 said\n".to_vec();
    spool(3, &tree.replace('0', "8"));
    case.server.world().jobs.get_mut(&3).unwrap().gone = true;
    fs::create_dir_all(case.data().join("work/1/work/app")).unwrap();
    let mut process =
        std::process::Command::new("sleep").arg("600").env(VARIABLE, tree).spawn().unwrap();
    let runner = case.start();
    wait("both are told", || (1..=2).all(|id| case.server.told(id).complete.is_some()));
    let told = case.server.told(1);
    assert_eq!(told.text(), "said\n");
    let complete = told.complete.unwrap();
    assert_eq!(complete.conclusion, "failure");
    assert_eq!(complete.transient.as_deref(), Some("the runner was restarted"));
    assert_eq!(case.server.told(2).complete.unwrap().conclusion, "success");
    // The agent may have taken its status as that of an orphan.
    let _ = process.wait();
    wait("all is cleared up", || fs::read_dir(case.data().join("jobs")).unwrap().count() == 0);
    assert!(!case.data().join("work/1").exists());
    runner.drained();
}

#[test]
fn two_runners_never_share_a_directory() {
    let case = Case::new();
    let runner = case.start();
    let Err(AgentError::InUse(_)) = Agent::new(case.options()) else { panic!("it is in use") };
    runner.drained();
    assert!(Agent::new(case.options()).is_ok());
}
