//! What to do about rows that hold times of a clock that was wrong.

use std::time::Duration;

use kiln_core::time::Timestamp;

use crate::claims::lease_lasts;
use crate::outbox::LONGEST_WAIT;
use crate::tx::millis;
use crate::{Signal, StoreError, Tx};

/// Servers that share a database may be so much apart, and nobody minds.
const SLACK: Duration = Duration::from_secs(5);

/// What the clock shows, and whether there are times that only a clock can have left which was ahead and
/// was set back.
pub async fn look_at_clock(tx: &mut Tx<'_>) -> Result<(Timestamp, bool), StoreError> {
    let now = tx.now();
    let sql = "SELECT EXISTS (SELECT 1 FROM leases WHERE expires_at > $1)
                   OR EXISTS (SELECT 1 FROM outbox WHERE parked_at IS NULL AND due_at > $2)";
    let latest = [lease_lasts(), LONGEST_WAIT].map(|lasts| millis(now + lasts + SLACK).into());
    let is_odd: bool = tx.one("answer", sql, &latest).await?.get(0)?;
    Ok((now, is_odd))
}

/// Mends such times: a lease that would outlive its runner, a task that would wait although it is due.
/// Where the clock was right, nothing is found.
pub async fn clock_was_set(tx: &mut Tx<'_>) -> Result<(), StoreError> {
    let now = tx.now();
    let cut = "UPDATE leases SET expires_at = $1 WHERE expires_at > $1";
    tx.execute(cut, &[millis(now + lease_lasts()).into()]).await?;
    // What was put in later than now waits as long from now on as it was meant to.
    let sooner = "UPDATE outbox SET due_at = due_at - created_at + $1, created_at = $1
                  WHERE created_at > $1 AND parked_at IS NULL";
    if tx.execute(sooner, &[millis(now).into()]).await? > 0 {
        tx.signal(Signal::Outbox);
    }
    Ok(())
}
