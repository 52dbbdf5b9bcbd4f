//! A job that begins at one of its steps.
//!
//! The place where it runs is fresh, so what prepares that runs all the same: steps with `uses` before the
//! step. Scripts before it are left out, and so are groups of parallel steps with a script among them.

use std::fmt;
use std::sync::Arc;

use super::{Condition, Step, StepKind, StepsJob};

/// More steps than these are not listed when one cannot be found.
const LISTED: usize = 30;
/// How much of a name is listed.
const LONGEST_NAME: usize = 60;

/// Why a name does not lead to a step. The text lists the steps that there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoStep {
    Unknown { named: String, steps: String },
    Ambiguous { named: String, numbers: Vec<u32>, steps: String },
}

impl fmt::Display for NoStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { named, steps } => {
                write!(f, "the job has no step `{named}`; its steps are {steps}")
            }
            Self::Ambiguous { named, numbers, steps } => {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                let numbers = numbers.join(", ");
                write!(
                    f,
                    "`{named}` can be any of the steps {numbers}: name it by its number; the steps are {steps}"
                )
            }
        }
    }
}

impl std::error::Error for NoStep {}

/// A step with the number that people see.
struct Numbered<'s> {
    number: u32,
    /// The number of the group of parallel steps around it; else its own.
    begin: u32,
    step: &'s Step,
}

impl StepsJob {
    /// The number of the step that is named by its number, id or name. Numbers count from 1 in the order in which a run
    /// shows its steps, without what actions do before and after them: a group of parallel steps has one, and so has each
    /// of its steps. One of those stands for its group, because they begin together.
    pub fn step_named(&self, named: &str) -> Result<u32, NoStep> {
        let steps = numbered(&self.steps);
        let id = |one: &&Numbered<'_>| one.step.id.eq_ignore_ascii_case(named);
        let name = |one: &&Numbered<'_>| one.step.known_name().is_some_and(|name| name == named);
        let found: Vec<&Numbered<'_>> = match named.parse::<u32>() {
            Ok(number) => steps.iter().filter(|one| one.number == number).collect(),
            Err(_) if steps.iter().any(|one| id(&one)) => steps.iter().filter(id).collect(),
            Err(_) => steps.iter().filter(name).collect(),
        };
        let named = || short(named);
        match *found {
            [] => Err(NoStep::Unknown { named: named(), steps: listed(&steps) }),
            [one] => Ok(one.begin),
            _ => {
                let numbers = found.iter().map(|one| one.number).collect();
                Err(NoStep::Ambiguous { named: named(), numbers, steps: listed(&steps) })
            }
        }
    }

    /// How many numbers its steps have.
    pub fn step_count(&self) -> u32 {
        number_after(&numbered(&self.steps)) - 1
    }

    /// Leaves out what does not run when the job begins at this step. Its result is then not that of the whole job, and
    /// nobody may take it for that.
    pub fn begin_at(&mut self, number: u32) {
        let steps = numbered(&self.steps);
        let Some(first) = steps.iter().find(|one| one.number == number) else { return };
        let name = first.step.known_name().unwrap_or_else(|| first.step.id.clone());
        let reason = format!("Left out: the job begins at step {number}, `{}`.", short(&name));
        let before = steps.iter().filter(|one| one.number == one.begin && one.number < number);
        let before = before.count();
        for step in &mut self.steps[..before] {
            match &mut step.kind {
                StepKind::Parallel(inner) if inner.iter().any(|step| !step.prepares()) => {
                    for step in inner {
                        step.leave_out(&reason);
                    }
                }
                StepKind::Run(_) => step.leave_out(&reason),
                // Who waits for what was left out has nothing to wait for.
                _ => {}
            }
        }
        self.result_cache = None;
    }
}

impl Step {
    /// The name that the run shows, if it is known before that.
    pub fn known_name(&self) -> Option<String> {
        match &self.name {
            Some(name) => name.as_str().map(str::to_owned),
            None => self.kind.usual_name(|script| script.as_str().map(str::to_owned)),
        }
    }

    fn prepares(&self) -> bool {
        matches!(self.kind, StepKind::Use(_))
    }

    fn leave_out(&mut self, reason: &str) {
        // For runners that know nothing of the other.
        self.condition = Condition { text: Arc::from("always() && false") };
        self.left_out = Some(reason.to_owned());
        if let StepKind::Parallel(inner) = &mut self.kind {
            for step in inner {
                step.leave_out(reason);
            }
        }
    }
}

fn numbered(steps: &[Step]) -> Vec<Numbered<'_>> {
    let mut found = Vec::new();
    for step in steps {
        let begin = number_after(&found);
        add(step, begin, &mut found);
    }
    found
}

fn add<'s>(step: &'s Step, begin: u32, found: &mut Vec<Numbered<'s>>) {
    found.push(Numbered { number: number_after(found), begin, step });
    if let StepKind::Parallel(inner) = &step.kind {
        for step in inner {
            add(step, begin, found);
        }
    }
}

fn number_after(steps: &[Numbered<'_>]) -> u32 {
    u32::try_from(steps.len()).unwrap_or(u32::MAX).saturating_add(1)
}

fn listed(steps: &[Numbered<'_>]) -> String {
    let one = |Numbered { number, step, .. }: &Numbered<'_>| {
        let is_given = !step.id.starts_with("__");
        match step.known_name() {
            Some(name) if is_given => format!("{number} `{}` (id `{}`)", short(&name), step.id),
            Some(name) => format!("{number} `{}`", short(&name)),
            None => format!("{number} (id `{}`)", step.id),
        }
    };
    let mut texts: Vec<String> = steps.iter().take(LISTED).map(one).collect();
    if steps.len() > LISTED {
        texts.push(format!("and {} more", steps.len() - LISTED));
    }
    texts.join(", ")
}

fn short(name: &str) -> String {
    let line = name.lines().next().unwrap_or_default();
    let mut text: String = line.chars().take(LONGEST_NAME).collect();
    if text.len() < line.len() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Step, StepKind, StepsJob};

    fn run(id: &str) -> Value {
        json!({ "id": id, "kind": { "run": { "script": format!("{id}\nmore") } } })
    }

    fn used(id: &str) -> Value {
        let target = json!({ "repository": { "owner": "a", "repository": id, "reference": "v1" } });
        json!({ "id": id, "kind": { "use": { "target": target } } })
    }

    fn parallel(steps: &[Value]) -> Value {
        json!({ "id": "__parallel", "kind": { "parallel": steps } })
    }

    fn with(mut step: Value, key: &str, value: Value) -> Value {
        step[key] = value;
        step
    }

    fn job(steps: &[Value]) -> StepsJob {
        let job = json!({ "runs_on": "linux", "result_cache": ["src/**"], "steps": steps });
        serde_json::from_value(job).unwrap()
    }

    /// A checkout, a build, a group with a script, a group of actions, and a test.
    fn usual() -> StepsJob {
        job(&[
            used("checkout"),
            with(run("build"), "name", json!("Build it")),
            parallel(&[run("__run"), used("tool")]),
            parallel(&[used("one"), used("two")]),
            with(run("serve"), "background", json!(true)),
            json!({ "id": "__wait", "kind": { "wait": ["serve"] } }),
            json!({ "id": "__cancel", "kind": { "cancel": "serve" } }),
            run("test"),
            run("after"),
        ])
    }

    /// Ids of what is left out, those inside of groups too.
    fn left_out(steps: &[Step]) -> Vec<&str> {
        let mut found = Vec::new();
        for step in steps {
            assert_eq!(step.left_out.is_some(), &*step.condition.text == "always() && false");
            found.extend(step.left_out.as_ref().map(|_| step.id.as_str()));
            if let StepKind::Parallel(inner) = &step.kind {
                found.extend(left_out(inner));
            }
        }
        found
    }

    /// P10
    #[test]
    fn a_step_is_named_by_its_number_id_or_name() {
        let check = |named: &str, expected: u32| {
            assert_eq!(usual().step_named(named), Ok(expected), "{named}");
        };
        check("1", 1);
        check("2", 2);
        check("build", 2);
        check("BUILD", 2);
        check("Build it", 2);
        check("Run a/checkout@v1", 1);
        check("Run test", 12);
    }

    /// P10
    #[test]
    fn one_of_a_group_stands_for_its_group() {
        for named in ["3", "4", "5", "__run", "tool", "Run a/tool@v1"] {
            assert_eq!(usual().step_named(named), Ok(3), "{named}");
        }
        assert_eq!(usual().step_named("two"), Ok(6));
    }

    /// P10
    #[test]
    fn an_unknown_step_is_refused_with_all_there_are() {
        let check = |named: &str, expected: &str| {
            let job = job(&[used("checkout"), with(run("__run"), "name", json!("Build it"))]);
            let refused = job.step_named(named).unwrap_err().to_string();
            assert_eq!(
                refused,
                format!(
                    "{expected}; its steps are 1 `Run a/checkout@v1` (id `checkout`), 2 `Build it`"
                )
            );
        };
        check("0", "the job has no step `0`");
        check("3", "the job has no step `3`");
        check("99999999999999999999", "the job has no step `99999999999999999999`");
        check("", "the job has no step ``");
        check("Run __run", "the job has no step `Run __run`");
    }

    /// P10
    #[test]
    fn a_name_that_two_have_is_refused_with_their_numbers() {
        let named = |id: &str| with(run(id), "name", json!("Test"));
        let job = job(&[named("a"), run("b"), named("c")]);
        let refused = job.step_named("Test").unwrap_err().to_string();
        assert!(
            refused.starts_with("`Test` can be any of the steps 1, 3: name it by"),
            "{refused}"
        );
        assert_eq!(job.step_named("c"), Ok(3));
    }

    #[test]
    fn long_lists_and_names_are_cut() {
        let name = "x".repeat(100);
        let step = with(run("a"), "name", json!(name));
        let refused = job(&vec![step; 40]).step_named("b").unwrap_err().to_string();
        assert!(refused.ends_with(", and 10 more") && !refused.contains(&name), "{refused}");
    }

    /// P10
    #[test]
    fn what_prepares_stays_and_scripts_before_the_step_go() {
        let check = |number: u32, expected: &[&str]| {
            let mut job = usual();
            job.begin_at(number);
            assert_eq!(left_out(&job.steps), expected, "{number}");
            assert_eq!(job.result_cache, None);
        };
        assert_eq!(usual().step_count(), 13);
        check(1, &[]);
        check(2, &[]);
        check(3, &["build"]);
        check(6, &["build", "__run", "tool"]);
        check(9, &["build", "__run", "tool"]);
        check(12, &["build", "__run", "tool", "serve"]);
        check(13, &["build", "__run", "tool", "serve", "test"]);
    }

    #[test]
    fn a_step_that_is_left_out_says_why() {
        let mut job = usual();
        job.begin_at(12);
        let reason = job.steps[1].left_out.as_deref();
        assert_eq!(reason, Some("Left out: the job begins at step 12, `Run test`."));
    }

    #[test]
    fn a_number_without_a_step_changes_nothing() {
        let mut job = usual();
        job.begin_at(99);
        assert_eq!(left_out(&job.steps), [""; 0]);
        assert!(job.result_cache.is_some());
    }
}
