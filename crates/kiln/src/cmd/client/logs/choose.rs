//! Which job and which step are meant.

use kiln_proto::api::{Job, RunDetail, Step};

use super::super::words::is_bad;
use crate::output::one_line;

/// The job of a run that is meant, or why there is none.
pub(super) fn job<'r>(detail: &'r RunDetail, wanted: Option<&str>) -> Result<&'r Job, String> {
    let slug = &detail.run.slug;
    let Some(wanted) = wanted else {
        return usual(&detail.jobs).ok_or_else(|| match &detail.note {
            Some(note) => format!("{slug} has no jobs: {}", one_line(note)),
            None => format!("{slug} has no jobs yet; `kiln watch {slug}` shows when it has"),
        });
    };
    let is_id = |job: &&Job| {
        job.slug.as_deref() == Some(wanted) || job.id.is_some_and(|id| id.to_string() == wanted)
    };
    if let Some(job) = detail.jobs.iter().find(is_id) {
        return Ok(job);
    }
    let names: Vec<&str> = detail.jobs.iter().map(|job| job.name.as_str()).collect();
    let found = named(&names, wanted);
    match found[..] {
        [one] => Ok(&detail.jobs[one]),
        [] => Err(format!("{slug} has no job `{wanted}`; it has {}", list(&detail.jobs))),
        _ => {
            let jobs: Vec<&Job> = found.iter().map(|index| &detail.jobs[*index]).collect();
            Err(format!("`{wanted}` could be {}; name one", list(jobs)))
        }
    }
}

/// The first that failed, else the one that runs, else the first that has a log, else any.
fn usual(jobs: &[Job]) -> Option<&Job> {
    let first = |fits: &dyn Fn(&Job) -> bool| jobs.iter().find(|job| fits(job));
    first(&|job| is_bad(job.conclusion.as_deref()) && job.attempt > 0)
        .or_else(|| first(&|job| is_bad(job.conclusion.as_deref())))
        .or_else(|| first(&|job| job.status == "in_progress"))
        .or_else(|| first(&|job| job.status != "completed" && job.id.is_some()))
        .or_else(|| first(&|job| job.attempt > 0))
        .or_else(|| jobs.first())
}

/// The step of a job that is meant: its number, its name, or the beginning of it.
pub(super) fn step<'j>(job: &'j Job, wanted: &str) -> Result<&'j Step, String> {
    if let Some(step) = job.steps.iter().find(|step| step.number.to_string() == wanted) {
        return Ok(step);
    }
    let names: Vec<&str> = job.steps.iter().map(|step| step.name.as_str()).collect();
    let found = named(&names, wanted);
    let list = |steps: Vec<&Step>| {
        let names = steps.iter().map(|step| format!("{} `{}`", step.number, one_line(&step.name)));
        names.collect::<Vec<_>>().join(", ")
    };
    match found[..] {
        [one] => Ok(&job.steps[one]),
        [] if job.steps.is_empty() => Err(format!("`{}` has no steps yet", one_line(&job.name))),
        [] => Err(format!(
            "there is no step `{wanted}`; there are {}",
            list(job.steps.iter().collect())
        )),
        _ => Err(format!(
            "`{wanted}` could be {}; name one",
            list(found.iter().map(|index| &job.steps[*index]).collect())
        )),
    }
}

/// Those with this name, else with this name in other case, else those that begin with it.
fn named(names: &[&str], wanted: &str) -> Vec<usize> {
    let lower = wanted.to_lowercase();
    let all = |fits: &dyn Fn(&str) -> bool| -> Vec<usize> {
        names.iter().enumerate().filter(|(_, name)| fits(name)).map(|(index, _)| index).collect()
    };
    let exact = all(&|name| name == wanted);
    // Jobs of one name are told apart by their slugs only; the first is as good as any.
    if let Some(first) = exact.first() {
        return vec![*first];
    }
    let same = all(&|name| name.to_lowercase() == lower);
    if same.is_empty() { all(&|name| name.to_lowercase().starts_with(&lower)) } else { same }
}

fn list<'j>(jobs: impl IntoIterator<Item = &'j Job>) -> String {
    let names: Vec<String> =
        jobs.into_iter().map(|job| format!("`{}`", one_line(&job.name))).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::super::super::samples::{detail, job as some, step as a_step};
    use super::*;

    fn sample() -> RunDetail {
        detail(vec![
            some("lint", "completed", Some("success")),
            some("test (linux)", "completed", Some("failure")),
            some("test (mac)", "in_progress", None),
            some("Deploy", "queued", None),
        ])
    }

    #[track_caller]
    fn check(wanted: Option<&str>, expect: Result<&str, &str>) {
        let detail = sample();
        match (job(&detail, wanted), expect) {
            (Ok(found), Ok(expect)) => assert_eq!(found.name, expect),
            (Err(found), Err(expect)) => assert!(found.contains(expect), "{found}"),
            (found, expect) => panic!("{found:?} is not {expect:?}"),
        }
    }

    #[test]
    fn the_first_failed_job_is_the_usual_one() {
        check(None, Ok("test (linux)"));
        let mut detail = sample();
        detail.jobs.remove(1);
        assert_eq!(job(&detail, None).unwrap().name, "test (mac)");
        detail.jobs.remove(1);
        assert_eq!(job(&detail, None).unwrap().name, "Deploy");
        detail.jobs.remove(1);
        assert_eq!(job(&detail, None).unwrap().name, "lint");
        detail.jobs.clear();
        assert!(job(&detail, None).unwrap_err().contains("r-9ix has no jobs yet"));
    }

    #[test]
    fn a_job_is_named_in_full_or_by_its_beginning() {
        check(Some("test (mac)"), Ok("test (mac)"));
        check(Some("deploy"), Ok("Deploy"));
        check(Some("li"), Ok("lint"));
        check(Some("test"), Err("`test` could be `test (linux)`, `test (mac)`"));
        check(Some("x"), Err("no job `x`; it has `lint`, `test (linux)`"));
    }

    #[test]
    fn a_step_is_named_by_number_or_name() {
        let mut job = some("a", "completed", Some("success"));
        job.steps = vec![a_step(1, "completed", None), a_step(2, "completed", None)];
        assert_eq!(step(&job, "2").unwrap().number, 2);
        assert_eq!(step(&job, "Step 1").unwrap().number, 1);
        assert!(step(&job, "step").unwrap_err().contains("could be 1 `step 1`, 2 `step 2`"));
        assert!(step(&job, "9").unwrap_err().contains("no step `9`"));
    }
}
