//! Schedules that never fire, fire too often, or stand there twice.

use kiln_core::cron::Cron;

use crate::diag::{Diagnostic, Severity};
use crate::source::Span;

use super::context::Context;
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "cron-schedule",
    summary: "a schedule that never fires, fires too often, or stands there twice",
    severity: Severity::Warning,
    why: "\
A day such as 30 February never comes, and nothing tells that the workflow never ran. GitHub starts a schedule at most every
five minutes; a shorter interval is a misunderstanding of the first field more often than a wish. The same schedule twice
starts two runs at the same moment.",
    bad: workflow(
        "\
on:
  schedule:
    - cron: '0 4 30 2 *'
    - cron: '* * * * *'
permissions: {}
jobs:
  clean:
    runs-on: ubuntu-latest
    steps:
      - run: ./clean
",
    ),
    good: workflow(
        "\
on:
  schedule:
    - cron: '0 4 28 2 *'
    - cron: '*/10 * * * *'
permissions: {}
jobs:
  clean:
    runs-on: ubuntu-latest
    steps:
      - run: ./clean
",
    ),
    run,
};

/// GitHub's shortest interval.
const SHORTEST_MINUTES: u32 = 5;

/// How many are looked at: finding an interval can mean walking through a calendar.
const MAX_SCHEDULES: usize = 100;

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let Some(schedules) = context.document.event("schedule").flatten() else { return };
    let mut seen: Vec<(Cron, &str, Span)> = Vec::new();
    for entry in schedules.items().iter().take(MAX_SCHEDULES) {
        let Some(node) = entry.get("cron") else { continue };
        let text = node.text().unwrap_or_default();
        let Ok(cron) = Cron::parse(text) else { continue };
        let zone = entry.get("timezone").and_then(|zone| zone.text()).unwrap_or("UTC");
        let twin = seen.iter().find(|(other, other_zone, _)| *other == cron && *other_zone == zone);
        if let Some((.., first)) = twin {
            let finding =
                Diagnostic::warning(CHECK.code, node.span, "the same schedule stands above")
                    .related(*first, "first written here")
                    .help("remove it, or it starts two runs at once");
            found.push(finding);
        } else if cron.never_fires() {
            let message = "this schedule never fires: there is no such day";
            let finding = Diagnostic::warning(CHECK.code, node.span, message);
            found.push(
                finding.help("fields are minute, hour, day of the month, month, day of the week"),
            );
        } else if let Some(minutes) = too_often(&cron, text) {
            found.push(often(node.span, minutes));
        }
        seen.push((cron, zone, node.span));
    }
}

/// The shortest interval if it is below the limit. Only lists, ranges and steps can bring it there.
fn too_often(cron: &Cron, text: &str) -> Option<u32> {
    let minutes = text.split_whitespace().next()?;
    let interval = minutes.contains(['*', ',', '-', '/']).then(|| cron.shortest_interval_minutes());
    interval.flatten().filter(|minutes| *minutes < SHORTEST_MINUTES)
}

fn often(span: Span, minutes: u32) -> Diagnostic {
    let interval =
        if minutes == 1 { "every minute".to_owned() } else { format!("{minutes} minutes apart") };
    let message = format!(
        "this schedule fires {interval}; GitHub starts one at most every {SHORTEST_MINUTES} minutes"
    );
    Diagnostic::warning(CHECK.code, span, message)
        .help("the first field is the minute: `0 * * * *` is once an hour, `*/10 * * * *` every ten minutes")
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(crons: &[&str], expected: &[&str]) {
        let mut text = "on:\n  schedule:\n".to_owned();
        for cron in crons {
            text.extend(["    - cron: ", cron, "\n"]);
        }
        text.push_str("jobs:\n  a: {runs-on: x}\n");
        testing::check("cron-schedule", &text, expected);
    }

    /// P6
    #[test]
    fn a_day_that_never_comes_is_found() {
        check(&["0 0 30 2 *"], &["3:13 this schedule never fires: there is no such day"]);
        check(&["0 0 31 4,6 *"], &["3:13 this schedule never fires: there is no such day"]);
        check(&["0 0 29 2 *"], &[]);
    }

    #[test]
    fn short_intervals_are_found() {
        check(
            &["'* * * * *'", "'*/4 1 * * *'"],
            &[
                "3:13 this schedule fires every minute; GitHub starts one at most every 5 minutes",
                "4:13 this schedule fires 4 minutes apart; GitHub starts one at most every 5 minutes",
            ],
        );
        check(&["'*/5 * * * *'", "0 4 1 1 *", "10,20 4 1 1 *"], &[]);
    }

    #[test]
    fn the_same_schedule_twice_is_found() {
        check(&["0 4 * * 1-2", "'0  04 * * MON,TUE'"], &["4:13 the same schedule stands above"]);
        check(&["0 4 * * 1\n      timezone: Europe/Berlin", "0 4 * * 1"], &[]);
    }
}
