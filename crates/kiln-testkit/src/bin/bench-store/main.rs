//! The store under load, for `bench/store`: prints rows of `name value unit`.
#![expect(clippy::print_stdout, reason = "the rows are what it is for")]
#![expect(clippy::disallowed_methods, reason = "it measures the time that passes")]

mod cpu;
mod cycles;
mod depth;
mod raw;

use std::path::PathBuf;
use std::time::Duration;

use kiln_store::{Options, Store};
use mimalloc::MiMalloc;

/// The one that `kiln` has.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const USAGE: &str = "usage: bench-store claims|cycles|short|depth sqlite:PATH|postgres://… [JOBS]
       bench-store raw PATH SECONDS THREADS";

#[tokio::main]
async fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u32>().map_err(|error| format!("`{text}`: {error}"));
    match arguments[..] {
        ["raw", path, seconds, threads] => {
            let time = Duration::from_secs(number(seconds)?.into());
            let rate = raw::claims(&PathBuf::from(path), time, number(threads)?);
            row("sqlite_raw", rate.map_err(|error| error.to_string())?, "claims/s");
            Ok(())
        }
        [what @ ("claims" | "cycles" | "short"), address] => {
            cycles::measure(open(address)?, what, 20_000).await
        }
        [what @ ("claims" | "cycles" | "short"), address, jobs] => {
            cycles::measure(open(address)?, what, number(jobs)?).await
        }
        ["depth", address] => depth::measure(open(address)?, 1_000_000).await,
        ["depth", address, jobs] => depth::measure(open(address)?, number(jobs)?.into()).await,
        _ => Err(USAGE.to_owned()),
    }
}

/// An open store, and what its rows begin with.
#[derive(Debug, Clone)]
struct Bench {
    store: Store,
    name: &'static str,
}

fn open(address: &str) -> Result<Bench, String> {
    let (options, name) = match address.strip_prefix("sqlite:") {
        Some(path) => (Options::Sqlite { path: path.into() }, "sqlite"),
        None => (Options::Postgres { url: address.to_owned(), connections: 8 }, "postgres"),
    };
    let store = Store::open(&options).map_err(|error| error.to_string())?;
    Ok(Bench { store, name })
}

fn row(name: &str, value: f64, unit: &str) {
    println!("{name:<28} {value:>12.2} {unit}");
}

/// The value below which this share of all values lies.
fn percentile(values: &mut [Duration], share: f64) -> f64 {
    values.sort_unstable();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "there are not that many"
    )]
    let at = (values.len() as f64 * share) as usize;
    values.get(at).or_else(|| values.last()).map_or(0.0, |value| value.as_secs_f64() * 1000.0)
}
