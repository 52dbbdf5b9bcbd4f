//! Tries many seeds of the fault simulator, and prints those that fail. `scripts/soak` builds and starts it.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what this program is for"
)]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kiln_sim::faults::{Bug, Outcome, Setup, simulate};

const USAGE: &str = "usage: soak [--seeds N] [--from S] [--jobs J] [--bug NAME] [--full]";
/// How many failing seeds are enough.
const ENOUGH: usize = 20;

struct Options {
    seeds: u64,
    from: u64,
    jobs: u64,
    bug: Option<Bug>,
    /// The whole history that is kept, not its last lines.
    full: bool,
}

fn main() -> ExitCode {
    let options = match read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    // A panic is a finding, and is printed as one.
    std::panic::set_hook(Box::new(|_| {}));
    let failed = soak(&options);
    println!("{} seeds from {}: {} failed", options.seeds, options.from, failed.len());
    for outcome in &failed {
        if let Some(finding) = &outcome.finding {
            println!("  seed {}: {finding}", outcome.seed);
        }
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { seeds: 10_000, from: 0, jobs: 2, bug: None, full: false };
    while let Some(name) = arguments.next() {
        if name == "--full" {
            options.full = true;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("`{name}` wants a value"))?;
        let number = || value.parse().map_err(|_| format!("`{value}` is not a whole number"));
        match name.as_str() {
            "--seeds" => options.seeds = number()?,
            "--from" => options.from = number()?,
            "--jobs" => options.jobs = number()?,
            "--bug" => {
                let known = || Bug::ALL.map(Bug::word).join(", ");
                let bug = Bug::parse(&value);
                options.bug =
                    Some(bug.ok_or_else(|| format!("`{value}`: expected one of {}", known()))?);
            }
            _ => return Err(format!("`{name}` is not an option")),
        }
    }
    Ok(options)
}

fn soak(options: &Options) -> Vec<Outcome> {
    let next = AtomicU64::new(0);
    let failed = Mutex::new(Vec::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= options.seeds {
                return;
            }
            let outcome = simulate(Setup { seed: options.from + at, bug: options.bug });
            if (at + 1).is_multiple_of(1_000) {
                println!("{} seeds tried", at + 1);
            }
            if outcome.finding.is_none() {
                continue;
            }
            let mut failed = failed.lock().expect("nobody panics while it is held");
            show(options, &outcome, failed.is_empty());
            failed.push(outcome);
            if failed.len() >= ENOUGH {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(work);
        }
    });
    let mut failed = failed.into_inner().expect("all threads have ended well");
    failed.sort_by_key(|outcome| outcome.seed);
    failed
}

/// The first one with its history, the others in one line.
fn show(options: &Options, outcome: &Outcome, first: bool) {
    if options.full {
        println!("{}", outcome.history.join("\n"));
    }
    match &outcome.finding {
        Some(finding) if !first => println!("seed {}: {finding}", outcome.seed),
        _ => println!("{outcome}"),
    }
}
