//! Runs as lists show them.

use std::fmt::Write as _;

use kiln_core::id::{OrgId, RepoId, RunId, WorkflowId};
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;

use crate::directory::{names, repositories, workflows};
use crate::words::words;
use crate::{Page, Row, Scope, Sql, StoreError, Tx, Value};

words! {
    /// How far a run has come, as GitHub calls it.
    RunStatus: "a status of a run" {
        Queued = "queued",
        /// It waits for its concurrency group.
        Pending = "pending",
        InProgress = "in_progress",
        Completed = "completed",
    }
}

/// A run with what is known of its current attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    pub id: RunId,
    pub org: OrgId,
    pub repo: RepoId,
    pub workflow: WorkflowId,
    /// Within its workflow.
    pub number: i64,
    pub attempt: u32,
    pub event: String,
    /// Who triggered it first.
    pub actor: String,
    pub reference: String,
    pub head_sha: String,
    pub head_branch: Option<String>,
    pub title: String,
    pub status: RunStatus,
    pub conclusion: Option<Conclusion>,
    pub created: Timestamp,
    pub started: Option<Timestamp>,
    pub ended: Option<Timestamp>,
    /// Why it could not start.
    pub note: Option<String>,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, org_id, repo_id, workflow_id, run_number, attempt, event, actor, ref, \
             head_sha, head_branch, title, status, conclusion, created_at, started_at, ended_at, note \
             FROM runs WHERE ",
            $rest
        )
    };
}

/// The beginning of every statement that asks for runs.
pub(super) const SELECT: &str = select!("");

/// Those of some runs that there are, each with the time of its end if it has ended.
pub async fn ends(
    tx: &mut Tx<'_>,
    runs: &[RunId],
) -> Result<Vec<(RunId, Option<Timestamp>)>, StoreError> {
    let sql = Sql::of(
        "SELECT id, ended_at FROM runs WHERE id IN (SELECT value FROM json_each($1))",
        "SELECT id, ended_at FROM runs WHERE id = ANY($1)",
    );
    let ids: Value = runs.iter().map(|run| run.0).collect();
    let rows = tx.rows(sql, &[ids]).await?;
    rows.iter().map(|row| Ok((RunId(row.get(0)?), row.get(1)?))).collect()
}

/// The runs of a repository, or all that the scope sees; the newest first.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: Option<RepoId>,
    page: Page,
) -> Result<Vec<RunSummary>, StoreError> {
    let (before, limit) = (page.falling(), page.limit());
    // A statement for each, so that each has its index.
    let rows = match (repo, scope) {
        (Some(repo), _) => {
            repositories::org_of(tx, scope, repo).await?;
            let sql = select!("repo_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");
            tx.rows(sql, &[repo.into(), before, limit]).await?
        }
        (None, Scope::Org(org)) => {
            let sql = select!("org_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");
            tx.rows(sql, &[org.into(), before, limit]).await?
        }
        (None, Scope::System(_)) => {
            tx.rows(select!("id < $1 ORDER BY id DESC LIMIT $2"), &[before, limit]).await?
        }
    };
    rows.iter().map(summary).collect()
}

/// The last run of each of these repositories, as far as they have any. Whoever asks was allowed to see them.
pub async fn latest(tx: &mut Tx<'_>, repos: &[RepoId]) -> Result<Vec<RunSummary>, StoreError> {
    let sql = Sql::of(
        select!(
            "id IN (SELECT (SELECT max(id) FROM runs WHERE repo_id = one.value) FROM json_each($1) AS one)"
        ),
        select!(
            "id = ANY(ARRAY(SELECT last.id FROM unnest($1::bigint[]) AS one (repo) CROSS JOIN LATERAL \
             (SELECT id FROM runs WHERE repo_id = one.repo ORDER BY id DESC LIMIT 1) AS last))"
        ),
    );
    let ids: Value = repos.iter().map(|repo| repo.0).collect();
    tx.rows(sql, &[ids]).await?.iter().map(summary).collect()
}

/// The last run of each workflow that the scope sees, or of one repository's; those that ran last come first. Workflows
/// beyond the first `most` are not looked at.
pub async fn latest_of_workflows(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: Option<RepoId>,
    (most, limit): (u32, u32),
) -> Result<Vec<RunSummary>, StoreError> {
    let sql = Sql::of(
        select!(
            "id IN (SELECT (SELECT max(id) FROM runs WHERE workflow_id = one.id) FROM (SELECT id FROM workflows \
             WHERE (org_id = $1 OR $1 IS NULL) AND (repo_id = $2 OR $2 IS NULL) \
             ORDER BY id DESC LIMIT $3) AS one) ORDER BY id DESC LIMIT $4"
        ),
        select!(
            "id = ANY(ARRAY(SELECT last.id FROM (SELECT id FROM workflows \
             WHERE (org_id = $1 OR $1 IS NULL) AND (repo_id = $2 OR $2 IS NULL) \
             ORDER BY id DESC LIMIT $3) AS one CROSS JOIN LATERAL \
             (SELECT id FROM runs WHERE workflow_id = one.id ORDER BY id DESC LIMIT 1) AS last)) \
             ORDER BY id DESC LIMIT $4"
        ),
    );
    let repo = repo.map_or(Value::Null, Into::into);
    let rows = tx.rows(sql, &[scope.parameter(), repo, most.into(), limit.into()]).await?;
    rows.iter().map(summary).collect()
}

pub async fn get(tx: &mut Tx<'_>, scope: Scope, run: RunId) -> Result<RunSummary, StoreError> {
    let sql = select!("id = $1 AND (org_id = $2 OR $2 IS NULL)");
    summary(&tx.one("run", sql, &[run.into(), scope.parameter()]).await?)
}

/// How far runs are counted; that many means that there may be more.
pub const COUNTED: u32 = 10_000;

/// Which runs. What is `None` does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    pub repo: Option<RepoId>,
    pub workflow: Option<WorkflowId>,
    /// All workflows with this path, file name or name.
    pub workflow_named: Option<String>,
    pub status: Option<RunStatus>,
    pub conclusion: Option<Conclusion>,
    pub branch: Option<String>,
    pub event: Option<String>,
    pub head_sha: Option<String>,
    /// Who triggered it first.
    pub actor: Option<String>,
    /// A part of the title or of the branch, capital and small letters alike.
    pub text: Option<String>,
    /// It ended then or later.
    pub ended_since: Option<Timestamp>,
    /// It was made then or later.
    pub created_since: Option<Timestamp>,
    /// It was made earlier.
    pub created_before: Option<Timestamp>,
}

impl RunFilter {
    /// The conditions that there are, each with its value, so that each combination has its own plan and
    /// finds its index.
    pub(super) fn conditions(
        &self,
        scope: Scope,
        workflows: &[WorkflowId],
    ) -> (String, Vec<Value>) {
        let text = |text: &Option<String>| text.as_deref().map(names::searchable);
        let open = self.status.filter(|status| *status != RunStatus::Completed);
        let all = [
            ("org_id", Some(scope.parameter()).filter(|org| *org != Value::Null)),
            ("repo_id", self.repo.map(Into::into)),
            ("workflow_id", self.workflow.map(Into::into)),
            ("status", self.status.map(Into::into)),
            ("conclusion", self.conclusion.map(|conclusion| conclusion.github().into())),
            ("head_branch", text(&self.branch)),
            ("event", text(&self.event)),
            ("head_sha", text(&self.head_sha)),
            ("actor", text(&self.actor)),
        ];
        let (mut conditions, mut values) = (String::new(), Vec::new());
        for (column, value) in all {
            if let Some(value) = value {
                values.push(value);
                // Few runs are open, and they have indices of their own. Those of all runs of an organization or
                // of a workflow lead through what is long over; a sign hides them.
                let hides = open.is_some() && matches!(column, "org_id" | "workflow_id");
                let sign = if hides { "+" } else { "" };
                let _ = write!(conditions, "{sign}{column} = ${} AND ", values.len());
            }
        }
        if self.workflow_named.is_some() {
            let first = values.len() + 1;
            values.extend(workflows.iter().map(|id| Value::from(*id)));
            let places: Vec<String> = (first..=values.len()).map(|at| format!("${at}")).collect();
            let _ = write!(conditions, "workflow_id IN ({}) AND ", places.join(", "));
        }
        if let Some(text) = &self.text {
            values.push(names::searchable(&pattern(text)));
            let at = values.len();
            let _ = write!(
                conditions,
                "(lower(title) LIKE ${at} ESCAPE '!' OR lower(head_branch) LIKE ${at} ESCAPE '!') AND "
            );
        }
        let times = [
            ("ended_at >=", self.ended_since),
            ("created_at >=", self.created_since),
            ("created_at <", self.created_before),
        ];
        for (condition, at) in times {
            if let Some(at) = at {
                values.push(at.into());
                let _ = write!(conditions, "{condition} ${} AND ", values.len());
            }
        }
        if self.ended_since.is_some()
            && self.conclusion.is_some_and(|end| end != Conclusion::Success)
        {
            // What went wrong has an index of its own.
            conditions.push_str("conclusion <> 'success' AND ");
        }
        if open.is_some() {
            // What the indices of open runs say.
            conditions.push_str("conclusion IS NULL AND ");
        }
        (conditions, values)
    }
}

/// What `LIKE` takes for texts with this one in them.
pub(crate) fn pattern(text: &str) -> String {
    let mut pattern = String::from("%");
    for letter in text.to_lowercase().chars() {
        if matches!(letter, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    pattern
}

/// The runs that fit, the newest first; with `ended_since`, those that ended last come first.
pub async fn search(
    tx: &mut Tx<'_>,
    scope: Scope,
    filter: &RunFilter,
    page: Page,
) -> Result<Vec<RunSummary>, StoreError> {
    may_see(tx, scope, filter).await?;
    let Some(workflows) = workflows_meant(tx, scope, filter).await? else { return Ok(Vec::new()) };
    let (text, mut values) = asked(scope, filter, &workflows);
    values.extend([page.falling(), page.limit()]);
    tx.rows_of(&text, &values).await?.iter().map(summary).collect()
}

/// The question for runs that fit, and its values up to the id before which they are wanted, and their number.
fn asked(scope: Scope, filter: &RunFilter, workflows: &[WorkflowId]) -> (String, Vec<Value>) {
    let (conditions, values) = filter.conditions(scope, workflows);
    let (before, limit) = (values.len() + 1, values.len() + 2);
    // What ended lately is looked for by its end: those that did not end so are not looked at.
    let order = if filter.ended_since.is_some() { "ended_at DESC, id DESC" } else { "id DESC" };
    (format!("{SELECT}{conditions}id < ${before} ORDER BY {order} LIMIT ${limit}"), values)
}

/// How many runs fit, up to [`COUNTED`].
pub async fn total(tx: &mut Tx<'_>, scope: Scope, filter: &RunFilter) -> Result<u64, StoreError> {
    may_see(tx, scope, filter).await?;
    let Some(workflows) = workflows_meant(tx, scope, filter).await? else { return Ok(0) };
    let (conditions, mut values) = filter.conditions(scope, &workflows);
    values.push(COUNTED.into());
    let text = format!(
        "SELECT count(*) FROM (SELECT 1 FROM runs WHERE {conditions}id > 0 LIMIT ${}) AS runs",
        values.len()
    );
    let rows = tx.rows_of(&text, &values).await?;
    let count: i64 = rows.first().map_or(Ok(0), |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// The workflows that a name means; `None` if it means none. Few, so that each is looked up by the index of
/// its runs.
pub(super) async fn workflows_meant(
    tx: &mut Tx<'_>,
    scope: Scope,
    filter: &RunFilter,
) -> Result<Option<Vec<WorkflowId>>, StoreError> {
    let Some(name) = &filter.workflow_named else { return Ok(Some(Vec::new())) };
    let found = workflows::named(tx, scope, filter.repo, name).await?;
    Ok(Some(found).filter(|found| !found.is_empty()))
}

pub(super) async fn may_see(
    tx: &mut Tx<'_>,
    scope: Scope,
    filter: &RunFilter,
) -> Result<(), StoreError> {
    match filter.repo {
        Some(repo) => repositories::org_of(tx, scope, repo).await.map(|_| ()),
        None => Ok(()),
    }
}

pub(super) fn summary(row: &Row) -> Result<RunSummary, StoreError> {
    let conclusion: Option<String> = row.get(13)?;
    let known = |word: String| {
        let unknown = || StoreError::Database(format!("`{word}` is not a conclusion"));
        Conclusion::of_github(&word).ok_or_else(unknown)
    };
    Ok(RunSummary {
        id: row.get(0)?,
        org: row.get(1)?,
        repo: row.get(2)?,
        workflow: row.get(3)?,
        number: row.get(4)?,
        attempt: row.get(5)?,
        event: row.get(6)?,
        actor: row.get(7)?,
        reference: row.get(8)?,
        head_sha: row.get(9)?,
        head_branch: row.get(10)?,
        title: row.get(11)?,
        status: row.get(12)?,
        conclusion: conclusion.map(known).transpose()?,
        created: row.get(14)?,
        started: row.get(15)?,
        ended: row.get(16)?,
        note: row.get(17)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Duty;

    /// O1: what few runs are is found without a look at all the others, also on SQLite, whose plans nobody tells. How
    /// PostgreSQL does it, `tests/it/explain.rs` looks at.
    #[test]
    fn lists_of_few_runs_are_read_along_their_own_indices() {
        let base = rusqlite::Connection::open_in_memory().unwrap();
        base.execute_batch(&crate::migrate::on_sqlite()).unwrap();
        let check = |scope: Scope, filter: &RunFilter, index: &str| {
            let (text, _) = asked(scope, filter, &[]);
            let mut asked = base.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
            let mut rows = asked.raw_query();
            let plan: String = rows.next().unwrap().unwrap().get(3).unwrap();
            let by = format!("USING INDEX {index} (");
            assert!(plan.contains(&by), "{text}\n{plan}");
        };
        let (all, org) = (Scope::System(Duty::Administration), Scope::Org(OrgId(1)));
        for status in [RunStatus::Queued, RunStatus::Pending, RunStatus::InProgress] {
            let open = RunFilter { status: Some(status), ..RunFilter::default() };
            let of_repo = RunFilter { repo: Some(RepoId(1)), ..open.clone() };
            let of_one = RunFilter { workflow: Some(WorkflowId(1)), ..of_repo.clone() };
            for scope in [all, org] {
                check(scope, &open, "runs_open_by_id");
                check(scope, &of_repo, "runs_open");
                check(scope, &of_one, "runs_open");
            }
        }
        let broke = RunFilter {
            conclusion: Some(Conclusion::Failure),
            ended_since: Some(Timestamp(1)),
            ..RunFilter::default()
        };
        check(all, &broke, "runs_broken");
        check(org, &broke, "runs_broken");
    }
}
