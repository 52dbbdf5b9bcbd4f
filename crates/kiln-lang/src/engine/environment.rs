//! The environment that a leg deploys to.

use kiln_core::plan::{Data, JobKind};
use kiln_core::run::{LegNo, Neighbourhood};
use kiln_core::value::Value;

use crate::expr::coerce::to_text;

use super::contexts::JobEnv;
use super::{Expressions, evaluate_data};

/// The name of the environment of a leg, known before it runs; none when it is empty. Its address is
/// known only to the runner, after the last step.
pub fn leg_environment(
    expressions: &Expressions,
    hood: &Neighbourhood,
    leg: LegNo,
) -> Result<Option<String>, String> {
    let node = hood.legs[&leg].node;
    let JobKind::Steps(steps) = &hood.job_of(node).kind else { return Ok(None) };
    let Some(written) = &steps.environment else { return Ok(None) };
    let name = match written {
        Data::Map(_) => match written.get("name") {
            Some(name) => name,
            None => return Ok(None),
        },
        other => other,
    };
    let env = JobEnv::of_job(expressions, &hood.context(node, Some(leg)));
    let wrong = |message| format!("`environment`: {message}");
    let name = match evaluate_data(name, &env).map_err(wrong)? {
        Value::Object(whole) => whole.get("name").cloned().unwrap_or_default(),
        name => name,
    };
    Ok(Some(to_text(&name).into_owned()).filter(|name| !name.is_empty()))
}
