//! Values as JSON, in which the database keeps them.
//!
//! A value is the JSON that one expects, with its keys in their order. JSON has no `NaN` and no
//! infinities: they are `{"$number": "NaN"}`, `"Infinity"` and `"-Infinity"`. An object that looks like
//! this escape (one key: `$number`, or that with more `$` in front) gets a further `$` when it is
//! written and loses it when it is read, so that every value comes back as it was.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::{Object, Value};

const NUMBER: &str = "$number";
const NAN: &str = "NaN";
const INFINITY: &str = "Infinity";
const MINUS_INFINITY: &str = "-Infinity";

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => match unwritable(*number) {
                None => serializer.serialize_f64(*number),
                Some(word) => serializer.collect_map([(NUMBER, word)]),
            },
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items.iter()),
            Self::Object(object) => match only_entry(object) {
                Some((key, value)) if looks_escaped(key) => {
                    serializer.collect_map([(format!("${key}"), value)])
                }
                _ => object.serialize(serializer),
            },
        }
    }
}

/// What stands for a number that JSON cannot hold.
fn unwritable(number: f64) -> Option<&'static str> {
    match number {
        _ if number.is_nan() => Some(NAN),
        f64::INFINITY => Some(INFINITY),
        f64::NEG_INFINITY => Some(MINUS_INFINITY),
        _ => None,
    }
}

fn only_entry(object: &Object) -> Option<(&str, &Value)> {
    object.iter().next().filter(|_| object.len() == 1)
}

fn looks_escaped(key: &str) -> bool {
    key.ends_with(NUMBER) && key.trim_start_matches('$') == &NUMBER[1..]
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    #[expect(clippy::cast_precision_loss, reason = "every number of the language is a double")]
    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "every number of the language is a double")]
    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Number(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Value, A::Error> {
        let object = ObjectVisitor.visit_map(entries)?;
        match only_entry(&object) {
            Some((NUMBER, word)) => number(word).map_err(Error::custom),
            Some((key, value)) if looks_escaped(key) => {
                Ok(Value::object([(&key[1..], value.clone())].into_iter().collect()))
            }
            _ => Ok(Value::object(object)),
        }
    }
}

fn number(word: &Value) -> Result<Value, String> {
    match word.as_str() {
        Some(NAN) => Ok(Value::Number(f64::NAN)),
        Some(INFINITY) => Ok(Value::Number(f64::INFINITY)),
        Some(MINUS_INFINITY) => Ok(Value::Number(f64::NEG_INFINITY)),
        _ => Err(format!("`{NUMBER}` must be `{NAN}`, `{INFINITY}` or `{MINUS_INFINITY}`")),
    }
}

/// An object on its own is never an escape, hence it is written as it is.
impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (key, value) in self.iter() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Object, A::Error> {
        let mut object = Object::new();
        while let Some((key, value)) = entries.next_entry::<Arc<str>, Value>()? {
            object.insert(key, value);
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests;
