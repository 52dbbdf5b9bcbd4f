//! Kiln's own interface, below `/api`.

use utoipa_axum::router::OpenApiRouter;

use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
}
