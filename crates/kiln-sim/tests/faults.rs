//! The fault simulator: seeds that must hold, mistakes that must be found, histories that come again.

use kiln_sim::faults::{Bug, Outcome, Setup, simulate};

/// A mistake that nobody finds within so many seeds is one that the auditor cannot see.
const ENOUGH: u64 = 500;

fn check(seeds: std::ops::Range<u64>) {
    let (mut runs, mut executions) = (0, 0);
    let (mut several_jobs, mut several_ends) = (0, 0);
    for seed in seeds {
        let outcome = simulate(Setup { seed, bug: None });
        assert!(outcome.finding.is_none(), "{outcome}");
        runs += outcome.runs;
        executions += outcome.executions;
        several_jobs += outcome.several_jobs;
        several_ends += outcome.several_ends;
    }
    assert!(runs > 200 && executions > 1_000, "{runs} runs and {executions} jobs are too few");
    assert!(
        several_jobs > 40 && several_ends > 10,
        "{several_jobs} answers with several jobs and {several_ends} with several ends are too few"
    );
}

/// S3, S6, S7, S9, S11, H2
#[test]
fn no_fault_of_the_first_seeds_breaks_a_promise() {
    check(0..120);
}

/// S3, S6, S7, S9, S11, H2
#[test]
fn no_fault_of_further_seeds_breaks_a_promise() {
    check(1_000..1_120);
}

/// S3, S6, S7, S9, S11, H2
#[test]
fn no_fault_of_still_further_seeds_breaks_a_promise() {
    check(2_000..2_120);
}

/// The first seed at which the auditor finds the mistake.
fn found(bug: Bug) -> Outcome {
    let outcomes = (0..ENOUGH).map(|seed| simulate(Setup { seed, bug: Some(bug) }));
    let mut failed = outcomes.filter(|outcome| outcome.finding.is_some());
    failed.next().unwrap_or_else(|| panic!("nobody found `{bug}` in {ENOUGH} seeds"))
}

/// The mistake is found, and by the rule that it breaks.
fn check_found(bug: Bug, rule: &str) {
    let outcome = found(bug);
    let finding = outcome.finding.as_ref().expect("this one failed");
    assert_eq!(finding.rule, rule, "{outcome}");
}

#[test]
fn a_lost_wake_up_is_found() {
    check_found(Bug::LostWakeUp, "work is taken soon");
}

#[test]
fn a_reaper_that_does_not_look_again_is_found() {
    check_found(Bug::ReaperRace, "a lease is good as long as it was said");
}

#[test]
fn a_late_word_that_counts_is_found() {
    check_found(Bug::StaleCompletion, "a late word is refused");
}

#[test]
fn an_answer_that_comes_before_the_commit_is_found() {
    check_found(Bug::AnswerBeforeCommit, "what was answered is there");
}

#[test]
fn a_runner_that_is_spent_by_a_job_it_never_saw_is_found() {
    check_found(Bug::SpentUnseen, "no work is withheld");
}

/// Mistakes that show within few seeds.
#[test]
fn classic_mistakes_are_found() {
    check_found(Bug::DoubleClaim, "two runners never hold one attempt");
    check_found(Bug::SlotLeakOnCancel, "slots are released with their holder");
    check_found(Bug::RetryWithoutCap, "tries are counted");
    check_found(Bug::SkippedPropagation, "nothing is stuck");
    check_found(Bug::FailFastSlot, "slots are released with their holder");
    check_found(Bug::LostTask, "nothing is stuck");
    check_found(Bug::SkipIsSuccess, "a job starts only when its condition holds");
    check_found(Bug::RunnerRepeats, "two runners never hold one attempt");
    check_found(Bug::LimitRace, "limits are never exceeded");
}

/// P10: what was found by changing the engine, and by nothing that was drawn before.
#[test]
fn a_re_run_that_forgets_jobs_without_legs_is_found() {
    check_found(Bug::RerunForgetsBare, "what failed runs again with all that needs it");
}

/// S12
#[test]
fn mistakes_with_pauses_and_drains_are_found() {
    check_found(Bug::PauseBypass, "what is paused waits");
    check_found(Bug::DrainBypass, "who is drained gets nothing");
    check_found(Bug::ResumeWakesNobody, "work is taken soon");
}

/// S9: what a model checker found in a peer.
#[test]
fn mistakes_with_concurrency_groups_are_found() {
    check_found(Bug::GateLeak, "slots are released with their holder");
    check_found(Bug::GateBypass, "one holds a group at a time");
    check_found(Bug::EvictsAdmitted, "nothing is cancelled without a reason");
}

/// Q1
#[test]
fn mistakes_with_several_jobs_at_once_are_found() {
    check_found(Bug::FreshOnRepeat, "the same question has the same answer");
    check_found(Bug::HeardForAll, "what was answered is there");
    check_found(Bug::GreedyAnswer, "work spreads first");
    check_found(Bug::ServedWakesNobody, "work is taken soon");
    check_found(Bug::TakesFromSleepers, "work spreads first");
}

#[test]
fn the_same_seed_has_the_same_history() {
    for seed in [3, 14, 15, 92] {
        let setup = Setup { seed, bug: None };
        let (first, second) = (simulate(setup), simulate(setup));
        assert_eq!(first, second);
        assert_ne!(first.hash, simulate(Setup { seed: seed + 1, bug: None }).hash);
    }
}

#[test]
fn a_failing_seed_says_how_to_see_it_again() {
    let outcome = found(Bug::RunnerRepeats);
    let setup = Setup { seed: outcome.seed, bug: outcome.bug };
    assert_eq!(simulate(setup), outcome, "it fails again in the same way");
    let text = outcome.to_string();
    let line = format!("scripts/soak --from {} --seeds 1 --bug runner-repeats", outcome.seed);
    assert!(text.ends_with(&line), "{text}");
    assert!(text.lines().count() > 10, "the story is told: {text}");
}
