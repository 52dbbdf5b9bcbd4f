//! Which protocol runners and servers speak.

/// What this program speaks.
pub const PROTOCOL: u32 = 1;

/// The oldest that a server still understands. Runners keep working for a year after a newer one.
pub const OLDEST: u32 = 1;
