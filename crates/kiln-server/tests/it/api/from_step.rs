//! One job runs again from one of its steps. (P10)

use kiln_proto::job::Job;
use kiln_proto::report::{Complete, What};
use serde_json::{Value, json};

use super::people::{As, Person, commit, empty, person};
use crate::content::builders;
use crate::runner::{Reporter, Runner, completion, good, json as read};
use crate::support::{Place, Server};
use crate::web::browser::Browser;

const WORKFLOW: &str = "name: CI
on: [push, workflow_dispatch]
jobs:
  build:
    runs-on: linux
    steps:
      - uses: actions/checkout@v4
      - {id: make, name: Make, run: make}
      - {name: Test, run: make test}
      - {name: Test, run: make more}
  after:
    needs: build
    runs-on: linux
    steps: [{run: make}, {run: publish}]
  call:
    needs: build
    uses: ./.github/workflows/callee.yml
";
const CALLEE: &str = "on: workflow_call
jobs:
  inner:
    runs-on: linux
    steps: [{run: one}, {run: two}]
";
const COMPANION: &str = "jobs:\n  build: {cache-result: true}\n";

/// A repository with the workflow, somebody who runs it, and a runner.
struct Shop<'s> {
    ada: Person<'s>,
    place: Place,
    runner: Runner<'s>,
    run: i64,
    nonce: std::cell::Cell<u32>,
}

impl<'s> Shop<'s> {
    async fn new(server: &'s Server) -> Self {
        let place = server.repository("acme", "app").await;
        let ada = person(server, "adam", As::administrator()).await;
        let files =
            [("ci.yml", WORKFLOW), ("callee.yml", CALLEE), (".kiln/workflows/ci.yml", COMPANION)];
        commit(server, &place, &files);
        let run = ada.trigger(&place, empty()).await;
        let runner = builders(server, &place).await;
        Self { ada, place, runner, run, nonce: 0.into() }
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/runs/{}{rest}", self.run)
    }

    async fn again(&self, what: Value) -> crate::api::people::Reply {
        self.ada.post(&self.path("/rerun"), what).await
    }

    /// The next job, and what was left out of it, by the place of the step.
    async fn claim(&self) -> (Job, Vec<usize>) {
        self.nonce.set(self.nonce.get() + 1);
        let job = self.runner.claim(&self.nonce.get().to_string(), 20).await.unwrap();
        let plan = read(&job.plan);
        let steps = &plan["workflows"][0]["jobs"][0]["kind"]["steps"]["steps"];
        let steps = steps.as_array().unwrap().iter().enumerate();
        let left_out = steps.filter(|(_, step)| !step["left_out"].is_null()).map(|(at, _)| at);
        let left_out = left_out.collect();
        (job, left_out)
    }

    async fn end(&self, job: &Job, conclusion: &str) {
        let reporter = Reporter::new(self.runner.server, job);
        good::<Value>(reporter.completing(&completion(conclusion)).send().await.unwrap()).await;
    }

    /// All jobs that are left; what was left out of each.
    async fn finish(&self, count: usize) -> Vec<(String, Vec<usize>)> {
        let mut all = Vec::new();
        for _ in 0..count {
            let (job, left_out) = self.claim().await;
            self.end(&job, "success").await;
            all.push((job.job_name.clone(), left_out));
        }
        all.sort();
        all
    }
}

on_both! {
    /// P10
    only_the_job_that_was_named_begins_late
}

async fn only_the_job_that_was_named_begins_late(server: Server) {
    let shop = Shop::new(&server).await;
    let whole = |name: &str| (name.to_owned(), Vec::new());
    let rest = [whole("after"), whole("inner")];
    let all = [whole("after"), whole("build"), whole("inner")];
    assert_eq!(shop.finish(3).await, all);

    let again = shop.again(json!({ "job": "build", "step": "3" })).await.expect(201);
    assert_eq!(again["attempt"], 2);
    let (build, left_out) = shop.claim().await;
    assert_eq!((build.job_name.as_str(), &*left_out), ("build", &[1][..]));
    let plan = read(&build.plan);
    let job = &plan["workflows"][0]["jobs"][0]["kind"]["steps"];
    assert_eq!(job["steps"][1]["condition"], "always() && false");
    let reason = job["steps"][1]["left_out"].as_str().unwrap();
    assert_eq!(reason, "Left out: the job begins at step 3, `Test`.");
    assert!(job["result_cache"].is_null(), "it is not the result of the whole job");
    // A runner that gives it back changes nothing about it.
    let returned = Reporter::new(&server, &build).returning().send().await.unwrap();
    assert!(returned.status().is_success(), "{returned:?}");
    let (build, left_out) = shop.claim().await;
    assert_eq!((build.job_name.as_str(), &*left_out), ("build", &[1][..]));
    shop.end(&build, "success").await;
    assert_eq!(shop.finish(2).await, rest, "what depends on it runs whole");

    // The next attempts know nothing of it.
    shop.again(json!({ "job": "build" })).await.expect(201);
    let (build, left_out) = shop.claim().await;
    assert_eq!(left_out, [0; 0]);
    assert!(
        !read(&build.plan)["workflows"][0]["jobs"][0]["kind"]["steps"]["result_cache"].is_null()
    );
    shop.end(&build, "failure").await;
    shop.again(json!({ "job": "build", "step": "make" })).await.expect(201);
    assert_eq!(shop.finish(1).await, [whole("build")], "only an action is before it");
    assert_eq!(shop.finish(2).await, rest);
    shop.again(empty()).await.expect(201);
    assert_eq!(shop.finish(3).await, all);
    // A job of a workflow that was called.
    shop.again(json!({ "job": "inner", "step": "Run two" })).await.expect(201);
    assert_eq!(shop.finish(1).await, [("inner".to_owned(), vec![0])]);
    let audit = shop.ada.get("/api/audit?owner=acme").await.expect(200).to_string();
    assert!(audit.contains("\"from_step\":3"), "{audit}");
}

on_both! {
    /// P10
    a_step_that_cannot_be_meant_is_refused
}

async fn a_step_that_cannot_be_meant_is_refused(server: Server) {
    let shop = Shop::new(&server).await;
    let early = json!({ "job": "build", "step": "3" });
    assert!(shop.again(early).await.problem(409).contains("has not ended"));
    shop.ada.post(&shop.path("/cancel"), empty()).await.expect(202);
    let steps = "1 `Run actions/checkout@v4`, 2 `Make` (id `make`), 3 `Test`, 4 `Test`";
    let check = async |what: Value, expected: &str| {
        let problem = shop.again(what.clone()).await.problem(422);
        assert!(problem.contains(expected), "{what}: {problem}");
    };
    let of = |step: &str| json!({ "job": "build", "step": step });
    check(of("5"), &format!("no step `5`; its steps are {steps}")).await;
    check(of("0"), "no step `0`").await;
    check(of(""), "no step ``").await;
    check(of("Deploy"), &format!("no step `Deploy`; its steps are {steps}")).await;
    check(of("Test"), "any of the steps 3, 4").await;
    check(json!({ "step": "3" }), "say which `job`").await;
    check(json!({ "failed": true, "step": "3" }), "say which `job`").await;
    check(json!({ "failed": true, "job": "build", "step": "3" }), "not both").await;
    check(json!({ "job": "call", "step": "1" }), "calls a workflow").await;
    shop.again(json!({ "job": "nobody", "step": "1" })).await.expect(404);
    let seen = shop.ada.get(&shop.path("")).await.expect(200);
    assert_eq!(seen["attempt"], 1, "nothing was begun");
    // A stranger hears of nothing.
    let other = server.repository("other", "app").await;
    let member = As::member(other.org, kiln_store::directory::members::Role::Admin);
    let eve = person(&server, "eve", member).await;
    eve.post(&shop.path("/rerun"), of("3")).await.expect(404);
}

on_both! {
    /// P10 O1
    each_step_of_a_job_that_ended_has_a_button
}

async fn each_step_of_a_job_that_ended_has_a_button(server: Server) {
    let shop = Shop::new(&server).await;
    let (build, _) = shop.claim().await;
    let names = ["Pre docker", "Run actions/checkout@v4", "Make", "Test", "Test", "Post docker"];
    let started = |(step, name): (u32, &&str)| What::StepStarted { step, name: (*name).to_owned() };
    let events: Vec<What> = (0..).zip(&names).map(started).collect();
    let reporter = Reporter::new(&server, &build);
    let count = u64::try_from(events.len()).unwrap();
    good::<Value>(reporter.telling(1, events).send().await.unwrap()).await;
    let run = format!("/{}/actions/runs/{}", shop.place.name, shop.run);
    let page = format!("{run}/job/{}", build.job_id);
    let browser = Browser::of(&shop.ada).await;
    browser.get(&page).await.expect(200).has(&["Post docker"]).lacks(&["Run again from here"]);
    let end = Complete { sequence: count, ..completion("failure") };
    good::<Value>(reporter.completing(&end).send().await.unwrap()).await;

    let shown = browser.get(&page).await.expect(200);
    // Not at what actions do before and after, nor at the first step: that is the whole job.
    assert_eq!(shown.text.matches("Run again from here").count(), 3, "{}", shown.text);
    let value = |step: u32| format!("name=\"step\" value=\"{step}\"");
    let (two, three, four) = (value(2), value(3), value(4));
    let shown = shown.has(&[&two, &three, &four]).lacks(&[&value(1), &value(5)]);
    drop(shown);
    let form = |step: &'static str| [("job", build.job_id.to_string()), ("step", step.to_owned())];
    let press = async |step| {
        let form = form(step);
        let fields: Vec<(&str, &str)> = form.iter().map(|(key, value)| (*key, &**value)).collect();
        browser.press(&format!("{run}/rerun-job"), &fields).await
    };
    press("9").await.expect(422).has(&["no step"]);
    assert_eq!(press("3").await.location(), run);
    assert_eq!(shop.claim().await.1, [1]);
}
