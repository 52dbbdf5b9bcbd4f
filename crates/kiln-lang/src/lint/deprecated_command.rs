//! Workflow commands that were replaced by files.

use crate::diag::{Diagnostic, Severity};

use super::context::{Context, MAX_IN_SCALAR};
use super::script::{Script, Shell};
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "deprecated-command",
    summary: "a workflow command that GitHub deprecated or switched off",
    severity: Severity::Warning,
    why: "\
A step used to set outputs, state, variables and paths by printing commands such as `::set-output`. Everything a step prints
could do that, even the text of a strange commit, so files replaced them: `$GITHUB_OUTPUT`, `$GITHUB_STATE`, `$GITHUB_ENV`
and `$GITHUB_PATH`. `::set-env` and `::add-path` are switched off and fail the step, which is an error here.
`ACTIONS_ALLOW_UNSECURE_COMMANDS` switches them on again and opens the hole, too.",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    steps:
      - id: version
        run: echo \"::set-output name=version::1.2.3\"
",
    ),
    good: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    steps:
      - id: version
        run: echo \"version=1.2.3\" >> \"$GITHUB_OUTPUT\"
",
    ),
    run,
};

struct Command {
    text: &'static str,
    /// The file that replaced it.
    file: &'static str,
    switched_off: bool,
}

const COMMANDS: [Command; 4] = [
    Command { text: "::set-output", file: "GITHUB_OUTPUT", switched_off: false },
    Command { text: "::save-state", file: "GITHUB_STATE", switched_off: false },
    Command { text: "::set-env", file: "GITHUB_ENV", switched_off: true },
    Command { text: "::add-path", file: "GITHUB_PATH", switched_off: true },
];

const UNSECURE: &str = "ACTIONS_ALLOW_UNSECURE_COMMANDS";

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    let mut allowed = false;
    for env in context.environments() {
        for entry in env.entries().iter().filter(|entry| entry.name() == UNSECURE) {
            if entry.value.text() == Some("false") {
                continue;
            }
            allowed = true;
            let message = format!("`{UNSECURE}` lets everything a step prints set its environment");
            found.push(
                Diagnostic::warning(CHECK.code, entry.key.span, message)
                    .help("remove it, and write to `$GITHUB_ENV` and `$GITHUB_PATH`"),
            );
        }
    }
    for script in &context.scripts {
        for command in &COMMANDS {
            printed(context, script, command, allowed, found);
        }
    }
}

fn printed(
    context: &Context<'_>,
    script: &Script<'_>,
    command: &Command,
    allowed: bool,
    found: &mut Vec<Diagnostic>,
) {
    let text = script.text();
    for (at, _) in text.match_indices(command.text).take(MAX_IN_SCALAR) {
        let rest = &text[at + command.text.len()..];
        let line_start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        if !rest.starts_with([' ', ':']) || text[line_start..at].trim_start().starts_with('#') {
            continue;
        }
        let span = context.span(script.node, at..at + command.text.len());
        let finding = if command.switched_off && !allowed {
            let message = format!("`{}` is switched off: the step fails", command.text);
            Diagnostic::error(CHECK.code, span, message)
        } else {
            let message = format!("`{}` is deprecated", command.text);
            Diagnostic::warning(CHECK.code, span, message)
        };
        found.push(finding.help(replacement(command, rest, script.shell)));
    }
}

/// The line to write instead.
fn replacement(command: &Command, rest: &str, shell: Shell) -> String {
    let name = rest
        .trim_start()
        .strip_prefix("name=")
        .and_then(|rest| rest.split("::").next())
        .filter(|name| !name.is_empty() && !name.contains(['\n', '"', '\'']));
    let line = match name {
        _ if command.file == "GITHUB_PATH" => "<folder>".to_owned(),
        Some(name) => format!("{name}=…"),
        None => "name=…".to_owned(),
    };
    let file = command.file;
    match shell {
        Shell::Pwsh => format!("write `\"{line}\" >> $env:{file}`"),
        Shell::Posix { .. } => format!("write `echo \"{line}\" >> \"${file}\"`"),
        Shell::Other => format!("append the line `{line}` to the file that `{file}` names"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(script: &str, expected: &[&str]) {
        testing::check("deprecated-command", &testing::script(script), expected);
    }

    #[test]
    fn printed_commands_are_found_where_they_stand() {
        check(
            "one\necho \"::set-output name=a::1\"; echo ::save-state name=b::2",
            &["9:17 `::set-output` is deprecated", "9:47 `::save-state` is deprecated"],
        );
        check("echo ::add-path::bin", &["8:16 `::add-path` is switched off: the step fails"]);
    }

    #[test]
    fn the_help_is_the_line_to_write() {
        let help = |script: &str| testing::help("deprecated-command", &testing::script(script));
        assert_eq!(
            help("echo '::set-output name=tag::1'"),
            "write `echo \"tag=…\" >> \"$GITHUB_OUTPUT\"`"
        );
        assert_eq!(help("echo '::add-path::bin'"), "write `echo \"<folder>\" >> \"$GITHUB_PATH\"`");
    }

    #[test]
    fn switching_them_on_is_found() {
        let text = testing::steps(
            "- env: {ACTIONS_ALLOW_UNSECURE_COMMANDS: true}\n  run: echo ::set-env name=a::1",
        );
        testing::check(
            "deprecated-command",
            &text,
            &[
                "7:15 `ACTIONS_ALLOW_UNSECURE_COMMANDS` lets everything a step prints set its environment",
                "8:19 `::set-env` is deprecated",
            ],
        );
    }

    #[test]
    fn other_commands_and_comments_are_fine() {
        check("echo ::group::x\n# echo ::set-output name=a::1\necho ::set-outputs", &[]);
        check("echo a=1 >> \"$GITHUB_OUTPUT\"", &[]);
    }
}
