//! What a plan looks like from outside: the JSON of `kiln plan --json`, which people read too.
//!
//! The shape is a promise, counted by `version`; new fields may appear without a new number. An
//! expression that only the run can answer is a string that starts with `${{`, wherever a value may
//! stand; everything else is a known value.
//!
//! ```json
//! {
//!   "version": 1,
//!   "path": ".github/workflows/ci.yml",
//!   "name": "CI",
//!   "triggers": [{"event": "push", "filters": {"branches": ["main"]}}],
//!   "event": {"name": "push", "ref": "refs/heads/main", "changed": null},
//!   "decision": {"runs": true, "reason": "…"},
//!   "concurrency": {"group": "…", "cancel_in_progress": true, "queue": "single"},
//!   "jobs": [{
//!     "id": "test", "name": null, "line": 12, "stage": 1, "needs": ["lint"], "if": "success()",
//!     "decision": {"runs": true, "reason": "…"},
//!     "legs": [{"os": "ubuntu-24.04"}], "matrix": null, "fail_fast": null, "max_parallel": null,
//!     "runs_on": "${{ matrix.os }}", "environment": null, "timeout_minutes": 10,
//!     "concurrency": null, "permissions": {"contents": "read"}, "outputs": null, "retry": null,
//!     "steps": [{"id": "checkout", "name": null, "if": "success()", "does": "actions/checkout@v4"}],
//!     "uses": null, "jobs": null
//!   }]
//! }
//! ```
//!
//! A job's `decision` is for the event asked about, assuming that what runs succeeds; it is null
//! without an event and when only the run can tell. `legs` is null for a job without a matrix and for one whose `matrix` is not known yet. `uses` and
//! `jobs` are those of a called workflow; `jobs` is null when its file was not at hand.

use kiln_core::plan::{
    Concurrency, Data, Job, JobKind, MapKey, Permissions, Plan, QueueMode, Step, StepKind,
    Strategy, Template, Workflow,
};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use super::value::{object_to_json, to_json};
use crate::graph;
use kiln_lang::expr::template::written;
use kiln_lang::foresee::Outlook;

use crate::events::{Decision, Event, Trigger};

/// Workflows may call each other this deep; the compiler refuses more.
const MAX_CALLS: usize = 16;

#[derive(Debug, Serialize)]
pub(crate) struct PlanView {
    version: u32,
    pub(crate) path: String,
    pub(crate) name: Option<String>,
    pub(crate) triggers: Vec<TriggerView>,
    pub(crate) event: Option<EventView>,
    pub(crate) decision: Option<DecisionView>,
    pub(crate) concurrency: Option<ConcurrencyView>,
    pub(crate) jobs: Vec<JobView>,
}

impl PlanView {
    /// Adds what is to be expected of each job of the workflow itself.
    pub(crate) fn foresee(&mut self, outlooks: &[Outlook], plan: &Plan) {
        for (job, outlook) in plan.root().jobs.iter().zip(outlooks) {
            let decision = match outlook {
                Outlook::Open => None,
                Outlook::Runs => {
                    Some(DecisionView { runs: true, reason: "its condition holds".into() })
                }
                Outlook::Skipped(reason) => {
                    Some(DecisionView { runs: false, reason: reason.clone() })
                }
            };
            if let Some(view) = self.jobs.iter_mut().find(|view| view.id == job.id) {
                view.decision = decision;
            }
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct TriggerView {
    pub(crate) event: String,
    pub(crate) filters: Map<String, Json>,
}

#[derive(Debug, Serialize)]
pub(crate) struct EventView {
    pub(crate) name: String,
    #[serde(rename = "ref")]
    pub(crate) reference: Option<String>,
    changed: Option<Vec<String>>,
}

#[derive(Debug, Serialize)]
pub(crate) struct DecisionView {
    pub(crate) runs: bool,
    pub(crate) reason: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct ConcurrencyView {
    pub(crate) group: Json,
    pub(crate) cancel_in_progress: Json,
    pub(crate) queue: &'static str,
}

#[derive(Debug, Serialize)]
pub(crate) struct JobView {
    pub(crate) id: String,
    pub(crate) name: Option<Json>,
    line: u32,
    /// Jobs of stage 0 need nothing, those of stage 1 only them, and so on.
    stage: usize,
    pub(crate) needs: Vec<String>,
    #[serde(rename = "if")]
    pub(crate) condition: String,
    /// For the event asked about; null without one, or when only the run can tell.
    pub(crate) decision: Option<DecisionView>,
    pub(crate) legs: Option<Vec<Json>>,
    pub(crate) matrix: Option<Json>,
    fail_fast: Option<Json>,
    pub(crate) max_parallel: Option<Json>,
    pub(crate) runs_on: Option<Json>,
    pub(crate) environment: Option<Json>,
    pub(crate) timeout_minutes: Option<Json>,
    pub(crate) concurrency: Option<ConcurrencyView>,
    /// What its token may do, by scope; null when the workflow does not say.
    pub(crate) permissions: Option<Json>,
    outputs: Option<Json>,
    pub(crate) retry: Option<Json>,
    pub(crate) steps: Option<Vec<StepView>>,
    pub(crate) uses: Option<String>,
    pub(crate) jobs: Option<Vec<JobView>>,
}

#[derive(Debug, Serialize)]
pub(crate) struct StepView {
    id: String,
    name: Option<Json>,
    #[serde(rename = "if")]
    condition: String,
    /// The action, or the first line of the script.
    does: String,
}

/// What is known about the event: itself and whether it starts the workflow.
pub(crate) type Decided<'a> = Option<(&'a Event, Decision)>;

pub(crate) fn view(plan: &Plan, triggers: &[Trigger], decided: Decided<'_>) -> PlanView {
    let root = plan.root();
    let (event, decision) = decided.unzip();
    PlanView {
        version: 1,
        path: root.path.clone(),
        name: root.name.clone(),
        triggers: triggers.iter().map(trigger).collect(),
        event: event.map(|event| EventView {
            name: event.name.clone(),
            reference: event.reference.clone(),
            changed: event.changed.clone(),
        }),
        decision: decision.map(|decision| match decision {
            Decision::Run(reason) => DecisionView { runs: true, reason },
            Decision::Skip(reason) => DecisionView { runs: false, reason },
        }),
        concurrency: root.concurrency.as_ref().map(concurrency),
        jobs: jobs(plan, root, 0),
    }
}

fn trigger(trigger: &Trigger) -> TriggerView {
    let filters = trigger.filters.iter();
    TriggerView {
        event: trigger.event.clone(),
        filters: filters.map(|(name, patterns)| (name.clone(), json!(patterns))).collect(),
    }
}

/// In the order in which they can start.
fn jobs(plan: &Plan, workflow: &Workflow, depth: usize) -> Vec<JobView> {
    let needs: Vec<_> = workflow.jobs.iter().map(|job| job.needs.clone()).collect();
    let levels = graph::levels(&needs);
    let mut order: Vec<_> = (0..workflow.jobs.len()).collect();
    order.sort_by_key(|&index| levels[index]);
    let view = |index: usize| job(plan, workflow, &workflow.jobs[index], levels[index], depth);
    order.into_iter().map(view).collect()
}

fn job(plan: &Plan, workflow: &Workflow, job: &Job, stage: usize, depth: usize) -> JobView {
    let name = |index: &usize| workflow.jobs.get(*index).map(|job| job.id.clone());
    let (legs, matrix, fail_fast, max_parallel) = strategy(&job.strategy);
    let mut view = JobView {
        id: job.id.clone(),
        name: job.name.as_ref().map(template),
        line: job.place.line,
        stage,
        needs: job.needs.iter().filter_map(name).collect(),
        condition: job.condition.text.to_string(),
        decision: None,
        legs,
        matrix,
        fail_fast,
        max_parallel,
        runs_on: None,
        environment: None,
        timeout_minutes: None,
        concurrency: job.concurrency.as_ref().map(concurrency),
        permissions: job.permissions.as_ref().or(workflow.permissions.as_ref()).map(permissions),
        outputs: None,
        retry: job
            .retry
            .as_ref()
            .map(|retry| json!({"max": retry.max, "backoff_seconds": retry.backoff_seconds})),
        steps: None,
        uses: None,
        jobs: None,
    };
    match &job.kind {
        JobKind::Steps(steps) => {
            view.runs_on = Some(data(&steps.runs_on));
            view.environment = steps.environment.as_ref().map(data);
            let outputs = steps.outputs.iter().map(|(name, value)| (name.clone(), template(value)));
            view.outputs = (!steps.outputs.is_empty()).then(|| Json::Object(outputs.collect()));
            view.timeout_minutes = steps.timeout_minutes.as_ref().map(template);
            view.steps = Some(steps.steps.iter().map(step).collect());
        }
        JobKind::Call(call) => {
            let callee = call.workflow.and_then(|index| plan.workflows.get(index));
            let callee = callee.filter(|_| depth < MAX_CALLS);
            view.uses = Some(call.uses.clone());
            view.jobs = callee.map(|callee| jobs(plan, callee, depth + 1));
        }
    }
    view
}

type StrategyParts = (Option<Vec<Json>>, Option<Json>, Option<Json>, Option<Json>);

/// Legs, matrix, fail-fast and max-parallel.
fn strategy(strategy: &Strategy) -> StrategyParts {
    let optional = |value: &Option<Template>| value.as_ref().map(template);
    match strategy {
        Strategy::Single => (None, None, None, None),
        Strategy::Legs { legs, fail_fast, max_parallel } => {
            let legs = legs.iter().map(object_to_json).collect();
            (Some(legs), None, optional(fail_fast), optional(max_parallel))
        }
        Strategy::Matrix { matrix, fail_fast, max_parallel } => {
            (None, Some(data(matrix)), optional(fail_fast), optional(max_parallel))
        }
        Strategy::Expr(text) => (None, Some(expression(text)), None, None),
    }
}

fn concurrency(concurrency: &Concurrency) -> ConcurrencyView {
    let cancel = concurrency.cancel_in_progress.as_ref();
    ConcurrencyView {
        group: template(&concurrency.group),
        cancel_in_progress: cancel.map_or(Json::Bool(false), template),
        queue: match concurrency.queue {
            QueueMode::Single => "single",
            QueueMode::Max => "max",
        },
    }
}

fn permissions(permissions: &Permissions) -> Json {
    let granted = permissions.granted();
    Json::Object(
        granted
            .map(|(scope, access)| (scope.as_str().to_owned(), json!(access.as_str())))
            .collect(),
    )
}

fn step(step: &Step) -> StepView {
    StepView {
        id: step.id.clone(),
        name: step.name.as_ref().map(template),
        condition: step.condition.text.to_string(),
        does: does(&step.kind),
    }
}

fn does(kind: &StepKind) -> String {
    match kind {
        StepKind::Run(run) => {
            let script = text(&template(&run.script));
            script.trim().lines().next().unwrap_or_default().to_owned()
        }
        StepKind::Use(used) => used.target.to_string(),
        StepKind::Wait(steps) => format!("wait for {}", steps.join(", ")),
        StepKind::WaitAll => "wait for all background steps".into(),
        StepKind::Cancel(step) => format!("cancel {step}"),
        StepKind::Parallel(steps) => format!("{} steps at the same time", steps.len()),
    }
}

/// A value as text: strings as they are, the rest as JSON on one line.
pub(crate) fn text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        Json::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{key}: {}", text(value)));
            entries.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

pub(crate) fn template(template: &Template) -> Json {
    match template {
        Template::Literal(value) => to_json(value),
        Template::Expr(text) => expression(text),
    }
}

fn expression(text: &str) -> Json {
    Json::String(written(text))
}

pub(crate) fn data(value: &Data) -> Json {
    match value {
        Data::Scalar(value) => template(value),
        Data::List(items) => items.iter().map(data).collect(),
        Data::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| {
                let key = match key {
                    MapKey::Name(name) => name.to_string(),
                    MapKey::Expr(text) => written(text),
                    MapKey::Insert => "${{ insert }}".into(),
                };
                (key, data(value))
            });
            Json::Object(entries.collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{expression as unknown, literal, sample};

    #[test]
    fn a_plan_has_its_documented_shape() {
        let mut plan = sample();
        plan.workflows[0].concurrency = Some(Concurrency {
            group: unknown("github.ref"),
            cancel_in_progress: Some(Template::literal(true)),
            queue: QueueMode::Single,
        });
        let triggers = [Trigger {
            event: "push".into(),
            filters: vec![("branches".into(), vec!["main".into()])],
        }];
        let event = Event {
            name: "push".into(),
            payload: kiln_core::value::Object::new(),
            reference: Some("refs/heads/main".into()),
            changed: None,
        };
        let decision = Decision::Run("branch `main` matches".into());
        let view = serde_json::to_value(view(&plan, &triggers, Some((&event, decision)))).unwrap();
        assert_eq!(view["version"], 1);
        assert_eq!(view["triggers"], json!([{"event": "push", "filters": {"branches": ["main"]}}]));
        assert_eq!(
            view["event"],
            json!({"name": "push", "ref": "refs/heads/main", "changed": null})
        );
        assert_eq!(view["decision"], json!({"runs": true, "reason": "branch `main` matches"}));
        assert_eq!(
            view["concurrency"],
            json!({"group": "${{ github.ref }}", "cancel_in_progress": true, "queue": "single"})
        );
        let ids: Vec<_> = view["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, ["lint", "docs", "test", "build", "e2e", "release"]);
        assert_eq!(
            view["jobs"][2],
            json!({
                "id": "test", "name": null, "line": 1, "stage": 1, "needs": ["lint"],
                "if": "success()",
                "decision": null,
                "legs": [{"os": "ubuntu-24.04"}, {"os": "macos-15"}, {"os": "windows-2025"}],
                "matrix": null, "fail_fast": null, "max_parallel": null,
                "runs_on": "${{ matrix.os }}", "environment": null, "timeout_minutes": null,
                "permissions": null,
                "outputs": null,
                "retry": null,
                "concurrency": null,
                "steps": [{"id": "__run", "name": null, "if": "success()", "does": "make"}],
                "uses": null, "jobs": null,
            })
        );
        assert_eq!(view["jobs"][3]["uses"], "./.github/workflows/build.yml");
        assert_eq!(view["jobs"][3]["jobs"][1]["needs"], json!(["compile"]));
        assert_eq!(view["jobs"][4]["matrix"], "${{ fromJSON(needs.build.outputs.matrix) }}");
    }

    #[test]
    fn data_keeps_its_form_with_expressions_in_their_places() {
        let map = Data::Map(vec![
            (MapKey::Name("group".into()), literal("big")),
            (MapKey::Expr("a.b".into()), Data::List(vec![Data::Scalar(unknown("x"))])),
            (MapKey::Insert, Data::Scalar(unknown("y"))),
        ]);
        let expect = r#"{"group":"big","${{ a.b }}":["${{ x }}"],"${{ insert }}":"${{ y }}"}"#;
        assert_eq!(data(&map).to_string(), expect);
    }

    #[test]
    fn a_workflow_that_calls_itself_ends() {
        let mut plan = sample();
        plan.workflows[1].jobs[1] = crate::testing::call("again", &[0], "./x.yml", Some(1));
        let view = serde_json::to_string(&view(&plan, &[], None)).unwrap();
        assert_eq!(view.matches("again").count(), MAX_CALLS);
    }
}
