//! Loads that were recorded: a JSON object on each line.
//!
//! `{"submitted": 0, "seconds": 90.5, "organization": "acme", "repository": "web", "labels": ["linux"]}`,
//! and perhaps `"class": "high"` and `"priority": 100`. Times are seconds, from whatever beginning.

use std::fmt;

use kiln_core::queue::Class;
use serde::{Deserialize, Serialize};

use super::jobs::{Load, LoadBuilder};
use super::numbers::whole;

/// A line that is longer is not read to its end.
pub const LONGEST_LINE: usize = 64 << 10;

/// Thirty days, and some three thousand years.
const LONGEST_SECONDS: f64 = 2_592_000.0;
const LATEST_SECONDS: f64 = 1e11;

/// One job as a line of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// When it was ready to run, in seconds.
    pub submitted: f64,
    /// How long it ran.
    pub seconds: f64,
    pub organization: String,
    pub repository: String,
    #[serde(default)]
    pub labels: Vec<String>,
    /// `urgent`, `high`, `normal` or `low`.
    #[serde(default = "normal")]
    pub class: String,
    #[serde(default)]
    pub priority: i64,
}

fn normal() -> String {
    Class::Normal.word().to_owned()
}

/// Reads a trace line by line.
#[derive(Debug, Default)]
pub struct Reader {
    builder: LoadBuilder,
    line: usize,
    jobs: usize,
}

impl Reader {
    /// Takes the next line. Blank ones are passed over.
    pub fn line(&mut self, text: &str) -> Result<(), NotATrace> {
        self.line += 1;
        if text.trim().is_empty() {
            return Ok(());
        }
        self.add(text).map_err(|message| NotATrace { line: self.line, message })?;
        self.jobs += 1;
        Ok(())
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        if text.len() > LONGEST_LINE {
            return Err(format!("it is longer than {LONGEST_LINE} bytes; expected one job"));
        }
        // Serde would read a list as the fields in their order.
        if !text.trim_start().starts_with('{') {
            return Err("expected a JSON object for each job".to_owned());
        }
        let line: Line = serde_json::from_str(text).map_err(|error| said(&error))?;
        let class = Class::parse(&line.class).ok_or_else(|| {
            let known = Class::ALL.map(|class| format!("`{}`", class.word())).join(", ");
            format!("`class` is `{}`; expected one of {known}", shown(&line.class))
        })?;
        let submitted = millis("submitted", line.submitted, LATEST_SECONDS)?;
        let length = millis("seconds", line.seconds, LONGEST_SECONDS)?;
        let length = u32::try_from(length).map_err(|error| error.to_string())?;
        let builder = &mut self.builder;
        let organization = builder.organization(&line.organization).map_err(text_of)?;
        let repository = builder.repository(organization, &line.repository).map_err(text_of)?;
        let kind = builder.kind(&line.labels).map_err(text_of)?;
        let lane = builder.lane(kind, line.priority, repository, class);
        builder.job(submitted, length, lane).map_err(text_of)
    }

    /// How many lines were read.
    pub fn lines(&self) -> usize {
        self.line
    }

    /// The whole load, once the last line was read.
    pub fn end(self) -> Result<Load, NotATrace> {
        if self.jobs == 0 {
            let message = "there is no job in it; expected a JSON object for each job".to_owned();
            return Err(NotATrace { line: 0, message });
        }
        Ok(self.builder.build())
    }
}

fn text_of(error: impl fmt::Display) -> String {
    error.to_string()
}

/// What serde says, with the place within the line only.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(bare) => format!("{bare} (column {})", error.column()),
        None => text,
    }
}

fn shown(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(40).collect()
}

fn millis(name: &str, seconds: f64, most: f64) -> Result<i64, String> {
    if !(0.0..=most).contains(&seconds) {
        return Err(format!("`{name}` is {seconds}; expected seconds from 0 to {most}"));
    }
    Ok(whole((seconds * 1000.0).round()))
}

/// A text that is no trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotATrace {
    /// From 1; 0 when it is about the whole.
    pub line: usize,
    pub message: String,
}

impl fmt::Display for NotATrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

impl std::error::Error for NotATrace {}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str =
        r#"{"submitted": 10, "seconds": 1.5, "organization": "acme", "repository": "web"}"#;

    fn read(text: &str) -> Result<Load, NotATrace> {
        let mut reader = Reader::default();
        for line in text.lines() {
            reader.line(line)?;
        }
        reader.end()
    }

    /// S19
    #[test]
    fn a_trace_is_read_in_the_order_of_submission() {
        let full = r#"{"submitted": 2.25, "seconds": 0, "organization": "b", "repository": "web",
            "labels": ["Linux", "gpu"], "class": "urgent", "priority": 100}"#;
        let load = read(&format!("{JOB}\n\n{}\n", full.replace('\n', ""))).unwrap();
        let times: Vec<_> = load.jobs.iter().map(|job| (job.submitted, job.millis)).collect();
        assert_eq!(times, [(2_250, 1), (10_000, 1_500)], "a job takes a millisecond at least");
        let lane = &load.lanes[load.jobs[0].lane as usize];
        assert_eq!((lane.priority, lane.class), (100, Class::Urgent));
        assert_eq!(load.kinds[lane.kind as usize].demand().labels, ["gpu", "linux"]);
        assert_eq!(load.organizations[lane.organization as usize].name, "b");
        assert_eq!(load.repositories.len(), 2, "names count within their organization");
    }

    #[test]
    fn a_line_that_is_no_job_is_refused_with_its_number() {
        let check = |line: &str, expect: &str| {
            let error = read(&format!("{JOB}\n{line}\n")).unwrap_err();
            assert_eq!(error.line, 2);
            assert!(error.message.contains(expect), "{line}: {error}");
        };
        check("[]", "expected a JSON object");
        check("{", "EOF while parsing");
        check("{}", "missing field `submitted`");
        check(
            &JOB.replace("10", "-1"),
            "`submitted` is -1; expected seconds from 0 to 100000000000",
        );
        check(&JOB.replace("1.5", "1e300"), "expected seconds from 0 to 2592000");
        check(&JOB.replace("1.5", "\"1\""), "expected f64");
        check(&JOB.replace("acme", " "), "the organization has no name");
        check(&JOB.replace("web", &"w".repeat(300)), "at most 256 characters");
        check(&JOB.replace("web", "a\\u0007"), "control character");
        check(&JOB.replace('}', r#", "class": "soon"}"#), "expected one of `urgent`, `high`");
        check(&JOB.replace('}', r#", "labels": [""]}"#), "a label is empty");
        check(&JOB.replace('}', r#", "colour": 1}"#), "unknown field `colour`");
        check(&format!("{{{}", " ".repeat(LONGEST_LINE)), "longer than 65536 bytes");
        check(&"[".repeat(10_000), "expected a JSON object");
        check(&"{\"a\":".repeat(10_000), "(column");
    }

    #[test]
    fn a_trace_without_jobs_is_refused() {
        assert!(read("\n\n").unwrap_err().to_string().starts_with("there is no job in it"));
    }

    #[test]
    fn more_sets_of_labels_than_can_be_compared_are_refused() {
        let line = |at: usize| JOB.replace('}', &format!(r#", "labels": ["l{at}"]}}"#));
        let many: Vec<String> = (0..1_001).map(line).collect();
        let error = read(&many.join("\n")).unwrap_err();
        assert_eq!(error.line, 1_001);
        assert!(error.message.contains("more than 1000 different sets of labels"), "{error}");
    }

    #[test]
    fn what_is_written_can_be_read() {
        let line: Line = serde_json::from_str(JOB).unwrap();
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(read(&text), read(JOB));
    }
}
