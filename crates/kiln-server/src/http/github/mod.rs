//! GitHub's interface, as its clients expect it, below `/repos`.

use utoipa_axum::router::OpenApiRouter;

use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
}
