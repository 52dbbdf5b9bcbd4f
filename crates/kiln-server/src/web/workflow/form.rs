//! The form that starts a workflow by hand, with a field of its type for each input.

use std::collections::BTreeMap;

use kiln_core::plan::{Input, InputKind, Template};
use kiln_core::value::Value;
use maud::{Markup, html};

use crate::web::failure::sentence;
use crate::web::layout::form_token;
use crate::web::visitor::Visitor;

/// What stands before the names of inputs in the form.
pub(super) const INPUT: &str = "input.";

/// A form that was sent and could not be used: it comes back as it was, with what is wrong.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) reference: String,
    pub(super) inputs: BTreeMap<String, String>,
    pub(super) problem: String,
}

impl Sent {
    /// The input that the problem is about.
    fn culprit<'i>(&self, inputs: &'i [Input]) -> Option<&'i str> {
        let names = inputs.iter().map(|input| input.name.as_str());
        names.into_iter().find(|name| self.problem.contains(&format!("input `{name}`")))
    }
}

/// What the form offers.
#[derive(Debug)]
pub(super) struct Offer<'o> {
    /// Where the inputs were read; whoever wants those of another ref looks at the workflow there first.
    pub(super) reference: &'o str,
    pub(super) inputs: &'o [Input],
    /// Those of the repository.
    pub(super) environments: &'o [String],
    pub(super) sent: Option<&'o Sent>,
}

pub(super) fn show(visitor: &Visitor, here: &str, offer: &Offer<'_>) -> Markup {
    let culprit = offer.sent.and_then(|sent| sent.culprit(offer.inputs));
    html! {
        details.card.dispatch #dispatch open[offer.sent.is_some()] {
            summary { "Start it by hand" }
            form.stack method="post" action={ (here) "/dispatch" } {
                (form_token(visitor))
                input type="hidden" name="ref" value=(offer.reference);
                p { "On " code { (offer.reference) } "." }
                @if let Some(sent) = offer.sent {
                    @if culprit.is_none() { p.notice.bad role="alert" { (sentence(&sent.problem)) } }
                }
                @for input in offer.inputs {
                    (field(input, offer, culprit == Some(input.name.as_str())))
                }
                div { button.primary type="submit" { "Start" } }
            }
        }
    }
}

/// A field of the type that the file declares, with what is wrong about it.
fn field(input: &Input, offer: &Offer<'_>, is_wrong: bool) -> Markup {
    let name = format!("{INPUT}{}", input.name);
    let sent = offer.sent.and_then(|sent| sent.inputs.get(&input.name));
    let value = sent.cloned().unwrap_or_else(|| default_of(input));
    let problem = offer.sent.filter(|_| is_wrong).map(|sent| sentence(&sent.problem));
    let problem_id = format!("problem.{}", input.name);
    let described = problem.is_some().then_some(problem_id.as_str());
    let invalid = problem.is_some().then_some("true");
    let about = html! {
        span { (input.description.as_deref().unwrap_or(&input.name))
            @if input.required { " " abbr title="required" { "*" } } }
    };
    let choice = |options: &[String]| {
        html! {
            label { (about)
                select name=(name) required[input.required] aria-invalid=[invalid] aria-describedby=[described] {
                    // What was chosen may be none of them any more.
                    @if !options.contains(&value) { option value="" selected { "" } }
                    @for option in options { option value=(option) selected[*option == value] { (option) } }
                }
            }
        }
    };
    html! {
        @match &input.kind {
            InputKind::Boolean => {
                // What is not ticked is not sent: then this counts.
                input type="hidden" name=(name) value="false";
                label.tick { input type="checkbox" name=(name) value="true" checked[value == "true"]; (about) }
            }
            InputKind::Choice(options) => (choice(options)),
            InputKind::Environment if !offer.environments.is_empty() => (choice(offer.environments)),
            kind => label { (about)
                @let number = *kind == InputKind::Number;
                input type=(if number { "number" } else { "text" }) step=[number.then_some("any")]
                    name=(name) value=(value) required[input.required]
                    aria-invalid=[invalid] aria-describedby=[described];
            },
        }
        @if let Some(problem) = problem { p.notice.bad id=(problem_id) role="alert" { (problem) } }
    }
}

fn default_of(input: &Input) -> String {
    match &input.default {
        Some(Template::Literal(value)) => text_of(value),
        _ => String::new(),
    }
}

/// A default as a form has it.
fn text_of(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    }
}
