//! What a server must know of claimed jobs, without whole runs.

use std::sync::Arc;

use kiln_core::id::RunnerId;
use kiln_core::queue::Policy;
use kiln_core::run::{Conclusion, Neighbourhood};
use kiln_core::value::{Object, Value};
use kiln_store::claims::{Asking, Claimed};
use kiln_store::directory::holder::Holder;
use kiln_store::directory::secrets::{self, Sealed};
use kiln_store::runs::{Assignment, Word};
use kiln_store::{Offered, Scope, Store, Traffic, Tx, claims};
use kiln_testkit::runs::engine::{job_display_name, leg_contexts, leg_environment, leg_secrets};
use kiln_testkit::runs::{Callee, Site, expressions, plan_with};

use crate::signals::is_postgres;
use crate::world::{actor, write};

const CALLER: &str = "
on: push
jobs:
  first:
    runs-on: linux
    outputs: {version: x}
    steps: [{run: 'true'}]
  other:
    runs-on: linux
    steps: [{run: 'true'}]
  build:
    needs: [first]
    runs-on: linux
    environment: stage-${{ matrix.os }}
    strategy: {matrix: {os: [a, b]}, fail-fast: false}
    steps: [{run: 'true'}]
  call:
    needs: [first]
    uses: ./.github/workflows/callee.yml
    with: {mode: '${{ needs.first.outputs.version }}'}
    secrets: {TOKEN: '${{ secrets.OUTER }}'}
";

const CALLEE: &str = "
on:
  workflow_call:
    inputs: {mode: {type: string}}
    secrets: {TOKEN: {required: true}}
jobs:
  prepare:
    runs-on: linux
    steps: [{run: 'true'}]
  inner:
    needs: prepare
    runs-on: linux
    steps: [{run: 'true'}]
";

async fn assigned(site: &Site, claimed: &[Claimed]) -> Vec<Assignment> {
    let found = site.runs.assignments(claimed).await.unwrap();
    found.into_iter().map(|found| found.unwrap()).collect()
}

async fn finish(site: &Site, claimed: &Claimed, outputs: &[(&str, &str)]) {
    site.say(claimed, 7, Word::Started).await;
    let outputs = outputs.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let word = Word::Finished { conclusion: Conclusion::Success, outputs: outputs.collect() };
    site.say(claimed, 7, word).await;
}

fn text(object: &Object, path: &[&str]) -> String {
    let mut value = Value::object(object.clone());
    for key in path {
        let Value::Object(object) = &value else { panic!("{path:?} in {object:?}") };
        value = object.get(key).cloned().unwrap_or_default();
    }
    let Value::String(text) = value else { panic!("{path:?}: {value:?}") };
    text.to_string()
}

fn named<'a>(all: &'a [Assignment], hood_name: &str) -> &'a Assignment {
    let name =
        |one: &&Assignment| job_display_name(&expressions(), &one.hood, one.leg) == hood_name;
    all.iter().find(name).unwrap()
}

/// S3
async fn a_claimed_job_comes_with_all_that_its_expressions_see(store: Store) {
    let site = Site::new(store).await;
    let plan = plan_with(CALLER, &Callee(CALLEE.to_owned()));
    let run = site.runs.create(site.push(plan)).await.unwrap().run();
    for claimed in site.claim(7, 2).await {
        finish(&site, &claimed, &[("version", "v1")]).await;
    }
    let claimed = site.claim(7, 9).await;
    let all = assigned(&site, &claimed).await;
    assert_eq!(all.len(), 3, "two legs of the matrix and the first job of the callee");

    let build = named(&all, "build (b)");
    let contexts = leg_contexts(&expressions(), &build.hood, build.leg);
    assert_eq!(text(&contexts.needs, &["first", "outputs", "version"]), "v1");
    assert_eq!(text(&contexts.needs, &["first", "result"]), "success");
    assert_eq!(text(&contexts.matrix, &["os"]), "b");
    assert!(matches!(contexts.strategy.get("job-total"), Some(Value::Number(2.0))));
    let environment = leg_environment(&expressions(), &build.hood, build.leg).unwrap();
    assert_eq!(environment.as_deref(), Some("stage-b"));
    assert!(!is_there(&build.hood, "other"), "what it does not need is not loaded");

    let secrets: Object = [("OUTER", Value::from("s3cret"))].into_iter().collect();
    let prepare = named(&all, "prepare");
    finish(&site, &claimed[all.iter().position(|one| one.leg == prepare.leg).unwrap()], &[]).await;
    let inner = assigned(&site, &site.claim(7, 9).await).await.remove(0);
    let contexts = leg_contexts(&expressions(), &inner.hood, inner.leg);
    assert_eq!(text(&contexts.inputs, &["mode"]), "v1");
    assert_eq!(text(&contexts.needs, &["prepare", "result"]), "success");
    let given = leg_secrets(&expressions(), &inner.hood, inner.leg, &secrets).unwrap();
    assert_eq!(text(&given, &["TOKEN"]), "s3cret");

    let facts = &inner.run;
    assert_eq!((facts.id, facts.number, facts.attempt, facts.root), (run, 1, 1, None));
    assert_eq!((facts.org_name.as_str(), facts.repo_name.as_str()), ("acme", "app"));
    assert_eq!((facts.workflow_path.as_str(), facts.workflow_name.as_str()), ("ci.yml", "CI"));
    assert_eq!((facts.event.as_str(), facts.actor.as_str()), ("push", "octocat"));
    assert_eq!(facts.head_branch.as_deref(), Some("main"));
    assert!(inner.evaluator.run_group(&inner.hood.run).unwrap().is_none());
    assert_eq!(inner.plan.workflows.len(), 2);
}
on_both!(a_claimed_job_comes_with_all_that_its_expressions_see);

/// Q1: whoever lets jobs wait remembers what their runners must know, so that nobody has to read what it wrote.
async fn what_comes_with_a_claim_is_what_the_rows_say(store: Store) {
    let site = Site::new(store).await;
    let plan = plan_with(CALLER, &Callee(CALLEE.to_owned()));
    site.runs.create(site.push(plan)).await.unwrap();
    let traffic = Traffic::new(&site.runs, Policy::Fair);
    for number in 0.. {
        let queues = site.queues().await;
        let asking = Asking::new(RunnerId(7), queues, 1, format!("nonce {number}"));
        let Offered { jobs, mut assignments, .. } = traffic.claim(asking).await.unwrap();
        let Some(claimed) = jobs.first() else {
            assert_eq!(number, 6, "all jobs were claimed");
            return;
        };
        let read = assigned(&site, &jobs).await.remove(0);
        if let Some(at_once) = assignments.pop().flatten() {
            assert_eq!(seen_by(&at_once), seen_by(&read));
            assert_eq!((at_once.leg, &at_once.run), (read.leg, &read.run));
            assert!(Arc::ptr_eq(&at_once.plan, &read.plan), "a plan is read once");
        } else {
            // Who calls a workflow is not at hand when a job in it may begin.
            assert_eq!(claimed.name, "call / inner");
        }
        finish(&site, claimed, &[("version", "v1")]).await;
    }
}
on_both!(what_comes_with_a_claim_is_what_the_rows_say);

/// What the expressions of a job can see. How far the run and its own legs are is not among it.
fn seen_by(job: &Assignment) -> String {
    let Assignment { hood, leg, .. } = job;
    let row = &hood.legs[leg];
    let own = &hood.nodes[&row.node];
    let needs: Vec<_> = own.needs.iter().map(|need| &hood.nodes[need]).collect();
    let scope = &hood.scopes[&own.scope];
    let scope = (scope.workflow, scope.caller, &scope.inputs);
    let outer: Object = [("OUTER", Value::from("s3cret"))].into_iter().collect();
    let said = (
        job_display_name(&expressions(), hood, *leg),
        leg_environment(&expressions(), hood, *leg),
        leg_secrets(&expressions(), hood, *leg, &outer),
        leg_contexts(&expressions(), hood, *leg),
    );
    format!("{row:#?} {needs:#?} {scope:#?} {said:#?}")
}

/// S24: what jobs say can be large, and a server remembers thousands of jobs: such a one is read from its rows.
async fn what_sees_much_is_not_remembered(store: Store) {
    let embedded = !is_postgres(&store).await;
    let site = Site::new(store).await;
    site.run(
        "  a: {runs-on: x, steps: [{run: y}]}\n  b: {needs: a, runs-on: x, steps: [{run: y}]}",
    )
    .await;
    let traffic = Traffic::new(&site.runs, Policy::Fair);
    let claim = async |nonce: &str| {
        let asking = Asking::new(RunnerId(7), site.queues().await, 1, nonce);
        traffic.claim(asking).await.unwrap()
    };
    let first = claim("a").await;
    assert!(first.assignments[0].is_some());
    let long = "x".repeat(5_000);
    finish(&site, &first.jobs[0], &[("long", &long)]).await;
    let second = claim("b").await;
    assert_eq!(second.assignments[0].is_some(), embedded);
    let read = assigned(&site, &second.jobs).await.remove(0);
    let contexts = leg_contexts(&expressions(), &read.hood, read.leg);
    assert_eq!(text(&contexts.needs, &["a", "outputs", "long"]), long);
}
on_both!(what_sees_much_is_not_remembered);

/// P6: a secret that was set while a job waited is there when it begins, and so is the new name of its repository.
async fn what_people_change_while_a_job_waits_comes_with_its_claim(store: Store) {
    let site = Site::new(store.clone()).await;
    site.run("  a: {runs-on: x, steps: [{run: y}]}").await;
    let (org, repo) = (site.org, site.repo);
    let change = async move |tx: &mut Tx<'_>| {
        let sealed = Sealed { key_id: "k".to_owned(), bytes: vec![1] };
        let holder = Holder::Repo(repo);
        secrets::put(tx, Scope::Org(org), &actor(), holder, "TOKEN", sealed).await?;
        tx.execute("UPDATE repositories SET name = 'other' WHERE id = $1", &[repo.into()]).await
    };
    store.write(change).await.unwrap();
    let traffic = Traffic::new(&site.runs, Policy::Fair);
    let asking = Asking::new(RunnerId(7), site.queues().await, 1, "nonce");
    let Offered { mut assignments, .. } = traffic.claim(asking).await.unwrap();
    let run = assignments.remove(0).unwrap().run;
    assert!(run.has_secrets);
    assert_eq!(run.repo_name, "other");
}
on_both!(what_people_change_while_a_job_waits_comes_with_its_claim);

fn is_there(hood: &Neighbourhood, job: &str) -> bool {
    hood.nodes.keys().any(|node| hood.job_of(*node).id == job)
}

async fn a_claim_that_is_over_has_no_assignment(store: Store) {
    let site = Site::new(store.clone()).await;
    site.run("  a: {runs-on: x, steps: [{run: y}]}\n  b: {runs-on: x, steps: [{run: y}]}").await;
    let claimed = site.claim(7, 2).await;
    site.say(&claimed[0], 7, Word::Returned).await;
    let unknown = Claimed { run: kiln_core::id::RunId(99), ..claimed[1].clone() };
    let stale = Claimed { claim: 5, ..claimed[1].clone() };
    let all = [claimed[0].clone(), unknown, stale, claimed[1].clone()];
    let found = site.runs.assignments(&all).await.unwrap();
    let there: Vec<bool> = found.iter().map(Option::is_some).collect();
    assert_eq!(there, [false, false, false, true]);
    assert!(site.runs.assignments(&[]).await.unwrap().is_empty());

    let held = write!(store, |tx| claims::leases_of(tx, RunnerId(7))).unwrap();
    assert_eq!(held.len(), 1);
    assert_eq!((held[0].job, held[0].claim, held[0].acknowledged), (claimed[1].job, 1, false));
    let (job, claim) = (claimed[0].job, claimed[0].claim);
    assert_eq!(write!(store, |tx| claims::lease(tx, job, claim)).unwrap(), None);
}
on_both!(a_claim_that_is_over_has_no_assignment);
