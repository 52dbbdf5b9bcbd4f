//! Properties that a context of the platform does not have.

use crate::diag::{Diagnostic, Severity};
use crate::expr::analysis::ContextPath;
use crate::suggest::closest;

use super::context::{Context, MAX_IN_SCALAR};
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "unknown-property",
    summary: "a property that `github`, `runner`, `job` or `strategy` does not have",
    severity: Severity::Warning,
    why: "\
A property that a context lacks is no error but null, which becomes an empty text. A typing error then goes unnoticed until
something is compared with nothing or a path lacks a part. The contents of `github.event` depend on the event and are not
checked.",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    steps:
      - run: ./build --commit ${{ github.commit_sha }} --system ${{ runner.platform }}
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
      - run: ./build --commit ${{ github.sha }} --system ${{ runner.os }}
",
    ),
    run,
};

/// The documented properties in lower case, and the few that only the runner's source shows.
const PROPERTIES: &[(&str, &[&str])] = &[
    (
        "github",
        &[
            "action",
            "action_path",
            "action_ref",
            "action_repository",
            "action_status",
            "actor",
            "actor_id",
            "api_url",
            "artifact_cache_size_limit",
            "base_ref",
            "env",
            "event",
            "event_name",
            "event_path",
            "graphql_url",
            "head_ref",
            "job",
            "output",
            "path",
            "ref",
            "ref_name",
            "ref_protected",
            "ref_type",
            "repository",
            "repository_id",
            "repository_owner",
            "repository_owner_id",
            "repository_visibility",
            "repositoryurl",
            "retention_days",
            "run_attempt",
            "run_id",
            "run_number",
            "secret_source",
            "server_url",
            "sha",
            "state",
            "step_summary",
            "token",
            "triggering_actor",
            "workflow",
            "workflow_ref",
            "workflow_sha",
            "workspace",
        ],
    ),
    ("runner", &["arch", "debug", "environment", "name", "os", "temp", "tool_cache", "workspace"]),
    (
        "job",
        &[
            "check_run_id",
            "container",
            "services",
            "status",
            "workflow_file_path",
            "workflow_ref",
            "workflow_repository",
            "workflow_sha",
        ],
    ),
    ("strategy", &["fail-fast", "job-index", "job-total", "max-parallel"]),
];

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for expression in &context.expressions {
        let unknown = expression.paths.iter().filter_map(|path| {
            let (name, property, properties) = unknown(path)?;
            let span = context.span(expression.node, path.span.clone());
            let message = format!("`{name}` has no property `{property}`, so this is always null");
            let finding = Diagnostic::warning(CHECK.code, span, message);
            Some(match closest(property, properties.iter().copied()) {
                Some(meant) => finding.label(format!("did you mean `{name}.{meant}`?")),
                None => finding.help(hint(name, properties)),
            })
        });
        found.extend(unknown.take(MAX_IN_SCALAR));
    }
}

/// A context, the property that it lacks, and those that it has.
fn unknown(path: &ContextPath) -> Option<(&str, &str, &'static [&'static str])> {
    let [name, property, ..] = path.segments.as_slice() else { return None };
    let (_, properties) = PROPERTIES.iter().find(|(known, _)| known == name)?;
    let is_known = property == "*" || properties.contains(&property.as_str());
    (!is_known).then_some((name, property, properties))
}

fn hint(name: &str, properties: &[&str]) -> String {
    if name == "github" {
        return "what the event brought is in `github.event`".to_owned();
    }
    let names: Vec<String> = properties.iter().map(|property| format!("`{property}`")).collect();
    format!("`{name}` has {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(expr: &str, expected: &[&str]) {
        let text = testing::steps(&format!("- run: echo ${{{{ {expr} }}}}"));
        testing::check("unknown-property", &text, expected);
    }

    #[test]
    fn a_property_that_does_not_exist_is_found() {
        check("github.shaa", &["7:23 `github` has no property `shaa`, so this is always null"]);
        check(
            "runner['platform']",
            &["7:23 `runner` has no property `platform`, so this is always null"],
        );
        check("job.state", &["7:23 `job` has no property `state`, so this is always null"]);
        check(
            "strategy.index",
            &["7:23 `strategy` has no property `index`, so this is always null"],
        );
    }

    #[test]
    fn known_and_computed_properties_are_fine() {
        for fine in [
            "github.repositoryUrl",
            "github.event.whatever.there.is",
            "github[format('re{0}', 'f')]",
            "job.services.db.ports['5432']",
            "toJSON(runner)",
            "strategy.job-index",
            "env.anything",
        ] {
            check(fine, &[]);
        }
    }
}
