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

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.contains("://") {
            return of_address(text);
        }
        let bare = |what| Self { what, url: None, attempt: None, step: None };
        if let Ok(run) = text.parse() {
            return Ok(bare(What::Run(run)));
        }
        if let Ok(job) = text.parse() {
            return Ok(bare(What::Job(job)));
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
    let query = |name: &str| url.query_pairs().find(|(key, _)| key == name)?.1.parse().ok();
    let job = after(&["job", "jobs"]).and_then(|text| text.parse().ok()).map(What::Job);
    let run = || after(&["runs"]).and_then(|text| text.parse().ok()).map(What::Run);
    let step = url
        .fragment()
        .and_then(|fragment| fragment.strip_prefix("step:")?.split(':').next()?.parse().ok());
    let attempt = after(&["attempts"]).and_then(|text| text.parse().ok());
    Ok(Target {
        what: job.or_else(run).ok_or_else(wrong)?,
        attempt: attempt.or_else(|| query("attempt")),
        step,
        url: Some(url.clone()),
    })
}

impl Target {
    /// The server that the address belongs to, if it was pasted with one that is not below `server`.
    pub(crate) fn elsewhere(&self, server: &Url) -> Option<String> {
        let url = self.url.as_ref()?;
        let base = super::settings::shown(server);
        let below = url.as_str().strip_prefix(&base).is_some_and(|rest| rest.starts_with('/'));
        (!below).then(|| url.origin().ascii_serialization())
    }
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
    fn an_address_of_another_server_is_told_apart() {
        let target: Target = "https://ci.example/kiln/runs/1".parse().unwrap();
        let server = |text: &str| super::super::settings::address(text).unwrap();
        assert_eq!(target.elsewhere(&server("https://ci.example/kiln")), None);
        assert_eq!(target.elsewhere(&server("https://ci.example")), None);
        let other = Some("https://ci.example".to_owned());
        assert_eq!(target.elsewhere(&server("https://ci.example/ki")), other);
        assert_eq!(target.elsewhere(&server("https://ci.example:444")), other);
    }
}
