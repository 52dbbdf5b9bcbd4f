//! Work to be done after a commit, at least once.
//!
//! Whoever takes a task has it for a while; if it is neither done nor failed by then, it comes again.
//! A task that fails again and again is put aside where people see it.

use std::time::Duration;

use kiln_core::id::RunId;
use kiln_core::time::Timestamp;

use serde_json::json;

use crate::directory::audit::{self, Deed};
use crate::directory::scope::Scope;
use crate::tx::millis;
use crate::{Actor, Refusal, Row, Signal, Sql, StoreError, Tx, Value};

/// How often a task is tried before it is put aside.
pub const TRIES: u32 = 12;
/// The longest wait between two tries.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_mins(15);
/// How much of an error is kept, in characters.
const ERROR: usize = 2_000;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A concurrency group lets a member of another run in.
    Admit,
    /// A member of another run must be cancelled.
    CancelMember,
    /// The rest of a change that was too long for one transaction.
    Continue,
    /// Somebody outside must hear of it.
    Notify,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Admit, Self::CancelMember, Self::Continue, Self::Notify];

    pub fn word(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::CancelMember => "cancel_member",
            Self::Continue => "continue",
            Self::Notify => "notify",
        }
    }
}

/// A task before it is in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub kind: Kind,
    pub run: Option<RunId>,
    /// JSON.
    pub payload: String,
    /// Not before this time; `None` is at once.
    pub due: Option<Timestamp>,
}

impl Message {
    pub fn at_once(kind: Kind, run: RunId, payload: String) -> Self {
        Self { kind, run: Some(run), payload, due: None }
    }
}

/// A task that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub id: i64,
    pub kind: Kind,
    pub run: Option<RunId>,
    pub payload: String,
    /// Which try this is, from 1; also the fencing token of whoever took it.
    pub tries: u32,
}

/// A task that was put aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    pub task: Task,
    pub error: String,
    pub since: Timestamp,
}

/// Puts messages in, and wakes those who take them.
pub fn put(tx: &mut Tx<'_>, messages: &[Message]) -> Result<(), StoreError> {
    if messages.is_empty() {
        return Ok(());
    }
    let now = tx.now();
    let row = |message: &Message| {
        vec![
            message.kind.word().into(),
            message.run.map(|run| run.0).into(),
            message.payload.as_str().into(),
            millis(message.due.unwrap_or(now)).into(),
            millis(now).into(),
        ]
    };
    let rows: Vec<Vec<Value>> = messages.iter().map(row).collect();
    tx.write_all(
        Sql::of(
            "INSERT INTO outbox (kind, run_id, payload, due_at, created_at)
             VALUES ($1, $2, $3, $4, $5)",
            "INSERT INTO outbox (kind, run_id, payload, due_at, created_at)
             SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[])",
        ),
        rows,
    )?;
    tx.signal(Signal::Outbox);
    Ok(())
}

/// Takes what is due of these kinds, the longest waiting first. Nobody else gets it before the patience
/// is over.
pub async fn take(
    tx: &mut Tx<'_>,
    kinds: &[Kind],
    limit: u32,
    patience: Duration,
) -> Result<Vec<Task>, StoreError> {
    let due = Sql::of(
        "SELECT id, kind, run_id, payload, tries FROM outbox
         WHERE parked_at IS NULL AND due_at <= $1 AND kind IN (SELECT value FROM json_each($2))
         ORDER BY due_at, id LIMIT $3",
        "SELECT id, kind, run_id, payload, tries FROM outbox
         WHERE parked_at IS NULL AND due_at <= $1 AND kind = ANY($2)
         ORDER BY due_at, id LIMIT $3 FOR UPDATE SKIP LOCKED",
    );
    let now = tx.now();
    let kinds: Value = kinds.iter().map(|kind| kind.word()).collect();
    let rows = tx.rows(due, &[millis(now).into(), kinds, limit.into()]).await?;
    let due: Vec<Task> = rows.iter().map(task_of).collect::<Result<_, _>>()?;
    // Whoever dies of a task cannot say that it failed, but its tries were counted.
    let (exhausted, mut taken): (Vec<_>, Vec<_>) =
        due.into_iter().partition(|task| task.tries >= TRIES);
    for task in exhausted {
        park(tx, &task, "nobody who took it came back").await?;
    }
    let held = Sql::of(
        "UPDATE outbox SET tries = tries + 1, due_at = $2
         WHERE id IN (SELECT value FROM json_each($1))",
        "UPDATE outbox SET tries = tries + 1, due_at = $2 WHERE id = ANY($1)",
    );
    let ids: Value = taken.iter().map(|task| task.id).collect();
    tx.execute(held, &[ids, millis(now + patience).into()]).await?;
    for task in &mut taken {
        task.tries += 1;
    }
    Ok(taken)
}

/// Removes a task; in the transaction that did it, if it can be. False if somebody else has it by now:
/// then whatever must not happen twice has to be refused.
pub async fn done(tx: &mut Tx<'_>, task: &Task) -> Result<bool, StoreError> {
    let sql = "DELETE FROM outbox WHERE id = $1 AND tries = $2 AND parked_at IS NULL";
    Ok(tx.execute(sql, &[task.id.into(), task.tries.into()]).await? == 1)
}

/// Has a task tried again after a while that doubles each time, or puts it aside after the last try.
pub async fn failed(tx: &mut Tx<'_>, task: &Task, error: &str) -> Result<(), StoreError> {
    if task.tries >= TRIES {
        return park(tx, task, error).await;
    }
    let due = millis(tx.now() + wait_after(task.tries));
    let sql = "UPDATE outbox SET due_at = $3, error = $4
               WHERE id = $1 AND tries = $2 AND parked_at IS NULL";
    let values = [task.id.into(), task.tries.into(), due.into(), shortened(error).into()];
    tx.execute(sql, &values).await?;
    Ok(())
}

/// Gives back what was taken and not begun, because there is no time left for it: it is due at once, and
/// this try does not count. Whoever gives a task back must not speak for it any more.
pub async fn give_back(tx: &mut Tx<'_>, tasks: &[Task]) -> Result<(), StoreError> {
    let sql = Sql::of(
        "UPDATE outbox SET due_at = $3, tries = tries - 1
         WHERE id = $1 AND tries = $2 AND parked_at IS NULL",
        "UPDATE outbox AS t SET due_at = u.now, tries = t.tries - 1
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (id, tries, now)
         WHERE t.id = u.id AND t.tries = u.tries AND t.parked_at IS NULL",
    );
    let now = millis(tx.now());
    let row = |task: &Task| vec![task.id.into(), task.tries.into(), now.into()];
    let rows: Vec<Vec<Value>> = tasks.iter().map(row).collect();
    if tx.execute_all(sql, &rows).await? > 0 {
        tx.signal(Signal::Outbox);
    }
    Ok(())
}

/// When the next task is due, if any waits, so that nobody needs to ask before.
pub async fn next_due(tx: &mut Tx<'_>) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT min(due_at) FROM outbox WHERE parked_at IS NULL";
    let due: Option<i64> = tx.one("time", sql, &[]).await?.get(0)?;
    Ok(due.map(time_of))
}

/// What was put aside, the latest first. Tasks belong to the installation, not to organizations.
pub async fn parked(tx: &mut Tx<'_>, scope: Scope, limit: u32) -> Result<Vec<Parked>, StoreError> {
    scope.system("list of tasks")?;
    let sql = "SELECT id, kind, run_id, payload, tries, error, parked_at FROM outbox
               WHERE parked_at IS NOT NULL ORDER BY parked_at DESC, id DESC LIMIT $1";
    let rows = tx.rows(sql, &[limit.into()]).await?;
    let parked = |row: &Row| {
        let error: Option<String> = row.get(5)?;
        let since = time_of(row.get(6)?);
        Ok(Parked { task: task_of(row)?, error: error.unwrap_or_default(), since })
    };
    rows.iter().map(parked).collect()
}

/// Gives a task that was put aside a new start, because somebody mended the reason.
pub async fn retry(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: i64,
) -> Result<(), StoreError> {
    scope.system("task that was put aside")?;
    let sql = "UPDATE outbox SET parked_at = NULL, tries = 0, due_at = $2
               WHERE id = $1 AND parked_at IS NOT NULL";
    let now = millis(tx.now());
    if tx.execute(sql, &[id.into(), now.into()]).await? == 0 {
        return Err(Refusal::NotFound("task that was put aside").into());
    }
    tx.signal(Signal::Outbox);
    let deed = Deed { org: None, action: "task.retry", subject: id, detail: json!(null) };
    audit::record(tx, actor, deed).await
}

async fn park(tx: &mut Tx<'_>, task: &Task, error: &str) -> Result<(), StoreError> {
    let sql = "UPDATE outbox SET parked_at = $3, error = $4
               WHERE id = $1 AND tries = $2 AND parked_at IS NULL";
    let now = millis(tx.now());
    let values = [task.id.into(), task.tries.into(), now.into(), shortened(error).into()];
    tx.execute(sql, &values).await?;
    Ok(())
}

/// 1, 2, 4, … seconds.
fn wait_after(tries: u32) -> Duration {
    let seconds = 1_u64.checked_shl(tries.saturating_sub(1)).unwrap_or(u64::MAX);
    Duration::from_secs(seconds).min(LONGEST_WAIT)
}

fn shortened(error: &str) -> String {
    error.chars().take(ERROR).collect()
}

fn time_of(millis: i64) -> Timestamp {
    Timestamp(millis.try_into().unwrap_or_default())
}

fn task_of(row: &Row) -> Result<Task, StoreError> {
    let word: String = row.get(1)?;
    let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word);
    Ok(Task {
        id: row.get(0)?,
        kind: kind.ok_or_else(|| StoreError::Shape {
            column: 1,
            found: format!("the kind `{word}`"),
            expected: "a kind of task that this Kiln knows",
        })?,
        run: row.get::<Option<i64>>(2)?.map(RunId),
        payload: row.get(3)?,
        tries: row.get(4)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound() {
        let seconds = |tries| wait_after(tries).as_secs();
        assert_eq!([1, 2, 3, 10, 11, 200].map(seconds), [1, 2, 4, 512, 900, 900]);
    }
}
