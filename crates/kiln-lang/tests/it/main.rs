//! Integration tests of the language crate, in one binary.

mod vectors;
