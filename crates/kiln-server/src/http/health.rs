//! Whether the server lives, and whether it can work.

use utoipa_axum::router::OpenApiRouter;

use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
}
