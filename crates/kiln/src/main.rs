//! The `kiln` program; everything it does lives in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    kiln::run(std::env::args_os())
}
