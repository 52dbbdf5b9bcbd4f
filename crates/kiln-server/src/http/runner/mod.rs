//! What runners call.

mod content;
mod jobs;
mod lifecycle;
mod params;
mod who;

use crate::http::routes::Routes;

pub(super) use who::caller_of;

pub fn routes() -> Routes {
    Routes::new().merge(lifecycle::routes()).merge(jobs::routes()).merge(content::routes())
}
