//! The values that expressions, matrices, inputs and outputs are made of.
//!
//! Arrays and objects are shared by reference: GitHub compares them by identity, and contexts are
//! handed around far more often than they are built.

mod json;

use std::sync::Arc;

use indexmap::IndexMap;

/// One value of the expression language.
#[derive(Debug, Clone, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Number(f64),
    String(Arc<str>),
    Array(Arc<Vec<Value>>),
    Object(Arc<Object>),
}

impl Value {
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(text.into())
    }

    pub fn array(items: Vec<Value>) -> Self {
        Self::Array(Arc::new(items))
    }

    pub fn object(object: Object) -> Self {
        Self::Object(Arc::new(object))
    }

    /// The name of the type, as diagnostics and `kiln eval` print it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "Null",
            Self::Bool(_) => "Boolean",
            Self::Number(_) => "Number",
            Self::String(_) => "String",
            Self::Array(_) => "Array",
            Self::Object(_) => "Object",
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Equality of content, unlike the expression operator `==`, which coerces and compares
    /// arrays and objects by identity. Matrix filters need this one.
    pub fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => {
                a.total_cmp(b).is_eq() || (*a == 0.0 && *b == 0.0)
            }
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Array(a), Self::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.same(b))
            }
            (Self::Object(a), Self::Object(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .all(|(key, value)| b.get(key).is_some_and(|other| value.same(other)))
            }
            _ => false,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

/// An object that keeps the order of its keys and finds them whatever their case.
///
/// A key of the exact case wins, so that an environment with both `PATH` and `Path` keeps both.
#[derive(Debug, Clone, Default)]
pub struct Object {
    entries: IndexMap<Arc<str>, Value>,
}

impl Object {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(key).or_else(|| {
            self.entries
                .iter()
                .find_map(|(name, value)| name.eq_ignore_ascii_case(key).then_some(value))
        })
    }

    /// The value at the end of a path of keys.
    pub fn path(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        let value = self.get(first)?;
        match (rest, value) {
            ([], value) => Some(value),
            (rest, Value::Object(inner)) => inner.path(rest),
            _ => None,
        }
    }

    pub fn insert(&mut self, key: impl Into<Arc<str>>, value: Value) {
        self.entries.insert(key.into(), value);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (&**key, value))
    }

    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.entries.values()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<K: Into<Arc<str>>> FromIterator<(K, Value)> for Object {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(pairs: I) -> Self {
        Self { entries: pairs.into_iter().map(|(key, value)| (key.into(), value)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_any_case_but_the_exact_one_wins() {
        let object: Object =
            [("Path", Value::from("mixed")), ("PATH", Value::from("upper"))].into_iter().collect();
        assert_eq!(object.get("PATH").and_then(Value::as_str), Some("upper"));
        assert_eq!(object.get("path").and_then(Value::as_str), Some("mixed"));
        assert!(object.get("other").is_none());
    }

    #[test]
    fn a_path_leads_through_objects_only() {
        let inner: Object = [("ref", Value::from("main"))].into_iter().collect();
        let object: Object =
            [("base", Value::object(inner)), ("n", Value::from(1.0))].into_iter().collect();
        assert_eq!(object.path(&["base", "REF"]).and_then(Value::as_str), Some("main"));
        assert!(object.path(&["n", "ref"]).is_none());
        assert!(object.path(&["base", "gone"]).is_none());
        assert!(object.path(&[]).is_none());
    }

    #[test]
    fn sameness_looks_at_content_and_ignores_the_order_of_keys() {
        let one: Object = [("a", Value::from(1.0)), ("b", Value::from(true))].into_iter().collect();
        let two: Object = [("b", Value::from(true)), ("a", Value::from(1.0))].into_iter().collect();
        assert!(Value::object(one).same(&Value::object(two)));
        assert!(!Value::from("1").same(&Value::from(1.0)));
        assert!(Value::array(vec![Value::Null]).same(&Value::array(vec![Value::Null])));
    }
}
