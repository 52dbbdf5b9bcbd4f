//! Workflows by chance: needs, matrices, groups, calls, retries.

use std::fmt::Write as _;
use std::sync::Arc;

use kiln_core::plan::{Plan, Retry, RetryOn};

use crate::dice::Dice;
use crate::runs::{Callee, plan_with};

/// What jobs call.
const CALLEE: &str = "on: workflow_call\njobs:\n  \
    x: {runs-on: linux, steps: [{run: 'true'}]}\n  \
    y: {needs: x, runs-on: linux, strategy: {matrix: {n: [1, 2]}}, steps: [{run: 'true'}]}\n";

/// A workflow of up to eight jobs. Few names of groups, so that runs meet in them.
pub(super) fn plan(dice: &mut Dice) -> Arc<Plan> {
    let mut text = "on: push\n".to_owned();
    if dice.percent(15) {
        let (group, cancel) = (dice.below(3), dice.percent(50));
        let _ = writeln!(text, "concurrency: {{group: run-{group}, cancel-in-progress: {cancel}}}");
    }
    text.push_str("jobs:\n");
    let count = 1 + dice.below(8);
    for number in 0..count {
        let _ = writeln!(text, "  j{number}: {{{}}}", job(number, dice).join(", "));
    }
    let mut plan = Plan::clone(&plan_with(&text, &Callee(CALLEE.to_owned())));
    for job in &mut plan.workflows[0].jobs {
        if dice.percent(15) {
            let backoff_seconds = u32::from(dice.percent(50));
            job.retry = Some(Retry { max: 2, backoff_seconds, on: RetryOn::Any });
        }
    }
    Arc::new(plan)
}

fn job(number: u64, dice: &mut Dice) -> Vec<String> {
    let mut parts = Vec::new();
    let needs: Vec<String> =
        (0..number).filter(|_| dice.percent(30)).map(|need| format!("j{need}")).collect();
    if !needs.is_empty() {
        parts.push(format!("needs: [{}]", needs.join(", ")));
    }
    if dice.percent(20) {
        parts.push("if: always()".to_owned());
    }
    if dice.percent(10) {
        parts.push(format!("concurrency: job-{}", dice.below(3)));
    }
    if dice.percent(25) {
        let legs = ["[1, 2]", "[1, 2, 3, 4]"][usize::from(dice.percent(50))];
        let (fast, most) = (dice.percent(50), 1 + dice.below(3));
        parts.push(format!(
            "strategy: {{fail-fast: {fast}, max-parallel: {most}, matrix: {{n: {legs}}}}}"
        ));
    }
    if dice.percent(15) {
        parts.push("uses: ./.github/workflows/callee.yml".to_owned());
        return parts;
    }
    if dice.percent(15) {
        parts.push("continue-on-error: true".to_owned());
    }
    let labels = dice.one_of(&["linux", "[linux, gpu]"]);
    parts.push(format!("runs-on: {labels}, steps: [{{run: 'true'}}]"));
    parts
}
