//! Workers of document E, over the services of runners.

use std::sync::Arc;

use axum::http::StatusCode;
use kiln_core::id::RunnerId;
use kiln_core::queue::{Capabilities, Offer, Requirements};
use kiln_proto::worker::{Poll as PollAnswer, Register, Registered};
use kiln_store::directory::runners::About;

use super::register::{self, access_token};
use crate::app::App;
use crate::fleet::Member;
use crate::http::error::{Answer, Failure};
use crate::token::random;

/// What builds of apps ask for; workers do nothing else.
const APP_BUILD: &str = "app-build";
/// Room is left for an addition.
const LONGEST_NAME: usize = 80;

/// Lets a worker in with the key, or lets it come back with its credential. Without the credential an id
/// from before means nothing: whoever knows the key could take over the builds of others.
pub async fn register(app: &App, key: &str, asked: Register) -> Answer<Registered> {
    let about = about(&asked)?;
    let known = match (&asked.id, asked.credential) {
        (Some(id), Some(credential)) => Some((id.clone(), credential)),
        _ => None,
    };
    let (id, credential, status) = match known {
        Some((id, credential)) => {
            let id = id.parse().map_err(|_| Failure::not_found("worker"))?;
            register::return_with(app, id, &credential, about).await?;
            (id, None, "re-registered")
        }
        None => {
            let name = fitting(asked.name.as_deref().unwrap_or_default());
            let (id, credential) = enter(app, key, &name, about).await?;
            (id, Some(credential.reveal().to_owned()), "registered")
        }
    };
    let member = app.fleet.member(id).await?;
    Ok(Registered {
        id: id.to_string(),
        access_token: access_token(app, id, member.runner.epoch),
        status: status.to_owned(),
        credential,
    })
}

/// A name as runners have them, from one that a person gave to a machine.
fn fitting(name: &str) -> String {
    let fits = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = name.chars().take(LONGEST_NAME).map(fits).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "unnamed-worker".to_owned() } else { name.to_owned() }
}

/// Workers do not choose their names with care: one that is taken gets an addition.
async fn enter(
    app: &App,
    key: &str,
    name: &str,
    about: About,
) -> Answer<(RunnerId, crate::token::Secret)> {
    match register::enter(app, key, name, about.clone()).await {
        Err(failure) if failure.status() == StatusCode::CONFLICT => {
            let other = format!("{name}-{}", u32::from_be_bytes(random()));
            register::enter(app, key, &other, about).await
        }
        entered => entered,
    }
}

fn about(asked: &Register) -> Answer<About> {
    let said = &asked.capabilities;
    let offer = Offer {
        systems: said.platforms.clone(),
        features: vec![APP_BUILD.to_owned()],
        ..Offer::default()
    };
    let wrong = |error| Failure::invalid(format!("capabilities.platforms: {error}"));
    let canonical = Capabilities::new(offer).map_err(wrong)?;
    let mut kept = serde_json::to_value(canonical.offer()).map_err(Failure::internal)?;
    // Each build has a machine of its own.
    kept["backends"] = vec!["vm"].into();
    Ok(About {
        capabilities: kept.to_string(),
        max_parallel: said.max_concurrent_builds.unwrap_or(1).max(1).into(),
        single_use: false,
        os: "unknown".to_owned(),
        architecture: "unknown".to_owned(),
        version: "unknown".to_owned(),
        protocol: 0,
        public_key: None,
    })
}

/// Builds are counted, and none is handed out: the sources of builds have no address yet, and a worker that
/// took one could only lose it.
pub async fn poll(app: &App, member: Arc<Member>) -> Answer<PollAnswer> {
    let id = member.runner.id;
    let member = app.fleet.member(id).await?;
    let queues = app.fleet.queues_of(&member, is_build);
    Ok(PollAnswer {
        job: None,
        access_token: access_token(app, id, member.runner.epoch),
        queue_size: app.fleet.queue_size(&member, queues).await?,
    })
}

fn is_build(needs: &Requirements) -> bool {
    needs.demand().features.iter().any(|feature| feature == APP_BUILD)
}
