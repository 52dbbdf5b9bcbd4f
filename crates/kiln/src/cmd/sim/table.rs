//! The figures as tables.

use std::fmt::Write as _;
use std::time::Duration;

use kiln_sim::load::{OrganizationReport, Report, Waits};

use crate::output::table::{Cell, Table, cut, whole};
use crate::output::time::{self, lasted};

/// How many organizations a table shows; those that work most.
const MOST_ROWS: usize = 12;

pub(super) fn text(title: &str, reports: &[Report]) -> String {
    let mut text = format!("{title}\n\n{}", policies(reports).text());
    for report in reports {
        let _ =
            write!(text, "\n{}, by organization:\n{}", report.policy, organizations(report).text());
        let hidden = report.organizations.len().saturating_sub(MOST_ROWS);
        if hidden > 0 {
            let _ = writeln!(text, "and {} more; `--json` has all", count(hidden));
        }
    }
    text
}

fn policies(reports: &[Report]) -> Table {
    let mut table = Table::new(&[
        whole("POLICY"),
        whole("MEAN WAIT"),
        whole("P50"),
        whole("P95"),
        whole("P99"),
        whole("LONGEST"),
        whole("JAIN"),
        whole("MAKESPAN"),
        whole("UTILIZATION"),
    ]);
    for report in reports {
        let figures = [
            format!("{:.3}", report.jain),
            span(report.makespan),
            format!("{:.1} %", report.utilization * 100.0),
        ];
        let name = Cell::from(report.policy.word());
        let cells = [name].into_iter().chain(waits(&report.wait));
        table.row(cells.chain(figures.iter().map(Cell::from)));
    }
    table
}

fn organizations(report: &Report) -> Table {
    let mut table = Table::new(&[
        cut("ORGANIZATION", 8),
        whole("JOBS"),
        whole("WORK"),
        whole("MEAN WAIT"),
        whole("P50"),
        whole("P95"),
        whole("P99"),
        whole("LONGEST"),
        whole("OF ITS SHARE"),
    ]);
    for organization in largest(report) {
        let share = organization.of_its_share;
        let share = share.map_or_else(|| time::NOTHING.to_owned(), |part| format!("{part:.2}"));
        let first = [
            Cell::from(&organization.name),
            Cell::from(count(organization.jobs)),
            Cell::from(span(organization.work)),
        ];
        table.row(first.into_iter().chain(waits(&organization.wait)).chain([Cell::from(share)]));
    }
    table
}

/// Those that work most, first.
pub(super) fn largest(report: &Report) -> Vec<&OrganizationReport> {
    let mut all: Vec<&OrganizationReport> = report.organizations.iter().collect();
    all.sort_by(|left, right| right.work.total_cmp(&left.work));
    all.truncate(MOST_ROWS);
    all
}

fn waits(waits: &Waits) -> impl Iterator<Item = Cell> {
    let Waits { mean, p50, p95, p99, max } = *waits;
    [mean, p50, p95, p99, max].into_iter().map(|wait| Cell::from(span(wait)))
}

/// Seconds in two units.
pub(super) fn span(seconds: f64) -> String {
    lasted(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// A number with a comma for each thousand.
pub(super) fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (number, expect) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567"), (100, "100")]
        {
            assert_eq!(count(number), expect);
        }
    }
}
