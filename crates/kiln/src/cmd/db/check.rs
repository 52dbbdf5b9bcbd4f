//! `kiln db check`: what the store's auditor finds, for people and for programs.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use kiln_store::Description;
use kiln_store::inspect::{Report, inspect_with};
use serde_json::{Value, json};

use super::place::Place;
use super::progress::Shown;
use super::status;
use crate::Outcome;
use crate::output::Console;

pub(super) async fn run(place: &Place, json: bool, console: &mut Console) -> Result<Outcome> {
    let store = place.look()?;
    must_be_newest(place, &place.explain(store.describe().await)?)?;
    let mut shown = Shown::on(console);
    let report = inspect_with(&store, &mut |report| {
        // Short: a line that wraps cannot be painted over.
        let (runs, jobs) = (count(report.runs, "run"), count(report.jobs, "job"));
        shown.move_to(&format!("looked at {runs}, {jobs}"));
    })
    .await;
    shown.end();
    let report = place.explain(report)?;
    let answer =
        if json { format!("{:#}\n", as_json(place, &report)) } else { as_text(place, &report) };
    console.print_raw(&answer)?;
    Ok(if report.is_clean() { Outcome::Clean } else { Outcome::Errors })
}

/// The rules are about the newest schema; what an older one lacks would look like damage.
fn must_be_newest(place: &Place, description: &Description) -> Result<()> {
    let Description { version, newest, .. } = description;
    if let Some(trouble) = status::trouble(description) {
        bail!("database `{place}` has schema {version}, {trouble}");
    }
    if *version == 0 {
        bail!("database `{place}` is empty: there is nothing to check");
    }
    if version < newest {
        bail!(
            "database `{place}` has schema {version}, the newest is {newest}; run `kiln db migrate` first"
        );
    }
    Ok(())
}

fn seen(report: &Report) -> String {
    let Report { runs, open_runs, jobs, queued, leases, groups, .. } = report;
    format!(
        "{} ({open_runs} open), {}, {} in the queue, {}, {}",
        count(*runs, "run"),
        count(*jobs, "job"),
        count(*queued, "place"),
        count(*leases, "lease"),
        count(*groups, "concurrency group"),
    )
}

fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// A line for each finding, and what was looked at.
fn as_text(place: &Place, report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let rule = json!(finding.rule);
        let rule = rule.as_str().unwrap_or_default();
        let _ = writeln!(text, "{}: {} [{rule}]", finding.subject, finding.text);
    }
    if report.left_off > 0 {
        let _ = writeln!(text, "and {} more", report.left_off);
    }
    let _ = writeln!(text, "looked at `{place}`: {}", seen(report));
    if report.is_clean() {
        text.push_str("nothing is wrong\n");
    } else {
        let found = count(report.findings.len() as u64 + report.left_off, "contradiction");
        let _ = writeln!(
            text,
            "{found}: a fault of Kiln or of the disk. Make a backup with `kiln db backup` before you \
             change anything, and report these lines."
        );
    }
    text
}

fn as_json(place: &Place, report: &Report) -> Value {
    json!({
        "database": place.to_string(),
        "clean": report.is_clean(),
        "looked_at": {
            "runs": report.runs,
            "open_runs": report.open_runs,
            "jobs": report.jobs,
            "queued": report.queued,
            "leases": report.leases,
            "groups": report.groups,
        },
        "findings": report.findings,
        "left_off": report.left_off,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_thing_is_not_many() {
        let report = Report { runs: 1, jobs: 2, leases: 1, ..Report::default() };
        assert_eq!(
            seen(&report),
            "1 run (0 open), 2 jobs, 0 places in the queue, 1 lease, 0 concurrency groups"
        );
    }
}
