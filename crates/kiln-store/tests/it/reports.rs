//! What runners say while they work is heard once.

use kiln_core::id::{JobId, RunId, RunnerId};
use kiln_core::run::{Again, Conclusion};
use kiln_core::time::Timestamp;
use kiln_store::claims::{self, Claimed};
use kiln_store::events::{self, Annotation, EventKind, Level};
use kiln_store::inspect::inspect;
use kiln_store::runs::{
    self, Answer, Refused, Report, ReportAnswer, Reported, Said, StepStatus, StepView, Word,
};
use kiln_store::{Refusal, Scope, Store, Traffic};
use kiln_testkit::database::Database;
use kiln_testkit::runs::{SYSTEM, Site, somebody};

use crate::world::{refusal, told_all, write};

use Conclusion::{Failure, Success};
use ReportAnswer::{Gap, Heard};

const ONE: &str = "
  a: {runs-on: linux, steps: [{run: 'true'}]}
";

fn started(step: u32) -> Said {
    Said::StepStarted { step, name: format!("step {step}") }
}

fn finished(step: u32, conclusion: Conclusion) -> Said {
    Said::StepFinished { step, outcome: Failure, conclusion, exit_code: Some(3) }
}

/// These events from this number on.
fn said(claimed: &Claimed, runner: i64, first: u64, what: &[Said]) -> Report {
    let event = |(sequence, what): (u64, &Said)| Reported {
        sequence,
        at: Timestamp(u64::MAX),
        what: what.clone(),
    };
    Report {
        job: claimed.job,
        claim: claimed.claim,
        runner: RunnerId(runner),
        events: (first..).zip(what).map(event).collect(),
    }
}

async fn tell(store: &Store, report: Report) -> ReportAnswer {
    tell_all(store, vec![report]).await.remove(0)
}

async fn tell_all(store: &Store, reports: Vec<Report>) -> Vec<ReportAnswer> {
    write!(store, |tx| runs::report(tx, &reports)).unwrap()
}

async fn steps(store: &Store, run: RunId) -> Vec<StepView> {
    write!(store, |tx| runs::steps(tx, SYSTEM, run, None)).unwrap()
}

/// What was said in a run beside its own beginnings and ends.
async fn told(store: &Store, run: RunId) -> Vec<EventKind> {
    let kinds = told_all(store, run).await.into_iter();
    let said = |kind: &EventKind| {
        !matches!(
            kind,
            EventKind::RunCreated
                | EventKind::RunStarted
                | EventKind::RunDone { .. }
                | EventKind::JobQueued
                | EventKind::JobClaimed { .. }
                | EventKind::JobStarted
                | EventKind::JobDone { .. }
        )
    };
    kinds.filter(said).collect()
}

async fn clean(store: &Store) {
    let report = inspect(store).await.unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

/// R1
async fn steps_are_kept_as_their_runner_tells_them(store: Store) {
    let site = Site::new(store.clone()).await;
    let run = site.run(ONE).await;
    let job = site.claim(7, 1).await.remove(0);
    site.say(&job, 7, Word::Started).await;
    let retried = Said::StepRetried { step: 0, failed_try: 1 };
    let first = [Said::Counted, started(0), retried, finished(0, Success), started(1)];
    assert_eq!(tell(&store, said(&job, 7, 1, &first)).await, Heard(5));
    let now = steps(&store, run).await;
    assert_eq!(now.len(), 2);
    let expected = StepView {
        job: job.job,
        number: 0,
        name: "step 0".to_owned(),
        status: StepStatus::Completed,
        conclusion: Some(Success),
        outcome: Some(Failure),
        exit_code: Some(3),
        tries: 2,
        started: now[0].started,
        ended: now[0].ended,
    };
    assert_eq!(now[0], expected);
    assert!(now[0].started.is_some() && now[0].ended.is_some());
    assert_eq!((now[1].status, now[1].conclusion), (StepStatus::InProgress, None));
    let lease = write!(store, |tx| claims::lease(tx, job.job, job.claim)).unwrap().unwrap();
    assert_eq!((lease.heard, lease.runner, lease.run), (5, RunnerId(7), run));

    assert_eq!(tell(&store, said(&job, 7, 6, &[finished(1, Failure)])).await, Heard(6));
    let now = steps(&store, run).await;
    assert_eq!((now[1].name.as_str(), now[1].status), ("step 1", StepStatus::Completed));
    let words: Vec<EventKind> = told(&store, run).await;
    assert_eq!(words.len(), 5);
    assert_eq!(words[1], EventKind::StepRetried { number: 0, failed_try: 1 });
    clean(&store).await;
}
on_both!(steps_are_kept_as_their_runner_tells_them);

async fn what_was_heard_is_not_heard_again(store: Store) {
    let site = Site::new(store.clone()).await;
    let run = site.run(ONE).await;
    let job = site.claim(7, 1).await.remove(0);
    let events = [started(0), finished(0, Success)];
    assert_eq!(tell(&store, said(&job, 7, 1, &events)).await, Heard(2));
    assert_eq!(tell(&store, said(&job, 7, 1, &events)).await, Heard(2));
    assert_eq!(tell(&store, said(&job, 7, 1, &[])).await, Heard(2));
    // Twice in one transaction, the second time with more.
    let more = [started(0), finished(0, Success), started(1)];
    let both = vec![said(&job, 7, 1, &events), said(&job, 7, 1, &more), said(&job, 7, 1, &more)];
    assert_eq!(tell_all(&store, both).await, [Heard(2), Heard(3), Heard(3)]);
    assert_eq!(told(&store, run).await.len(), 3);
}
on_both!(what_was_heard_is_not_heard_again);

async fn a_gap_is_answered_with_what_is_missing(store: Store) {
    let site = Site::new(store.clone()).await;
    let run = site.run(ONE).await;
    let job = site.claim(7, 1).await.remove(0);
    assert_eq!(tell(&store, said(&job, 7, 2, &[started(0)])).await, Gap { wanted: 1 });
    assert_eq!(tell(&store, said(&job, 7, 1, &[started(0)])).await, Heard(1));
    assert_eq!(tell(&store, said(&job, 7, 3, &[started(2)])).await, Gap { wanted: 2 });
    let mut holed = said(&job, 7, 2, &[finished(0, Success), started(1)]);
    holed.events[1].sequence = 9;
    assert_eq!(tell(&store, holed).await, Gap { wanted: 3 });
    assert_eq!(told(&store, run).await.len(), 1, "nothing of a report with a gap is kept");
}
on_both!(a_gap_is_answered_with_what_is_missing);

/// S10
async fn only_the_holder_of_a_job_is_heard(store: Store) {
    let site = Site::new(store.clone()).await;
    let run = site.run(ONE).await;
    let job = site.claim(7, 1).await.remove(0);
    let refused = |refused| ReportAnswer::Refused(refused);
    let answers = tell_all(
        &store,
        vec![
            said(&job, 8, 1, &[started(0)]),
            said(&Claimed { claim: 9, ..job.clone() }, 7, 1, &[started(0)]),
            said(&Claimed { job: JobId(job.job.0 + 1), ..job.clone() }, 7, 1, &[started(0)]),
            said(&job, 7, 1, &[started(0)]),
        ],
    )
    .await;
    let not_yours = || refused(Refused::NotYours);
    assert_eq!(answers, [not_yours(), not_yours(), refused(Refused::NoSuchJob), Heard(1)]);
    assert_eq!(told(&store, run).await.len(), 1);
}
on_both!(only_the_holder_of_a_job_is_heard);

async fn what_is_repeated_after_the_end_does_no_harm(store: Store) {
    let site = Site::new(store.clone()).await;
    let run = site.run(ONE).await;
    let lost = site.claim(7, 1).await.remove(0);
    site.say(&lost, 7, Word::Started).await;
    tell(&store, said(&lost, 7, 1, &[started(0)])).await;
    site.say(&lost, 7, Word::Lost { reason: "power".to_owned() }).await;
    let job = site.claim(8, 1).await.remove(0);
    assert_eq!(job.claim, 2);
    // It was this runner's once, and nothing more is heard of it.
    assert_eq!(tell(&store, said(&lost, 7, 1, &[started(0), started(1)])).await, Heard(2));
    assert_eq!(
        tell(&store, said(&lost, 8, 1, &[])).await,
        ReportAnswer::Refused(Refused::NotYours)
    );
    assert!(steps(&store, run).await.is_empty(), "those of the claim before are not shown");

    tell(&store, said(&job, 8, 1, &[started(0), finished(0, Success)])).await;
    assert_eq!(site.finish(&job, 8, Success).await, Answer::Accepted);
    assert_eq!(tell(&store, said(&job, 8, 1, &[started(0), finished(0, Success)])).await, Heard(2));
    assert_eq!(told(&store, run).await.iter().filter(|kind| is_step(kind)).count(), 3);
    assert_eq!(steps(&store, run).await.len(), 1);
    clean(&store).await;
}
on_both!(what_is_repeated_after_the_end_does_no_harm);

fn is_step(kind: &EventKind) -> bool {
    matches!(kind, EventKind::StepStarted { .. } | EventKind::StepFinished { .. })
}

async fn steps_of_what_a_re_run_took_over_are_still_shown(store: Store) {
    let site = Site::new(store.clone()).await;
    let run = site
        .run("  a: {runs-on: x, steps: [{run: y}]}\n  b: {runs-on: x, steps: [{run: y}]}")
        .await;
    for job in site.claim(7, 2).await {
        tell(&store, said(&job, 7, 1, &[started(0), finished(0, Success)])).await;
        let end = if job.name == "a" { Success } else { Failure };
        site.finish(&job, 7, end).await;
    }
    site.runs.again(SYSTEM, &somebody(), run, Again::Failed).await.unwrap();
    let shown = steps(&store, run).await;
    assert_eq!(shown.len(), 1);
    let view = site.view(run).await;
    assert_eq!(shown[0].job, view.jobs.iter().find(|job| job.name == "a").unwrap().id);
    let earlier = write!(store, |tx| runs::steps(tx, SYSTEM, run, Some(1))).unwrap();
    assert_eq!(earlier.len(), 2);
}
on_both!(steps_of_what_a_re_run_took_over_are_still_shown);

fn remark(message: &str) -> Said {
    Said::Annotation(Annotation {
        level: Level::Warning,
        message: message.to_owned(),
        title: None,
        file: None,
        line: Some(1),
        end_line: None,
        column: None,
        end_column: None,
        step: Some(0),
        code: None,
    })
}

/// What the jobs of an attempt remarked and wrote, and which claims of theirs came to nothing: job by name, and word.
async fn words_of(store: &Store, site: &Site, run: RunId, attempt: u32) -> Vec<(String, String)> {
    let (remarks, summaries, tried) = write!(store, |tx| async {
        let remarks = events::annotations(tx, SYSTEM, run, attempt, 9).await?;
        let summaries = events::summaries(tx, SYSTEM, (run, attempt), 0, 1 << 20).await?;
        Ok((remarks, summaries.found, runs::past_claims(tx, SYSTEM, run, attempt).await?))
    })
    .unwrap();
    let jobs = write!(site.store(), |tx| runs::view(tx, SYSTEM, run, Some(attempt))).unwrap().jobs;
    let name = |id: JobId| jobs.iter().find(|job| job.id == id).unwrap().name.clone();
    let remarks = remarks.into_iter().map(|(job, said)| (job.unwrap(), said.message));
    let summaries = summaries.into_iter().map(|said| (said.job.unwrap(), said.text));
    let tried = tried.into_iter().map(|past| (past.job, past.reason.unwrap()));
    remarks.chain(summaries).chain(tried).map(|(job, word)| (name(job), word)).collect()
}

async fn words_and_claims_of_what_a_re_run_took_over_are_still_shown(store: Store) {
    let site = Site::new(store.clone()).await;
    let run = site
        .run("  a: {runs-on: x, steps: [{run: y}]}\n  b: {runs-on: x, steps: [{run: y}]}")
        .await;
    for lost in site.claim(7, 2).await {
        let reason = format!("no power for {}", lost.name);
        site.say(&lost, 7, Word::Lost { reason }).await;
    }
    for job in site.claim(8, 2).await {
        let text = format!("# {}", job.name);
        let words = [remark(&format!("by {}", job.name)), Said::Summary { step: 0, text }];
        tell(&store, said(&job, 8, 1, &words)).await;
        site.finish(&job, 8, if job.name == "a" { Success } else { Failure }).await;
    }
    // Twice over, so that what the second attempt took over is what the third one takes over.
    for attempt in [2, 3] {
        site.runs.again(SYSTEM, &somebody(), run, Again::Failed).await.unwrap();
        let b = site.claim(9, 1).await.remove(0);
        let words = [remark(&format!("by b in {attempt}"))];
        tell(&store, said(&b, 9, 1, &words)).await;
        site.finish(&b, 9, Failure).await;
    }
    let own = |words: &[(&str, &str)]| -> Vec<(String, String)> {
        words.iter().map(|(job, word)| ((*job).to_owned(), (*word).to_owned())).collect()
    };
    let first = [
        ("a", "by a"),
        ("b", "by b"),
        ("a", "# a"),
        ("b", "# b"),
        ("a", "no power for a"),
        ("b", "no power for b"),
    ];
    let mut found = words_of(&store, &site, run, 1).await;
    // Which of the two was claimed first is not what this is about.
    found.sort();
    let mut expected = own(&first);
    expected.sort();
    assert_eq!(found, expected);
    for (attempt, of_b) in [(2, "by b in 2"), (3, "by b in 3")] {
        let expected = own(&[("a", "by a"), ("b", of_b), ("a", "# a"), ("a", "no power for a")]);
        assert_eq!(words_of(&store, &site, run, attempt).await, expected);
    }
}
on_both!(words_and_claims_of_what_a_re_run_took_over_are_still_shown);

async fn what_is_too_long_is_cut(store: Store) {
    let site = Site::new(store.clone()).await;
    let run = site.run(ONE).await;
    let job = site.claim(7, 1).await.remove(0);
    let events = [
        Said::StepStarted { step: 0, name: "\0".repeat(5_000) },
        remark(&"\0ä".repeat(100_000)),
        Said::Summary { step: 0, text: "x".repeat(3 << 20) },
        Said::StepStarted { step: u32::MAX, name: String::new() },
    ];
    assert_eq!(tell(&store, said(&job, 7, 1, &events)).await, Heard(4));
    let kinds = told(&store, run).await;
    assert_eq!(kinds.len(), 3, "a step with an impossible number is passed over");
    let sizes: Vec<usize> =
        kinds.iter().map(|kind| serde_json::to_string(kind).unwrap().len()).collect();
    assert!(sizes[1] < 70_000 && sizes[1] > 50_000, "{sizes:?}");
    assert!(sizes[2] < (1 << 20) + 200 && sizes[2] > 1 << 20, "{sizes:?}");
    let kept = steps(&store, run).await;
    assert_eq!(kept[0].name.chars().count(), 1_000);
    let lease = write!(store, |tx| claims::lease(tx, job.job, 1)).unwrap().unwrap();
    assert!(kept[0].started.unwrap() >= lease.claimed, "times are between the claim and now");
}
on_both!(what_is_too_long_is_cut);

/// The same report by two servers at once, many times over, is heard once.
async fn two_servers_that_hear_the_same_keep_it_once(database: Database) {
    let (store, other) = (database.open(), database.open());
    let site = Site::new(store.clone()).await;
    let run = site.run(ONE).await;
    let job = site.claim(7, 1).await.remove(0);
    for sequence in 1..=20_u64 {
        let report = said(&job, 7, sequence, &[started(u32::try_from(sequence).unwrap())]);
        let (one, two) = tokio::join!(tell(&store, report.clone()), tell(&other, report));
        assert_eq!((one, two), (Heard(sequence), Heard(sequence)));
    }
    assert_eq!(told(&store, run).await.len(), 20);
    clean(&store).await;
}
with_database!(two_servers_that_hear_the_same_keep_it_once);

async fn many_reports_share_a_transaction(store: Store) {
    let site = Site::new(store.clone()).await;
    let job = |number: u32| format!("  j{number}: {{runs-on: x, steps: [{{run: y}}]}}");
    let jobs = (0..20).map(job).collect::<Vec<_>>().join("\n");
    let run = site.run(&jobs).await;
    let traffic = Traffic::new(&site.runs, kiln_core::queue::Policy::Fair);
    let told = site.claim(7, 20).await.into_iter().map(|job| {
        let traffic = traffic.clone();
        tokio::spawn(async move { traffic.report(said(&job, 7, 1, &[started(0)])).await.unwrap() })
    });
    for task in told.collect::<Vec<_>>() {
        assert_eq!(task.await.unwrap(), Heard(1));
    }
    assert_eq!(steps(&store, run).await.len(), 20);
}
on_both!(many_reports_share_a_transaction);

/// G1
async fn steps_of_another_organization_look_like_nothing(store: Store) {
    let site = Site::new(store.clone()).await;
    let run = site.run(ONE).await;
    let foreign = Scope::Org(kiln_core::id::OrgId(site.org.0 + 1));
    let asked = write!(store, |tx| runs::steps(tx, foreign, run, None));
    assert_eq!(refusal(asked), Refusal::NotFound("run"));
}
on_both!(steps_of_another_organization_look_like_nothing);
