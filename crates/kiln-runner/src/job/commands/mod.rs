//! Workflow commands: what a step asks for by printing a line.

mod processor;
mod syntax;
#[cfg(test)]
mod tests;

use std::path::Path;

pub use processor::{Options, Processed, Processor};
use syntax::Written;

use super::annotations::{Annotation, Severity, beneath};

/// The names of all commands; any other name makes ordinary text.
const NAMES: [&str; 16] = [
    "add-mask",
    "add-matcher",
    "add-path",
    "debug",
    "echo",
    "endgroup",
    "error",
    "group",
    "internal-set-repo-path",
    "notice",
    "remove-matcher",
    "save-state",
    "set-env",
    "set-output",
    "stop-commands",
    "warning",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Group(String),
    EndGroup,
    Debug(String),
    Annotate(Annotation),
    AddMask(String),
    /// The path of a file with problem matchers, relative to the workspace.
    AddMatcher(String),
    RemoveMatcher(MatcherRef),
    Echo(bool),
    StopCommands(String),
    SetOutput {
        name: String,
        value: String,
    },
    SaveState {
        name: String,
        value: String,
    },
    SetEnv {
        name: String,
        value: String,
    },
    AddPath(String),
    InternalSetRepoPath {
        repository: String,
        is_workspace: bool,
        path: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatcherRef {
    Owner(String),
    /// All owners that this file names.
    File(String),
}

/// Why a command cannot be obeyed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("`{command}` needs the property `{property}`")]
    Missing { command: &'static str, property: &'static str },
    #[error("`{command}` needs a value after its name")]
    NoValue { command: &'static str },
    #[error("`remove-matcher` needs either an owner or a file, not both and not neither")]
    OwnerOrFile,
    #[error("`echo` takes `on` or `off`, not `{0}`")]
    Echo(String),
}

impl Fault {
    /// Some mistakes fail the step, others are only worth a warning. The division is GitHub's.
    pub fn fails_step(&self) -> bool {
        match self {
            Self::Missing { .. } | Self::Echo(_) => true,
            Self::NoValue { command } => !matches!(*command, "add-mask" | "add-matcher"),
            Self::OwnerOrFile => false,
        }
    }
}

/// Reads one line. `None` is ordinary text, `Some(Err(_))` a command with a mistake. Whether it is
/// allowed now is decided by the [`Processor`]. Files below `workspace` become relative to it.
pub fn parse(line: &str, workspace: &Path) -> Option<Result<Command, Fault>> {
    let written = syntax::parse(line, is_command)?;
    Some(interpret(written, workspace))
}

fn is_command(name: &str) -> bool {
    NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn interpret(written: Written, workspace: &Path) -> Result<Command, Fault> {
    Ok(match written.name.as_str() {
        "group" => Command::Group(written.data),
        "endgroup" => Command::EndGroup,
        "debug" => Command::Debug(written.data),
        "notice" => annotate(Severity::Notice, written, workspace),
        "warning" => annotate(Severity::Warning, written, workspace),
        "error" => annotate(Severity::Error, written, workspace),
        "add-mask" if written.data.trim().is_empty() => {
            return Err(Fault::NoValue { command: "add-mask" });
        }
        "add-mask" => Command::AddMask(written.data),
        "add-matcher" => Command::AddMatcher(value(written, "add-matcher")?),
        "remove-matcher" => remove_matcher(written)?,
        "echo" => echo(&written.data)?,
        "stop-commands" => Command::StopCommands(written.data),
        "set-output" => Command::SetOutput {
            name: property(&written, "set-output", "name")?,
            value: written.data,
        },
        "save-state" => Command::SaveState {
            name: property(&written, "save-state", "name")?,
            value: written.data,
        },
        "set-env" => {
            Command::SetEnv { name: property(&written, "set-env", "name")?, value: written.data }
        }
        "add-path" => Command::AddPath(value(written, "add-path")?),
        "internal-set-repo-path" => {
            let command = "internal-set-repo-path";
            Command::InternalSetRepoPath {
                repository: property(&written, command, "repoFullName")?,
                is_workspace: is_true(&property(&written, command, "workspaceRepo")?),
                path: written.data,
            }
        }
        other => unreachable!("`{other}` is in the table of names"),
    })
}

fn is_true(text: &str) -> bool {
    text.trim().eq_ignore_ascii_case("true")
}

fn property(
    written: &Written,
    command: &'static str,
    property: &'static str,
) -> Result<String, Fault> {
    let found = written.property(property).map(str::to_owned);
    found.ok_or(Fault::Missing { command, property })
}

fn value(written: Written, command: &'static str) -> Result<String, Fault> {
    if written.data.is_empty() { Err(Fault::NoValue { command }) } else { Ok(written.data) }
}

fn remove_matcher(written: Written) -> Result<Command, Fault> {
    match (written.property("owner"), written.data.is_empty()) {
        (Some(owner), true) => Ok(Command::RemoveMatcher(MatcherRef::Owner(owner.to_owned()))),
        (None, false) => Ok(Command::RemoveMatcher(MatcherRef::File(written.data))),
        _ => Err(Fault::OwnerOrFile),
    }
}

fn echo(data: &str) -> Result<Command, Fault> {
    match data.trim() {
        on if on.eq_ignore_ascii_case("on") => Ok(Command::Echo(true)),
        off if off.eq_ignore_ascii_case("off") => Ok(Command::Echo(false)),
        "" => Err(Fault::NoValue { command: "echo" }),
        _ => Err(Fault::Echo(data.to_owned())),
    }
}

fn annotate(severity: Severity, written: Written, workspace: &Path) -> Command {
    let number = |name| written.property(name).and_then(|text| text.trim().parse::<u32>().ok());
    let end_line = number("endLine");
    let end_column = number("endColumn");
    // An end without a beginning is a place of its own.
    let line = number("line").or(end_line);
    let column = number("col").or(end_column);

    // Columns mean something within one line only.
    let within_line = line.is_some() && end_line.is_none_or(|end| line == Some(end));
    let (column, end_column) = if within_line { (column, end_column) } else { (None, None) };
    let (line, end_line) = in_order(line, end_line);
    let (column, end_column) = in_order(column, end_column);

    let file = written.property("file");
    let file = file.map(|file| beneath_if_absolute(workspace, file));
    let title = written.property("title").map(str::to_owned);
    let plain = Annotation::new(severity, written.data);
    Command::Annotate(Annotation { title, file, line, end_line, column, end_column, ..plain })
}

/// Both numbers, or neither when the end comes before the beginning.
fn in_order(first: Option<u32>, last: Option<u32>) -> (Option<u32>, Option<u32>) {
    match (first, last) {
        (Some(first), Some(last)) if last < first => (None, None),
        both => both,
    }
}

fn beneath_if_absolute(workspace: &Path, file: &str) -> String {
    let relative = Path::new(file).is_absolute().then(|| beneath(workspace, Path::new(file)));
    relative.flatten().unwrap_or_else(|| file.to_owned())
}
