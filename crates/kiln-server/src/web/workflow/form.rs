//! The form that starts a workflow by hand, with a field of its type for each input.

use kiln_core::plan::{Input, InputKind, Template};
use kiln_core::value::Value;
use maud::{Markup, html};

use crate::web::layout::form_token;
use crate::web::visitor::Visitor;

/// What stands before the names of inputs in the form.
pub(super) const INPUT: &str = "input.";

/// The inputs are those of the file at this ref; whoever wants another one looks at the workflow there first.
pub(super) fn show(visitor: &Visitor, here: &str, reference: &str, inputs: &[Input]) -> Markup {
    html! {
        details.card.dispatch #dispatch {
            summary { "Start it by hand" }
            form.stack method="post" action={ (here) "/dispatch" } {
                (form_token(visitor))
                input type="hidden" name="ref" value=(reference);
                p { "On " code { (reference) } "." }
                @for input in inputs { (field(input)) }
                div { button.primary type="submit" { "Start" } }
            }
        }
    }
}

/// A field of the type that the file declares.
fn field(input: &Input) -> Markup {
    let name = format!("{INPUT}{}", input.name);
    let default = default_of(input);
    let about = html! {
        span { (input.description.as_deref().unwrap_or(&input.name))
            @if input.required { " " abbr title="required" { "*" } } }
    };
    html! {
        @match &input.kind {
            InputKind::Boolean => {
                // What is not ticked is not sent: then this counts.
                input type="hidden" name=(name) value="false";
                label.tick { input type="checkbox" name=(name) value="true" checked[default == "true"]; (about) }
            }
            InputKind::Choice(options) => label { (about)
                select name=(name) required[input.required] {
                    @for option in options { option value=(option) selected[*option == default] { (option) } }
                }
            },
            kind => label { (about)
                input name=(name) value=(default) required[input.required]
                    inputmode=[(*kind == InputKind::Number).then_some("decimal")];
            },
        }
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
