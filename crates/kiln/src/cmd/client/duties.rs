//! `kiln duties`: what the server does by itself, and how that went.

use std::time::Duration;

use anyhow::Result;
use kiln_core::id::RunId;
use kiln_core::time::Timestamp;
use kiln_proto::api::{Duty, ParkedTask, RetriedTasks, RetryTasks};

use super::words::{count, lasted};
use super::{print_json, print_list};
use crate::Outcome;
use crate::cli::{DutiesArgs, DutiesCommand};
use crate::client::Client;
use crate::output::table::{Cell, Table, cut, whole};
use crate::output::time::{self, ago};
use crate::output::{Console, one_line};

pub(super) async fn run(args: &DutiesArgs, console: &mut Console) -> Result<Outcome> {
    match &args.command {
        None => {}
        Some(DutiesCommand::Tasks { server }) => {
            let found: Vec<ParkedTask> = Client::open(server)?.get(&["tasks"]).json().await?;
            let text = |found: &[ParkedTask]| tasks(found, time::now()).text();
            return print_list(console, server.json, &found, text, "no task was put aside");
        }
        Some(DutiesCommand::Retry { tasks, all: _, server }) => {
            let (client, wish) = (Client::open(server)?, RetryTasks { ids: tasks.clone() });
            let call = client.post(&["tasks", "retry"]).body(&wish);
            let done: RetriedTasks = call.json().await?;
            if server.json {
                print_json(console, &done)?;
            } else {
                let many = count(usize::try_from(done.retried)?, "task");
                console.print(&format!("{many} put back to work\n"))?;
            }
            return Ok(Outcome::Clean);
        }
    }
    let client = Client::open(&args.server)?;
    let duties: Vec<Duty> = client.get(&["duties"]).json().await?;
    let text = |duties: &[Duty]| table(duties, time::now()).text();
    print_list(console, args.server.json, &duties, text, "the server does nothing by itself")
}

fn table(duties: &[Duty], now: Timestamp) -> Table {
    let mut table = Table::new(&[
        whole("DUTY"),
        whole("LAST"),
        whole("TOOK"),
        whole("FAILED"),
        cut("WHAT IT DID", 20),
    ]);
    for duty in duties {
        let last = match &duty.last_run_at {
            _ if !duty.here => "elsewhere".to_owned(),
            Some(at) => ago(at, now),
            None => "never".to_owned(),
        };
        table.row([
            Cell::from(&duty.name),
            Cell::from(last),
            Cell::from(lasted(Some(Duration::from_millis(duty.last_took_ms)))),
            Cell::from(format!("{}/{}", duty.failures, duty.passes)),
            Cell::from(said(duty, now)),
        ]);
    }
    table
}

fn tasks(found: &[ParkedTask], now: Timestamp) -> Table {
    let columns = [whole("TASK"), whole("KIND"), whole("RUN"), whole("SINCE"), cut("WHY", 20)];
    let mut table = Table::new(&columns);
    for task in found {
        table.row([
            Cell::from(task.id.to_string()),
            Cell::from(&task.kind),
            Cell::from(task.run_id.map(|run| RunId(run).slug()).unwrap_or_default()),
            Cell::from(ago(&task.since, now)),
            Cell::from(one_line(&task.error)),
        ]);
    }
    table
}

/// What is wrong, else what the last pass did that did anything.
fn said(duty: &Duty, now: Timestamp) -> String {
    if let Some(error) = &duty.last_error {
        return format!("failed: {}", one_line(error));
    }
    match (&duty.last_useful_report, &duty.last_useful_at) {
        (Some(report), Some(at)) if *report != duty.last_report => {
            format!("{}; {} ago: {}", duty.last_report, ago(at, now), one_line(report))
        }
        _ => one_line(&duty.last_report),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duty(report: &str, useful: Option<(&str, &str)>, error: Option<&str>) -> Duty {
        Duty {
            name: "content".to_owned(),
            here: true,
            last_run_at: Some("2026-01-01T00:10:00Z".to_owned()),
            last_took_ms: 3,
            last_report: report.to_owned(),
            last_error: error.map(str::to_owned),
            last_useful_at: useful.map(|(at, _)| at.to_owned()),
            last_useful_report: useful.map(|(_, report)| report.to_owned()),
            passes: 9,
            failures: 1,
            every: 60,
        }
    }

    #[test]
    fn what_was_done_is_not_hidden_by_a_pass_that_found_nothing() {
        let now = Timestamp::parse_rfc3339("2026-01-01T00:10:00Z").unwrap();
        let check = |duty: Duty, expect: &str| assert_eq!(said(&duty, now), expect);
        let useful = Some(("2026-01-01T00:05:00Z", "3 artifacts expired"));
        check(duty("nothing to do", useful, None), "nothing to do; 5m ago: 3 artifacts expired");
        check(duty("3 artifacts expired", useful, None), "3 artifacts expired");
        check(duty("nothing to do", None, None), "nothing to do");
        check(duty("nothing to do", useful, Some("the disk\nis full")), "failed: the disk is full");
        let text = table(&[duty("nothing to do", useful, None)], now).text();
        assert!(text.contains("content") && text.contains("1/9"), "{text}");
    }
}
