//! Templates and trees of a plan become values.

use std::sync::Arc;

use kiln_core::plan::{Data, MapKey, Template};
use kiln_core::value::{Object, Value};

use crate::expr::coerce::to_text;
use crate::expr::eval::Env;

use super::evaluate_text;

/// The value of a scalar.
pub fn evaluate_template(template: &Template, env: &dyn Env) -> Result<Value, String> {
    match template {
        Template::Literal(value) => Ok(value.clone()),
        Template::Expr(text) => evaluate_text(text, env),
    }
}

/// The value of a tree; `${{ insert }}` takes in the entries of its value.
pub fn evaluate_data(data: &Data, env: &dyn Env) -> Result<Value, String> {
    match data {
        Data::Scalar(template) => evaluate_template(template, env),
        Data::List(items) => {
            let items = items.iter().map(|item| evaluate_data(item, env));
            items.collect::<Result<Vec<_>, _>>().map(Value::array)
        }
        Data::Map(entries) => {
            let mut object = Object::new();
            for (key, value) in entries {
                insert(&mut object, key, evaluate_data(value, env)?, env)?;
            }
            Ok(Value::object(object))
        }
    }
}

fn insert(object: &mut Object, key: &MapKey, value: Value, env: &dyn Env) -> Result<(), String> {
    match key {
        MapKey::Name(name) => object.insert(name.clone(), value),
        MapKey::Expr(text) => {
            let name: Arc<str> = to_text(&evaluate_text(text, env)?).as_ref().into();
            object.insert(name, value);
        }
        MapKey::Insert => match value {
            Value::Object(inner) => {
                inner.iter().for_each(|(name, value)| object.insert(name, value.clone()));
            }
            other => {
                return Err(format!("`${{{{ insert }}}}` needs a mapping, found {}", other.kind()));
            }
        },
    }
    Ok(())
}
