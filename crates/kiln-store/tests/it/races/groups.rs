//! Concurrency groups, entered and left by many at once.

use super::*;

const QUEUED: &str = "on: push\nconcurrency: {group: deploy, queue: max}\njobs:\n";

async fn states(site: &Site, runs: &[RunId]) -> (usize, usize) {
    let (mut active, mut gated) = (0, 0);
    for run in runs {
        match site.view(*run).await.state {
            RunState::Active => active += 1,
            RunState::Gated(_) => gated += 1,
            _ => {}
        }
    }
    (active, gated)
}

async fn create_at_once(site: &Site, count: usize, text: impl Fn(usize) -> String) -> Vec<RunId> {
    let tasks: Vec<_> = (0..count)
        .map(|at| {
            let new = site.push(kiln_testkit::runs::plan(&text(at)));
            let site = site.clone();
            tokio::spawn(async move { site.runs.create(new).await })
        })
        .collect();
    let mut runs = Vec::new();
    for task in tasks {
        runs.push(task.await.unwrap().unwrap().run());
    }
    runs
}

/// S9: one of those that come at once holds the group; each end lets one in, whoever carries it out.
async fn runs_that_enter_a_group_at_once_hold_it_one_after_the_other(store: Store) {
    let site = Site::new(store).await;
    let other = other_server(&site);
    for _ in 0..4 {
        let runs = create_at_once(&site, 5, |_| format!("{QUEUED}{ONE}")).await;
        assert_eq!(states(&site, &runs).await, (1, 4));
        for left in (0..runs.len()).rev() {
            let job = site.claim(1, 9).await;
            assert_eq!(job.len(), 1, "one run holds the group");
            site.finish(&job[0], 1, Success).await;
            let (here, there) = tokio::join!(site.runs.carry_out(), other.runs.carry_out());
            assert_eq!(here.unwrap() + there.unwrap(), usize::from(left > 0));
            assert_eq!(states(&site, &runs).await, (usize::from(left > 0), left.saturating_sub(1)));
        }
        assert_eq!(number(&site, "SELECT count(*) FROM groups").await, 0);
        assert_eq!(number(&site, "SELECT count(*) FROM outbox").await, 0);
    }
}
on_both!(runs_that_enter_a_group_at_once_hold_it_one_after_the_other);

/// Jobs that ask for groups in different orders can lock them crosswise; callers do not notice.
async fn groups_asked_for_crosswise_make_nobody_fail(store: Store) {
    let site = Site::new(store).await;
    let text = |at: usize| {
        let names = if at.is_multiple_of(2) { "[x, y, z]" } else { "[z, y, x]" };
        format!(
            "on: push\njobs:\n  a:\n    strategy: {{matrix: {{g: {names}}}}}\n    concurrency: {{group: '${{{{ matrix.g }}}}', queue: max}}\n    runs-on: linux\n    steps: [{{run: x}}]\n"
        )
    };
    for _ in 0..2 {
        let runs = create_at_once(&site, 6, text).await;
        assert_eq!(number(&site, "SELECT count(*) FROM queue").await, 3);
        assert_eq!(end_all(&site).await.len(), 18);
        assert_eq!(states(&site, &runs).await, (0, 0));
        assert_eq!(number(&site, "SELECT count(*) FROM groups").await, 0);
    }
}
on_both!(groups_asked_for_crosswise_make_nobody_fail);

/// S9: what one attempt was told is not for the next. The group lets the first run in and takes that
/// back, because it was cancelled; run again, it waits like everybody else.
async fn a_late_admission_is_not_for_the_next_attempt(store: Store) {
    let site = Site::new(store).await;
    let text = format!("{QUEUED}{ONE}");
    let [first, second, third] =
        std::array::from_fn(|_| site.push(kiln_testkit::runs::plan(&text)));
    site.runs.create(first).await.unwrap();
    let second = site.runs.create(second).await.unwrap().run();
    let job = site.claim(1, 1).await.remove(0);
    site.finish(&job, 1, Success).await;
    // The second one holds the group now, but has not heard of it when it is cancelled.
    assert_eq!(site.tell(second, cancel()).await, Answer::Accepted);
    site.runs.create(third).await.unwrap();
    assert_eq!(site.runs.again(SYSTEM, &somebody(), second, Again::All).await.unwrap(), 2);
    while site.runs.carry_out().await.unwrap() > 0 {}
    assert!(matches!(site.view(second).await.state, RunState::Gated(_)));
    assert_eq!(end_all(&site).await.len(), 2);
    assert_eq!(site.view(second).await.state, RunState::Done(Success));
}
on_both!(a_late_admission_is_not_for_the_next_attempt);
