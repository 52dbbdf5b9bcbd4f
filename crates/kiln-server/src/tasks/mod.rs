//! What the server does by itself.

#[derive(Debug, Clone, Default)]
pub struct Board;
