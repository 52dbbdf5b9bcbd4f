//! What tests share; never part of the product.

pub mod database;
pub mod fleet;
pub mod queue;
pub mod runs;
pub mod shapes;
