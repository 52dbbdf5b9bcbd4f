//! The rules of the repository that no other tool enforces, one module each.

mod catalogue;
mod edges;
mod generated;
mod hosts;
mod lengths;
mod links;
mod module_docs;
mod sizes;
mod unwraps;

use std::fmt;

use anyhow::Result;

use crate::repository::Repository;

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    pub path: String,
    pub line: Option<usize>,
    pub message: String,
}

impl Finding {
    fn in_file(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into() }
    }

    fn on_line(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

/// What tidy has to say: findings are errors, notes are worth knowing.
#[derive(Debug, Default)]
pub struct Report {
    pub findings: Vec<Finding>,
    pub notes: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        for finding in &self.findings {
            writeln!(f, "error: {finding}")?;
        }
        match self.findings.len() {
            0 => writeln!(f, "tidy: clean"),
            count => writeln!(f, "tidy: {count} to mend"),
        }
    }
}

/// Runs every check over the repository.
pub fn run(repository: &Repository) -> Result<Report> {
    let checks = [
        edges::check,
        hosts::check,
        lengths::check,
        links::check,
        module_docs::check,
        sizes::check,
        unwraps::check,
    ];
    let mut report = Report::default();
    for check in checks {
        report.findings.extend(check(repository));
    }
    report.findings.extend(generated::check(repository)?);
    report.notes.extend(lengths::notes(repository));
    report.notes.extend(catalogue::note(repository));
    Ok(report)
}
