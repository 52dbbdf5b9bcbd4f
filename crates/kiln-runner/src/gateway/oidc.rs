//! Words for who a job is, for those who trust whoever signs them.

use serde_json::json;

use super::door::Door;
use super::passes::Used;
use super::request::{Answer, Reply, Request};
use super::services::Refusal;

pub(super) const PATH: &str = "/oidc/token";
/// Clients add to the query, so there is one.
pub(super) const PATH_AND_QUERY: &str = "oidc/token?api-version=2.0";
/// An audience is an address, most often.
const LONGEST_AUDIENCE: usize = 2048;

pub(super) fn answer(door: &Door, request: &Request<'_>, pass: &Used) -> Answer {
    let audience = request.parameter("audience").filter(|audience| !audience.is_empty());
    if audience.as_ref().is_some_and(|audience| audience.len() > LONGEST_AUDIENCE) {
        return Err(Refusal::invalid("the audience is too long").into());
    }
    let issuer = door.address("");
    let issuer = issuer.trim_end_matches('/');
    let value = door.services.id_token(issuer, audience.as_deref())?;
    pass.note(&value);
    Ok(Reply::json(&json!({"count": value.len(), "value": value})))
}

/// Where the keys are, if they are here.
pub(super) fn configuration(door: &Door) -> Answer {
    if door.services.keys().is_none() {
        return Err(elsewhere().into());
    }
    let issuer = door.address("");
    Ok(Reply::json(&json!({
        "issuer": issuer.trim_end_matches('/'), "jwks_uri": format!("{issuer}.well-known/jwks"),
        "subject_types_supported": ["public"], "response_types_supported": ["id_token"],
        "id_token_signing_alg_values_supported": ["RS256"], "scopes_supported": ["openid"],
        "claims_supported": super::local::CLAIMS,
    })))
}

pub(super) fn keys(door: &Door) -> Answer {
    Ok(Reply::json(&door.services.keys().ok_or_else(elsewhere)?))
}

fn elsewhere() -> Refusal {
    Refusal::not_found("whoever signs for this job has its keys at its own address")
}
