//! Long lists come in pieces.

use crate::sql::Value;

/// A piece of a list that is ordered by id. The next one begins after the last id of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    pub after: Option<i64>,
    pub limit: u32,
}

impl Page {
    /// Nobody gets more at once.
    pub const LARGEST: u32 = 1_000;

    pub fn first(limit: u32) -> Self {
        Self { after: None, limit }
    }

    pub fn after(id: i64, limit: u32) -> Self {
        Self { after: Some(id), limit }
    }

    /// The oldest first: `id > $n`.
    pub(crate) fn rising(self) -> Value {
        self.after.unwrap_or(0).into()
    }

    /// The newest first: `id < $n`.
    pub(crate) fn falling(self) -> Value {
        self.after.unwrap_or(i64::MAX).into()
    }

    pub(crate) fn limit(self) -> Value {
        self.limit.min(Self::LARGEST).into()
    }
}
