//! What to do about rows that hold times of a clock that was wrong.

use crate::claims::lease_lasts;
use crate::tx::millis;
use crate::{Signal, StoreError, Tx};

/// Mends times that a clock left behind which was ahead and was set back: a lease that would outlive its
/// runner, a task that would wait although it is due. Where the clock was right, nothing is found.
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
