//! Simulated runners that talk HTTP to a real server, for `bench/plane`: prints rows of `name value unit`.
//!
//! They run nothing: a job is started and finished as soon as it is claimed, so that only the server's
//! part of a cycle is measured.
#![expect(clippy::print_stdout, reason = "the rows are what it is for")]
#![expect(clippy::disallowed_methods, reason = "it measures the time that passes")]

mod claims;
mod cycles;
mod idle;
mod spent;
mod talk;
mod wire;

use std::time::Duration;

use mimalloc::MiMalloc;
use spent::Watched;
use talk::Server;

/// As Kiln itself has it.
#[global_allocator]
static MEMORY: MiMalloc = MiMalloc;

const USAGE: &str = "usage: bench-plane cycles URL TOKEN OWNER/REPO RUNS RUNNERS SLOTS [NAME=PID…]
       bench-plane claims URL TOKEN OWNER CLAIMS
       bench-plane idle URL TOKEN OWNER RUNNERS";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<usize>().map_err(|error| format!("`{text}`: {error}"));
    match arguments[..] {
        ["cycles", url, token, repo, runs, runners, slots, ref watched @ ..] => {
            let mut watched: Vec<Watched> =
                watched.iter().map(|text| Watched::parse(text)).collect::<Result<_, _>>()?;
            watched.push(Watched::parse(&format!("runners={}", std::process::id()))?);
            let server = Server::new(url, token);
            let slots = u32::try_from(number(slots)?).map_err(|error| error.to_string())?;
            let crew = (number(runners)?, slots);
            cycles::measure(&server, repo, number(runs)?, crew, &watched).await
        }
        ["claims", url, token, owner, count] => {
            claims::measure(&Server::new(url, token), owner, number(count)?).await
        }
        ["idle", url, token, owner, runners] => {
            idle::stay(&Server::new(url, token), owner, number(runners)?).await
        }
        _ => Err(USAGE.to_owned()),
    }
}

fn row(name: &str, value: f64, unit: &str) {
    println!("{name:<28} {value:>12.2} {unit}");
}

/// Milliseconds.
fn percentile(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    #[expect(clippy::cast_precision_loss, reason = "there are few")]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place in a list"
    )]
    let at = (times.len() as f64 * share) as usize;
    times.get(at.min(times.len().saturating_sub(1))).map_or(0.0, |it| it.as_secs_f64() * 1000.0)
}
