//! What happened to a run between two looks at it, as a pure function.

use kiln_proto::api::{Job, Run, RunDetail, Step};
use serde_json::{Value, json};

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Change<'d> {
    /// The whole run waits, for a reason that is new.
    RunWaits(&'d Run, &'d str),
    /// A job waits, for a reason that is new.
    Waits(&'d Job),
    Started(&'d Job),
    StepStarted(&'d Job, &'d Step),
    StepFinished(&'d Job, &'d Step),
    Finished(&'d Job),
}

/// What is new, in the order in which it is told. The first look tells only how things stand.
pub(super) fn changes<'d>(before: Option<&RunDetail>, now: &'d RunDetail) -> Vec<Change<'d>> {
    let mut changes = Vec::new();
    // Another attempt begins anew.
    let before = before.filter(|before| before.run.attempt == now.run.attempt);
    if let Some(reason) = now.run.reason.as_deref()
        && before.and_then(|before| before.run.reason.as_deref()) != Some(reason)
    {
        changes.push(Change::RunWaits(&now.run, reason));
    }
    for job in &now.jobs {
        of_job(before.and_then(|before| same(before, job)), job, &mut changes);
    }
    changes
}

/// The job of an earlier look. A job has no id until it is queued.
fn same<'b>(before: &'b RunDetail, job: &Job) -> Option<&'b Job> {
    let by_id = before.jobs.iter().find(|old| old.id.is_some() && old.id == job.id);
    by_id.or_else(|| before.jobs.iter().find(|old| old.id.is_none() && old.name == job.name))
}

fn of_job<'d>(before: Option<&Job>, job: &'d Job, changes: &mut Vec<Change<'d>>) {
    let was = before.map(|before| before.status.as_str());
    // A job whose runner was lost is claimed again, and begins anew.
    let again = before.is_some_and(|before| before.attempt != job.attempt && before.attempt > 0);
    let before = before.filter(|_| !again);
    match job.status.as_str() {
        "completed" if was == Some("completed") && !again => {}
        "completed" => {
            if was.is_some() && job.started_at.is_some() {
                if was != Some("in_progress") || again {
                    changes.push(Change::Started(job));
                }
                steps(before, job, changes);
            }
            changes.push(Change::Finished(job));
        }
        "in_progress" => {
            if was != Some("in_progress") || again {
                changes.push(Change::Started(job));
            }
            if was.is_none() {
                let running = job.steps.iter().filter(|step| step.status == "in_progress");
                changes.extend(running.map(|step| Change::StepStarted(job, step)));
            } else {
                steps(before, job, changes);
            }
        }
        _ => {
            let told = before
                .is_some_and(|before| before.reason == job.reason && before.status == job.status);
            if !told && !job.reason.is_empty() {
                changes.push(Change::Waits(job));
            }
        }
    }
}

/// What steps did since then. Those that were skipped are not worth a word.
fn steps<'d>(before: Option<&Job>, job: &'d Job, changes: &mut Vec<Change<'d>>) {
    for step in job.steps.iter().filter(|step| step.conclusion.as_deref() != Some("skipped")) {
        let old = before.and_then(|job| job.steps.iter().find(|old| old.number == step.number));
        let was = old.map_or("pending", |old| old.status.as_str());
        let begun = |status: &str| matches!(status, "in_progress" | "completed");
        if begun(&step.status) && !begun(was) {
            changes.push(Change::StepStarted(job, step));
        }
        if step.status == "completed" && was != "completed" {
            changes.push(Change::StepFinished(job, step));
        }
    }
}

/// For programs, in the words of `kiln run --json`.
pub(super) fn as_json(change: &Change<'_>) -> Value {
    let of_job = |event: &str, job: &Job| {
        json!({
            "event": event, "job": job.id, "name": job.name, "attempt": job.attempt, "runner": job.runner,
        })
    };
    let of_step = |event: &str, job: &Job, step: &Step| {
        json!({
            "event": event, "job": job.id, "step": step.number, "name": step.name,
        })
    };
    let with = |mut event: Value, name: &str, value: Value| {
        event[name] = value;
        event
    };
    match change {
        Change::RunWaits(run, reason) => {
            json!({"event": "run_waits", "id": run.id, "status": run.status, "reason": reason})
        }
        Change::Waits(job) => {
            let event = json!({"event": "job_waits", "job": job.id, "name": job.name});
            with(with(event, "status", json!(job.status)), "reason", json!(job.reason))
        }
        Change::Started(job) => of_job("job_started", job),
        Change::StepStarted(job, step) => of_step("step_started", job, step),
        Change::StepFinished(job, step) => {
            with(of_step("step_finished", job, step), "conclusion", json!(step.conclusion))
        }
        Change::Finished(job) => {
            let event = with(of_job("job_finished", job), "conclusion", json!(job.conclusion));
            with(event, "reason", json!(job.reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::samples::{detail, job, step};
    use super::*;

    #[track_caller]
    fn check(before: Option<Job>, now: Job, expect: &[&str]) {
        let before = before.map(|job| detail(vec![job]));
        let now = detail(vec![now]);
        let words: Vec<String> = changes(before.as_ref(), &now)
            .iter()
            .map(|change| {
                let event = as_json(change);
                let step = event.get("step").map(|step| format!(" {step}")).unwrap_or_default();
                format!("{}{step}", event["event"].as_str().unwrap())
            })
            .collect();
        assert_eq!(words, expect);
    }

    fn with(mut job: Job, steps: Vec<Step>) -> Job {
        job.steps = steps;
        job
    }

    #[test]
    fn a_job_is_told_of_from_its_wait_to_its_end() {
        let queued = job("a", "queued", None);
        check(None, queued.clone(), &["job_waits"]);
        check(Some(queued.clone()), queued.clone(), &[]);
        let other = Job { reason: "the server is paused".to_owned(), ..queued.clone() };
        check(Some(queued.clone()), other, &["job_waits"]);
        let running = with(job("a", "in_progress", None), vec![step(1, "in_progress", None)]);
        check(Some(queued.clone()), running.clone(), &["job_started", "step_started 1"]);
        let later = with(
            job("a", "in_progress", None),
            vec![
                step(1, "completed", Some("success")),
                step(2, "completed", Some("skipped")),
                step(3, "completed", Some("success")),
                step(4, "pending", None),
            ],
        );
        check(
            Some(running.clone()),
            later.clone(),
            &["step_finished 1", "step_started 3", "step_finished 3"],
        );
        let ended = with(job("a", "completed", Some("failure")), later.steps.clone());
        check(Some(later), ended.clone(), &["job_finished"]);
        check(Some(ended.clone()), ended, &[]);
    }

    /// S16
    #[test]
    fn a_run_that_waits_as_a_whole_says_so_once() {
        let mut held = detail(Vec::new());
        held.run.reason = Some("the run waits for the concurrency group `x`".to_owned());
        let told = |before: Option<&RunDetail>, now: &RunDetail| {
            changes(before, now).iter().map(as_json).collect::<Vec<_>>()
        };
        let first = told(None, &held);
        assert_eq!(first.len(), 1, "{first:?}");
        assert_eq!((&first[0]["event"], &first[0]["id"]), (&json!("run_waits"), &json!(12_345)));
        assert_eq!(first[0]["reason"], "the run waits for the concurrency group `x`");
        assert_eq!(told(Some(&held), &held), [Value::Null; 0]);
        assert_eq!(told(Some(&held), &detail(Vec::new())), [Value::Null; 0]);
        assert_eq!(told(Some(&detail(Vec::new())), &held), first);
    }

    #[test]
    fn what_was_over_before_the_first_look_is_only_told_as_over() {
        let ended = with(
            job("a", "completed", Some("success")),
            vec![step(1, "completed", Some("success"))],
        );
        check(None, ended, &["job_finished"]);
        let running = with(
            job("a", "in_progress", None),
            vec![step(1, "completed", Some("success")), step(2, "in_progress", None)],
        );
        check(None, running, &["job_started", "step_started 2"]);
    }

    #[test]
    fn a_job_between_two_looks_is_told_whole() {
        let ended = with(
            job("a", "completed", Some("success")),
            vec![step(1, "completed", Some("success"))],
        );
        check(
            Some(job("a", "queued", None)),
            ended,
            &["job_started", "step_started 1", "step_finished 1", "job_finished"],
        );
        let skipped = Job { started_at: None, ..job("a", "completed", Some("skipped")) };
        check(Some(job("a", "pending", None)), skipped, &["job_finished"]);
    }

    #[test]
    fn a_job_whose_runner_was_lost_begins_anew() {
        let first = with(job("a", "in_progress", None), vec![step(1, "in_progress", None)]);
        let second = Job { attempt: 2, ..first.clone() };
        check(Some(first.clone()), second, &["job_started", "step_started 1"]);
        let back = Job { reason: "its runner was lost".to_owned(), ..job("a", "queued", None) };
        check(Some(first), Job { attempt: 1, ..back }, &["job_waits"]);
    }
}
