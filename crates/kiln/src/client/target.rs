//! What people name: a run or a job by its slug or number, or by an address that they pasted.

use std::str::FromStr;

use anyhow::{Result, bail};
use kiln_core::id::{JobId, RunId};
use reqwest::Url;

/// What was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) what: What,
    /// The address that it was pasted with.
    pub(crate) url: Option<Url>,
    /// An attempt of the run, if the address names one.
    pub(crate) attempt: Option<u32>,
    /// A step, if the address names one.
    pub(crate) step: Option<u32>,
    /// A claim of the job, if the address names one.
    pub(crate) claim: Option<u32>,
    /// Lines of its log, if the address names some.
    pub(crate) lines: Option<Lines>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Run(RunId),
    Job(JobId),
}

impl What {
    pub(crate) fn run(self) -> RunId {
        match self {
            Self::Run(run) => run,
            Self::Job(job) => job.run(),
        }
    }
}

/// Lines of a log, the first and the last, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// `120`, `120-130` or `120-`, also with an `L` before each number, as pages link to lines.
impl FromStr for Lines {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = |text: &str| text.strip_prefix('L').unwrap_or(text).parse::<u64>().ok();
        let ends = match text.split_once('-') {
            Some((first, "")) => number(first).map(|first| (first, u64::MAX)),
            Some((first, last)) => number(first).zip(number(last)),
            None => number(text).map(|line| (line, line)),
        };
        match ends {
            Some((one, other)) if one > 0 && other > 0 => {
                Ok(Self { first: one.min(other), last: one.max(other) })
            }
            _ => bail!("expected a line such as 120, or lines such as 120-130"),
        }
    }
}

impl Target {
    /// Nothing but this.
    pub(crate) fn bare(what: What) -> Self {
        Self { what, url: None, attempt: None, step: None, claim: None, lines: None }
    }
}

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.contains("://") {
            return of_address(text);
        }
        if let Ok(run) = text.parse() {
            return Ok(Self::bare(What::Run(run)));
        }
        if let Ok(job) = text.parse() {
            return Ok(Self::bare(What::Job(job)));
        }
        bail!(
            "`{text}` names no run or job; expected a slug such as `r-9ix` or `j-9ix` (`kiln runs` lists \
             them), a number, or the address of a page"
        )
    }
}

/// `…/runs/ID`, perhaps with `/attempts/N` and `/job/ID` behind it, as GitHub has them.
fn of_address(text: &str) -> Result<Target> {
    let wrong = || {
        anyhow::anyhow!(
            "`{text}` is not the address of a run or job; expected `…/runs/ID` or `…/runs/ID/job/ID`"
        )
    };
    let url = Url::parse(text).map_err(|_| wrong())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong());
    }
    let parts: Vec<&str> = url.path_segments().map(Iterator::collect).unwrap_or_default();
    let after = |names: &[&str]| {
        let at = parts.iter().rposition(|part| names.contains(part))?;
        parts.get(at + 1).copied()
    };
    let query = |name: &str| Some(url.query_pairs().find(|(key, _)| key == name)?.1.into_owned());
    let number = |name: &str| query(name)?.parse().ok();
    let job = after(&["job", "jobs"]).and_then(|text| text.parse().ok()).map(What::Job);
    let run = || after(&["runs"]).and_then(|text| text.parse().ok()).map(What::Run);
    let fragment = url.fragment().unwrap_or_default();
    // GitHub writes steps behind the hash, we write lines there.
    let step = fragment.strip_prefix("step:").and_then(|rest| rest.split(':').next()?.parse().ok());
    let lines = fragment.strip_prefix('L').and_then(|lines| lines.parse().ok());
    let line = || query("line")?.parse().ok();
    let attempt = after(&["attempts"]).and_then(|text| text.parse().ok());
    Ok(Target {
        what: job.or_else(run).ok_or_else(wrong)?,
        attempt: attempt.or_else(|| number("attempt")),
        step: step.or_else(|| number("step")),
        claim: number("claim"),
        lines: lines.or_else(line),
        url: Some(url.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, what: What, attempt: Option<u32>, step: Option<u32>) {
        let target: Target = text.parse().unwrap();
        assert_eq!((target.what, target.attempt, target.step), (what, attempt, step), "{text}");
    }

    #[test]
    fn slugs_numbers_and_pasted_addresses_are_taken() {
        let (run, job) = (What::Run(RunId(12_345)), What::Job(JobId(12_345)));
        check("r-9ix", run, None, None);
        check(" 12345\n", run, None, None);
        check("j-9ix", job, None, None);
        check("http://127.0.0.1:8420/me/app/actions/runs/12345", run, None, None);
        check("https://ci.example/runs/r-9ix/", run, None, None);
        check("https://ci.example/kiln/runs/r-9ix?attempt=2", run, Some(2), None);
        check(
            "https://ci.example/a/b/actions/runs/7/attempts/3",
            What::Run(RunId(7)),
            Some(3),
            None,
        );
        check("https://ci.example/a/b/actions/runs/7/job/12345#step:4:17", job, None, Some(4));
        check("https://ci.example/a/b/actions/runs/7/jobs/j-9ix", job, None, None);
        check("https://ci.example/runs/runs/actions/runs/12345", run, None, None);
    }

    #[test]
    fn what_names_nothing_is_refused_with_what_is_expected() {
        for text in [
            "",
            "main",
            "x-9ix",
            "r-9IX",
            "https://ci.example/",
            "https://ci.example/runs/",
            "ftp://x/runs/1",
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains("expected"), "{error}");
        }
    }

    #[test]
    fn lines_and_claims_of_an_address_are_taken() {
        let of = |rest: &str| {
            let text = format!("https://ci.example/a/b/actions/runs/7/job/12345{rest}");
            let target: Target = text.parse().unwrap();
            (target.claim, target.lines.map(|lines| (lines.first, lines.last)), target.step)
        };
        assert_eq!(of("#L120"), (None, Some((120, 120)), None));
        assert_eq!(of("#L130-L120"), (None, Some((120, 130)), None));
        assert_eq!(of("?line=7&claim=2#L9-L12"), (Some(2), Some((9, 12)), None));
        assert_eq!(of("?line=7&step=3"), (None, Some((7, 7)), Some(3)));
        for nothing in ["#L", "#L0", "#Lx-L2", "#top", "?claim=x"] {
            assert_eq!(of(nothing), (None, None, None), "{nothing}");
        }
        let open: Lines = "120-".parse().unwrap();
        assert_eq!((open.first, open.last), (120, u64::MAX));
        for wrong in ["", "-", "0", "-5", "a-b", "1-2-3"] {
            assert!(wrong.parse::<Lines>().is_err(), "{wrong}");
        }
    }
}
