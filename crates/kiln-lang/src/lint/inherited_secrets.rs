//! All secrets handed to a workflow of another repository.

use crate::diag::{Diagnostic, Severity};
use crate::workflow::uses::{self, CallTarget};

use super::context::Context;
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "inherited-secrets",
    summary: "all secrets handed to a workflow of another repository",
    severity: Severity::Warning,
    why: "\
`secrets: inherit` gives a called workflow every secret that the caller can see, those it has no use for included. Within one
repository that is a convenience; for a workflow of another repository it means that its authors decide what happens to all
of them. Name the secrets that it needs.",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  deploy:
    uses: other/repository/.github/workflows/deploy.yml@08c6903cd8c0fde910a37f88322edcfb5dd907a8
    secrets: inherit
",
    ),
    good: workflow(
        "\
on: push
permissions: {}
jobs:
  deploy:
    uses: other/repository/.github/workflows/deploy.yml@08c6903cd8c0fde910a37f88322edcfb5dd907a8
    secrets:
      token: ${{ secrets.DEPLOY_TOKEN }}
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for job in context.bodies.iter().filter_map(|body| body.job) {
        let target = job.get("uses").and_then(|uses| uses.text()).map(uses::workflow);
        let Some(Ok(CallTarget::Remote { repository, .. })) = target else { continue };
        let Some(secrets) = job.get("secrets").filter(|node| node.text() == Some("inherit")) else {
            continue;
        };
        let message = format!("all secrets are handed to `{repository}`");
        let help = "name the ones it needs: `secrets: {name: ${{ secrets.NAME }}}`";
        found.push(Diagnostic::warning(CHECK.code, secrets.span, message).help(help));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(uses: &str, secrets: &str, expected: &[&str]) {
        let text = format!("on: push\njobs:\n  a:\n    uses: {uses}\n    secrets: {secrets}\n");
        testing::check("inherited-secrets", &text, expected);
    }

    #[test]
    fn another_repository_gets_only_what_it_needs() {
        let remote = "o/r/.github/workflows/a.yml@v1";
        check(remote, "inherit", &["5:14 all secrets are handed to `o/r`"]);
        check(remote, "{a: '${{ secrets.A }}'}", &[]);
        check("./.github/workflows/a.yml", "inherit", &[]);
    }
}
