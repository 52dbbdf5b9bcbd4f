//! Passwords written into the file.

use crate::diag::{Diagnostic, Severity};

use super::context::Context;
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "plain-password",
    summary: "a registry's password written into the workflow",
    severity: Severity::Warning,
    why: "\
Everyone who can read the repository can read the password, in its history even after it is removed. Store it as a secret,
and replace it by a new one at the registry.",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    container:
      image: registry.example.com/build
      credentials:
        username: builder
        password: hunter2
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
    container:
      image: registry.example.com/build
      credentials:
        username: builder
        password: ${{ secrets.REGISTRY_PASSWORD }}
    steps:
      - run: ./build
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for job in context.bodies.iter().filter_map(|body| body.job) {
        let services = job.get("services").map_or(&[][..], |services| services.entries());
        let containers = job.node.entry("container").into_iter().chain(services);
        for container in containers {
            let credentials = container.value.get("credentials");
            let Some(node) = credentials.and_then(|node| node.get("password")) else { continue };
            if node.text().is_some_and(|text| !text.is_empty() && !text.contains("${{")) {
                let message = "this password can be read by everyone who can read the repository";
                found.push(
                    Diagnostic::warning(CHECK.code, node.span, message)
                        .help("store it as a secret: `password: ${{ secrets.NAME }}`"),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(password: &str, expected: &[&str]) {
        let text = format!(
            "on: push\njobs:\n  a:\n    runs-on: x\n    services:\n      db:\n        image: i\n        \
             credentials:\n          password: {password}\n    steps: [{{run: x}}]\n"
        );
        testing::check("plain-password", &text, expected);
    }

    #[test]
    fn a_password_is_a_secret() {
        let message = "9:21 this password can be read by everyone who can read the repository";
        check("hunter2", &[message]);
        check("'1234'", &[message]);
        check("${{ secrets.X }}", &[]);
    }
}
