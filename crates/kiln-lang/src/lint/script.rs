//! The scripts of `run` steps and the shells that run them.

use std::sync::Arc;

use crate::workflow::{Job, Step, StepWork};
use crate::yaml::{Kind, Node};

use super::context::{Context, Place};

/// A `run` step's script.
pub(super) struct Script<'d> {
    pub(super) node: &'d Arc<Node>,
    pub(super) step: Step<'d>,
    pub(super) place: Place,
    pub(super) shell: Shell,
    /// Where the shell is named, in the step or in defaults.
    pub(super) shell_node: Option<&'d Arc<Node>>,
}

impl<'d> Script<'d> {
    pub(super) fn text(&self) -> &'d str {
        self.node.text().unwrap_or_default()
    }
}

/// What is known about the shell of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shell {
    /// `bash` or `sh`.
    Posix {
        /// Whether it stops at the first command that fails.
        errexit: bool,
        /// Whether a pipeline fails when any of its commands does.
        pipefail: bool,
    },
    Pwsh,
    /// Another program, or one that is only known during the run.
    Other,
}

impl Shell {
    /// How a script reads a variable of its environment.
    pub(super) fn variable(self, name: &str) -> String {
        match self {
            Self::Posix { .. } => format!("\"${name}\""),
            Self::Pwsh => format!("$env:{name}"),
            Self::Other => name.to_owned(),
        }
    }
}

pub(super) fn collect<'d>(context: &Context<'d>) -> Vec<Script<'d>> {
    let mut scripts = Vec::new();
    for (index, body) in context.bodies.iter().enumerate() {
        for (at, step) in body.steps.iter().enumerate() {
            let Some(StepWork::Run(node)) = step.work() else { continue };
            let shell_node = shell_node(*step, body.job, &context.document.root);
            scripts.push(Script {
                node,
                step: *step,
                place: Place { body: Some(index), step: Some(at) },
                shell: shell(shell_node, body.job),
                shell_node,
            });
        }
    }
    scripts
}

/// The step's own shell, else the job's default, else the workflow's.
fn shell_node<'d>(
    step: Step<'d>,
    job: Option<Job<'d>>,
    root: &'d Arc<Node>,
) -> Option<&'d Arc<Node>> {
    let default_of = |node: &'d Arc<Node>| node.get("defaults")?.get("run")?.get("shell");
    let of_job = || job.and_then(|job| default_of(job.node));
    step.get("shell").or_else(of_job).or_else(|| default_of(root))
}

fn shell(named: Option<&Arc<Node>>, job: Option<Job<'_>>) -> Shell {
    match named {
        Some(node) => node.text().map_or(Shell::Other, named_shell),
        None if job.is_some_and(may_run_on_windows) => Shell::Other,
        None => Shell::Posix { errexit: true, pipefail: false },
    }
}

fn named_shell(name: &str) -> Shell {
    if !name.contains("{0}") {
        return match name.trim() {
            "bash" => Shell::Posix { errexit: true, pipefail: true },
            "sh" => Shell::Posix { errexit: true, pipefail: false },
            "pwsh" | "powershell" => Shell::Pwsh,
            _ => Shell::Other,
        };
    }
    let mut words = name.split_whitespace();
    let program = words.next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    match program {
        "bash" | "sh" | "dash" | "zsh" | "ksh" => {
            let short = |word: &&str| word.starts_with('-') && !word.starts_with("--");
            let errexit = words.clone().filter(short).any(|word| word.contains('e'));
            Shell::Posix {
                errexit: errexit || name.contains("errexit"),
                pipefail: name.contains("pipefail"),
            }
        }
        "pwsh" | "powershell" => Shell::Pwsh,
        _ => Shell::Other,
    }
}

/// The default shell of Windows is PowerShell; a matrix may lead there.
fn may_run_on_windows(job: Job<'_>) -> bool {
    let Some(runs_on) = job.get("runs-on") else { return false };
    if mentions_windows(runs_on) {
        return true;
    }
    job.get("strategy").is_some_and(|strategy| mentions_windows(strategy))
}

fn mentions_windows(node: &Node) -> bool {
    match &node.kind {
        Kind::Scalar(scalar) => scalar.text.to_ascii_lowercase().contains("windows"),
        Kind::Sequence(items) => items.iter().any(|item| mentions_windows(item)),
        Kind::Mapping(entries) => entries.iter().any(|entry| mentions_windows(&entry.value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_known_by_its_name_or_its_command() {
        let posix = |errexit, pipefail| Shell::Posix { errexit, pipefail };
        for (name, expected) in [
            ("bash", posix(true, true)),
            ("sh", posix(true, false)),
            ("bash -l {0}", posix(false, false)),
            ("bash -el {0}", posix(true, false)),
            ("/bin/bash -e -o pipefail {0}", posix(true, true)),
            ("bash --noprofile --norc {0}", posix(false, false)),
            ("pwsh", Shell::Pwsh),
            ("python", Shell::Other),
            ("perl -e {0}", Shell::Other),
            ("${{ matrix.shell }}", Shell::Other),
        ] {
            assert_eq!(named_shell(name), expected, "{name}");
        }
    }
}
