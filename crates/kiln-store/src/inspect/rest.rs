//! What is not part of a run.

use super::{Report, Rule};
use crate::{StoreError, Tx};

pub(super) async fn check(tx: &mut Tx<'_>, report: &mut Report) -> Result<(), StoreError> {
    loads(tx, report).await?;
    numbers(tx, report).await?;
    tasks(tx, report).await?;
    triggers(tx, report).await
}

async fn loads(tx: &mut Tx<'_>, report: &mut Report) -> Result<(), StoreError> {
    let sql = "SELECT o.id, coalesce(l.running, 0), coalesce(c.leases, 0)
               FROM organizations AS o
               LEFT JOIN org_loads AS l ON l.org_id = o.id
               LEFT JOIN (
                   SELECT org_id, count(*) AS leases FROM leases WHERE counted = 1 GROUP BY org_id
               ) AS c ON c.org_id = o.id
               WHERE coalesce(l.running, 0) <> coalesce(c.leases, 0)";
    for row in tx.rows(sql, &[]).await? {
        let (org, running, leases): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let text = format!("it counts {running} running jobs, and {leases} leases count");
        report.find(Rule::OrgLoad, format!("organization {org}"), text);
    }
    Ok(())
}

/// Numbers count up within a workflow, so two runs with the same one stand beside each other.
async fn numbers(tx: &mut Tx<'_>, report: &mut Report) -> Result<(), StoreError> {
    let sql = "SELECT workflow_id, run_number, count(*) FROM runs
               GROUP BY workflow_id, run_number HAVING count(*) > 1
               ORDER BY workflow_id, run_number LIMIT 1000";
    for row in tx.rows(sql, &[]).await? {
        let (workflow, number, count): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let text = format!("{count} of its runs have the number {number}");
        report.find(Rule::RunNumber, format!("workflow {workflow}"), text);
    }
    let sql = "SELECT w.id, w.runs, m.last FROM workflows AS w JOIN (
                   SELECT workflow_id, max(run_number) AS last FROM runs GROUP BY workflow_id
               ) AS m ON m.workflow_id = w.id WHERE m.last > w.runs";
    for row in tx.rows(sql, &[]).await? {
        let (workflow, runs, last): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let text = format!("it counts {runs} runs, and its last one has the number {last}");
        report.find(Rule::RunNumber, format!("workflow {workflow}"), text);
    }
    Ok(())
}

async fn tasks(tx: &mut Tx<'_>, report: &mut Report) -> Result<(), StoreError> {
    let sql = "SELECT id, kind FROM outbox
               WHERE run_id IS NULL AND kind IN ('admit', 'cancel_member', 'continue')";
    for row in tx.rows(sql, &[]).await? {
        let (id, kind): (i64, String) = (row.get(0)?, row.get(1)?);
        let text = format!("a task of the kind `{kind}` must name its run");
        report.find(Rule::Task, format!("task {id} of the outbox"), text);
    }
    Ok(())
}

async fn triggers(tx: &mut Tx<'_>, report: &mut Report) -> Result<(), StoreError> {
    let sql = "SELECT k.key, k.run_id FROM trigger_keys AS k
               LEFT JOIN runs AS r ON r.id = k.run_id AND r.repo_id = k.repo_id
               WHERE r.id IS NULL LIMIT 1000";
    for row in tx.rows(sql, &[]).await? {
        let (key, run): (String, i64) = (row.get(0)?, row.get(1)?);
        let text = format!("it leads to run {run}, which its repository does not have");
        report.find(Rule::Trigger, format!("the key `{key}` of a trigger"), text);
    }
    Ok(())
}
