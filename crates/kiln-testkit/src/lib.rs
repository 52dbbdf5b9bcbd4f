//! What tests share; never part of the product.

pub mod certificates;
pub mod cluster;
pub mod cpu;
pub mod database;
pub mod dice;
pub mod disk;
pub mod fleet;
pub mod load;
pub mod process;
pub mod proxy;
pub mod queue;
pub mod runs;
pub mod s3;
pub mod shapes;
pub mod zip;
