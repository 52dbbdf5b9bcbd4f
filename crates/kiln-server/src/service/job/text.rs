//! What the text of a job says about it, before it runs.

use kiln_core::plan::{
    Data, Job, JobKind, MapKey, Permissions, Plan, Step, StepKind, StepsJob, Template, Workflow,
};
use kiln_lang::expr::coerce::to_number;

/// GitHub's limit for a job that names none.
const USUAL_MINUTES: u32 = 360;
/// The most that a job may name.
const MOST_MINUTES: f64 = 100_000.0;

/// A plan of one workflow with one job; what that needs comes with the contexts, and what it was granted by
/// those who call the workflow stands with the job. Where it begins at a step, the plan says so.
pub(super) fn reduced(
    workflow: &Workflow,
    job: &Job,
    granted: Option<Permissions>,
    from_step: Option<u32>,
) -> Plan {
    let mut job = Job { needs: Vec::new(), permissions: granted, ..job.clone() };
    if let (JobKind::Steps(steps), Some(number)) = (&mut job.kind, from_step) {
        steps.begin_at(number);
    }
    let workflow = Workflow {
        path: workflow.path.clone(),
        name: workflow.name.clone(),
        env: workflow.env.clone(),
        defaults: workflow.defaults.clone(),
        permissions: workflow.permissions.clone(),
        jobs: vec![job],
        ..Workflow::default()
    };
    Plan { workflows: vec![workflow] }
}

/// As far as they are known without evaluating anything.
pub(super) fn step_names(steps: &[Step]) -> Vec<String> {
    let mut names = Vec::with_capacity(steps.len());
    for step in steps {
        match &step.kind {
            StepKind::Parallel(inner) => names.extend(step_names(inner)),
            _ => names.push(step.known_name().unwrap_or_else(|| step.id.clone())),
        }
    }
    names
}

/// The services by name; all about them is in the plan.
pub(super) fn service_names(steps: &StepsJob) -> Vec<serde_json::Value> {
    let Some(Data::Map(entries)) = &steps.services else { return Vec::new() };
    let name = |(key, _): &(MapKey, Data)| match key {
        MapKey::Name(name) => Some(serde_json::json!({ "name": &**name })),
        MapKey::Expr(_) | MapKey::Insert => None,
    };
    entries.iter().filter_map(name).collect()
}

pub(super) fn minutes(steps: &StepsJob) -> u32 {
    match &steps.timeout_minutes {
        Some(Template::Literal(value)) => {
            let minutes = to_number(value).ceil();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is between 1 and the most"
            )]
            if minutes.is_finite() {
                minutes.clamp(1.0, MOST_MINUTES) as u32
            } else {
                USUAL_MINUTES
            }
        }
        // The runner evaluates it.
        Some(Template::Expr(_)) | None => USUAL_MINUTES,
    }
}
