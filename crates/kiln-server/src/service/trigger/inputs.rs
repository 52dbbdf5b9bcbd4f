//! The inputs of a dispatch.

use std::collections::BTreeMap;

use kiln_core::plan::Plan;
use kiln_core::value::Object;
use kiln_lang::dispatch;

use crate::http::error::{Answer, Failure};

/// GitHub's limits.
const MOST: usize = 25;
const LONGEST: usize = 65_535;

/// Inputs as JSON has them become the texts that they are on every other way.
pub fn texts_of(given: BTreeMap<String, serde_json::Value>) -> Answer<Vec<(String, String)>> {
    if given.len() > MOST {
        return Err(Failure::invalid(format!("a dispatch has at most {MOST} inputs")));
    }
    given.into_iter().map(text_of).collect()
}

fn text_of((name, value): (String, serde_json::Value)) -> Answer<(String, String)> {
    let text = match value {
        serde_json::Value::String(text) => text,
        serde_json::Value::Bool(value) => value.to_string(),
        serde_json::Value::Number(number) => number.to_string(),
        serde_json::Value::Null => String::new(),
        _ => {
            let message = format!("the input `{name}` is a list or an object; expected a text");
            return Err(Failure::invalid(message));
        }
    };
    if name.len() > 255 || text.len() > LONGEST || name.contains('\0') || text.contains('\0') {
        let message = format!("an input has up to {LONGEST} bytes without the character 0");
        return Err(Failure::invalid(message));
    }
    Ok((name, text))
}

/// The inputs of a workflow, of their declared types.
pub(super) fn typed(plan: &Plan, given: &[(String, String)]) -> Result<Object, String> {
    dispatch::typed(plan, given).map_err(|wrong| wrong.to_string())
}
