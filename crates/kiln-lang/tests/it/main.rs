//! Integration tests of the language crate, in one binary.

#![expect(clippy::disallowed_methods, reason = "tests bring in files and processes themselves")]

mod compile;
mod vectors;
