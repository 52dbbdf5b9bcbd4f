//! Steps, with ids for those that have none.

use kiln_core::plan::{Run, Step, StepKind, Template, Use, UseTarget};

use crate::source::SourceMap;
use crate::workflow::ids::Generator;
use crate::workflow::{self, Document, StepWork, one_or_more, uses};

use super::{data, place};

/// The steps of a job. Given ids come first, so that generated ones avoid them all.
pub(super) fn steps(
    sources: &SourceMap,
    document: &Document,
    steps: &[workflow::Step<'_>],
) -> Vec<Step> {
    let given = steps.iter().filter_map(|step| step.id()?.text()).map(str::to_owned);
    let mut ids = Generator::new(given);
    steps.iter().map(|step| compile(sources, document, *step, &mut ids)).collect()
}

fn compile(
    sources: &SourceMap,
    document: &Document,
    step: workflow::Step<'_>,
    ids: &mut Generator,
) -> Step {
    let kind = kind(sources, document, step);
    let text = |key: &str| step.get(key).map(|node| data::text(document, node));
    let scalar = |key: &str| step.get(key).map(|node| data::scalar(document, node));
    let given = step.id().and_then(|id| id.text()).filter(|id| !id.is_empty());
    Step {
        id: given.map_or_else(|| ids.next(&stem(&kind)), str::to_owned),
        name: text("name"),
        condition: data::condition(document, step.get("if")),
        left_out: None,
        env: step.get("env").map(|node| data::text_map(document, node)),
        continue_on_error: scalar("continue-on-error"),
        timeout_minutes: scalar("timeout-minutes"),
        background: step.get("background").and_then(|node| node.text()) == Some("true"),
        retry: None,
        kind,
        place: place(sources, step.node.span),
    }
}

fn kind(sources: &SourceMap, document: &Document, step: workflow::Step<'_>) -> StepKind {
    let text = |key: &str| step.get(key).map(|node| data::text(document, node));
    let name = |node: &crate::yaml::Node| node.text().unwrap_or_default().to_owned();
    match step.work() {
        Some(StepWork::Uses(node)) => StepKind::Use(Use {
            target: uses::action(&name(node)).unwrap_or_else(UseTarget::Local),
            with: step.get("with").map(|node| data::text_map(document, node)),
        }),
        Some(StepWork::Wait(node)) => {
            StepKind::Wait(one_or_more(Some(node)).into_iter().map(|node| name(node)).collect())
        }
        Some(StepWork::WaitAll(_)) => StepKind::WaitAll,
        Some(StepWork::Cancel(node)) => StepKind::Cancel(name(node)),
        Some(StepWork::Parallel(node)) => {
            let inner: Vec<workflow::Step<'_>> = workflow::Step::list(node);
            StepKind::Parallel(steps(sources, document, &inner))
        }
        Some(StepWork::Run(_)) | None => StepKind::Run(Run {
            script: text("run").unwrap_or_else(|| Template::literal("")),
            shell: text("shell"),
            working_directory: text("working-directory"),
        }),
    }
}

/// What a generated id is made from.
fn stem(kind: &StepKind) -> String {
    match kind {
        StepKind::Run(_) => "run".to_owned(),
        StepKind::Use(action) => uses::id_stem(&action.target),
        StepKind::Wait(_) => "wait".to_owned(),
        StepKind::WaitAll => "wait-all".to_owned(),
        StepKind::Cancel(_) => "cancel".to_owned(),
        StepKind::Parallel(_) => "parallel".to_owned(),
    }
}
