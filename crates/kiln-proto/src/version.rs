//! Which protocol runners and servers speak.

/// What this program speaks. From 2 on, secrets are sealed with keys that are used for a while
/// ([`Form::Shared`](crate::job::Form)), and the end of a job brings along what was not said of it before.
pub const PROTOCOL: u32 = 2;

/// The oldest that a server still understands. Runners keep working for a year after a newer one.
pub const OLDEST: u32 = 1;
