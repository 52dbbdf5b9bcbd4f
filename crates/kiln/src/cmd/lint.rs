//! `kiln lint`: find the files, check them side by side, report in order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use kiln_lang::diag::{self, Severity};
use kiln_lang::lint;
use kiln_lang::suggest::closest;

use crate::Outcome;
use crate::cli::{LintArgs, LintFormat};
use crate::find::{self, Target};
use crate::lang::{self, CheckOptions, Read};
use crate::output::{Checked, Console, findings, github, human, json, sarif};
use crate::read;

/// Nobody reads more than this, and drawing them takes its time.
const MAX_SHOWN: usize = 500;

#[expect(
    clippy::disallowed_methods,
    reason = "the summary says how long it took; nothing depends on it"
)]
pub(crate) fn run(args: &LintArgs, console: &mut Console) -> Result<Outcome> {
    let started = Instant::now();
    known_checks(&args.allow)?;
    let found = find::targets(&args.paths)?;
    let checked = check_all(&found.targets, !args.no_checks);
    let mut findings = findings(&checked);
    findings.retain(|found| !args.allow.iter().any(|allowed| allowed == found.diagnostic.code));
    let refused = findings
        .iter()
        .any(|found| args.deny_warnings || found.diagnostic.severity == Severity::Error);
    findings.retain(|found| !args.quiet || found.diagnostic.severity == Severity::Error);
    match args.format {
        LintFormat::Human => {
            let shown = &findings[..findings.len().min(MAX_SHOWN)];
            console.print(&human::render(shown))?;
            if shown.len() < findings.len() {
                let more = findings.len() - shown.len();
                console.note_line(&format!(
                    "{more} more findings are not shown; `--format json` has them all"
                ));
            }
        }
        LintFormat::Json => console.print_raw(&json::array(&findings))?,
        LintFormat::Jsonl => console.print_raw(&json::lines(&findings))?,
        LintFormat::Sarif => console.print_raw(&sarif::render(&findings, &find::home()?))?,
        LintFormat::Github => console.print_raw(&github::render(&findings, &find::home()?))?,
    }
    if !args.quiet {
        found.notes.iter().for_each(|note| console.note_line(note));
    }
    if !args.quiet && args.format == LintFormat::Human {
        console.eprint(&human::summary(checked.len(), &findings, started.elapsed()));
    }
    Ok(if refused { Outcome::Errors } else { Outcome::Clean })
}

/// A name that is no check would silence nothing, which nobody would notice.
fn known_checks(names: &[String]) -> Result<()> {
    for name in names {
        let codes = || lint::CHECKS.iter().map(|check| check.code);
        if !codes().any(|code| code == name) {
            let meant = closest(name, codes()).map(|meant| format!("; did you mean `{meant}`?"));
            bail!("there is no check `{name}`{}", meant.unwrap_or_default());
        }
    }
    Ok(())
}

/// Checks on every core. Each thread takes the next file that nobody has, and the results are put
/// back in order, so the output does not depend on who was faster.
fn check_all(targets: &[Target], checks: bool) -> Vec<Checked> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(target) = targets.get(at) else {
                return done;
            };
            done.push((at, check(target, checks)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(targets.len());
    let mut checked = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    checked.sort_by_key(|(at, _)| *at);
    checked.into_iter().map(|(_, checked)| checked).collect()
}

fn check(target: &Target, checks: bool) -> Checked {
    let mut read = Read::default();
    read.diagnostics = match read::target(target) {
        Ok(text) => {
            let files = read::repository(&target.root);
            let options = CheckOptions { checks, files: &files };
            lang::check_file(&mut read.sources, &target.name, &text, &options)
        }
        Err(unreadable) => vec![unreadable.diagnostic(&mut read.sources, &target.name)],
    };
    diag::tidy(&mut read.diagnostics);
    Checked { target: target.clone(), read }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::find::Origin;

    #[test]
    fn results_come_in_the_order_of_the_files() {
        let target = |index: usize| Target {
            name: format!("{index}.yml"),
            shown: format!("{index}.yml"),
            root: PathBuf::from("/nowhere"),
            origin: Origin::File(format!("/nowhere/{index}.yml").into()),
        };
        let targets: Vec<_> = (0..200).map(target).collect();
        let checked = check_all(&targets, true);
        let names: Vec<_> = checked.iter().map(|done| done.target.name.as_str()).collect();
        let expect: Vec<_> = targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, expect);
        assert!(checked.iter().all(|done| done.read.diagnostics[0].code == "unreadable-file"));
    }
}
