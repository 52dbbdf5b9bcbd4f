//! The inputs of `workflow_dispatch`, as people and payloads give them.

use anyhow::{Result, anyhow, bail};
use kiln_core::plan::Plan;
use kiln_core::value::{Object, Value};
use kiln_lang::dispatch::{self, WrongInputs};
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
        event.payload.insert("inputs", Value::object(dispatch::texts(inputs)));
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
    dispatch::typed(plan, given).map_err(|wrong| match &wrong {
        WrongInputs::Missing(name) => anyhow!("{wrong}: give `--input {name}=…`"),
        WrongInputs::Other(_) => anyhow!("{wrong}"),
    })
}
