//! Shell scripts that go on after something failed.

use std::ops::Range;
use std::sync::Arc;

use crate::diag::{Diagnostic, Severity};
use crate::yaml::Node;

use super::context::{Context, MAX_IN_SCALAR};
use super::script::{Script, Shell};
use super::shell::{Command, Join, Word, commands};
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "lost-error",
    summary: "a shell script that goes on after something failed",
    severity: Severity::Warning,
    why: "\
A step is green when its script ends well, and several habits hide that it did not:

- Without `pipefail` a pipeline ends as its last command does: `cargo test | tee log` is green when the tests fail. The default
  shell is `bash -e`; only a written `shell: bash` sets `pipefail`.
- `export X=$(command)` and `echo \"x=$(command)\" >> \"$GITHUB_OUTPUT\"` succeed whatever the command does.
- `set +e` without a `set -e` later, and a custom shell without `-e`, go on after every failure.

Commands that hardly fail (`echo`, `cat`, `sort` …), pipelines in conditions or before `||`, and readers that stop early, such
as `head`, are left alone. So are scripts for PowerShell and other languages.",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - run: cargo test | tee test.log
",
    ),
    good: workflow(
        "\
on: push
permissions: {}
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - run: cargo test | tee test.log
        shell: bash
",
    ),
    run,
};

/// Commands that hardly fail, or whose failure means nothing: `grep` fails when it finds nothing.
const HARMLESS: &[&str] = &[
    "base64", "basename", "cat", "column", "cut", "date", "dirname", "echo", "env", "false",
    "find", "fold", "grep", "head", "hostname", "id", "ls", "nproc", "printenv", "printf", "ps",
    "pwd", "rev", "sed", "seq", "sort", "tail", "tee", "tr", "true", "tty", "uname", "uniq", "wc",
    "which", "whoami", "xargs", "yes", "awk", ":", "done", "fi", "esac", "}", "]", "[", "[[",
    "test",
];

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for script in &context.scripts {
        let Shell::Posix { errexit, pipefail } = script.shell else { continue };
        let text = script.text();
        if errexit && !["|", "$(", "`", "set +"].iter().any(|trace| text.contains(trace)) {
            continue;
        }
        let lines = Lines { context, node: script.node, text };
        let commands = commands(text, 0..text.len());
        if !errexit && !commands.iter().any(|command| lines.sets(command, '-')) {
            found.extend(no_errexit(context, script, &commands));
            continue;
        }
        if !pipefail && !text.contains("pipefail") {
            found.extend(lines.lost_pipeline(&commands));
        }
        found.extend(lines.left_off(&commands));
        found.extend(
            commands.iter().filter_map(|command| lines.masked(command)).take(MAX_IN_SCALAR),
        );
    }
}

/// A custom shell such as `bash -l {0}`.
fn no_errexit(
    context: &Context<'_>,
    script: &Script<'_>,
    commands: &[Command],
) -> Option<Diagnostic> {
    let shell = script.shell_node?;
    let name = shell.text()?;
    if commands.len() < 2 {
        return None;
    }
    let message = format!("`{name}` goes on after a command fails: only the last one counts");
    let fixed = name.replacen("{0}", "-e {0}", 1);
    let span = context.span(shell, 0..name.len());
    Some(Diagnostic::warning(CHECK.code, span, message).help(format!("write `{fixed}`")))
}

/// A script and its text.
struct Lines<'c, 'd> {
    context: &'c Context<'d>,
    node: &'c Arc<Node>,
    text: &'c str,
}

impl<'c> Lines<'c, '_> {
    fn report(&self, range: Range<usize>, message: String) -> Diagnostic {
        Diagnostic::warning(CHECK.code, self.context.span(self.node, range), message)
    }

    fn word(&self, word: &Word) -> &'c str {
        &self.text[word.range.clone()]
    }

    /// The program that a command runs, behind assignments and the like.
    fn program<'w>(&self, command: &'w Command) -> Option<(&'c str, &'w Word)> {
        let mut words = command.words.iter().map(|word| (self.word(word), word));
        words.find(|(text, _)| {
            !is_assignment(text) && !matches!(*text, "sudo" | "command" | "exec" | "-E")
        })
    }

    fn is_harmless(&self, command: &Command) -> bool {
        self.program(command).is_none_or(|(name, _)| HARMLESS.contains(&name))
    }

    /// The first pipeline that loses an error; one finding for a script is enough.
    fn lost_pipeline(&self, commands: &[Command]) -> Option<Diagnostic> {
        let own = pipelines(commands).find_map(|stages| self.lost_stage(stages));
        own.or_else(|| {
            let assigned = commands.iter().filter(|command| {
                command.joined_by != Join::Or
                    && !command.in_condition
                    && command.words.iter().all(|word| is_assignment(self.word(word)))
            });
            let words = assigned.flat_map(|command| &command.words);
            words.flat_map(|word| &word.substitutions).find_map(|inner| {
                let inner = self::commands(self.text, inner.clone());
                pipelines(&inner).find_map(|stages| self.lost_stage(stages))
            })
        })
    }

    /// The stage of a pipeline whose failure nobody sees.
    fn lost_stage(&self, stages: &[Command]) -> Option<Diagnostic> {
        let (last, before) = stages.split_last()?;
        let ends_early = stages.iter().skip(1).any(|stage| self.ends_early(stage));
        if stages[0].in_condition || last.joined_by == Join::Or || ends_early {
            return None;
        }
        let stage = before.iter().find(|stage| !self.is_harmless(stage))?;
        let (name, first) = self.program(stage)?;
        let end = stage.words.last().map_or(first.range.end, |word| word.range.end);
        let line_end = self.text[first.range.start..end].find('\n').unwrap_or(end);
        let range = first.range.start..end.min(first.range.start + line_end);
        let message = format!("when `{}` fails, this pipeline does not", short(name));
        let help = "set `shell: bash`, which adds `pipefail`: a pipeline then fails with any of its commands";
        Some(self.report(range, message).help(help))
    }

    /// With `pipefail`, a reader that stops early would make its writer fail.
    fn ends_early(&self, stage: &Command) -> bool {
        let Some((name, _)) = self.program(stage) else { return false };
        let option = |letters: &[char]| {
            stage.words.iter().map(|word| self.word(word)).any(|word| {
                word.starts_with('-') && !word.starts_with("--") && word.contains(letters)
            })
        };
        name == "head" || (matches!(name, "grep" | "egrep" | "fgrep") && option(&['q', 'm']))
    }

    /// Whether a command is `set -e` (or `set +e`), alone or among other letters.
    fn sets(&self, command: &Command, sign: char) -> bool {
        let mut words = command.words.iter().map(|word| self.word(word));
        let is_set = words.next() == Some("set");
        let rest: Vec<&str> = words.collect();
        is_set
            && (rest.iter().any(|word| word.starts_with(sign) && word.contains('e'))
                || rest.windows(2).any(|two| two[0] == format!("{sign}o") && two[1] == "errexit"))
    }

    /// `set +e` that nobody takes back.
    fn left_off(&self, commands: &[Command]) -> Option<Diagnostic> {
        let at = commands.iter().rposition(|command| self.sets(command, '+'))?;
        let later = commands.get(at + 1..).filter(|later| !later.is_empty())?;
        let words = &commands[at].words;
        let range = words.first()?.range.start..words.last()?.range.end;
        let rest = &self.text[range.end..];
        let handled = ["$?", "PIPESTATUS", "exit", "return"].iter().any(|word| rest.contains(word));
        if handled || later.iter().any(|command| self.sets(command, '-')) {
            return None;
        }
        let message = "after `set +e` no failure stops this script".to_owned();
        let help =
            "write `set -e` again behind the command that may fail, or use `command || true`";
        Some(self.report(range, message).help(help))
    }

    /// Substitutions whose failure the command around them hides.
    fn masked(&self, command: &Command) -> Option<Diagnostic> {
        let (outer, _) = self.program(command)?;
        let help = match outer {
            "export" | "local" | "readonly" | "declare" | "typeset" => {
                format!("assign first, `NAME=$(…)`, and then write `{outer} NAME`")
            }
            "echo" | "printf" => {
                let file = self.file_of(command)?;
                format!("assign first, `value=$(…)`, and then write `\"$value\"` to `${file}`")
            }
            _ => return None,
        };
        let mut substitutions = command.words.iter().flat_map(|word| &word.substitutions);
        substitutions.find_map(|inner| {
            let name = self.fallible(inner.clone())?;
            let message = format!("when `{}` fails, `{outer}` succeeds all the same", short(name));
            Some(self.report(inner.clone(), message).help(help.clone()))
        })
    }

    /// The runner's file that a command appends to.
    fn file_of(&self, command: &Command) -> Option<&'static str> {
        let words = || command.words.iter().map(|word| self.word(word));
        let appends = words().any(|word| word.starts_with(">>"));
        let files = ["GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STATE"];
        files.into_iter().find(|file| appends && words().any(|word| word.contains(file)))
    }

    /// The program that decides how a substitution ends, if it can fail.
    fn fallible(&self, inner: Range<usize>) -> Option<&'c str> {
        let commands = commands(self.text, inner);
        if commands.iter().any(|command| command.joined_by == Join::Or) {
            return None;
        }
        let last = commands.last().filter(|last| !self.is_harmless(last))?;
        let (name, _) = self.program(last)?;
        // The commit that was checked out is always there.
        let words: Vec<&str> = last.words.iter().map(|word| self.word(word)).collect();
        let is_commit = name == "git" && words.contains(&"rev-parse");
        (!is_commit).then_some(name)
    }
}

/// Runs of commands that pipes join, with at least two commands.
fn pipelines(commands: &[Command]) -> impl Iterator<Item = &[Command]> {
    commands.chunk_by(|left, _| left.joined_by == Join::Pipe).filter(|stages| stages.len() > 1)
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A program's name that fits into a message.
fn short(name: &str) -> &str {
    let line = name.lines().next().unwrap_or_default();
    &line[..line.floor_char_boundary(40)]
}

#[cfg(test)]
#[path = "lost_error/tests.rs"]
mod tests;
