//! Tokens that may do more than the jobs need.

use crate::diag::{Diagnostic, Severity};

use super::context::Context;
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "broad-permissions",
    summary: "a token with all permissions, or with whatever the default is",
    severity: Severity::Warning,
    why: "\
Every action and every script of a job can use its token. With `write-all` each of them may push code and change releases.
Without `permissions` the settings of the server decide, which in many places means writing, and which differ from server to
server. Say what the workflow needs, at best `contents: read` for all and more for single jobs. Workflows that are only
called get their permissions from the caller.",
    bad: workflow(
        "\
on: push
jobs:
  build:
    runs-on: ubuntu-latest
    steps:
      - run: ./build
",
    ),
    good: workflow(
        "\
on: push
permissions:
  contents: read
jobs:
  build:
    runs-on: ubuntu-latest
    steps:
      - run: ./build
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    if !context.is_workflow() {
        return;
    }
    let own = context.document.root.get("permissions");
    let jobs = || context.bodies.iter().filter_map(|body| body.job);
    let of_jobs = jobs().filter_map(|job| job.get("permissions"));
    for node in own.into_iter().chain(of_jobs) {
        if node.text() == Some("write-all") {
            let message = "`write-all` lets every action and script change everything";
            found.push(
                Diagnostic::warning(CHECK.code, node.span, message)
                    .help("list what is needed, such as `contents: read`"),
            );
        }
    }
    let only_called =
        context.document.events().iter().all(|(name, _)| name.text() == Some("workflow_call"));
    if own.is_some() || only_called {
        return;
    }
    let without: Vec<_> = jobs().filter(|job| job.get("permissions").is_none()).collect();
    if let Some(first) = without.first() {
        let others = match without.len() - 1 {
            0 => String::new(),
            1 => " and 1 other job".to_owned(),
            more => format!(" and {more} other jobs"),
        };
        let get = if without.len() == 1 { "gets" } else { "get" };
        let message = format!(
            "job `{}`{others} {get} the default permissions, which may be broad",
            first.id()
        );
        found.push(Diagnostic::warning(CHECK.code, first.key.span, message).help(
            "add `permissions: {contents: read}` to the workflow, and more to the jobs that need it",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        testing::check("broad-permissions", text, expected);
    }

    #[test]
    fn missing_permissions_are_reported_once() {
        check(
            "on: push\njobs:\n  a: {runs-on: x}\n",
            &["3:3 job `a` gets the default permissions, which may be broad"],
        );
        check(
            "on: push\njobs:\n  a: {runs-on: x, permissions: {}}\n  b: {runs-on: x}\n  c: {runs-on: x}\n",
            &["4:3 job `b` and 1 other job get the default permissions, which may be broad"],
        );
    }

    #[test]
    fn all_permissions_are_too_many() {
        let message = "`write-all` lets every action and script change everything";
        check(
            "on: push\npermissions: write-all\njobs:\n  a: {runs-on: x}\n",
            &[&format!("2:14 {message}")],
        );
        check(
            "on: push\njobs:\n  a: {runs-on: x, permissions: write-all}\n",
            &[&format!("3:32 {message}")],
        );
    }

    #[test]
    fn stated_permissions_are_fine() {
        check("on: push\npermissions: {}\njobs:\n  a: {runs-on: x}\n", &[]);
        check("on: push\npermissions: read-all\njobs:\n  a: {runs-on: x}\n", &[]);
        check("on: push\njobs:\n  a: {runs-on: x, permissions: {contents: write}}\n", &[]);
        check("on: workflow_call\njobs:\n  a: {runs-on: x}\n", &[]);
    }
}
