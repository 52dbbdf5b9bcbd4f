//! All policies at once, each on a thread, with a sign of life.

use std::io::{self, IsTerminal as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use kiln_sim::load::{Fleet, Load, Policy, Report, simulate};

use crate::output::Console;

/// How often people see how far it is, and after how many times for the first time.
const LOOK: Duration = Duration::from_millis(250);
const PATIENCE: u32 = 6;

/// The reports, in the order of the policies.
pub(super) fn run(
    load: &Load,
    fleet: &Fleet,
    policies: &[Policy],
    console: &mut Console,
) -> Vec<Report> {
    let begun: Vec<AtomicUsize> = policies.iter().map(|_| AtomicUsize::new(0)).collect();
    let (done, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let threads: Vec<_> = policies
            .iter()
            .zip(&begun)
            .map(|(&policy, begun)| {
                let done = done.clone();
                scope.spawn(move || {
                    let progress = &mut |count| begun.store(count, Ordering::Relaxed);
                    let outcome = simulate(load, fleet, policy, progress);
                    drop(done);
                    Report::new(load, fleet, policy, &outcome)
                })
            })
            .collect();
        drop(done);
        if io::stderr().is_terminal() {
            watch(&ended, &begun, load.jobs.len() * policies.len(), console);
        }
        let join = |thread: thread::ScopedJoinHandle<'_, Report>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// Says how far it is until all threads have dropped their end of the channel.
fn watch(ended: &mpsc::Receiver<()>, begun: &[AtomicUsize], all: usize, console: &mut Console) {
    let mut looks = 0;
    while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        looks += 1;
        if looks >= PATIENCE {
            let begun: usize = begun.iter().map(|count| count.load(Ordering::Relaxed)).sum();
            console.eprint(&format!("\rsimulating: {:3} %", begun * 100 / all.max(1)));
        }
    }
    if looks >= PATIENCE {
        console.eprint("\r                 \r");
    }
}
