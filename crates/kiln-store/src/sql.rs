//! Statements, parameters and rows that both databases understand.

use std::borrow::Cow;
use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, ValueRef};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::StoreError;

/// A statement. Parameters are written `$1`, `$2`; texts are static, so nothing can be spliced in.
#[derive(Debug, Clone, Copy)]
pub struct Sql {
    pub(crate) sqlite: &'static str,
    pub(crate) postgres: &'static str,
}

impl Sql {
    /// A statement that must differ.
    pub const fn of(sqlite: &'static str, postgres: &'static str) -> Self {
        Self { sqlite, postgres }
    }
}

impl From<&'static str> for Sql {
    fn from(text: &'static str) -> Self {
        Self { sqlite: text, postgres: text }
    }
}

/// `$1` is a named parameter to SQLite, bound in the order of appearance; `?1` is what is meant.
pub(crate) fn for_sqlite(text: &str) -> Cow<'_, str> {
    if text.contains('$') { Cow::Owned(text.replace('$', "?")) } else { Cow::Borrowed(text) }
}

/// A value of a column or a parameter.
#[derive(Debug, Clone)]
pub enum Value {
    Null,
    Int(i64),
    Real(f64),
    Text(Arc<str>),
    /// A text that is part of the program. Databases give it back as any other.
    Word(&'static str),
    Bytes(Arc<[u8]>),
    /// A whole column: an array on PostgreSQL, a JSON text for `json_each` on SQLite.
    Array(Vec<Value>),
}

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Int(_) => "a whole number",
            Self::Real(_) => "a number",
            Self::Text(_) | Self::Word(_) => "a text",
            Self::Bytes(_) => "bytes",
            Self::Array(_) => "an array",
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Word(word) => Some(word),
            _ => None,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Int(one), Self::Int(other)) => one == other,
            (Self::Real(one), Self::Real(other)) => one == other,
            (Self::Bytes(one), Self::Bytes(other)) => one == other,
            (Self::Array(one), Self::Array(other)) => one == other,
            _ => self.text().zip(other.text()).is_some_and(|(one, other)| one == other),
        }
    }
}

macro_rules! from {
    ($($type:ty => |$value:ident| $made:expr),* $(,)?) => {
        $(impl From<$type> for Value {
            fn from($value: $type) -> Self { $made }
        })*
    };
}

from! {
    i64 => |value| Self::Int(value),
    i32 => |value| Self::Int(value.into()),
    u32 => |value| Self::Int(value.into()),
    bool => |value| Self::Int(value.into()),
    f64 => |value| Self::Real(value),
    &str => |value| Self::Text(value.into()),
    String => |value| Self::Text(value.into()),
    &String => |value| Self::Text(value.as_str().into()),
    Arc<str> => |value| Self::Text(value),
    Vec<u8> => |value| Self::Bytes(value.into()),
    &[u8] => |value| Self::Bytes(value.into()),
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Self>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let borrowed = match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Word(word) => ValueRef::Text(word.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
            Self::Array(items) => return Ok(ToSqlOutput::Owned(json_of(items).to_string().into())),
        };
        Ok(ToSqlOutput::Borrowed(borrowed))
    }
}

fn json_of(items: &[Value]) -> serde_json::Value {
    let items = items.iter().map(|item| match item {
        Value::Int(number) => (*number).into(),
        Value::Real(number) => (*number).into(),
        Value::Text(text) => text.as_ref().into(),
        Value::Word(word) => (*word).into(),
        Value::Null => serde_json::Value::Null,
        // JSON has no bytes: `unhex(value)` makes them again.
        Value::Bytes(bytes) => {
            bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}")).into()
        }
        Value::Array(items) => json_of(items),
    });
    serde_json::Value::Array(items.collect())
}

type Failed = Box<dyn std::error::Error + Sync + Send>;

impl ToSql for Value {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut tokio_postgres::types::private::BytesMut,
    ) -> Result<IsNull, Failed> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) => match *ty {
                Type::INT2 => i16::try_from(*number)?.to_sql(ty, out),
                Type::INT4 => i32::try_from(*number)?.to_sql(ty, out),
                #[expect(clippy::cast_precision_loss, reason = "the column asks for a real number")]
                Type::FLOAT8 => (*number as f64).to_sql(ty, out),
                _ => number.to_sql(ty, out),
            },
            Self::Real(number) => number.to_sql(ty, out),
            Self::Text(text) => text.as_ref().to_sql(ty, out),
            Self::Word(word) => word.to_sql(ty, out),
            Self::Bytes(bytes) => bytes.as_ref().to_sql(ty, out),
            Self::Array(items) => items.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// A row of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Row(pub(crate) Vec<Value>);

impl Row {
    pub fn get<T: FromValue>(&self, column: usize) -> Result<T, StoreError> {
        let value = self.0.get(column).unwrap_or(&Value::Null);
        T::from_value(value).ok_or_else(|| StoreError::Shape {
            column,
            found: value.kind().to_owned(),
            expected: T::EXPECTED,
        })
    }
}

/// What a column can be read as.
pub trait FromValue: Sized {
    const EXPECTED: &'static str;

    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! read {
    ($($type:ty, $expected:literal, $pattern:pat => $made:expr);* $(;)?) => {
        $(impl FromValue for $type {
            const EXPECTED: &'static str = $expected;

            fn from_value(value: &Value) -> Option<Self> {
                match value { $pattern => $made, _ => None }
            }
        })*
    };
}

read! {
    i64, "a whole number", Value::Int(number) => Some(*number);
    u32, "a small whole number", Value::Int(number) => u32::try_from(*number).ok();
    bool, "0 or 1", Value::Int(number) => match number { 0 => Some(false), 1 => Some(true), _ => None };
    String, "a text", Value::Text(text) => Some(text.as_ref().to_owned());
    Arc<str>, "a text", Value::Text(text) => Some(text.clone());
    Vec<u8>, "bytes", Value::Bytes(bytes) => Some(bytes.to_vec());
}

impl FromValue for f64 {
    const EXPECTED: &'static str = "a number";

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Real(number) => Some(*number),
            #[expect(clippy::cast_precision_loss, reason = "the caller asks for a real number")]
            Value::Int(number) => Some(*number as Self),
            _ => None,
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, Value, for_sqlite};

    #[test]
    fn parameters_keep_their_numbers_on_sqlite() {
        assert_eq!(for_sqlite("a = $2 AND b = $1 AND c = $2"), "a = ?2 AND b = ?1 AND c = ?2");
    }

    #[test]
    fn a_word_is_a_text() {
        assert_eq!(Value::Word("done"), Value::from("done"));
        assert_ne!(Value::Word("done"), Value::from("gone"));
        assert_ne!(Value::Word(""), Value::Null);
    }

    #[test]
    fn a_column_is_read_as_what_it_is_or_refused() {
        let row = Row(vec![Value::Int(7), Value::Null, Value::from("x"), Value::Int(2)]);
        assert_eq!(row.get::<i64>(0).unwrap(), 7);
        assert_eq!(row.get::<Option<i64>>(1).unwrap(), None);
        assert_eq!(row.get::<String>(2).unwrap(), "x");
        let error = row.get::<bool>(3).unwrap_err().to_string();
        assert_eq!(error, "column 3 of a row holds a whole number, expected 0 or 1");
        assert!(row.get::<i64>(9).is_err());
    }
}
