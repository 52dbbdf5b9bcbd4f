//! What the text of a job says about it, before it runs.

use kiln_core::plan::{
    Data, Job, MapKey, Permissions, Plan, Step, StepKind, StepsJob, Template, UseTarget, Workflow,
};
use kiln_lang::expr::coerce::{to_number, to_text};

/// GitHub's limit for a job that names none.
const USUAL_MINUTES: u32 = 360;
/// The most that a job may name.
const MOST_MINUTES: f64 = 100_000.0;

/// A plan of one workflow with one job; what that needs comes with the contexts, and what it was granted by
/// those who call the workflow stands with the job.
pub(super) fn reduced(workflow: &Workflow, job: &Job, granted: Option<Permissions>) -> Plan {
    let job = Job { needs: Vec::new(), permissions: granted, ..job.clone() };
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
        match (&step.name, &step.kind) {
            (Some(Template::Literal(name)), _) => names.push(to_text(name).into_owned()),
            (_, StepKind::Parallel(inner)) => names.extend(step_names(inner)),
            (_, kind) => names.push(usual_name(kind).unwrap_or_else(|| step.id.clone())),
        }
    }
    names
}

fn usual_name(kind: &StepKind) -> Option<String> {
    let what = match kind {
        StepKind::Run(run) => run.script.as_str()?.trim().lines().next()?.to_owned(),
        StepKind::Use(used) => match &used.target {
            UseTarget::Local(path) => format!("./{path}"),
            UseTarget::SameRepository(path) => format!("$/{path}"),
            UseTarget::Docker(image) => format!("docker://{image}"),
            UseTarget::Repository { owner, repository, path, reference } if path.is_empty() => {
                format!("{owner}/{repository}@{reference}")
            }
            UseTarget::Repository { owner, repository, path, reference } => {
                format!("{owner}/{repository}/{path}@{reference}")
            }
        },
        _ => return None,
    };
    Some(format!("Run {what}"))
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
