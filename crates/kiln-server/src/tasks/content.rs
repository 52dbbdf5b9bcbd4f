//! Lets go of artifacts and caches whose time is over, and of caches that are too many.

use std::time::Duration;

use kiln_core::time::Timestamp;
use kiln_store::content::garbage::Step;
use kiln_store::content::{artifacts, caches};
use kiln_store::{Scope, StoreError, Tx};

use super::driver::{Done, Duty, NOTHING, Pass, Plan};
use crate::app::App;
use crate::service::job::TRUSTED;

const SCOPE: Scope = Scope::System(kiln_store::Duty::Retention);
/// How many rows go in one transaction.
const PIECE: u32 = 500;
/// How many repositories one pass looks after.
const REPOSITORIES: u32 = 20;

/// What goes in one pass; the bytes of it are left to the collector. A pass can be cut off anywhere: the next
/// finds what is left.
#[derive(Debug, Default)]
pub(super) struct Content;

impl Duty for Content {
    fn plan(&self) -> Plan {
        Plan { name: "content", every: Duration::from_mins(1), wakes: None, everywhere: false }
    }

    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a> {
        Box::pin(async {
            let gone = one_pass(app).await?;
            let [artifacts, unused, evicted] = &gone;
            let more = gone.iter().any(|step| step.more);
            if gone.iter().all(|step| step.count == 0) {
                return Ok(Done::said(NOTHING).and_more(more));
            }
            let bytes: i64 = gone.iter().map(|step| step.bytes).sum();
            let report = format!(
                "{} artifacts expired, {} caches were unused, {} caches evicted; {bytes} bytes",
                artifacts.count, unused.count, evicted.count
            );
            tracing::info!(report, "artifacts and caches were let go");
            Ok(Done::said(report).and_more(more))
        })
    }
}

async fn one_pass(app: &App) -> Result<[Step; 3], StoreError> {
    let expire = async |tx: &mut Tx<'_>| artifacts::expire(tx, SCOPE, PIECE).await;
    let expired = app.store.write(expire).await?;
    let kept = u64::try_from(app.config.content.caches.as_millis()).unwrap_or(u64::MAX);
    let expire = async move |tx: &mut Tx<'_>| {
        let before = Timestamp(tx.now().0.saturating_sub(kept));
        caches::expire(tx, SCOPE, before, PIECE).await
    };
    let unused = app.store.write(expire).await?;
    Ok([expired, unused, evict(app).await?])
}

/// Caches of each trust have a quota of their own.
async fn evict(app: &App) -> Result<Step, StoreError> {
    let content = app.config.content;
    let budgets =
        [true, false].map(|trusted| i64::try_from(content.quota_of(trusted)).unwrap_or(i64::MAX));
    let look = async move |tx: &mut Tx<'_>| {
        caches::over_budget(tx, SCOPE, TRUSTED, budgets, REPOSITORIES).await
    };
    let over = app.store.read(look).await?;
    let mut step = Step { more: over.len() >= REPOSITORIES as usize, ..Step::default() };
    for (repo, trust) in over {
        let budget = if trust == TRUSTED { budgets[0] } else { budgets[1] };
        let work = async move |tx: &mut Tx<'_>| {
            caches::evict(tx, SCOPE, (repo, trust.as_str()), budget, PIECE).await
        };
        let gone = app.store.write(work).await?;
        step.count += gone.len() as u64;
        step.bytes += gone.iter().map(|cache| cache.size).sum::<i64>();
        step.more |= gone.len() >= PIECE as usize;
    }
    Ok(step)
}
