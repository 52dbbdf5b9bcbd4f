//! Random workflows that use all that the engine can do, and random things that happen to their runs.

use std::fmt::Write as _;
use std::sync::Arc;

use kiln_core::plan::Plan;
use kiln_lang::compile::{Library, LoadedFile, Lookup};
use kiln_lang::workflow::uses::CallTarget;
use proptest::prelude::*;

use crate::runs::plan_with;

/// How one group is asked for wherever it is: one waits, many wait, or the newest wins.
const GROUPS: [(&str, &str); 3] =
    [("single", ""), ("queue", ", queue: max"), ("latest", ", cancel-in-progress: true")];

/// Conditions; `NEED` stands for the first job that is needed.
const CONDITIONS: [&str; 8] = [
    "",
    "",
    "always()",
    "failure()",
    "cancelled()",
    "!cancelled()",
    "needs.NEED.outputs.o == 'yes'",
    "always() && needs.NEED.result != 'success'",
];

/// A workflow, the one that its jobs may call, and the one that those may call.
#[derive(Debug, Clone)]
pub struct RunShape {
    group: Option<usize>,
    levels: [Vec<JobShape>; 3],
}

#[derive(Debug, Clone)]
struct JobShape {
    /// A bit for each earlier job.
    needs: u8,
    condition: usize,
    matrix: Option<MatrixShape>,
    group: Option<usize>,
    tolerant: bool,
    /// How often, and the wait.
    retry: Option<(u8, u8)>,
    calls: bool,
}

#[derive(Debug, Clone)]
struct MatrixShape {
    legs: usize,
    fail_fast: bool,
    max_parallel: Option<usize>,
    /// The second leg cannot start.
    odd: bool,
    /// Each leg asks for a group of its own.
    own_groups: bool,
}

/// Something that happens; numbers choose among what is possible at that moment.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    Create,
    /// Tasks of the outbox.
    Deliver,
    Claim(usize),
    Started(usize),
    Uploading(usize),
    Finished(usize, usize),
    Lost(usize),
    Returned(usize),
    /// All that waits before it tries again.
    Wake,
    /// A word that was said before.
    Repeat(usize),
    Cancel(usize, bool),
    CancelLeg(usize),
    Unsupported(usize),
    Again(usize, usize),
}

/// Some runs, with groups that they share or without any.
pub fn runs(groups: bool) -> impl Strategy<Value = Vec<RunShape>> {
    prop::collection::vec(run(groups), 1..4)
}

fn run(groups: bool) -> impl Strategy<Value = RunShape> {
    let group = move || {
        let some = prop::option::weighted(0.4, 0..GROUPS.len());
        some.prop_map(move |group| group.filter(|_| groups))
    };
    let matrix = (1_usize..4, any::<bool>(), prop::option::of(1_usize..4), 0..6_u8, any::<bool>());
    let matrix = matrix.prop_map(|(legs, fail_fast, max_parallel, odd, own_groups)| MatrixShape {
        legs,
        fail_fast,
        max_parallel,
        odd: odd == 0,
        own_groups,
    });
    let job = (
        any::<u8>(),
        0..CONDITIONS.len(),
        prop::option::weighted(0.5, matrix),
        group(),
        prop::bool::weighted(0.2),
        prop::option::weighted(0.3, (1_u8..3, 0_u8..3)),
        prop::bool::weighted(0.35),
    );
    let job = job.prop_map(|(needs, condition, matrix, group, tolerant, retry, calls)| JobShape {
        needs,
        condition,
        matrix,
        group,
        tolerant,
        retry,
        calls,
    });
    let jobs = move |most| prop::collection::vec(job.clone(), 1..most);
    (group(), jobs(6), jobs(4), jobs(3))
        .prop_map(|(group, top, middle, bottom)| RunShape { group, levels: [top, middle, bottom] })
}

pub fn actions(most: usize) -> impl Strategy<Value = Vec<Action>> {
    let pick = any::<usize>;
    let action = prop_oneof![
        4 => Just(Action::Create),
        6 => Just(Action::Deliver),
        10 => pick().prop_map(Action::Claim),
        4 => pick().prop_map(Action::Started),
        1 => pick().prop_map(Action::Uploading),
        10 => (pick(), pick()).prop_map(|(leg, end)| Action::Finished(leg, end)),
        2 => pick().prop_map(Action::Lost),
        1 => pick().prop_map(Action::Returned),
        2 => Just(Action::Wake),
        3 => pick().prop_map(Action::Repeat),
        1 => (pick(), any::<bool>()).prop_map(|(run, forced)| Action::Cancel(run, forced)),
        2 => pick().prop_map(Action::CancelLeg),
        1 => pick().prop_map(Action::Unsupported),
        3 => (pick(), pick()).prop_map(|(run, what)| Action::Again(run, what)),
    ];
    prop::collection::vec(action, 1..most)
}

impl RunShape {
    pub fn plan(&self) -> Arc<Plan> {
        plan_with(&self.text(0), self)
    }

    /// Groups of different levels have different names: what holds one never waits for itself.
    fn text(&self, level: usize) -> String {
        let mut text = match level {
            0 => "on: push\n".to_owned(),
            _ => "on:\n  workflow_call:\n    inputs: {x: {type: string}}\n    outputs: {o: {value: '${{ jobs.j0.outputs.o }}'}}\n".to_owned(),
        };
        if let Some(own) = self.group.filter(|_| level == 0) {
            let _ = writeln!(text, "{}", group("run", own, ""));
        }
        text.push_str("jobs:\n");
        for (index, job) in self.levels[level].iter().enumerate() {
            job.write(&mut text, level, index);
        }
        text
    }
}

fn group(level: &str, group: usize, rest: &str) -> String {
    let (name, mode) = GROUPS[group];
    format!("concurrency: {{group: '{level}-{name}{rest}'{mode}}}")
}

impl JobShape {
    fn write(&self, text: &mut String, level: usize, index: usize) {
        let needs: Vec<String> = (0..index)
            .filter(|need| self.needs & (1 << need) != 0)
            .map(|need| format!("j{need}"))
            .collect();
        let _ = writeln!(text, "  j{index}:\n    needs: [{}]", needs.join(", "));
        let condition = CONDITIONS[self.condition];
        let condition = condition.replace("NEED", needs.first().map_or("none", String::as_str));
        if !condition.is_empty() && !condition.contains("needs.none") {
            let _ = writeln!(text, "    if: ${{{{ {condition} }}}}");
        }
        if let Some(matrix) = &self.matrix {
            matrix.write(text);
        }
        if let Some(own) = self.group {
            let apart = self.matrix.as_ref().is_some_and(|matrix| matrix.own_groups);
            let rest = if apart { "-${{ matrix.v }}" } else { "" };
            let _ = writeln!(text, "    {}", group(&format!("job{level}"), own, rest));
        }
        let odd = self.matrix.as_ref().is_some_and(|matrix| matrix.odd);
        if self.calls && level < 2 {
            let x = if odd { "${{ fromJSON(matrix.v == 2 && '{' || '1') }}" } else { "1" };
            let _ = writeln!(text, "    uses: ./.github/workflows/level{}.yml", level + 1);
            let _ = writeln!(text, "    with: {{x: \"{x}\"}}");
            return;
        }
        if self.tolerant {
            text.push_str("    continue-on-error: true\n");
        }
        let label = if odd { "${{ matrix.v == 2 && ' ' || 'linux' }}" } else { "linux" };
        let _ = writeln!(text, "    runs-on: \"{label}\"");
        text.push_str("    outputs: {o: '${{ steps.s.outputs.o }}'}\n");
        text.push_str("    steps: [{id: s, run: 'true'}]\n");
    }
}

impl MatrixShape {
    fn write(&self, text: &mut String) {
        let values: Vec<String> = (1..=self.legs).map(|leg| leg.to_string()).collect();
        let _ = write!(
            text,
            "    strategy:\n      fail-fast: {}\n      matrix: {{v: [{}]}}\n",
            self.fail_fast,
            values.join(", ")
        );
        if let Some(most) = self.max_parallel {
            let _ = writeln!(text, "      max-parallel: {most}");
        }
    }
}

impl Library for RunShape {
    fn workflow(&self, target: &CallTarget) -> Lookup {
        let CallTarget::Local(path) = target else { return Lookup::Missing };
        let level = if path.ends_with("level1.yml") { 1 } else { 2 };
        Lookup::Found(LoadedFile { path: path.clone(), text: self.text(level) })
    }

    /// Says which jobs of the triggered workflow are tried again.
    fn companion(&self, path: &str) -> Option<LoadedFile> {
        let mut text = "jobs:\n".to_owned();
        let jobs = self.levels[0].iter().enumerate().filter(|(_, job)| !job.calls);
        for (index, job) in jobs {
            if let Some((most, wait)) = job.retry {
                let _ = writeln!(text, "  j{index}:\n    retry: {{max: {most}, backoff: {wait}}}");
            }
        }
        let found = path.ends_with("a.yml") && text.contains("retry");
        found.then(|| LoadedFile { path: "a.kiln.yml".to_owned(), text })
    }
}
