//! Which secrets a leg may see.
//!
//! A plan and the rows of a run say only how secrets are handed on, never what they are. Whoever gives
//! a leg to a runner asks here at that moment, with the secrets that the run itself may use; nothing
//! of the answer has to be kept.

use kiln_core::plan::{CallSecrets, JobKind};
use kiln_core::run::{LegNo, Neighbourhood, ScopeNo};
use kiln_core::value::{Object, Value};

use crate::expr::coerce::to_text;

use super::contexts::JobEnv;
use super::{Expressions, evaluate_data};

/// The one secret that every workflow has without being given it.
const TOKEN: &str = "GITHUB_TOKEN";

/// The secrets of a leg: those of the run, narrowed by each call on the way down to it.
///
/// A called workflow sees none of its caller's secrets, all of them with `inherit`, else those that
/// the call names.
pub fn leg_secrets(
    expressions: &Expressions,
    hood: &Neighbourhood,
    leg: LegNo,
    run: &Object,
) -> Result<Object, String> {
    let scope = hood.nodes[&hood.legs[&leg].node].scope;
    of_scope(expressions, hood, scope, run)
}

/// Calls are nested at most as deep as the compiler allows, which bounds the recursion.
fn of_scope(
    expressions: &Expressions,
    hood: &Neighbourhood,
    scope: ScopeNo,
    run: &Object,
) -> Result<Object, String> {
    let Some(caller) = hood.scopes[&scope].caller else { return Ok(run.clone()) };
    let node = hood.legs[&caller].node;
    let JobKind::Call(call) = &hood.job_of(node).kind else { return Ok(Object::new()) };
    let mut given = match &call.secrets {
        CallSecrets::None => Object::new(),
        CallSecrets::Inherit => of_scope(expressions, hood, hood.nodes[&node].scope, run)?,
        CallSecrets::Named(named) => {
            let own = of_scope(expressions, hood, hood.nodes[&node].scope, run)?;
            let context = hood.context(node, Some(caller));
            let env = JobEnv::of_job(expressions, &context).with_secrets(own);
            let wrong = |message| format!("the secrets for `{}`: {message}", call.uses);
            texts(&evaluate_data(named, &env).map_err(wrong)?)
        }
    };
    if let Some(token) = run.get(TOKEN) {
        given.insert(TOKEN, token.clone());
    }
    Ok(given)
}

/// Secrets are always text.
fn texts(named: &Value) -> Object {
    let Value::Object(named) = named else { return Object::new() };
    named.iter().map(|(name, value)| (name, Value::from(to_text(value).into_owned()))).collect()
}
