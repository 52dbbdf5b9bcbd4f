//! The JSON of a plan's trees, and the check of a plan that is read.
//!
//! Trees may be as deep as the language allows, and readers of JSON stop at 128 levels. A tree is
//! therefore the JSON that it describes, without a level for each tag: lists and maps are arrays and
//! objects, known scalars stand for themselves. What JSON has no word for begins with `$`:
//!
//! | JSON | meaning |
//! |---|---|
//! | `{"$expr": "github.ref"}` | an expression |
//! | `{"$value": …}` | a literal that is null, a list, an object, `NaN` or infinite |
//! | `{"$expr:matrix.os": …}` | a map with an expression as key |
//! | `{"$insert": …}` | a map with `${{ insert }}` as key |
//! | `{"$$name": …}` | a map with the key `$name` |

use std::borrow::Cow;
use std::fmt;

use serde::de::{
    Deserialize, Deserializer, Error, IntoDeserializer as _, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use crate::value::Value;

use super::{Data, JobKind, MapKey, Plan, Template, Workflow};

const EXPR: &str = "$expr";
const VALUE: &str = "$value";
const INSERT: &str = "$insert";
const EXPR_KEY: &str = "$expr:";

/// Whether a field need not be written.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A plan whose indices may lead nowhere.
#[derive(serde::Deserialize)]
pub(super) struct AnyPlan {
    workflows: Vec<Workflow>,
}

impl TryFrom<AnyPlan> for Plan {
    type Error = String;

    fn try_from(AnyPlan { workflows }: AnyPlan) -> Result<Self, String> {
        if workflows.is_empty() {
            return Err("a plan needs at least one workflow".to_owned());
        }
        for workflow in &workflows {
            check(workflow, workflows.len())?;
        }
        Ok(Self { workflows })
    }
}

fn check(workflow: &Workflow, workflows: usize) -> Result<(), String> {
    for job in &workflow.jobs {
        let wrong = |what: &str, index: usize| {
            Err(format!(
                "job `{}` of `{}` {what} number {index}, which is not there",
                job.id, workflow.path
            ))
        };
        if let Some(index) = job.needs.iter().find(|index| **index >= workflow.jobs.len()) {
            return wrong("needs the job", *index);
        }
        if let JobKind::Call(call) = &job.kind
            && let Some(index) = call.workflow.filter(|index| *index >= workflows)
        {
            return wrong("calls the workflow", index);
        }
    }
    Ok(())
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Expr(text) => serializer.collect_map([(EXPR, text)]),
            Self::Literal(value) if stands_for_itself(value) => value.serialize(serializer),
            Self::Literal(value) => serializer.collect_map([(VALUE, value)]),
        }
    }
}

/// Null does not, since it would be read as an absent field.
fn stands_for_itself(value: &Value) -> bool {
    match value {
        Value::Bool(_) | Value::String(_) => true,
        Value::Number(number) => number.is_finite(),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Data::deserialize(deserializer)? {
            Data::Scalar(template) => Ok(template),
            Data::List(_) => Err(D::Error::invalid_type(Unexpected::Seq, &"a scalar")),
            Data::Map(_) => Err(D::Error::invalid_type(Unexpected::Map, &"a scalar")),
        }
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Scalar(template) => template.serialize(serializer),
            Self::List(items) => serializer.collect_seq(items),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(&written_key(key), value)?;
                }
                map.end()
            }
        }
    }
}

fn written_key(key: &MapKey) -> Cow<'_, str> {
    match key {
        MapKey::Name(name) if name.starts_with('$') => format!("${name}").into(),
        MapKey::Name(name) => Cow::Borrowed(name),
        MapKey::Expr(text) => format!("{EXPR_KEY}{text}").into(),
        MapKey::Insert => INSERT.into(),
    }
}

fn read_key(key: &str) -> Result<MapKey, String> {
    match key.strip_prefix('$') {
        None => Ok(MapKey::Name(key.into())),
        Some(name) if name.starts_with('$') => Ok(MapKey::Name(name.into())),
        Some(_) if key == INSERT => Ok(MapKey::Insert),
        Some(_) => match key.strip_prefix(EXPR_KEY) {
            Some(text) => Ok(MapKey::Expr(text.into())),
            None => Err(format!("`{key}` cannot stand here; a name that begins with `$` has two")),
        },
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DataVisitor)
    }
}

struct DataVisitor;

fn literal(value: impl Into<Value>) -> Data {
    Data::Scalar(Template::literal(value))
}

impl<'de> Visitor<'de> for DataVisitor {
    type Value = Data;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a scalar, a list or a map")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Data, E> {
        Ok(literal(value))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Data, E> {
        Value::deserialize(number.into_deserializer()).map(literal)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Data, E> {
        Value::deserialize(number.into_deserializer()).map(literal)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Data, E> {
        Ok(literal(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Data, E> {
        Ok(literal(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Data, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Data::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Data, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            let template = match &*key {
                EXPR => Template::Expr(map.next_value()?),
                VALUE => Template::Literal(map.next_value()?),
                name => {
                    entries.push((read_key(name).map_err(Error::custom)?, map.next_value()?));
                    continue;
                }
            };
            if !entries.is_empty() || map.next_key::<Cow<'_, str>>()?.is_some() {
                return Err(Error::custom(format!("`{key}` must be the only key of its object")));
            }
            return Ok(Data::Scalar(template));
        }
        Ok(Data::Map(entries))
    }
}

#[cfg(test)]
mod tests;
