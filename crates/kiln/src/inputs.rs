//! The inputs of `workflow_dispatch`, as people and payloads give them.

use anyhow::{Context as _, Result, bail};
use kiln_core::plan::{Input, InputKind, Plan};
use kiln_core::value::{Object, Value};
use kiln_lang::expr::coerce::to_text;
use kiln_runner::local::EventSource;

use crate::events::Event;

/// What the payload of a dispatch says.
pub(crate) fn of_payload(event: &Event) -> Vec<(String, String)> {
    match event.payload.get("inputs") {
        Some(Value::Object(inputs)) if event.name == "workflow_dispatch" => inputs
            .iter()
            .map(|(name, value)| (name.to_owned(), to_text(value).into_owned()))
            .collect(),
        _ => Vec::new(),
    }
}

/// Makes the payload of a dispatch what workflows see: its inputs are texts, whatever their types.
pub(crate) fn put_into_payload(event: &mut EventSource, inputs: &Object) {
    if event.name == "workflow_dispatch" {
        let texts: Object = inputs
            .iter()
            .map(|(name, value)| (name.to_owned(), Value::from(to_text(value).into_owned())))
            .collect();
        event.payload.insert("inputs", Value::object(texts));
    }
}

/// The inputs of a workflow, of their declared types. Only a dispatch has any.
pub(crate) fn typed(plan: &Plan, event: &str, given: &[(String, String)]) -> Result<Object> {
    if event != "workflow_dispatch" {
        if let Some((name, _)) = given.first() {
            bail!("`{event}` has no input `{name}`; inputs come with `--event workflow_dispatch`");
        }
        return Ok(Object::new());
    }
    let declared = &plan.root().dispatch_inputs;
    for (name, _) in given {
        if !declared.iter().any(|input| input.name.eq_ignore_ascii_case(name)) {
            let known: Vec<&str> = declared.iter().map(|input| input.name.as_str()).collect();
            let known = if known.is_empty() {
                "it has none".to_owned()
            } else {
                format!("it has {}", known.join(", "))
            };
            bail!("the workflow has no input `{name}`; {known}");
        }
    }
    let mut inputs = Object::new();
    for input in declared {
        let value = given
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(&input.name))
            .map(|(_, value)| value.clone());
        inputs.insert(input.name.as_str(), one(input, value)?);
    }
    Ok(inputs)
}

fn one(input: &Input, given: Option<String>) -> Result<Value> {
    let default = || input.default.as_ref().and_then(|default| default.as_str().map(str::to_owned));
    let text = match given.or_else(default) {
        Some(text) => text,
        None if input.required && input.default.is_none() => bail!(
            "the workflow requires the input `{}`: give `--input {}=…`",
            input.name,
            input.name
        ),
        None => match &input.default {
            Some(kiln_core::plan::Template::Literal(value)) => return Ok(value.clone()),
            _ => String::new(),
        },
    };
    Ok(match &input.kind {
        InputKind::Boolean => match text.as_str() {
            "true" => Value::Bool(true),
            "false" | "" => Value::Bool(false),
            other => bail!("the input `{}` is `{other}`, expected true or false", input.name),
        },
        InputKind::Number => Value::Number(text.parse().with_context(|| {
            format!("the input `{}` is `{text}`, expected a number", input.name)
        })?),
        InputKind::Choice(options) if !options.contains(&text) => {
            bail!("the input `{}` is `{text}`, expected one of {}", input.name, options.join(", "))
        }
        _ => Value::from(text),
    })
}
