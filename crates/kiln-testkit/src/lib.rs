//! What tests share; never part of the product.

pub mod cluster;
pub mod database;
pub mod dice;
pub mod load;
pub mod process;
pub mod runs;
