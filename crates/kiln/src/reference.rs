//! The command line reference as Markdown, from the same definitions as the help.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// A page that names every command and option. Generated, so that it cannot be wrong.
pub fn cli_reference() -> String {
    let mut root = crate::cli::command().disable_help_subcommand(true);
    root.build();
    let mut page = String::from("# Command line\n\n");
    describe(&root, &mut page);
    page.push_str("\nCommands:\n\n");
    for command in visible(&root) {
        let name = command.get_name();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(page, "- [`kiln {name}`](#kiln-{name}): {about}");
    }
    page.push_str("\nOptions of every command:\n\n");
    arguments(options(&root), &mut page);
    for command in visible(&root) {
        sections("kiln", command, &mut page);
    }
    page
}

fn visible(root: &Command) -> impl Iterator<Item = &Command> {
    root.get_subcommands().filter(|command| !command.is_hide_set())
}

/// A section for the command and for each of those below it.
fn sections(above: &str, command: &Command, page: &mut String) {
    let name = format!("{above} {}", command.get_name());
    section(&name, command, page);
    for below in visible(command) {
        sections(&name, below, page);
    }
}

fn section(name: &str, command: &Command, page: &mut String) {
    let _ = write!(page, "\n## {name}\n\n");
    describe(command, page);
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let _ = write!(page, "\n```text\n{usage}\n```\n\n");
    arguments(command.get_positionals(), page);
    arguments(options(command).filter(|option| !option.is_global_set()), page);
    if let Some(more) = command.get_after_long_help() {
        let _ = write!(page, "\n```text\n{}\n```\n", more.to_string().trim_end());
    }
}

fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| !argument.is_positional())
}

fn describe(command: &Command, page: &mut String) {
    let about = command.get_long_about().or_else(|| command.get_about());
    if let Some(about) = about {
        let _ = writeln!(page, "{}", markdown(&about.to_string()));
    }
}

fn arguments<'a>(arguments: impl Iterator<Item = &'a Arg>, page: &mut String) {
    for argument in arguments.filter(|argument| !argument.is_hide_set()) {
        if argument.get_id() == "help" || argument.get_id() == "version" {
            continue;
        }
        let help = argument.get_long_help().or_else(|| argument.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let help = markdown(&help).replace("\n\n", "\n\n  ");
        let short = argument.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
        let _ = writeln!(page, "- `{short}{}`: {help}", argument.to_string().trim());
        for value in argument.get_possible_values() {
            let help = value.get_help().map(|help| format!(": {help}")).unwrap_or_default();
            let _ = writeln!(page, "  - `{}`{help}", value.get_name());
        }
    }
}

/// Braces and angle brackets in prose are for a terminal; Markdown needs nothing but this.
fn markdown(text: &str) -> String {
    text.trim_end().replace('<', "\\<").replace("[default:", "\\[default:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_names_every_command_and_option() {
        let page = cli_reference();
        let root = crate::cli::command();
        let all =
            visible(&root).flat_map(|command| std::iter::once(command).chain(visible(command)));
        for command in all {
            assert!(page.contains(&format!(" {}\n", command.get_name())), "{page}");
            for option in options(command) {
                let long = option.get_long().unwrap();
                assert!(page.contains(&format!("--{long}")), "--{long} is missing");
            }
        }
        assert!(page.contains("`--color <WHEN>`"));
        assert!(page.contains("`-q, --quiet`"));
        assert!(page.contains("  - `sarif`: SARIF 2.1.0"));
    }
}
