//! The pages of the checks under `docs/checks/`, from the registry that `kiln lint` runs.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use kiln_lang::lint::{CHECKS, Check, Example};
use kiln_lang::workflow::FileKind;

use super::Output;
use crate::repository::Repository;

const FOLDER: &str = "docs/checks/";

pub(super) fn generate(repository: &Repository) -> Result<Vec<Output>> {
    let mut outputs = vec![Output { path: format!("{FOLDER}README.md"), text: index() }];
    outputs.extend(CHECKS.iter().map(|check| Output { path: path(check), text: page(check) }));
    let known = |path: &str| outputs.iter().any(|output| output.path == path);
    let left_over =
        repository.files.iter().find(|file| file.path.starts_with(FOLDER) && !known(&file.path));
    if let Some(file) = left_over {
        bail!("{} belongs to no check: delete it", file.path);
    }
    Ok(outputs)
}

fn path(check: &Check) -> String {
    format!("{FOLDER}{}.md", check.code)
}

fn index() -> String {
    let mut page = String::from(
        "# Checks\n\n\
         What `kiln lint` finds beyond [what the language refuses](../diagnostics.md), generated from the\n\
         checks themselves. `--no-checks` leaves them out.\n\n\
         | check | finds |\n|---|---|\n",
    );
    for check in CHECKS {
        line(&mut page, &format!("| [`{0}`]({0}.md) | {1} |", check.code, check.summary));
    }
    page
}

fn page(check: &Check) -> String {
    let mut page = String::new();
    line(&mut page, &format!("# `{}`\n", check.code));
    line(
        &mut page,
        &format!("Finds {}. Reported as: {}.\n", check.summary, check.severity.as_str()),
    );
    line(&mut page, "## Why\n");
    line(&mut page, &format!("{}\n", check.why));
    line(&mut page, "## What it reports\n");
    example(&mut page, &check.bad);
    line(&mut page, "\n## What to write\n");
    example(&mut page, &check.good);
    page
}

fn example(page: &mut String, example: &Example) {
    let name = if example.kind == FileKind::Action { "action.yml" } else { "a workflow" };
    line(page, &format!("```yaml\n# {name}\n{}```", example.text));
}

fn line(page: &mut String, text: &str) {
    writeln!(page, "{text}").expect("writing to a string does not fail");
}

#[cfg(test)]
#[path = "checks/tests.rs"]
mod tests;
