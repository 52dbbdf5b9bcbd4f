//! Jobs.

use std::sync::Arc;

use kiln_core::plan::matrix::expand;
use kiln_core::plan::{
    Concurrency, Data, Job, JobKind, Limits, QueueMode, Requires, RunDefaults, StepsJob, Strategy,
    Template,
};
use kiln_core::value::Value;

use crate::workflow::{self, Document};
use crate::yaml::Node;

use super::{Compiler, data, permissions, place, step};

impl Compiler<'_> {
    pub(super) fn job(&mut self, document: &Document, job: workflow::Job<'_>, ids: &[&str]) -> Job {
        let kind = if job.is_call() {
            JobKind::Call(Box::new(self.call(document, job)))
        } else {
            JobKind::Steps(Box::new(self.steps_job(document, job)))
        };
        Job {
            id: job.id().to_owned(),
            name: job
                .get("name")
                .map(|node| data::text(document, node))
                .filter(|name| name.as_str() != Some("")),
            needs: needs(job, ids),
            condition: data::condition(document, job.get("if")),
            strategy: job.get("strategy").map(|node| strategy(document, node)).unwrap_or_default(),
            permissions: job.get("permissions").map(|node| permissions::read(node)),
            concurrency: job.get("concurrency").map(|node| concurrency(document, node)),
            retry: None,
            kind,
            place: place(self.sources, job.key.span),
        }
    }

    fn steps_job(&self, document: &Document, job: workflow::Job<'_>) -> StepsJob {
        let tree = |key: &str| job.get(key).map(|node| data::tree(document, node));
        let scalar = |key: &str| job.get(key).map(|node| data::scalar(document, node));
        StepsJob {
            runs_on: job
                .get("runs-on")
                .map_or_else(|| Data::List(Vec::new()), |node| data::text_map(document, node)),
            requires: Requires::default(),
            prefer: Vec::new(),
            limits: Limits::default(),
            env: job.get("env").map(|node| data::text_map(document, node)),
            defaults: defaults(document, job.node),
            container: tree("container"),
            services: tree("services"),
            environment: tree("environment"),
            timeout_minutes: scalar("timeout-minutes"),
            cancel_timeout_minutes: scalar("cancel-timeout-minutes"),
            continue_on_error: scalar("continue-on-error"),
            outputs: job.get("outputs").map(|node| named_texts(document, node)).unwrap_or_default(),
            result_cache: None,
            steps: step::steps(self.sources, document, &job.steps()),
        }
    }
}

fn named_texts(document: &Document, node: &Node) -> Vec<(String, Template)> {
    let pairs = node.entries().iter();
    pairs.map(|entry| (entry.name().to_owned(), data::text(document, &entry.value))).collect()
}

fn needs(job: workflow::Job<'_>, ids: &[&str]) -> Vec<usize> {
    let mut needs = Vec::new();
    for need in job.needs() {
        let name = need.text().unwrap_or_default();
        let found = ids.iter().position(|id| id.eq_ignore_ascii_case(name));
        needs.extend(found.filter(|index| !needs.contains(index)));
    }
    needs
}

fn strategy(document: &Document, node: &Arc<Node>) -> Strategy {
    if let Some(template) = document.checked.template(node) {
        return Strategy::Expr(template.text.as_str().into());
    }
    let fail_fast = node.get("fail-fast").map(|node| data::scalar(document, node));
    let max_parallel = node.get("max-parallel").map(|node| data::scalar(document, node));
    let Some(matrix) = node.get("matrix") else { return Strategy::Single };
    let matrix = data::tree(document, matrix);
    match matrix.constant() {
        Some(Value::Object(known)) => {
            // The rules have already expanded it once and reported what was wrong.
            let legs = expand(&known).unwrap_or_default();
            Strategy::Legs { legs, fail_fast, max_parallel }
        }
        _ => Strategy::Matrix { matrix, fail_fast, max_parallel },
    }
}

pub(super) fn concurrency(document: &Document, node: &Arc<Node>) -> Concurrency {
    if node.scalar().is_some() {
        let group = data::text(document, node);
        return Concurrency { group, cancel_in_progress: None, queue: QueueMode::Single };
    }
    let group = node.get("group").map(|node| data::text(document, node));
    let queue = node.get("queue").and_then(|node| node.text());
    Concurrency {
        group: group.unwrap_or_else(|| Template::literal("")),
        cancel_in_progress: node.get("cancel-in-progress").map(|node| data::scalar(document, node)),
        queue: if queue == Some("max") { QueueMode::Max } else { QueueMode::Single },
    }
}

/// `defaults.run` below a workflow or job.
pub(super) fn defaults(document: &Document, owner: &Node) -> RunDefaults {
    let run = owner.get("defaults").and_then(|defaults| defaults.get("run"));
    let text = |key: &str| run.and_then(|run| run.get(key)).map(|node| data::text(document, node));
    RunDefaults { shell: text("shell"), working_directory: text("working-directory") }
}
