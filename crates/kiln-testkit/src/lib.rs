//! What tests share; never part of the product.

pub mod database;
pub mod dice;
pub mod load;
pub mod runs;
