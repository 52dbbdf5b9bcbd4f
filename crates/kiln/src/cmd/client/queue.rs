//! `kiln queue`: which jobs and runs wait, and why.

use std::fmt::Write as _;

use anyhow::Result;
use kiln_core::id::{JobId, QueueId, RunId};
use kiln_core::time::Timestamp;
use kiln_proto::api::{Prioritize, Prioritized, Queue, Waiting};
use kiln_proto::held::Held;

use super::words::lasted;
use super::{MOST, named, print_json, print_list};
use crate::Outcome;
use crate::cli::{MoveArgs, QueueArgs, QueueCommand};
use crate::client::Client;
use crate::client::error::{self, Kind};
use crate::output::table::{Cell, Table, cut, room, whole};
use crate::output::text::{CALM, QUIET, fit};
use crate::output::time::{self, ago};
use crate::output::{Console, one_line};

/// How many names of runners are shown for a job.
const MOST_NAMES: usize = 3;

pub(super) async fn run(args: &QueueArgs, console: &mut Console) -> Result<Outcome> {
    if let Some(QueueCommand::Move(args)) = &args.command {
        return change_priority(args, console).await;
    }
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
    let call = client.get(&["queue"]).query_if("repo", repo.as_deref());
    let waiting: Vec<Waiting> = call.list(limit).await?;
    let held = held(&client, repo.as_deref(), limit).await?;
    if args.server.json {
        waiting.iter().try_for_each(|job| print_json(console, job))?;
        held.iter().try_for_each(|one| print_json(console, one))?;
    } else if waiting.is_empty() && held.is_empty() {
        console.note_line("no job waits for a runner");
    } else {
        console.print(&all(&waiting, &held, time::now(), room()))?;
    }
    Ok(Outcome::Clean)
}

async fn change_priority(args: &MoveArgs, console: &mut Console) -> Result<Outcome> {
    let (client, what) = named(&args.run, &args.server)?;
    let priority = args.priority.unwrap_or(100);
    let call = client.post(&["runs", &what.run().to_string(), "priority"]);
    let done: Prioritized = call.body(&Prioritize { priority }).json().await?;
    if args.server.json {
        print_json(console, &done)?;
    } else {
        let Prioritized { slug, priority, before, .. } = done;
        let words = match (priority, before) {
            (now, before) if now == before => format!("{slug} has priority {now} already"),
            (100, _) => format!("{slug} goes before all others"),
            (now, before) => format!("{slug} has priority {now} now, before {before}"),
        };
        console.print(&format!("{words}\n"))?;
    }
    Ok(Outcome::Clean)
}

/// What waits for concurrency groups, of one repository or of all.
pub(super) async fn held(client: &Client, repo: Option<&str>, limit: usize) -> Result<Vec<Held>> {
    let held = client.get(&["queue", "held"]).query_if("repo", repo).list(limit).await;
    match held {
        // A server of before does not tell.
        Err(failed) if error::kind(&failed) == Some(Kind::NotFound) => Ok(Vec::new()),
        held => held,
    }
}

/// What waits for runners, and below it what waits for concurrency groups.
pub(super) fn all(
    waiting: &[Waiting],
    held: &[Held],
    now: Timestamp,
    room: Option<usize>,
) -> String {
    let parts = [
        (!waiting.is_empty()).then(|| jobs(waiting, now, room)),
        (!held.is_empty()).then(|| groups(held, now, room)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// A line for each run or job that a group holds, and one below it that says why, and who has the group.
fn groups(held: &[Held], now: Timestamp, room: Option<usize>) -> String {
    let mut table = Table::new(&[
        cut("HELD", 12),
        cut("REPOSITORY", 10),
        cut("WORKFLOW", 8),
        whole("SINCE"),
        whole("SLUG"),
    ]);
    for one in held {
        table.row([
            Cell::from(&one.name),
            Cell::from(&one.repo),
            Cell::from(format!("{} #{}", one.workflow, one.number)),
            Cell::from(ago(&one.since, now)),
            Cell::from(one.job_id.map_or_else(|| one.slug.clone(), |job| JobId(job).slug())),
        ]);
    }
    below(&table.within(room), held.iter().map(held_by), room)
}

/// Why something is held, and by whom.
pub(crate) fn held_by(one: &Held) -> String {
    let mut text = one_line(&one.reason);
    if let Some(holder) = &one.holder {
        let (slug, workflow) = (RunId(holder.run_id).slug(), one_line(&holder.workflow));
        let _ = write!(text, "; {slug} ({workflow} #{}) has it", holder.number);
    }
    if one.before > 0 {
        let _ = write!(text, "; {} before it", one.before);
    }
    text
}

/// A table with a quiet line below each row.
fn below(table: &str, notes: impl Iterator<Item = String>, room: Option<usize>) -> String {
    let mut lines = table.lines();
    let mut text = format!("{}\n", lines.next().unwrap_or_default());
    for (line, note) in lines.zip(notes) {
        let note = format!("  {note}");
        let note = fit(&note, room.unwrap_or(usize::MAX));
        let _ = writeln!(text, "{line}\n{QUIET}{note}{QUIET:#}");
    }
    text
}

/// A line for each job, and one below it that says why it waits.
fn jobs(waiting: &[Waiting], now: Timestamp, room: Option<usize>) -> String {
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
    below(&table.within(room), waiting.iter().map(why), room)
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
    use kiln_proto::held::Holder;

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

    /// S16
    #[test]
    fn what_a_group_holds_says_who_has_the_group() {
        let run = Held {
            run_id: 7,
            slug: "r-7".to_owned(),
            repo: "me/app".to_owned(),
            workflow: "Deploy".to_owned(),
            number: 3,
            name: "Fix the parser".to_owned(),
            job_id: None,
            group: "production".to_owned(),
            reason: "the run waits for the concurrency group `production`".to_owned(),
            holder: Some(Holder { run_id: 5, workflow: "Deploy".to_owned(), number: 2 }),
            before: 1,
            since: "2026-11-16T05:28:15.000Z".to_owned(),
        };
        let job = Held {
            name: "Upload".to_owned(),
            job_id: Some(JobId::of(RunId(7), 2).0),
            reason: "waits for the concurrency group `production`".to_owned(),
            holder: None,
            before: 0,
            ..run.clone()
        };
        let now = time::parse("2026-11-16T05:31:15.000Z").unwrap();
        let text = |room| {
            let text = all(&[], &[run.clone(), job.clone()], now, room);
            anstream::adapter::strip_str(&text).to_string()
        };
        let slug = JobId::of(RunId(7), 2).slug();
        assert_eq!(
            text(None),
            format!(
                "HELD            REPOSITORY  WORKFLOW   SINCE  SLUG\n\
                 Fix the parser  me/app      Deploy #3  3m     r-7\n  \
                 the run waits for the concurrency group `production`; r-5 (Deploy #2) has it; 1 before it\n\
                 Upload          me/app      Deploy #3  3m     {slug}\n  \
                 waits for the concurrency group `production`\n"
            )
        );
        assert!(text(Some(50)).lines().all(|line| line.chars().count() <= 50));
    }
}
