//! Real processes on this machine.
#![expect(
    clippy::disallowed_methods,
    reason = "these tests start processes of their own and measure how long things take"
)]
#![expect(
    clippy::unwrap_used,
    reason = "what cannot fail here is the machine's set-up, and a panic is the report"
)]

mod agent;
mod dummy;
mod full;
mod fuzz;
mod hash_files;
mod origin;
mod process;
