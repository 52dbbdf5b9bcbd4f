//! Integration tests of the language crate, in one binary.

#![expect(
    clippy::disallowed_methods,
    reason = "the crate is pure, its tests read files, look at the clock and start GitHub's parsers"
)]

mod compile;
mod corpus;
mod differential;
mod fuzz;
mod limits;
mod plan_json;
mod random;
mod vectors;
