//! What a companion says about machines: what a job requires of one, and how much it may use.

use std::sync::Arc;

use kiln_core::plan::{Limits, Requires, StepsJob};
use kiln_core::queue::{Demand, Requirements};

use crate::diag::Diagnostic;
use crate::workflow::one_or_more;
use crate::yaml::Node;

use super::companion::whole;

/// More than any machine has.
const MOST_CORES: u32 = 4096;
/// A million of millions of millions of bytes: more than any machine has, and far from overflow.
const MOST_MB: f64 = 1e12;

const UNITS: [(&str, f64); 8] = [
    ("KB", 0.001),
    ("MB", 1.0),
    ("GB", 1e3),
    ("TB", 1e6),
    ("KiB", 0.001_024),
    ("MiB", 1.048_576),
    ("GiB", 1_073.741_824),
    ("TiB", 1_099_511.627_776),
];

pub(super) fn requires(node: &Arc<Node>, found: &mut Vec<Diagnostic>) -> Requires {
    let words = |key| one_or_more(node.get(key)).into_iter().filter_map(|node| node.text());
    let size = |key, found: &mut _| node.get(key).and_then(|node| size(node, found));
    Requires {
        system: node.get("system").and_then(|node| node.text()).map(str::to_owned),
        features: words("features").map(str::to_owned).collect(),
        tools: words("tools").map(str::to_owned).collect(),
        cores: node.get("cores").and_then(|node| whole(node, 1.0, MOST_CORES.into(), found)),
        memory_mb: size("memory", found),
        disk_mb: size("disk", found),
    }
}

pub(super) fn limits(node: &Arc<Node>, found: &mut Vec<Diagnostic>) -> Limits {
    let size = |key, found: &mut _| node.get(key).and_then(|node| size(node, found));
    Limits {
        cpu_millis: node.get("cores").and_then(|node| cpu(node, found)),
        memory_mb: size("memory", found),
        disk_mb: size("disk", found),
    }
}

/// Whether the queue will take what a job asks for; what only it knows is said here, where it is written.
pub(super) fn check(job: &StepsJob, node: &Node, found: &mut Vec<Diagnostic>) {
    if let Err(error) = Requirements::new(Demand::of(&job.requires, &job.prefer)) {
        found.push(Diagnostic::error("wrong-type", node.span, error.to_string()));
    }
}

/// Cores in thousandths: `1.5` is 1500.
fn cpu(node: &Node, found: &mut Vec<Diagnostic>) -> Option<u32> {
    let text = node.text()?;
    let cores =
        text.parse::<f64>().ok().filter(|cores| (0.01..=f64::from(MOST_CORES)).contains(cores));
    if cores.is_none() {
        let message =
            format!("expected a number of cores from 0.01 to {MOST_CORES}, found `{text}`");
        found.push(Diagnostic::error("wrong-type", node.span, message));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in bounds")]
    cores.map(|cores| (cores * 1000.0).round() as u32)
}

/// A size in millions of bytes, rounded up, or a report that it is none.
fn size(node: &Node, found: &mut Vec<Diagnostic>) -> Option<u64> {
    let text = node.text()?;
    let size = parse_size(text);
    if size.is_none() {
        let message = format!("expected a size such as `512 MB` or `4 GB`, found `{text}`");
        found.push(Diagnostic::error("wrong-type", node.span, message));
    }
    size
}

fn parse_size(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, unit) = text.split_at(end);
    let (_, factor) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()))?;
    let size = (number.parse::<f64>().ok()? * factor).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in bounds")]
    (1.0..=MOST_MB).contains(&size).then_some(size as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S2, S23
    #[test]
    fn sizes_are_read_with_their_units() {
        let check = |text, expect| assert_eq!(parse_size(text), expect, "{text}");
        check("512 MB", Some(512));
        check("4 GB", Some(4000));
        check("4gb", Some(4000));
        check("1.5 TB", Some(1_500_000));
        check("1 GiB", Some(1074));
        check("1 KB", Some(1));
        check("2 TiB", Some(2_199_024));
        for none in
            ["", "4", "GB", "4 G", "4 GBs", "-4 GB", "1e3 GB", "0 GB", "1..2 GB", "9999999999 TB"]
        {
            check(none, None);
        }
    }
}
