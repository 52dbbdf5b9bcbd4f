//! Who makes a request.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, ORIGIN};
use axum::http::request::Parts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_core::access::{Denied, Grants, Right};
use kiln_core::id::{OrgId, UserId};
use kiln_core::time::Timestamp;
use kiln_store::{Actor, ActorKind, Duty, Scope};

use super::bearers::Known;
use super::session;
use super::steps::{self, Steps};
use crate::app::Shared;
use crate::clock;
use crate::http::error::Failure;
use crate::peer::Peer;
use crate::token::{self, Kind};

/// Somebody who said who they are. There is none for a request that did not.
#[derive(Debug, Clone)]
pub struct Caller {
    who: Who,
    address: Option<String>,
}

#[derive(Debug, Clone)]
enum Who {
    /// Authentication is off, which is only so on loopback.
    Local(Grants),
    Token(Arc<Known>),
    /// The steps of a job, about its own repository; see [`super::OfRepo`].
    Steps(Arc<ByJob>),
}

#[derive(Debug)]
struct ByJob {
    steps: Steps,
    grants: Grants,
    name: String,
}

impl Caller {
    /// Refuses what the caller may not do. What they may not see is not there: an organization's thing
    /// of the kind `what` is not found.
    pub fn require(&self, right: Right, org: Option<OrgId>, what: &str) -> Result<Scope, Failure> {
        match self.grants().allow(right, org) {
            Ok(()) => Ok(org.map_or(Scope::System(Duty::Administration), Scope::Org)),
            Err(Denied::Unseen) => Err(Failure::not_found(what)),
            Err(Denied::Forbidden(reason)) => Err(Failure::forbidden(reason)),
        }
    }

    /// All that the caller may look at: everything, or some organizations.
    pub fn scopes(&self, right: Right) -> Vec<Scope> {
        if self.grants().sees_everything() {
            return vec![Scope::System(Duty::Administration)];
        }
        self.grants().organizations(right).into_iter().map(Scope::Org).collect()
    }

    pub fn grants(&self) -> &Grants {
        match &self.who {
            Who::Local(grants) => grants,
            Who::Token(known) => &known.grants,
            Who::Steps(job) => &job.grants,
        }
    }

    /// For audit rows.
    pub fn actor(&self) -> Actor {
        let actor = match &self.who {
            Who::Local(_) => Actor::new(ActorKind::Person, "local"),
            Who::Token(known) => Actor::new(ActorKind::Token, known.bearer.user.name.clone()),
            Who::Steps(job) => Actor::new(ActorKind::Job, job.name.clone()),
        };
        match &self.address {
            Some(address) => actor.at(address.clone()),
            None => actor,
        }
    }

    pub fn name(&self) -> &str {
        match &self.who {
            Who::Local(_) => "local",
            Who::Token(known) => &known.bearer.user.name,
            Who::Steps(job) => &job.name,
        }
    }

    pub fn kind(&self) -> &'static str {
        match &self.who {
            Who::Local(_) => "person",
            Who::Token(_) => "token",
            Who::Steps(_) => "job",
        }
    }

    /// The person behind it; none when nobody has to say who they are.
    pub fn user(&self) -> Option<UserId> {
        match &self.who {
            Who::Local(_) | Who::Steps(_) => None,
            Who::Token(known) => Some(known.bearer.user.id),
        }
    }
}

impl Caller {
    /// When what the caller holds in their hand ends; never for some.
    pub fn expires_at(&self) -> Option<Timestamp> {
        match &self.who {
            Who::Local(_) | Who::Steps(_) => None,
            Who::Token(known) => known.bearer.token.expires_at,
        }
    }
}

impl Caller {
    /// The job whose steps ask, if it is one.
    pub fn steps(&self) -> Option<&Steps> {
        match &self.who {
            Who::Steps(job) => Some(&job.steps),
            _ => None,
        }
    }

    pub(super) fn of_steps(parts: &Parts, steps: Steps, grants: Grants) -> Self {
        let name = steps.lease.job.slug();
        let who = Who::Steps(Arc::new(ByJob { steps, grants, name }));
        Self { who, address: address(parts) }
    }

    /// Whoever the session of a browser stands for.
    pub async fn of_session(
        headers: &HeaderMap,
        app: &Shared,
        address: Option<String>,
    ) -> Result<Option<Self>, Failure> {
        let Some(cookie) = session::cookie(headers, session::COOKIE_NAME) else { return Ok(None) };
        let Some(hash) = session::check(&app.signer, cookie, clock::now()) else { return Ok(None) };
        let known = app.bearers.find(&app.store, hash).await?;
        Ok(known.map(|known| Self { who: Who::Token(known), address }))
    }
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Failure> {
        let address = address(parts);
        if !app.config.authentication {
            must_be_local(parts, &app.config.public_url)?;
            return Ok(Self { who: Who::Local(Grants::everything()), address });
        }
        let Some(token) = shown_token(&parts.headers) else {
            // A page may look with its session; what changes something is a form, with a check of its own.
            let looks = parts.method.is_safe();
            let found =
                if looks { Self::of_session(&parts.headers, app, address).await? } else { None };
            return found.ok_or_else(|| {
                Failure::unauthorized("say who you are: `Authorization: Bearer <API token>`")
            });
        };
        let wrong = || Failure::unauthorized("the token is not known, was revoked or has expired");
        if let Some(access) = app.signer.check_reading(&token) {
            return Err(steps::refuse(parts, app, access).await);
        }
        if !Kind::Api.fits(&token) {
            return Err(wrong());
        }
        let known = app.bearers.find(&app.store, token::hash(&token)).await?.ok_or_else(wrong)?;
        Ok(Self { who: Who::Token(known), address })
    }
}

fn address(parts: &Parts) -> Option<String> {
    parts.extensions.get::<Peer>().map(|peer| peer.address.to_string())
}

/// Where nobody has to say who they are, a page of somebody else must not speak for them: the browser
/// says where a request comes from, and a foreign name that leads here is not one of ours.
fn must_be_local(parts: &Parts, public_url: &str) -> Result<(), Failure> {
    let text = |name: HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let refused = || Failure::forbidden("this server answers only to pages of its own");
    let own = public_url.split_once("://").map_or(public_url, |(_, host)| host);
    let host_of = |address: &str| {
        let host = address
            .rsplit_once(':')
            .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        host.map_or(address, |(host, _)| host).to_owned()
    };
    let is_ours = |address: &str| {
        let host = host_of(address);
        let loopback = ["127.0.0.1", "[::1]", "localhost"];
        loopback.contains(&host.as_str()) || host == host_of(own)
    };
    if text(HOST).is_some_and(|host| !is_ours(host)) {
        return Err(refused());
    }
    let origin = text(ORIGIN).map(|origin| origin.split_once("://").map_or("", |(_, host)| host));
    if origin.is_some_and(|origin| !is_ours(origin)) {
        return Err(refused());
    }
    let site = text(HeaderName::from_static("sec-fetch-site"));
    if matches!(site, Some("cross-site" | "same-site")) { Err(refused()) } else { Ok(()) }
}

/// The secret of a request: `Bearer`, `token` as old clients of GitHub write it, or the password of
/// `Basic`, as git sends it.
pub(crate) fn shown_token(headers: &HeaderMap) -> Option<String> {
    let (scheme, rest) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") || scheme.eq_ignore_ascii_case("token") {
        return Some(rest.to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(STANDARD.decode(rest).ok()?).ok()?;
    pair.split_once(':').map(|(_, password)| password.to_owned())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn check(header: &str, expect: Option<&str>) {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(header).unwrap());
        assert_eq!(shown_token(&headers).as_deref(), expect, "{header}");
    }

    #[test]
    fn a_token_is_read_as_clients_write_it() {
        check("Bearer kpat_x", Some("kpat_x"));
        check("bearer  kpat_x ", Some("kpat_x"));
        check("token kpat_x", Some("kpat_x"));
        check("Basic eC1hY2Nlc3MtdG9rZW46a3BhdF94", Some("kpat_x"));
        check("Basic !!!", None);
        check("Basic a3BhdF94", None);
        check("Digest kpat_x", None);
        check("kpat_x", None);
        assert_eq!(shown_token(&HeaderMap::new()), None);
    }
}
