//! The `kiln` program; everything it does lives in the library.

use std::process::ExitCode;

/// Jobs and rows are many small allocations, which this one is quicker with than the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kiln::run(std::env::args_os())
}
