//! How long one claim takes when few jobs wait, and when a million do.

use std::time::{Duration, Instant};

use kiln_core::id::RunnerId;
use kiln_core::queue::Policy;
use kiln_store::Tx;
use kiln_store::claims::{self, Asking};
use kiln_testkit::queue::Depth;

use crate::{Bench, percentile, row};

/// The shallow queue.
const FEW: i64 = 1_000;
/// Claims that are measured, and those before that warm up.
const CLAIMS: u32 = 300;
const WARM: u32 = 50;

pub(crate) async fn measure(bench: Bench, many: i64) -> Result<(), String> {
    bench.store.migrate().await.map_err(|error| error.to_string())?;
    let mut depth = Depth::new(&bench.store, 4, 10).await;
    depth.fill(&bench.store, FEW).await;
    let few = claims(&bench, &depth, 0).await?;
    depth.fill(&bench.store, many).await;
    settle(&bench).await?;
    let many = claims(&bench, &depth, CLAIMS + WARM).await?;
    row(&format!("{}_claim_few_p50", bench.name), few, "ms");
    row(&format!("{}_claim_many_p50", bench.name), many, "ms");
    row(&format!("{}_depth", bench.name), many / few, "x");
    Ok(())
}

/// Lets the database finish with what filling it left to do, so that only claims are measured.
async fn settle(bench: &Bench) -> Result<(), String> {
    let work = async |tx: &mut Tx<'_>| {
        tx.execute("ANALYZE", &[]).await?;
        if tx.is_postgres() {
            tx.execute("CHECKPOINT", &[]).await?;
        }
        Ok(())
    };
    bench.store.write(work).await.map_err(|error| error.to_string())
}

async fn claims(bench: &Bench, depth: &Depth, from: u32) -> Result<f64, String> {
    let mut took: Vec<Duration> = Vec::new();
    for count in from..from + WARM + CLAIMS {
        let asking = vec![Asking::new(RunnerId(1), [depth.queue], 1, count.to_string())];
        let start = Instant::now();
        let work =
            async move |tx: &mut Tx<'_>| Ok(claims::claim(tx, Policy::Fair, &asking).await?.jobs);
        let answers = bench.store.write(work).await.map_err(|error| error.to_string())?;
        assert_eq!(answers[0].len(), 1, "there are jobs enough");
        if count >= from + WARM {
            took.push(start.elapsed());
        }
    }
    Ok(percentile(&mut took, 0.5))
}
