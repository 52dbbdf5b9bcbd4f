//! Names of variables that no shell can read.

use crate::diag::{Diagnostic, Severity};

use super::context::Context;
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "env-name",
    summary: "a variable whose name no shell can read",
    severity: Severity::Warning,
    why: "\
Shells read `$MY-VAR` as `$MY` followed by the text `-VAR`, and many drop such variables from the environment altogether. Names
are letters, digits and `_`, and do not start with a digit. Names that start with `INPUT_` are left alone, as actions read
them by other means, and so are variables that an expression reads as `env.name`.",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    env:
      BUILD-MODE: release
    steps:
      - run: ./build
",
    ),
    good: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    env:
      BUILD_MODE: release
    steps:
      - run: ./build
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for entry in context.environments().into_iter().flat_map(|env| env.entries()) {
        let name = entry.name();
        if is_readable(name) || name.contains("${{") || name.starts_with("INPUT_") {
            continue;
        }
        // Some use the environment as a place for constants that only expressions read.
        if context.reads(&["env", &name.to_ascii_lowercase()]) {
            continue;
        }
        let message = format!("no shell can read a variable named `{name}`");
        let letter = |char: char| if char.is_ascii_alphanumeric() { char } else { '_' };
        let fixed: String = name.chars().map(letter).collect();
        let finding = Diagnostic::warning(CHECK.code, entry.key.span, message);
        found.push(if is_readable(&fixed) {
            finding.help(format!("write `{fixed}`"))
        } else {
            finding.help("use letters, digits and `_`, and start with a letter or `_`")
        });
    }
}

fn is_readable(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(name: &str, expected: &[&str]) {
        let text = testing::steps(&format!("- run: x\n  env: {{{name}: y}}"));
        testing::check("env-name", &text, expected);
    }

    #[test]
    fn names_are_letters_digits_and_underscores() {
        check("MY-VAR", &["8:15 no shell can read a variable named `MY-VAR`"]);
        check("a.b", &["8:15 no shell can read a variable named `a.b`"]);
        check("1st", &["8:15 no shell can read a variable named `1st`"]);
        check("_my_VAR1", &[]);
        check("INPUT_SOME-NAME", &[]);
        let text = testing::steps("- run: echo ${{ env.my-var }}\n  env: {MY-VAR: y}");
        testing::check("env-name", &text, &[]);
    }
}
