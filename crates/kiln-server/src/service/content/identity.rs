//! The word of the server for who a job is: a token that others can check, such as clouds.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use kiln_lang::trigger::GitRef;
use kiln_proto::content::{AskIdToken, IdToken};
use kiln_proto::identity::subject;
use kiln_store::claims::Lease;
use kiln_store::directory::{audit, repositories};
use kiln_store::{Scope, Tx};
use serde_json::{Map, Value, json};

use super::{Standing, actor, keys};
use crate::app::App;
use crate::clock;
use crate::http::error::{Answer, Failure};
use crate::token::random;

/// How long a token is good.
const LIFE: Duration = Duration::from_mins(5);
/// How far clocks may be apart.
const SKEW: Duration = Duration::from_mins(1);
/// The longest audience, in characters.
const LONGEST: usize = 500;

/// Where everything about these tokens can be found, as OIDC has it.
pub fn discovery(app: &App) -> Value {
    let url = &app.config.public_url;
    json!({
        "issuer": url,
        "jwks_uri": format!("{url}/.well-known/jwks"),
        "subject_types_supported": ["public", "pairwise"],
        "response_types_supported": ["id_token"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "scopes_supported": ["openid"],
        "claims_supported": [
            "sub", "aud", "exp", "iat", "iss", "jti", "nbf", "ref", "ref_type", "sha", "repository",
            "repository_id", "repository_owner", "repository_owner_id", "repository_visibility",
            "run_id", "run_number", "run_attempt", "actor", "workflow", "workflow_ref",
            "workflow_sha", "job_workflow_ref", "job_workflow_sha", "event_name", "base_ref",
            "head_ref", "environment", "runner_environment",
        ],
    })
}

/// The keys with which such tokens are checked.
pub async fn public_keys(app: &App) -> Answer<Value> {
    keys::public(app, clock::now()).await
}

/// Says who a job is, to one audience. Every word is in the audit and in the server's log.
pub async fn token(app: &App, lease: &Lease, asked: AskIdToken) -> Answer<IdToken> {
    let standing = Standing::of(app, lease).await?;
    if !standing.is_trusted() {
        return Err(Failure::forbidden("a run of code from elsewhere has no identity"));
    }
    if !standing.may_identify() {
        let message = "the job lacks `id-token: write` in its `permissions`";
        return Err(Failure::forbidden(message));
    }
    let owner = || format!("{}/{}", app.config.public_url, standing.run().org_name);
    let audience = asked.audience.unwrap_or_else(owner);
    let odd = audience.chars().any(char::is_control);
    if audience.is_empty() || odd || audience.chars().count() > LONGEST {
        let message = format!("`audience`: expected 1 to {LONGEST} characters on one line");
        return Err(Failure::invalid(message));
    }
    let claims = claims(app, lease, &standing, &audience).await?;
    let key = keys::signing(app, clock::now()).await?;
    let header = json!({ "alg": "RS256", "typ": "JWT", "kid": key.id });
    let part = |value: &Value| BASE64.encode(value.to_string());
    let body = format!("{}.{}", part(&header), part(&claims));
    let value = format!("{body}.{}", key.sign(app, &body)?);
    note(app, lease, &claims).await?;
    Ok(IdToken { value })
}

async fn claims(app: &App, lease: &Lease, standing: &Standing, audience: &str) -> Answer<Value> {
    let run = standing.run();
    let (scope, id) = (Scope::Org(lease.org), lease.repo);
    let find = async move |tx: &mut Tx<'_>| repositories::get(tx, scope, id).await;
    let repo = app.store.read(find).await?;
    let full = format!("{}/{}", run.org_name, run.repo_name);
    let environment = standing.environment()?;
    let kind = match GitRef::parse(&run.reference) {
        GitRef::Tag(_) => "tag",
        _ => "branch",
    };
    let seconds = |millis: u64| millis / 1_000;
    let now = clock::now();
    let mut claims = Map::new();
    let mut say = |name: &str, value: Value| claims.insert(name.to_owned(), value);
    say("iss", json!(app.config.public_url));
    say("sub", json!(subject(&full, &run.event, &run.reference, environment.as_deref())));
    say("aud", json!(audience));
    say("iat", json!(seconds(now.0)));
    say("nbf", json!(seconds(now.0.saturating_sub(u64::try_from(SKEW.as_millis()).unwrap_or(0)))));
    say("exp", json!(seconds((now + LIFE).0)));
    say("jti", json!(format!("{:032x}", u128::from_ne_bytes(random()))));
    say("ref", json!(run.reference));
    say("ref_type", json!(kind));
    say("sha", json!(run.head_sha));
    say("repository", json!(full));
    say("repository_id", json!(run.repo.to_string()));
    say("repository_owner", json!(run.org_name));
    say("repository_owner_id", json!(run.org.to_string()));
    say("repository_visibility", json!(repo.visibility.word()));
    say("run_id", json!(run.id.to_string()));
    say("run_number", json!(run.number.to_string()));
    say("run_attempt", json!(run.attempt.to_string()));
    say("actor", json!(run.actor));
    say("workflow", json!(run.workflow_name));
    say("workflow_ref", json!(format!("{full}/{}@{}", run.workflow_path, run.reference)));
    say("workflow_sha", json!(run.head_sha));
    say("job_workflow_ref", json!(format!("{full}/{}@{}", standing.file(), run.reference)));
    say("job_workflow_sha", json!(run.head_sha));
    say("event_name", json!(run.event));
    say("base_ref", json!(standing.github("base_ref").unwrap_or_default()));
    say("head_ref", json!(standing.github("head_ref").unwrap_or_default()));
    say("runner_environment", json!("self-hosted"));
    if let Some(environment) = environment {
        say("environment", json!(environment));
    }
    Ok(Value::Object(claims))
}

async fn note(app: &App, lease: &Lease, claims: &Value) -> Answer<()> {
    let detail = json!({ "aud": claims["aud"], "sub": claims["sub"], "jti": claims["jti"] });
    tracing::info!(
        job = %lease.job,
        run = %lease.run,
        audience = claims["aud"].as_str(),
        subject = claims["sub"].as_str(),
        "an identity token was issued"
    );
    let (org, job) = (lease.org, lease.job);
    let work = async move |tx: &mut Tx<'_>| {
        audit::identified(tx, &actor(job), org, job, detail.clone()).await
    };
    Ok(app.store.write(work).await?)
}
