//! Values of a plan that may still be expressions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::value::Value;

/// A scalar: known, or an expression to evaluate. The text is a whole expression without `${{ }}`;
/// text with expressions inside has become one `format(…)`.
#[derive(Debug, Clone)]
pub enum Template {
    Literal(Value),
    Expr(Arc<str>),
}

impl Template {
    pub fn literal(value: impl Into<Value>) -> Self {
        Self::Literal(value.into())
    }

    /// The text, if it is a known string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Literal(value) => value.as_str(),
            Self::Expr(_) => None,
        }
    }
}

/// A tree in which an expression may stand for any part, as GitHub allows for matrices,
/// environments, containers and inputs.
#[derive(Debug, Clone)]
pub enum Data {
    Scalar(Template),
    List(Vec<Data>),
    Map(Vec<(MapKey, Data)>),
}

/// A key of a [`Data::Map`].
#[derive(Debug, Clone)]
pub enum MapKey {
    Name(Arc<str>),
    Expr(Arc<str>),
    /// `${{ insert }}`: the entries of the value, which must be an object, take this place.
    Insert,
}

impl Data {
    /// The value, when nothing in the tree has to be evaluated.
    pub fn constant(&self) -> Option<Value> {
        match self {
            Self::Scalar(Template::Literal(value)) => Some(value.clone()),
            Self::Scalar(Template::Expr(_)) => None,
            Self::List(items) => {
                items.iter().map(Self::constant).collect::<Option<Vec<_>>>().map(Value::array)
            }
            Self::Map(entries) => entries
                .iter()
                .map(|(key, value)| match key {
                    MapKey::Name(name) => Some((name.clone(), value.constant()?)),
                    MapKey::Expr(_) | MapKey::Insert => None,
                })
                .collect::<Option<_>>()
                .map(Value::object),
        }
    }

    /// The entry of a map with this literal key.
    pub fn get(&self, key: &str) -> Option<&Data> {
        let Self::Map(entries) = self else {
            return None;
        };
        entries.iter().find_map(|(name, value)| match name {
            MapKey::Name(name) if name.eq_ignore_ascii_case(key) => Some(value),
            _ => None,
        })
    }
}

/// When a job or step runs: an expression that always contains a status function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Condition {
    pub text: Arc<str>,
}

impl Condition {
    /// Whether it fails when anything that is needed failed, as conditions without a status function do.
    pub fn wants_success(&self) -> bool {
        &*self.text == "success()" || self.text.starts_with("success() && ")
    }
}

impl Default for Condition {
    fn default() -> Self {
        Self { text: "success()".into() }
    }
}
