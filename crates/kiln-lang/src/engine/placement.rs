//! What a leg is called, which runners may take it, and the environment that it deploys to.

use kiln_core::plan::matrix::leg_name;
use kiln_core::plan::{Data, JobKind};
use kiln_core::run::{JobContext, LegNo, Neighbourhood, Placement};
use kiln_core::value::Value;

use crate::expr::eval::Env;

use super::contexts::JobEnv;
use super::names::{exact, shown};
use super::{Expressions, evaluate_data, evaluate_template};

/// The labels that a runner must have to take a leg, as `runs-on` has them.
pub fn labels(
    expressions: &Expressions,
    hood: &Neighbourhood,
    leg: LegNo,
) -> Result<Vec<String>, String> {
    let job = hood.context(hood.legs[&leg].node, Some(leg));
    runner(&job, &JobEnv::of_job(expressions, &job)).map(|runner| runner.labels)
}

/// The name people see of a leg: what `name` says, else the id with the values of its matrix.
pub fn job_display_name(expressions: &Expressions, hood: &Neighbourhood, leg: LegNo) -> String {
    let job = hood.context(hood.legs[&leg].node, Some(leg));
    name(&job, &JobEnv::of_job(expressions, &job))
}

/// The name of the environment of a leg, known before it runs; none when it is empty. Its address is
/// known only to the runner, after the last step.
pub fn leg_environment(
    expressions: &Expressions,
    hood: &Neighbourhood,
    leg: LegNo,
) -> Result<Option<String>, String> {
    let job = hood.context(hood.legs[&leg].node, Some(leg));
    environment(&job, &JobEnv::of_job(expressions, &job))
}

pub(super) fn placement(
    expressions: &Expressions,
    job: &JobContext<'_>,
) -> Result<Placement, String> {
    let env = JobEnv::of_job(expressions, job);
    let Runner { labels, pool } = runner(job, &env)?;
    let (requires, prefer) = match &job.job.kind {
        JobKind::Steps(steps) => (steps.requires.clone(), steps.prefer.clone()),
        JobKind::Call(_) => Default::default(),
    };
    let (name, environment) = (name(job, &env), environment(job, &env)?);
    Ok(Placement { name, labels, pool, requires, prefer, environment })
}

fn name(job: &JobContext<'_>, env: &dyn Env) -> String {
    let written = job.job.name.as_ref().map(|name| evaluate_template(name, env));
    if let Some(Ok(name)) = written {
        return shown(&name);
    }
    let id = &job.job.id;
    let name = match job.leg.map(|leg| leg_name(&leg.matrix)).unwrap_or_default() {
        values if values.is_empty() => id.clone(),
        values => format!("{id} ({values})"),
    };
    shown(&Value::from(name))
}

/// What `runs-on` asks for.
#[derive(Default)]
struct Runner {
    labels: Vec<String>,
    pool: Option<String>,
}

fn runner(job: &JobContext<'_>, env: &dyn Env) -> Result<Runner, String> {
    let JobKind::Steps(steps) = &job.job.kind else { return Ok(Runner::default()) };
    let wrong = |message| format!("`runs-on`: {message}");
    let (group, labels) = match evaluate_data(&steps.runs_on, env).map_err(wrong)? {
        Value::Object(runner) => (runner.get("group").cloned(), runner.get("labels").cloned()),
        labels => (None, Some(labels)),
    };
    let labels = match labels.unwrap_or_default() {
        Value::Null => Ok(Vec::new()),
        Value::Array(labels) => labels.iter().map(|label| word("label", label)).collect(),
        label => word("label", &label).map(|label| vec![label]),
    };
    let pool = group.map(|group| word("group", &group)).transpose();
    let runner = Runner { labels: labels.map_err(wrong)?, pool: pool.map_err(wrong)? };
    // A job without any demand would go to whichever runner asks first.
    if runner.labels.is_empty() && runner.pool.is_none() {
        return Err("`runs-on` names neither a label nor a group".to_owned());
    }
    Ok(runner)
}

fn word(what: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::Array(_) | Value::Object(_) => {
            Err(format!("a {what} must be a text, found {}", value.kind()))
        }
        value => Some(exact(&format!("a {what}"), value)?)
            .filter(|text| !text.trim().is_empty())
            .ok_or_else(|| format!("a {what} is empty")),
    }
}

fn environment(job: &JobContext<'_>, env: &dyn Env) -> Result<Option<String>, String> {
    let JobKind::Steps(steps) = &job.job.kind else { return Ok(None) };
    let Some(written) = &steps.environment else { return Ok(None) };
    let name = match written {
        Data::Map(_) => match written.get("name") {
            Some(name) => name,
            None => return Ok(None),
        },
        other => other,
    };
    let wrong = |message| format!("`environment`: {message}");
    let name = match evaluate_data(name, env).map_err(wrong)? {
        Value::Object(whole) => whole.get("name").cloned().unwrap_or_default(),
        name => name,
    };
    let name = exact("the name", &name).map_err(wrong)?;
    Ok(Some(name).filter(|name| !name.is_empty()))
}
