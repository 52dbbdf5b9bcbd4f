//! One contract for all backends, and what must hold when disks, stores and processes fail.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start a real S3 server, and processes to be killed"
)]
#![expect(clippy::unwrap_used, reason = "a panic is the report")]

mod chunks;
mod contract;
mod crash;
mod direct;
mod faults;
mod full;
mod outbound;
mod support;
