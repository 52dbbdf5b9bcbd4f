//! Which protocol runners and servers speak.

/// What this program speaks. From 2 on, secrets are sealed with keys that are used for a while
/// ([`Form::Shared`](crate::job::Form)), and the end of a job brings along what was not said of it before. From 3 on, several jobs are
/// claimed with one question, and the ends of several are told at once.
pub const PROTOCOL: u32 = 3;

/// From this one on, a server hears the last events of a job with its end.
pub const TELLS_ALL_AT_ONCE: u32 = 2;

/// From this one on, several jobs are claimed and told of at once.
pub const SEVERAL_AT_ONCE: u32 = 3;

/// The oldest that a server still understands. Runners keep working for a year after a newer one.
pub const OLDEST: u32 = 1;
