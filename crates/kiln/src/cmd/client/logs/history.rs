//! What is looked for, in the logs of all runs of a repository, the newest first.

use std::fmt::Write as _;

use anyhow::Result;
use kiln_core::id::{JobId, RunId};
use kiln_proto::api::{LogMatch, LogMatches};

use super::super::place::Place;
use super::super::print_json;
use super::print::calm;
use crate::Outcome;
use crate::cli::LogsArgs;
use crate::output::text::{QUIET, said};
use crate::output::{Console, one_line};

/// How many lines are shown unless `--tail` says another number.
const USUAL: u64 = 1_000;

pub(super) async fn run(args: &LogsArgs, console: &mut Console) -> Result<Outcome> {
    let Place { client, owner, name } = Place::find(&args.server, args.repo.as_deref()).await?;
    let most = args.tail.unwrap_or(USUAL);
    let (mut found, mut after, mut place) = (0, None, None);
    loop {
        let answer: LogMatches = client
            .get(&["repos", &owner, &name, "log", "search"])
            .query_if("q", args.grep.as_ref())
            .query_if("regex", args.regex.then_some("true"))
            .query_if("ignore_case", args.ignore_case.then_some("true"))
            .query_if("after", after.as_ref())
            .json()
            .await?;
        for line in &answer.items {
            if found == most {
                let hint = format!("there are more than {most} such lines; `--tail N` shows N");
                console.note_line(&hint);
                return Ok(Outcome::Clean);
            }
            found += 1;
            show(args, line, &mut place, console)?;
        }
        after = answer.next;
        if after.is_none() || console.is_closed() {
            return Ok(if found == 0 { Outcome::Errors } else { Outcome::Clean });
        }
    }
}

fn show(
    args: &LogsArgs,
    found: &LogMatch,
    place: &mut Option<(i64, u32)>,
    console: &mut Console,
) -> Result<()> {
    if args.server.json {
        return print_json(console, found);
    }
    if args.raw {
        return console.print_raw(&format!("{}\n", found.text));
    }
    let mut text = String::new();
    if place.replace((found.job_id, found.attempt)) != Some((found.job_id, found.attempt)) {
        text.push_str(&heading(found));
    }
    let _ = write!(text, "{QUIET}{:>7}{QUIET:#} ", found.line);
    if args.timestamps {
        let _ = write!(text, "{QUIET}{}{QUIET:#} ", found.at);
    }
    let _ = writeln!(text, "{}", said(&calm(&found.text)));
    console.print(&text)
}

/// Where the lines that follow were found, as it can be named to `kiln logs`.
fn heading(found: &LogMatch) -> String {
    let (run, job) = (RunId(found.run_id).slug(), JobId(found.job_id).slug());
    let day = found.at.get(..16).unwrap_or(&found.at).replace('T', " ");
    let mut which = String::new();
    if found.run_attempt > 1 {
        let _ = write!(which, ", attempt {}", found.run_attempt);
    }
    if found.attempt > 1 {
        let _ = write!(which, ", claim {}", found.attempt);
    }
    format!(
        "{QUIET}──{QUIET:#} {} {QUIET}{run} {job} {day}{which}{QUIET:#}\n",
        one_line(&found.job)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_names_run_and_job() {
        let found = LogMatch {
            run_id: 12_345,
            job_id: JobId::of(RunId(12_345), 3).0,
            job: "test\u{1b}[31m (linux)".to_owned(),
            attempt: 1,
            run_attempt: 1,
            line: 7,
            step: 0,
            at: "2026-11-16T05:31:15.250Z".to_owned(),
            text: "x".to_owned(),
            before: Vec::new(),
            after: Vec::new(),
        };
        let shown = anstream::adapter::strip_str(&heading(&found)).to_string();
        let (run, job) = (RunId(found.run_id).slug(), JobId(found.job_id).slug());
        assert!(shown.ends_with(&format!(" (linux) {run} {job} 2026-11-16 05:31\n")), "{shown}");
        let again = heading(&LogMatch { attempt: 3, run_attempt: 2, ..found });
        assert!(
            anstream::adapter::strip_str(&again).to_string().ends_with(", attempt 2, claim 3\n")
        );
    }
}
