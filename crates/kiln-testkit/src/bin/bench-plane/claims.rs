//! How long one claim takes over HTTP, one after the other.

use std::time::Instant;

use crate::talk::Server;
use crate::{percentile, row};

/// Claims before those that count.
const WARM: usize = 20;

pub(crate) async fn measure(server: &Server, owner: &str, count: usize) -> Result<(), String> {
    let key = server.key(owner, 1).await?;
    // Another name each time: the one of an earlier process may still be there.
    let name = format!("bench-claims-{}", std::process::id());
    let mut runner = server.register(&key, name, 1).await?;
    let mut took = Vec::new();
    for number in 0..WARM + count {
        let asked = Instant::now();
        let jobs = runner.claim(1).await?;
        if jobs.is_empty() {
            return Err("no job is queued".to_owned());
        }
        if number >= WARM {
            took.push(asked.elapsed());
        }
        runner.run(&jobs).await?;
    }
    row("claim_p50", percentile(&mut took, 0.5), "ms");
    row("claim_p99", percentile(&mut took, 0.99), "ms");
    Ok(())
}
