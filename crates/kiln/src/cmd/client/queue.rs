//! `kiln queue`: which jobs wait, and why.

use std::fmt::Write as _;

use anyhow::Result;
use kiln_core::id::QueueId;
use kiln_core::time::Timestamp;
use kiln_proto::api::{Queue, Waiting};

use super::words::lasted;
use super::{MOST, print_list};
use crate::Outcome;
use crate::cli::QueueArgs;
use crate::client::Client;
use crate::output::table::{Cell, Table, cut, room, whole};
use crate::output::text::{CALM, QUIET, fit};
use crate::output::time::{self, ago};
use crate::output::{Console, one_line};

/// How many names of runners are shown for a job.
const MOST_NAMES: usize = 3;

pub(super) async fn run(args: &QueueArgs, console: &mut Console) -> Result<Outcome> {
    let (client, repo) = Client::open_named(&args.server, args.repo.as_deref()).await?;
    if args.queues {
        let queues: Vec<Queue> = client.get(&["queues"]).list(MOST).await?;
        return print_list(
            console,
            args.server.json,
            &queues,
            |queues| queue_table(queues).text(),
            "there are no queues: nothing has waited yet",
        );
    }
    let limit = usize::try_from(args.limit).unwrap_or(MOST).clamp(1, MOST);
    let call = client.get(&["queue"]).query_if("repo", repo);
    let waiting: Vec<Waiting> = call.list(limit).await?;
    let text = |waiting: &[Waiting]| jobs(waiting, time::now(), room());
    print_list(console, args.server.json, &waiting, text, "no job waits for a runner")
}

/// A line for each job, and one below it that says why it waits.
pub(super) fn jobs(waiting: &[Waiting], now: Timestamp, room: Option<usize>) -> String {
    let mut table = Table::new(&[
        whole("POSITION"),
        cut("JOB", 12),
        cut("REPOSITORY", 10),
        whole("WAITS"),
        whole("STARTS"),
        whole("SLUG"),
    ]);
    for job in waiting {
        let starts = job.estimate.map(std::time::Duration::from_secs);
        let starts = starts.map_or_else(|| "?".to_owned(), |_| format!("~{}", lasted(starts)));
        table.row([
            Cell::from(job.position.to_string()),
            Cell::from(&job.name),
            Cell::from(&job.repo),
            Cell::from(ago(&job.queued_at, now)),
            Cell::from(starts),
            Cell::from(&job.slug),
        ]);
    }
    let table = table.within(room);
    let mut lines = table.lines();
    let mut text = format!("{}\n", lines.next().unwrap_or_default());
    for (line, job) in lines.zip(waiting) {
        let _ = writeln!(text, "{line}");
        let why = format!("  {}", why(job));
        let _ = writeln!(text, "{QUIET}{}{QUIET:#}", fit(&why, room.unwrap_or(usize::MAX)));
    }
    text
}

/// The reason, and who could take it.
fn why(job: &Waiting) -> String {
    let mut text = one_line(&job.reason);
    if !job.runners.is_empty() {
        let names: Vec<&str> = job.runners.iter().take(MOST_NAMES).map(String::as_str).collect();
        let _ = write!(text, "; could run on {}", one_line(&names.join(", ")));
        if job.runners.len() > MOST_NAMES {
            let _ = write!(text, " and {} more", job.runners.len() - MOST_NAMES);
        }
    }
    text
}

fn queue_table(queues: &[Queue]) -> Table {
    let mut table = Table::new(&[
        whole("QUEUE"),
        whole("WAITING"),
        whole("RUNNERS"),
        cut("FOR", 16),
        cut("PAUSED", 8),
    ]);
    for queue in queues {
        table.row([
            Cell::from(QueueId(queue.id).slug()),
            Cell::from(queue.waiting.to_string()),
            Cell::from(queue.runners.to_string()),
            Cell::from(&queue.requirements),
            Cell::styled(queue.paused.as_deref().unwrap_or_default(), CALM),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_waits_says_why_and_who_could_take_it() {
        let job = Waiting {
            job_id: 1,
            slug: "j-2kq".to_owned(),
            run_id: 1,
            repo: "me/app".to_owned(),
            name: "test (linux)".to_owned(),
            queue_id: 1,
            queued_at: "2026-11-16T05:28:15.000Z".to_owned(),
            class: "normal".to_owned(),
            priority: 50,
            requirements: "ubuntu-latest".to_owned(),
            position: 3,
            reason: "all runners that fit are busy".to_owned(),
            estimate: Some(72),
            runners: ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec(),
        };
        let unknown = Waiting { estimate: None, runners: Vec::new(), ..job.clone() };
        let now = time::parse("2026-11-16T05:31:15.000Z").unwrap();
        let text = |room| {
            anstream::adapter::strip_str(&jobs(&[job.clone(), unknown.clone()], now, room))
                .to_string()
        };
        assert_eq!(
            text(None),
            "POSITION  JOB           REPOSITORY  WAITS  STARTS   SLUG\n\
             3         test (linux)  me/app      3m     ~1m 12s  j-2kq\n  \
             all runners that fit are busy; could run on a, b, c and 2 more\n\
             3         test (linux)  me/app      3m     ?        j-2kq\n  \
             all runners that fit are busy\n"
        );
        assert!(text(Some(40)).lines().all(|line| line.chars().count() <= 40));
    }
}
