//! GitHub's interface, as its clients expect it: below `/api/v3`, where those of GitHub Enterprise look, and what
//! is about one repository below `/repos`, too (see [`super::addresses`]).

mod account;
mod artifacts;
mod caches;
mod checks;
mod deployments;
mod jobs;
mod list;
mod logs;
mod params;
mod repos;
mod runners;
mod runs;
mod settings;
mod shape;
mod tags;
mod workflows;

use crate::http::routes::Routes;

pub(super) use artifacts::uploads;

pub fn routes() -> Routes {
    Routes::new()
        .merge(runs::routes())
        .merge(jobs::routes())
        .merge(workflows::routes())
        .merge(artifacts::routes())
        .merge(caches::routes())
        .merge(account::routes())
        .merge(repos::routes())
        .merge(runners::routes())
        .merge(settings::routes())
        .merge(checks::routes())
        .merge(deployments::routes())
        .merge(logs::routes())
        .layer(axum::middleware::from_fn(tags::tagged))
}
