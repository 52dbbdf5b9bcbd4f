//! Who makes a request, and what they may do.

mod bearers;
mod caller;
pub mod session;
mod steps;

pub use bearers::Bearers;
pub use caller::Caller;
pub(crate) use caller::shown_token;
pub use steps::{Anybody, OfRepo, Steps};
