//! The load and the runners that were asked for.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::ValueEnum as _;
use kiln_sim::load::trace::{LONGEST_LINE, Reader};
use kiln_sim::load::{Fleet, Load, Policy, Pool, Wanted, generate};

use super::table::count;
use crate::cli::SimArgs;
use crate::output::one_line;
use crate::output::time::lasted;

pub(super) fn load(args: &SimArgs) -> Result<Load> {
    let mut load = match &args.trace {
        Some(path) => read(path)?,
        None => generate(&Wanted {
            jobs: args.jobs,
            organizations: args.organizations,
            shape: args.shape.shape(),
            load: args.load,
            runners: runners(args),
            seed: args.seed,
        }),
    };
    for organization in &mut load.organizations {
        organization.limit = args.limit;
    }
    for (name, shares) in &args.shares {
        match load.organization_mut(name) {
            Some(organization) => organization.shares = *shares,
            None => bail!(
                "`--shares {name}={shares}`: no job belongs to an organization `{name}`; expected \
                 one of those in the table"
            ),
        }
    }
    Ok(load)
}

pub(super) fn fleet(args: &SimArgs, load: &Load) -> Result<Fleet> {
    if args.pool.is_empty() {
        return Fleet::for_load(load, args.runners)
            .context("raise `--runners`, or say with `--pool` what they can do");
    }
    let pools = args.pool.iter().map(|pool| Pool::new(&pool.labels, pool.count));
    let pools = pools.collect::<Result<Vec<_>, _>>().context("`--pool`")?;
    Fleet::new(pools, load).context("the runners of `--pool` do not fit the jobs")
}

fn runners(args: &SimArgs) -> u32 {
    if args.pool.is_empty() {
        return args.runners;
    }
    args.pool.iter().fold(0, |sum, pool| sum.saturating_add(pool.count))
}

/// Each once, in the order in which they were named.
pub(super) fn policies(args: &SimArgs) -> Vec<Policy> {
    let mut policies = Vec::new();
    for &policy in &args.policy {
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    policies
}

/// What is simulated, in one line.
pub(super) fn title(args: &SimArgs, load: &Load, fleet: &Fleet) -> String {
    let word = |number: usize, one: &str, many: &str| {
        format!("{} {}", count(number), if number == 1 { one } else { many })
    };
    let what = format!(
        "{}, {} of {} within {}",
        word(usize::try_from(fleet.runners()).unwrap_or(usize::MAX), "runner", "runners"),
        word(load.jobs.len(), "job", "jobs"),
        word(load.organizations.len(), "organization", "organizations"),
        lasted(submitted_within(load)),
    );
    match &args.trace {
        Some(path) => format!("{what} ({})", one_line(&path.display().to_string())),
        None => {
            let shape = args.shape.to_possible_value();
            let shape = shape.as_ref().map_or("", |shape| shape.get_name());
            format!("{what} (shape {shape}, load {}, seed {})", args.load, args.seed)
        }
    }
}

pub(super) fn submitted_within(load: &Load) -> Duration {
    millis(load.span().map_or(0, |(first, last)| last - first))
}

pub(super) fn millis(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

fn read(path: &Path) -> Result<Load> {
    if path.as_os_str() == "-" {
        return lines(io::stdin().lock()).context("standard input is no trace");
    }
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot read `{shown}`"))?;
    lines(BufReader::new(file)).with_context(|| format!("`{shown}` is no trace"))
}

/// One line at a time, so that nothing has to fit into memory but the jobs.
fn lines(mut input: impl BufRead) -> Result<Load> {
    let mut reader = Reader::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        // One byte more than a line may have: then the reader refuses it.
        let most = LONGEST_LINE as u64 + 1;
        if input.by_ref().take(most).read_until(b'\n', &mut line).context("cannot read")? == 0 {
            return Ok(reader.end()?);
        }
        match str::from_utf8(&line) {
            Ok(text) => reader.line(text)?,
            // A character may be cut in two where the line is.
            Err(_) if line.len() > LONGEST_LINE => reader.line(&" x".repeat(LONGEST_LINE))?,
            Err(_) => return Err(anyhow!("line {}: it is not UTF-8", reader.lines() + 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = r#"{"submitted":0,"seconds":1,"organization":"o","repository":"r"}"#;

    #[test]
    fn lines_are_read_one_by_one() {
        let text = format!("{JOB}\r\n\n{JOB}");
        assert_eq!(lines(text.as_bytes()).unwrap().jobs.len(), 2);
    }

    #[test]
    fn what_is_no_line_of_text_is_refused() {
        let check = |line: &[u8], expect: &str| {
            let text = [JOB.as_bytes(), b"\n", line, b"\n"].concat();
            let error = format!("{:#}", lines(&text[..]).unwrap_err());
            assert!(error.starts_with(expect), "{error}");
        };
        check(b"\xff", "line 2: it is not UTF-8");
        check(&b"x".repeat(LONGEST_LINE * 3), "line 2: it is longer than 65536 bytes");
        check("ü".repeat(LONGEST_LINE).as_bytes(), "line 2: it is longer than 65536 bytes");
        let odd = format!("x{}", "ü".repeat(LONGEST_LINE));
        check(odd.as_bytes(), "line 2: it is longer than 65536 bytes");
    }
}
