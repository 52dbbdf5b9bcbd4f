//! `cargo xtask tidy` and `cargo xtask gen`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line talks to a person")]

use std::process::ExitCode;

use anyhow::{Result, bail};
use xtask::repository::Repository;
use xtask::{generate, tidy};

const USAGE: &str = "usage: cargo xtask tidy   check the repository against its own rules
       cargo xtask gen    write the generated references";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(words: &[String]) -> Result<ExitCode> {
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => {
            let report = tidy::run(&Repository::open()?)?;
            print!("{report}");
            Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        ["gen"] => {
            for path in generate::write(&Repository::open()?)? {
                println!("wrote {path}");
            }
            generate::rewrite_pages_owned_by_tests()?;
            Ok(ExitCode::SUCCESS)
        }
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!("unknown arguments\n{USAGE}"),
    }
}
