//! What goes into a called workflow and what comes out of it.

use kiln_core::plan::{Input, InputKind, JobKind};
use kiln_core::run::{JobContext, Need, Run, Scope};
use kiln_core::value::{Object, Value};

use crate::expr::coerce::to_text;

use super::contexts::JobEnv;
use super::{Expressions, evaluate_data, evaluate_template};

/// The inputs of a call, of the types that the called workflow declares.
pub(super) fn inputs(expressions: &Expressions, job: &JobContext<'_>) -> Result<Object, String> {
    let JobKind::Call(call) = &job.job.kind else { return Ok(Object::new()) };
    let env = JobEnv::of_job(expressions, job);
    let given = match &call.with {
        Some(with) => evaluate_data(with, &env)?,
        None => Value::Null,
    };
    let callee = call.workflow.map(|index| &job.run.plan.workflows[index]);
    let declared =
        callee.and_then(|callee| callee.call.as_ref()).map_or(&[][..], |call| &call.inputs);
    let mut inputs = Object::new();
    for input in declared {
        let value = match &given {
            Value::Object(given) => given.get(&input.name).cloned(),
            _ => None,
        };
        let value = match (value, &input.default) {
            (Some(value), _) => typed(input, value)?,
            (None, Some(default)) => typed(input, evaluate_template(default, &env)?)?,
            (None, None) => absent(&input.kind),
        };
        inputs.insert(input.name.as_str(), value);
    }
    Ok(inputs)
}

fn absent(kind: &InputKind) -> Value {
    match kind {
        InputKind::Boolean => Value::Bool(false),
        InputKind::Number => Value::Number(0.0),
        _ => Value::from(""),
    }
}

/// Expressions may give any type, and outputs are always strings: what can be read as the declared
/// type is.
fn typed(input: &Input, value: Value) -> Result<Value, String> {
    let wrong = |value: &Value| {
        let (name, kind) = (&input.name, input.kind.as_str());
        format!("the input `{name}` is a {kind}, but got `{}`", to_text(value))
    };
    match (&input.kind, &value) {
        (InputKind::Boolean, Value::Bool(_)) | (InputKind::Number, Value::Number(_)) => Ok(value),
        (InputKind::Boolean, Value::String(text)) => match &**text {
            "true" => Ok(Value::Bool(true)),
            "false" | "" => Ok(Value::Bool(false)),
            _ => Err(wrong(&value)),
        },
        (InputKind::Number, Value::String(text)) => {
            text.trim().parse().map(Value::Number).map_err(|_| wrong(&value))
        }
        (InputKind::Boolean | InputKind::Number, Value::Null) => Ok(absent(&input.kind)),
        (InputKind::Boolean | InputKind::Number, _) => Err(wrong(&value)),
        _ => Ok(Value::from(to_text(&value).into_owned())),
    }
}

/// The declared outputs of a called workflow, from the jobs in it.
pub(super) fn outputs(
    expressions: &Expressions,
    run: &Run,
    scope: &Scope,
    jobs: &[Need<'_>],
) -> Result<Vec<(String, String)>, String> {
    let Some(interface) = &run.plan.workflows[scope.workflow].call else { return Ok(Vec::new()) };
    let env = JobEnv::of_callee(expressions, &scope.inputs, jobs);
    let value = |(name, template): &(String, _)| {
        let value = evaluate_template(template, &env)?;
        Ok((name.clone(), to_text(&value).into_owned()))
    };
    interface.outputs.iter().map(value).collect()
}
