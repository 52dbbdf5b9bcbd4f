//! Which workflows, jobs and legs a run is about.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use kiln_core::graph::Graph;
use kiln_core::plan::{JobKind, Plan, Strategy};
use kiln_core::value::Object;
use kiln_lang::expr::coerce::to_text;
use kiln_lang::suggest::closest;

use super::Chosen;
use crate::{find, inputs};

/// The files named, those of directories, or all workflows of this repository.
pub(super) fn workflows(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if paths.is_empty() {
        let home = find::home()?;
        let directory = home.join(".github/workflows");
        if !directory.is_dir() {
            bail!(
                "there is no `.github/workflows` in `{}`; go to a repository that has one, or name a file with `--workflow`",
                home.display()
            );
        }
        found.extend(in_directory(&directory)?);
    }
    for path in paths {
        if path.is_dir() {
            let inner = path.join(".github/workflows");
            found.extend(in_directory(if inner.is_dir() { &inner } else { path })?);
        } else {
            found.push(find::located(path)?);
        }
    }
    if found.is_empty() {
        bail!("there are no workflows here; name one with `--workflow`");
    }
    Ok(found)
}

fn in_directory(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)
        .with_context(|| format!("cannot read `{}`", directory.display()))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "yml" || ext == "yaml"))
        .collect();
    files.sort();
    Ok(files)
}

/// The workflows with the jobs, legs and inputs that were asked for. Of several, those that do not have
/// them are left out; all is checked before anything runs.
pub(super) fn fitting(chosen: Vec<Chosen>) -> Result<Vec<Chosen>> {
    let alone = chosen.len() == 1;
    let (mut fitting, mut faults) = (Vec::new(), Vec::new());
    for mut one in chosen {
        let path = one.compiled.plan.root().path.clone();
        match narrowed(&one) {
            Ok(plan) => {
                one.compiled.plan = plan;
                fitting.push(one);
            }
            Err(fault) if alone => return Err(fault),
            Err(fault) => faults.push(format!("`{path}`: {fault}")),
        }
    }
    if fitting.is_empty() && !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    Ok(fitting)
}

fn narrowed(one: &Chosen) -> Result<Plan> {
    let mut plan = jobs(one.compiled.plan.clone(), one.order.job.as_deref())?;
    if let (Some(job), Some(step)) = (&one.order.job, &one.order.from_step) {
        begin_late(&mut plan, job, step)?;
    }
    let plan = matrix(plan, &one.order.matrix)?;
    inputs::typed(&plan, &one.order.event.name, &one.order.inputs)?;
    Ok(plan)
}

/// The plan with one job and all it needs.
fn jobs(mut plan: Plan, only: Option<&str>) -> Result<Plan> {
    let Some(only) = only else { return Ok(plan) };
    let root = &mut plan.workflows[0];
    let Some((wanted, _)) = root.job(only) else {
        let meant = closest(only, root.jobs.iter().map(|job| job.id.as_str()));
        let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        bail!("the workflow has no job `{only}`{meant}");
    };
    let graph =
        Graph::new(root.jobs.iter().map(|job| job.needs.clone()).collect()).unwrap_or_default();
    let mut kept = graph.ancestors(wanted);
    kept.push(wanted);
    kept.sort_unstable();
    let place = |job: usize| kept.binary_search(&job).ok();
    let jobs = std::mem::take(&mut root.jobs);
    for (index, mut job) in jobs.into_iter().enumerate() {
        if place(index).is_some() {
            job.needs = job.needs.iter().filter_map(|need| place(*need)).collect();
            root.jobs.push(job);
        }
    }
    Ok(plan)
}

/// Lets one job of the plan begin at a step.
fn begin_late(plan: &mut Plan, job: &str, step: &str) -> Result<()> {
    let root = &mut plan.workflows[0];
    let found = root.jobs.iter_mut().find(|one| one.id.eq_ignore_ascii_case(job));
    match found.map(|job| &mut job.kind) {
        Some(JobKind::Steps(steps)) => {
            let number = steps.step_named(step.trim())?;
            steps.begin_at(number);
            Ok(())
        }
        _ => bail!("the job `{job}` calls a workflow and has no steps to begin at"),
    }
}

/// The plan with only those legs that have all of the given values.
fn matrix(mut plan: Plan, given: &[String]) -> Result<Plan> {
    let wanted = super::pairs(given)?;
    if wanted.is_empty() {
        return Ok(plan);
    }
    let fits = |leg: &Object| {
        wanted
            .iter()
            .all(|(name, value)| leg.get(name).is_none_or(|own| to_text(own) == value.as_str()))
    };
    known(&plan, &wanted)?;
    let mut any = false;
    for job in &mut plan.workflows[0].jobs {
        if let Strategy::Legs { legs, .. } = &mut job.strategy {
            legs.retain(&fits);
            any |= !legs.is_empty();
        }
    }
    if !any {
        bail!("no job has a leg with {}", given.join(" and "));
    }
    Ok(plan)
}

/// A name that no matrix has is a slip of the pen. Matrices that come from outputs are not known yet.
fn known(plan: &Plan, wanted: &[(String, String)]) -> Result<()> {
    let mut names = Vec::new();
    for job in &plan.root().jobs {
        match &job.strategy {
            Strategy::Legs { legs, .. } => {
                names.extend(legs.iter().flat_map(|leg| leg.iter().map(|(name, _)| name)));
            }
            Strategy::Single => {}
            Strategy::Matrix { .. } | Strategy::Expr(_) => return Ok(()),
        }
    }
    for (name, _) in wanted {
        if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            let meant = closest(name, names.iter().copied());
            let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
            bail!("no matrix has `{name}`{meant}");
        }
    }
    Ok(())
}
