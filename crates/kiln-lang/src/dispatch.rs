//! The inputs of `workflow_dispatch`, as people, programs and payloads give them.

use std::fmt;

use kiln_core::plan::{Input, InputKind, Plan, Template};
use kiln_core::value::{Object, Value};

use crate::expr::coerce::to_text;

/// Why inputs do not fit a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WrongInputs {
    /// It requires this one.
    Missing(String),
    /// In words.
    Other(String),
}

impl fmt::Display for WrongInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "the workflow requires the input `{name}`"),
            Self::Other(message) => f.write_str(message),
        }
    }
}

/// The inputs of a dispatched workflow, of their declared types. What is not declared is refused.
pub fn typed(plan: &Plan, given: &[(String, String)]) -> Result<Object, WrongInputs> {
    let declared = &plan.root().dispatch_inputs;
    for (name, _) in given {
        if !declared.iter().any(|input| input.name.eq_ignore_ascii_case(name)) {
            let known: Vec<&str> = declared.iter().map(|input| input.name.as_str()).collect();
            let known = if known.is_empty() {
                "it has none".to_owned()
            } else {
                format!("it has {}", known.join(", "))
            };
            let message = format!("the workflow has no input `{name}`; {known}");
            return Err(WrongInputs::Other(message));
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

/// The same as the payload has them: as texts, whatever their types.
pub fn texts(inputs: &Object) -> Object {
    let text = |value| Value::from(to_text(value).into_owned());
    inputs.iter().map(|(name, value)| (name.to_owned(), text(value))).collect()
}

fn one(input: &Input, given: Option<String>) -> Result<Value, WrongInputs> {
    let default = || input.default.as_ref().and_then(|default| default.as_str().map(str::to_owned));
    let text = match given.or_else(default) {
        Some(text) => text,
        None if input.required && input.default.is_none() => {
            return Err(WrongInputs::Missing(input.name.clone()));
        }
        None => match &input.default {
            Some(Template::Literal(value)) => return Ok(value.clone()),
            _ => String::new(),
        },
    };
    let wrong = |expected: &str| {
        let name = &input.name;
        Err(WrongInputs::Other(format!("the input `{name}` is `{text}`, expected {expected}")))
    };
    match &input.kind {
        InputKind::Boolean => match text.as_str() {
            "true" => Ok(Value::Bool(true)),
            "false" | "" => Ok(Value::Bool(false)),
            _ => wrong("true or false"),
        },
        InputKind::Number => match text.parse() {
            Ok(number) => Ok(Value::Number(number)),
            Err(_) => wrong("a number"),
        },
        InputKind::Choice(options) if !options.contains(&text) => {
            wrong(&format!("one of {}", options.join(", ")))
        }
        _ => Ok(Value::from(text)),
    }
}
