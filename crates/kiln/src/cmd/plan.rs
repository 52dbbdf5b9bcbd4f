//! `kiln plan`: what a workflow would run for an event, and why not.

use anyhow::{Result, bail};
use kiln_core::plan::Plan;
use kiln_core::value::Value;
use kiln_lang::suggest::closest;
use kiln_lang::{foresee, trigger};

use super::compiled;
use crate::Outcome;
use crate::cli::PlanArgs;
use crate::events::{self, Event, Triggers};
use crate::inputs;
use crate::output::plan_json::PlanView;
use crate::output::{Console, json, plan_human, plan_json};
use crate::read;

pub(crate) fn run(args: &PlanArgs, console: &mut Console) -> Result<Outcome> {
    let event = event(args)?;
    let Some(compiled) = compiled::compile(&args.workflow, console)? else {
        return Ok(Outcome::Errors);
    };
    let view = view(&compiled.plan, &compiled.triggers, event.as_ref())?;
    print(&view, args.json, console)
}

/// Shows what would run for an event.
pub(crate) fn show(
    plan: &Plan,
    triggers: &Triggers,
    event: &Event,
    as_json: bool,
    console: &mut Console,
) -> Result<Outcome> {
    print(&view(plan, triggers, Some(event))?, as_json, console)
}

fn view(plan: &Plan, triggers: &Triggers, event: Option<&Event>) -> Result<PlanView> {
    let decided = event.map(|event| (event, triggers.decide(event)));
    let mut view = plan_json::view(plan, &triggers.shown(), decided);
    if let Some(event) = event {
        // Without a payload the inputs are open questions, not missing ones.
        let given = inputs::of_payload(event);
        let known =
            (!given.is_empty()).then(|| inputs::typed(plan, &event.name, &given)).transpose()?;
        view.foresee(&foresee::jobs(plan.root(), &events::known_contexts(event, known)), plan);
    }
    Ok(view)
}

fn print(view: &PlanView, as_json: bool, console: &mut Console) -> Result<Outcome> {
    if as_json {
        console.print_raw(&json::pretty(view))?;
    } else {
        console.print(&plan_human::render(view))?;
    }
    Ok(Outcome::Clean)
}

fn event(args: &PlanArgs) -> Result<Option<Event>> {
    let Some(name) = &args.event else {
        return Ok(None);
    };
    known_event(name)?;
    let payload =
        args.event_file.as_deref().map(read::json_object).transpose()?.unwrap_or_default();
    let sent = payload.get("ref").and_then(Value::as_str);
    let reference = args.reference.as_deref().or(sent).map(full_reference);
    Ok(Some(Event {
        name: name.clone(),
        reference,
        changed: (!args.changed.is_empty()).then(|| args.changed.clone()),
        payload,
    }))
}

/// An event that does not exist would be skipped by every workflow, and nobody would know why.
pub(crate) fn known_event(name: &str) -> Result<()> {
    if trigger::event(name).is_some() {
        return Ok(());
    }
    let meant = closest(name, trigger::EVENTS.iter().map(|event| event.name));
    let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    bail!("there is no event `{name}`{meant}")
}

/// A branch may be named without `refs/heads/`.
fn full_reference(name: &str) -> String {
    if name.starts_with("refs/") { name.to_owned() } else { format!("refs/heads/{name}") }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn args(reference: Option<&str>, changed: &[&str], file: Option<&Path>) -> PlanArgs {
        PlanArgs {
            workflow: "ci.yml".into(),
            event: Some("push".into()),
            event_file: file.map(Into::into),
            reference: reference.map(Into::into),
            changed: changed.iter().copied().map(Into::into).collect(),
            json: false,
        }
    }

    #[test]
    fn a_reference_is_a_branch_unless_it_is_full() {
        assert_eq!(full_reference("main"), "refs/heads/main");
        assert_eq!(full_reference("feature/x"), "refs/heads/feature/x");
        assert_eq!(full_reference("refs/tags/v1"), "refs/tags/v1");
    }

    #[test]
    fn what_is_typed_wins_over_the_payload() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("event.json");
        std::fs::write(&file, r#"{"ref": "refs/heads/sent"}"#).unwrap();
        let sent = event(&args(None, &[], Some(&file))).unwrap().unwrap();
        assert_eq!(sent.reference.as_deref(), Some("refs/heads/sent"));
        assert_eq!(sent.changed, None);
        let typed = event(&args(Some("main"), &["a.rs"], Some(&file))).unwrap().unwrap();
        assert_eq!(typed.reference.as_deref(), Some("refs/heads/main"));
        assert_eq!(typed.changed, Some(vec!["a.rs".to_owned()]));
    }

    #[test]
    fn a_payload_that_is_no_object_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("event.json");
        std::fs::write(&file, "[]").unwrap();
        let error = event(&args(None, &[], Some(&file))).unwrap_err();
        assert!(error.to_string().contains("must be a JSON object"), "{error}");
    }
}
