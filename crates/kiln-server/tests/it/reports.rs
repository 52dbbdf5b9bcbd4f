//! What runners say about their jobs.

use std::time::Duration;

use kiln_core::id::{JobId, RunId, RunnerId};
use kiln_core::run::{Conclusion, LegState, RunState};
use kiln_proto::job::Job;
use kiln_proto::report::{Annotation, Complete, Completed, Heard, Stored, Used, What};
use kiln_server::logs::LogId;
use kiln_store::events::{self, Cursor, EventKind, Filter};
use kiln_store::runs::{self, Happened, JobNews, RunView, Word};
use kiln_store::{Actor, Scope, Tx};
use kiln_testkit::database::Database;
use serde_json::json;

use crate::api::people::{As, person};
use crate::runner::{LINUX, Reporter, Runner, completion, good, numbered, refused};
use crate::support::{Options, Place, SYSTEM, Server};
use crate::web::browser::Browser;

const JOB: &str = "  build: {runs-on: linux, steps: [{run: 'true'}]}\n";

/// A repository, a key to its runners, and a run of one job.
async fn site(server: &Server) -> (Place, String, RunId) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let run = server.run(&place, JOB).await;
    (place, key, run)
}

async fn view(server: &Server, run: RunId) -> RunView {
    let read = async move |tx: &mut Tx<'_>| runs::view(tx, SYSTEM, run, None).await;
    server.app.store.read(read).await.unwrap()
}

async fn log_of(server: &Server, job: &Job) -> String {
    let log = LogId { job: JobId(job.job_id), claim: job.attempt };
    let bytes = server.app.logs.read(log, 0, 1 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn step_started(step: u32) -> What {
    What::StepStarted { step, name: format!("Step {step}") }
}

on_both!(
    /// S6: its number is kept with the word itself, in one commit.
    a_start_is_heard_with_its_number
);

async fn a_start_is_heard_with_its_number(server: Server) {
    let (_, key, run) = site(&server).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let reporter = Reporter::new(&server, &job);
    for _ in 0..2 {
        let heard: Heard =
            good(reporter.telling(1, vec![What::started()]).send().await.unwrap()).await;
        assert_eq!(heard, Heard { sequence: 1, cancelling: false });
        let (id, claim) = (JobId(job.job_id), job.attempt);
        let lease = server.app.traffic.lease(id, claim).await.unwrap().unwrap();
        assert_eq!(lease.heard, 1);
        assert!(matches!(view(&server, run).await.jobs[0].state, LegState::Running { .. }));
    }
    let early = reporter.telling(3, vec![What::Uploading]).send().await.unwrap();
    assert_eq!(early.status(), 409);
    let heard: Heard =
        good(reporter.telling(2, vec![step_started(0), What::Uploading]).send().await.unwrap())
            .await;
    assert_eq!(heard.sequence, 3);
    let said = Complete { sequence: 3, ..completion("success") };
    let completed: Completed = good(reporter.completing(&said).send().await.unwrap()).await;
    assert_eq!(completed.conclusion, "success");
}

on_both!(
    /// S6: what a runner says of a short job takes one request.
    the_end_brings_along_what_was_not_said_before
);

async fn the_end_brings_along_what_was_not_said_before(server: Server) {
    let (place, key, run) = site(&server).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let reporter = Reporter::new(&server, &job);
    let end = |sequence, events| Complete { sequence, events, ..completion("success") };
    let wrong = end(2, numbered(1, vec![What::started()]));
    // The last event has the number that the end names.
    refused(reporter.completing(&wrong), 422).await;
    let gap = end(3, numbered(3, vec![step_started(1)]));
    assert_eq!(refused(reporter.completing(&gap), 409).await.wanted, Some(1));
    assert!(matches!(view(&server, run).await.jobs[0].state, LegState::Claimed { .. }));
    let said = end(1, numbered(1, vec![What::Started { preparing_ms: Some(1) }]));
    for _ in 0..2 {
        let completed: Completed = good(reporter.completing(&said).send().await.unwrap()).await;
        assert_eq!(completed.conclusion, "success");
        server.app.fleet.forget_claim(JobId(job.job_id), job.attempt);
    }
    let ended = view(&server, run).await;
    let times = ended.jobs[0].timings;
    assert!(times.started.is_some() && times.prepared.is_some(), "{times:?}");
    assert_eq!(ended.state, RunState::Done(Conclusion::Success));
    let heard = kinds(&server, run).await;
    for kind in [EventKind::RunStarted, EventKind::JobStarted] {
        assert_eq!(heard.iter().filter(|it| **it == kind).count(), 1, "{kind:?} in {heard:?}");
    }

    let run = server.run(&place, JOB).await;
    let job = runner.claim("b", 20).await.unwrap();
    let reporter = Reporter::new(&server, &job);
    good::<Heard>(reporter.telling(1, vec![What::started()]).send().await.unwrap()).await;
    // Also what was heard before may be among it.
    let said = end(2, numbered(1, vec![What::started(), step_started(1)]));
    good::<Completed>(reporter.completing(&said).send().await.unwrap()).await;
    server.app.fleet.forget_claim(JobId(job.job_id), job.attempt);
    // Said again when nobody here remembers it.
    let again: Completed = good(reporter.completing(&said).send().await.unwrap()).await;
    assert_eq!(again.conclusion, "success");
    let steps = async move |tx: &mut Tx<'_>| runs::steps(tx, SYSTEM, run, None).await;
    let steps = server.app.store.read(steps).await.unwrap();
    assert!(steps.iter().any(|step| step.name == "Step 1"), "{steps:?}");
}

on_both!(
    /// S6: also of a job that did not end well.
    the_end_of_a_job_that_failed_brings_its_start_along
);

async fn the_end_of_a_job_that_failed_brings_its_start_along(server: Server) {
    let (_, key, run) = site(&server).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let reporter = Reporter::new(&server, &job);
    let events = numbered(1, vec![What::started()]);
    let said = Complete { sequence: 1, events, ..completion("failure") };
    for _ in 0..2 {
        let completed: Completed = good(reporter.completing(&said).send().await.unwrap()).await;
        assert_eq!(completed.conclusion, "failure");
    }
    let ended = view(&server, run).await;
    assert!(ended.jobs[0].timings.started.is_some());
    assert_eq!(ended.state, RunState::Done(Conclusion::Failure));
    assert!(kinds(&server, run).await.contains(&EventKind::JobStarted));
}

async fn kinds(server: &Server, run: RunId) -> Vec<EventKind> {
    let read = async move |tx: &mut Tx<'_>| {
        events::read(tx, SYSTEM, Filter::Run(run), Cursor::default(), 100).await
    };
    let page = server.app.store.read(read).await.unwrap();
    page.events.into_iter().map(|stored| stored.event.kind).collect()
}

on_both!(
    /// S6, O1
    a_re_run_shows_what_those_said_that_it_took_over
);

async fn a_re_run_shows_what_those_said_that_it_took_over(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let jobs = ["good", "bad"];
    let job = |name: &&str| format!("  {name}: {{runs-on: linux, steps: [{{run: 'true'}}]}}\n");
    let run = server.run(&place, &jobs.iter().map(job).collect::<String>()).await;
    for nonce in ["a", "b", "c", "d"] {
        let claimed = runner.claim(nonce, 5).await.unwrap();
        let reporter = Reporter::new(&server, &claimed);
        // The first claim of each comes to nothing.
        if claimed.attempt == 1 {
            assert!(reporter.returning().send().await.unwrap().status().is_success());
            continue;
        }
        let name = claimed.job_name.as_str();
        let message = format!("said by {name}");
        let remark =
            Annotation { severity: "warning".to_owned(), message, ..Annotation::default() };
        let summary = What::Summary { step: 0, markdown: format!("# {name}") };
        let events = vec![What::started(), What::Annotation(remark), summary];
        good::<Heard>(reporter.telling(1, events).send().await.unwrap()).await;
        let end = if name == "good" { "success" } else { "failure" };
        let said = Complete { sequence: 3, ..completion(end) };
        good::<Completed>(reporter.completing(&said).send().await.unwrap()).await;
    }
    let root = person(&server, "root", As::administrator()).await;
    let path = format!("/api/runs/{}", run.0);
    root.post(&format!("{path}/rerun"), json!({ "failed": true })).await.expect(201);
    let detail = root.get(&path).await.expect(200);
    let shown = |name: &str| {
        let jobs = detail["jobs"].as_array().unwrap();
        jobs.iter().find(|job| job["name"] == name).unwrap().clone()
    };
    let (taken, again) = (shown("good"), shown("bad"));
    assert_eq!((&detail["attempt"], &taken["run_attempt"]), (&json!(2), &json!(1)));
    assert_eq!(taken["claims"][0]["outcome"], "returned", "{taken:#}");
    assert_eq!(again["claims"], json!([]), "what runs again begins anew");
    let remarks = root.get(&format!("{path}/annotations")).await.expect(200)["items"].clone();
    assert_eq!(remarks.as_array().unwrap().len(), 1, "{remarks:#}");
    assert_eq!(
        (&remarks[0]["message"], &remarks[0]["job"]),
        (&json!("said by good"), &json!("good"))
    );
    assert_eq!(remarks[0]["job_id"], taken["id"]);
    let summaries = root.get(&format!("{path}/summaries")).await.expect(200)["items"].clone();
    assert_eq!(summaries.as_array().unwrap().len(), 1, "{summaries:#}");
    assert_eq!(
        (&summaries[0]["markdown"], &summaries[0]["job_id"]),
        (&json!("# good"), &taken["id"])
    );
    // Clients of GitHub find it with the job of either attempt.
    let first = root.get(&format!("{path}?attempt=1")).await.expect(200);
    for id in [&taken["id"], &first["jobs"][0]["id"]] {
        let path = format!("/repos/acme/app/check-runs/{id}/annotations");
        let found = root.get(&path).await.expect(200);
        assert_eq!(found[0]["message"], "said by good", "{found:#}");
    }
    // The attempt before is as it was.
    let remarks = root.get(&format!("{path}/annotations?attempt=1")).await.expect(200);
    assert_eq!(remarks["items"].as_array().unwrap().len(), 2);
    let browser = Browser::of(&root).await;
    let page = browser.get(&format!("/acme/app/actions/runs/{}", run.0)).await.expect(200);
    page.has(&["said by good", "/annotations/0?attempt=2\">good</a>"]);
}

on_both!(
    /// S6
    a_job_is_told_from_its_start_to_its_end
);

async fn a_job_is_told_from_its_start_to_its_end(server: Server) {
    let (place, key, run) = site(&server).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let reporter = Reporter::new(&server, &job);
    let annotation = Annotation {
        step: 0,
        severity: "warning".to_owned(),
        message: "hm".to_owned(),
        ..Annotation::default()
    };
    let finished = What::StepFinished {
        step: 0,
        outcome: "failure".to_owned(),
        conclusion: "success".to_owned(),
        exit_code: Some(3),
    };
    let summary = What::Summary { step: 0, markdown: "# done".to_owned() };
    let events = vec![
        What::started(),
        step_started(0),
        What::Annotation(annotation),
        finished,
        summary,
        What::Uploading,
    ];
    let heard: Heard = good(reporter.telling(1, events).send().await.unwrap()).await;
    assert_eq!(heard.sequence, 6);
    let stored: Stored = good(reporter.logging(0, "1 0 hello\n").send().await.unwrap()).await;
    assert_eq!(stored.offset, 10);
    let outputs = [("version".to_owned(), "7".to_owned())].into();
    let used = Used { cpu_ms: 1_500, memory_peak_kb: 2_048, disk_mb: 3 };
    let said = Complete { outputs, log_bytes: 10, sequence: 6, used, ..completion("success") };
    let done: Completed = good(reporter.completing(&said).send().await.unwrap()).await;
    assert_eq!(done.conclusion, "success");
    let root = person(&server, "root", As::administrator()).await;
    let shown = root.get(&format!("/api/jobs/{}", job.job_id)).await.expect(200);
    assert_eq!(shown["used"], serde_json::to_value(used).unwrap());
    assert_eq!(shown["steps"][0]["exit_code"], 3);
    let remarks = root.get(&format!("/api/runs/{}/annotations", run.0)).await.expect(200);
    let remark = &remarks["items"][0];
    assert_eq!((&remark["level"], &remark["message"]), (&"warning".into(), &"hm".into()));
    assert_eq!((&remark["step"], &remark["job_id"]), (&1.into(), &job.job_id.into()));
    root.get(&format!("/api/runs/{}/annotations?attempt=2", run.0)).await.expect(404);
    // The last word is said once, also about this.
    let other = Used { cpu_ms: 9, ..used };
    let again = Complete { used: other, ..said.clone() };
    good::<Completed>(reporter.completing(&again).send().await.unwrap()).await;
    let shown = root.get(&format!("/api/jobs/{}", job.job_id)).await.expect(200);
    assert_eq!(shown["used"]["cpu_ms"], 1_500);
    let view = view(&server, run).await;
    assert_eq!(view.state, RunState::Done(Conclusion::Success));
    let steps =
        async move |tx: &mut Tx<'_>| runs::steps(tx, Scope::Org(place.org), run, None).await;
    let steps = server.app.store.read(steps).await.unwrap();
    assert_eq!(
        (steps[0].name.as_str(), steps[0].conclusion),
        ("Step 0", Some(Conclusion::Success))
    );
    assert_eq!(steps[0].outcome, Some(Conclusion::Failure));
}

on_both!(gaps_are_refused_and_say_where_to_go_on);

async fn gaps_are_refused_and_say_where_to_go_on(server: Server) {
    let (_, key, _) = site(&server).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let reporter = Reporter::new(&server, &job);
    assert_eq!(refused(reporter.logging(5, "x"), 409).await.wanted, Some(0));
    for (from, text, offset) in [(0, "one\n", 4), (0, "one\n", 4), (2, "e\ntwo\n", 8), (8, "", 8)] {
        let stored: Stored = good(reporter.logging(from, text).send().await.unwrap()).await;
        assert_eq!(stored.offset, offset);
    }
    assert_eq!(refused(reporter.logging(9, "x"), 409).await.wanted, Some(8));
    assert_eq!(log_of(&server, &job).await, "one\ntwo\n");

    assert_eq!(refused(reporter.telling(2, vec![step_started(0)]), 409).await.wanted, Some(1));
    for first in [1, 1] {
        let events = vec![What::started(), step_started(0)];
        let heard: Heard = good(reporter.telling(first, events).send().await.unwrap()).await;
        assert_eq!(heard.sequence, 2);
    }
    let heard: Heard =
        good(reporter.telling(2, vec![step_started(0), step_started(1)]).send().await.unwrap())
            .await;
    assert_eq!(heard.sequence, 3);
    assert_eq!(refused(reporter.telling(9, vec![step_started(2)]), 409).await.wanted, Some(4));

    // The last word waits for all others.
    let early = Complete { log_bytes: 8, sequence: 4, ..completion("success") };
    assert_eq!(refused(reporter.completing(&early), 409).await.wanted, Some(4));
    let early = Complete { log_bytes: 9, sequence: 3, ..completion("success") };
    assert_eq!(refused(reporter.completing(&early), 409).await.wanted, Some(8));
    let right = Complete { log_bytes: 8, sequence: 3, ..completion("success") };
    assert_eq!(reporter.completing(&right).send().await.unwrap().status(), 200);
}

on_both!(
    /// S6
    words_that_were_heard_before_count_once
);

async fn words_that_were_heard_before_count_once(server: Server) {
    let (_, key, run) = site(&server).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let reporter = Reporter::new(&server, &job);
    // After a gap nothing counts.
    assert_eq!(refused(reporter.telling(2, vec![What::started()]), 409).await.wanted, Some(1));
    assert!(matches!(view(&server, run).await.jobs[0].state, LegState::Claimed { .. }));
    let both = || vec![What::started(), What::Uploading];
    for events in [both(), both(), vec![What::started()]] {
        let heard: Heard = good(reporter.telling(1, events).send().await.unwrap()).await;
        assert_eq!(heard.sequence, 2);
        assert!(matches!(view(&server, run).await.jobs[0].state, LegState::Uploading { .. }));
    }
    // The same under a new number is another word, which cannot be.
    refused(reporter.telling(3, vec![What::started()]), 409).await;
    let done = Complete { sequence: 2, ..completion("success") };
    assert_eq!(reporter.completing(&done).send().await.unwrap().status(), 200);
}

on_both!(what_cannot_be_understood_is_refused);

async fn what_cannot_be_understood_is_refused(server: Server) {
    let (_, key, _) = site(&server).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let reporter = Reporter::new(&server, &job);
    let put = reqwest::Method::PUT;
    refused(reporter.ask(put.clone(), "log").body("x"), 422).await;
    refused(reporter.ask(put.clone(), "log?from=-1").body("x"), 422).await;
    let long = "x".repeat((4 << 20) + 1);
    refused(reporter.logging(0, &long), 413).await;
    let most: Stored = good(reporter.logging(0, &long[1..]).send().await.unwrap()).await;
    assert_eq!(most.offset, 4 << 20);

    let finished = |conclusion: &str| What::StepFinished {
        step: 0,
        outcome: "success".to_owned(),
        conclusion: conclusion.to_owned(),
        exit_code: None,
    };
    let odd = Annotation { severity: "loud".to_owned(), ..Annotation::default() };
    let wrong =
        [vec![finished("great")], vec![finished("startup_failure")], vec![What::Annotation(odd)]];
    for events in wrong {
        refused(reporter.telling(1, events), 422).await;
    }
    refused(reporter.telling(0, vec![step_started(0)]), 422).await;
    refused(reporter.telling(1, vec![step_started(0); 1_001]), 422).await;
    let post = reqwest::Method::POST;
    let out_of_order = r#"{"events": [{"sequence": 1, "at": 0, "kind": "started"}, {"sequence": 3, "at": 0, "kind": "started"}]}"#;
    refused(reporter.ask(post.clone(), "events").body(out_of_order), 422).await;
    refused(reporter.ask(post.clone(), "events").body("{\"events\": 1}"), 422).await;
    refused(reporter.completing(&completion("perfect")), 422).await;
    let outputs = [("o".to_owned(), "x".repeat(2 << 20))].into();
    refused(reporter.completing(&Complete { outputs, ..completion("success") }), 422).await;
    // None of it did any harm.
    assert_eq!(
        reporter
            .completing(&Complete { log_bytes: 4 << 20, ..completion("success") })
            .send()
            .await
            .unwrap()
            .status(),
        200
    );
}

on_both!(
    /// S6
    repeating_the_last_word_has_the_same_answer
);

async fn repeating_the_last_word_has_the_same_answer(server: Server) {
    let (_, key, run) = site(&server).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let reporter = Reporter::new(&server, &job);
    let log = "1 0 hello\n";
    good::<Stored>(reporter.logging(0, log).send().await.unwrap()).await;
    good::<Heard>(reporter.telling(1, vec![What::started()]).send().await.unwrap()).await;
    let said = Complete { log_bytes: 10, sequence: 1, ..completion("failure") };
    for _ in 0..3 {
        let done: Completed = good(reporter.completing(&said).send().await.unwrap()).await;
        assert_eq!(done.conclusion, "failure");
    }
    assert_eq!(view(&server, run).await.state, RunState::Done(Conclusion::Failure));
    // Also what was said before can be said again, but nothing new.
    let stored: Stored = good(reporter.logging(0, log).send().await.unwrap()).await;
    assert_eq!(stored.offset, 10);
    good::<Heard>(reporter.telling(1, vec![What::started()]).send().await.unwrap()).await;
    refused(reporter.logging(10, "more"), 409).await;
    assert_eq!(log_of(&server, &job).await, log);
    refused(reporter.returning(), 409).await;
}

on_both!(
    /// S7
    a_failure_that_is_not_the_jobs_fault_is_tried_again
);

async fn a_failure_that_is_not_the_jobs_fault_is_tried_again(server: Server) {
    let (_, key, run) = site(&server).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let reporter = Reporter::new(&server, &job);
    let said = Complete { transient: Some("out of memory".to_owned()), ..completion("failure") };
    for _ in 0..2 {
        let done: Completed = good(reporter.completing(&said).send().await.unwrap()).await;
        assert_eq!(done.conclusion, "failure");
    }
    assert_eq!(view(&server, run).await.jobs[0].state, LegState::Queued);
    let again = runner.claim("b", 2).await.unwrap();
    assert_eq!((again.job_id, again.attempt), (job.job_id, 2));
}

on_both!(
    /// S14: a runner that begins hears of a cancel with the answer, before any heartbeat.
    a_job_that_was_cancelled_while_it_was_claimed_hears_it_when_it_begins
);

async fn a_job_that_was_cancelled_while_it_was_claimed_hears_it_when_it_begins(server: Server) {
    let (_, key, run) = site(&server).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 0).await.unwrap();
    let by = Actor::system("test");
    server.app.runs.cancel(SYSTEM, &by, run, "enough", false).await.unwrap();
    let reporter = Reporter::new(&server, &job);
    let started = || reporter.telling(1, vec![What::started()]);
    let heard: Heard = good(started().send().await.unwrap()).await;
    assert_eq!(heard, Heard { sequence: 1, cancelling: true });
    // Its number was kept with it, as if nobody had cancelled anything.
    let lease = server.app.traffic.lease(JobId(job.job_id), job.attempt).await.unwrap().unwrap();
    assert_eq!(lease.heard, 1);
    let heard: Heard = good(reporter.telling(2, vec![What::Uploading]).send().await.unwrap()).await;
    assert_eq!(heard, Heard { sequence: 2, cancelling: true });
    // It was too quick to hear of it in time: the cancel was accepted first.
    let said = Complete { sequence: 2, ..completion("success") };
    let completed: Completed = good(reporter.completing(&said).send().await.unwrap()).await;
    assert_eq!(completed.conclusion, "cancelled");
    assert_eq!(view(&server, run).await.state, RunState::Done(Conclusion::Cancelled));
}

on_both!(
    /// What this server remembers of a claim is compared with the rows when they know more.
    words_that_another_server_heard_are_not_missing_here
);

async fn words_that_another_server_heard_are_not_missing_here(server: Server) {
    let (_, key, _) = site(&server).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 0).await.unwrap();
    // What another server does when the runner talks to it: this one remembers that nothing was heard.
    let (id, claim, by) = (JobId(job.job_id), job.attempt, RunnerId(runner.id));
    let news = JobNews {
        job: id,
        claim: Some(claim),
        runner: Some(by),
        word: Word::Started,
        heard: Some(1),
    };
    server.app.traffic.happened(Happened::Job(news)).await.unwrap();
    assert_eq!(server.app.fleet.heard(id, claim, by), Some(0));
    let reporter = Reporter::new(&server, &job);
    let early = reporter.telling(3, vec![step_started(0)]).send().await.unwrap();
    assert_eq!(early.status(), 409);
    let heard: Heard = good(reporter.telling(2, vec![step_started(0)]).send().await.unwrap()).await;
    assert_eq!(heard.sequence, 2);
    let said = Complete { sequence: 2, ..completion("success") };
    let completed: Completed = good(reporter.completing(&said).send().await.unwrap()).await;
    assert_eq!(completed.conclusion, "success");
}

on_both!(a_job_can_be_given_back_before_it_began);

async fn a_job_can_be_given_back_before_it_began(server: Server) {
    let (_, key, _) = site(&server).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let given_back = Reporter::new(&server, &job).returning().send().await.unwrap();
    assert_eq!(given_back.status(), 204);
    let again = runner.claim("b", 2).await.unwrap();
    assert_eq!((again.job_id, again.attempt), (job.job_id, 2));
    let reporter = Reporter::new(&server, &again);
    good::<Heard>(reporter.telling(1, vec![What::started()]).send().await.unwrap()).await;
    refused(reporter.returning(), 409).await;
}

on_both!(
    /// A stale runner is refused, and what it sends replaces nothing.
    a_runner_that_lost_its_lease_is_refused
);

async fn a_runner_that_lost_its_lease_is_refused(server: Server) {
    let (_, key, run) = site(&server).await;
    let stale = Runner::new(&server, &key, "one", LINUX).await;
    let lost = stale.claim("a", 20).await.unwrap();
    let late = Reporter::new(&server, &lost);
    good::<Heard>(late.telling(1, vec![What::started()]).send().await.unwrap()).await;
    good::<Stored>(late.logging(0, "of the first\n").send().await.unwrap()).await;
    // What the reaper does when the lease has run out.
    let word = Word::Lost { reason: "the runner was not heard of".to_owned() };
    let news = JobNews { job: JobId(lost.job_id), claim: Some(1), runner: None, word, heard: None };
    server.app.traffic.happened(Happened::Job(news)).await.unwrap();
    let next = Runner::new(&server, &key, "two", LINUX).await;
    let job = next.claim("a", 2).await.unwrap();
    assert_eq!((job.job_id, job.attempt), (lost.job_id, 2));
    let reporter = Reporter::new(&server, &job);
    good::<Stored>(reporter.logging(0, "of the second\n").send().await.unwrap()).await;

    refused(late.logging(13, "too late"), 409).await;
    refused(late.completing(&completion("success")), 409).await;
    refused(late.returning(), 409).await;
    assert_eq!(log_of(&server, &job).await, "of the second\n");
    assert_eq!(log_of(&server, &lost).await, "of the first\n");
    let done = Complete { log_bytes: 14, ..completion("failure") };
    assert_eq!(reporter.completing(&done).send().await.unwrap().status(), 200);
    refused(late.completing(&completion("success")), 409).await;
    assert_eq!(view(&server, run).await.state, RunState::Done(Conclusion::Failure));
}

on_both!(
    /// Every call checks whose job it is.
    a_token_of_another_job_finds_nothing
);

async fn a_token_of_another_job_finds_nothing(server: Server) {
    let (place, key, _) = site(&server).await;
    server.run(&place, JOB).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let own = runner.claim("a", 20).await.unwrap();
    let other = runner.claim("b", 20).await.unwrap();
    let mut foreign = Reporter::new(&server, &own);
    foreign.token = other.token.clone();
    let calls = |reporter: &Reporter<'_>| {
        [
            reporter.logging(0, "x"),
            reporter.telling(1, vec![What::started()]),
            reporter.completing(&completion("success")),
            reporter.returning(),
        ]
    };
    for call in calls(&foreign) {
        refused(call, 404).await;
    }
    // Nor does the right token at another claim.
    let mut next = Reporter::new(&server, &own);
    next.job.attempt += 1;
    for call in calls(&next) {
        refused(call, 404).await;
    }
    // Tokens of runners and made-up ones say nothing about jobs.
    for token in [runner.token.clone(), "kjt_made-up".to_owned(), String::new()] {
        let mut wrong = Reporter::new(&server, &own);
        wrong.token = token;
        for call in calls(&wrong) {
            refused(call, 401).await;
        }
    }
    assert_eq!(log_of(&server, &own).await, "");
    for call in calls(&Reporter::new(&server, &own)).into_iter().take(2) {
        assert_eq!(call.send().await.unwrap().status(), 200);
    }
}

/// S13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_too_long_does_not_stop_the_job() {
    let options = Options { log_bytes: 20, ..Options::default() };
    let server = Server::with(Database::sqlite(), options).await;
    let (_, key, _) = site(&server).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    assert_eq!(job.limits.log_bytes, 20);
    let reporter = Reporter::new(&server, &job);
    let text = "1 0 0123456789abcdef0123456789\n";
    let length = u64::try_from(text.len()).unwrap();
    let stored: Stored = good(reporter.logging(0, text).send().await.unwrap()).await;
    assert_eq!(stored.offset, length);
    let stored: Stored = good(reporter.logging(length, text).send().await.unwrap()).await;
    assert_eq!(stored.offset, 2 * length);
    assert!(log_of(&server, &job).await.contains("[... log truncated at 20 bytes]"));
    let said = Complete { log_bytes: 2 * length, ..completion("success") };
    assert_eq!(reporter.completing(&said).send().await.unwrap().status(), 200);
}

/// Whoever follows a log sees its lines as they come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_sees_lines_at_once() {
    let server = Server::start(Database::sqlite()).await;
    let (_, key, _) = site(&server).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let log = LogId { job: JobId(job.job_id), claim: job.attempt };
    let mut follower = server.app.logs.follow(log);
    let reporter = Reporter::new(&server, &job);
    good::<Stored>(reporter.logging(0, "1 0 hello\n").send().await.unwrap()).await;
    // Nobody else tells it, so it does not matter how long it takes on a busy machine.
    let heard = tokio::time::timeout(Duration::from_secs(30), follower.changed()).await;
    heard.unwrap().unwrap();
    assert_eq!(*follower.borrow(), 10);
}
