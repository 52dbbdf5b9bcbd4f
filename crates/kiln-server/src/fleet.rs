//! The runners of this server: what is known of them, and who waits for work.

#[derive(Debug, Clone, Default)]
pub struct Fleet;
