//! Who makes a request, and what they may do.

mod bearers;
mod caller;

pub use bearers::Bearers;
pub use caller::Caller;
