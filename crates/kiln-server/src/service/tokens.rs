//! API tokens: made, shown, revoked; and the one-time link of a first start.

use std::time::Duration;

use kiln_core::access::Right;
use kiln_core::id::{OrgId, TokenId, UserId};
use kiln_core::time::Timestamp;
use kiln_proto::api;
use kiln_store::directory::tokens::{self, NewToken, Token};
use kiln_store::directory::{one_time_keys, organizations, users};
use kiln_store::{Actor, ActorKind, Duty, Page, Scope, StoreError, Tx};

use super::names::Names;
use super::runs::FIND;
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::token::{self, Kind, Secret};

const DAY: u64 = 24 * 60 * 60;
/// Days that a token lasts unless it is said, and at most.
const USUAL: u64 = 90 * DAY;
const LONGEST: u64 = 3_650 * DAY;
/// What a one-time key of a first start is for.
pub const WELCOME: &str = "welcome";

/// Makes a token that can do no more than what the caller holds in their hand, and ends no later.
pub async fn mint(app: &App, caller: &Caller, new: api::NewToken) -> Answer<api::Token> {
    let rights = rights(caller, &new.scopes)?;
    let org = organization(app, caller, new.owner.as_deref()).await?;
    let lasts = match new.expires_in {
        None => Some(USUAL),
        Some(0) => None,
        Some(seconds) if seconds <= LONGEST => Some(seconds),
        Some(_) => {
            return Err(Failure::invalid(format!("`expires_in` is up to {LONGEST} seconds")));
        }
    };
    let (secret, actor, user) = (Secret::new(Kind::Api), caller.actor(), caller.user());
    let latest = caller.expires_at();
    let (hash, name) = (secret.hash(), new.name);
    let scopes: Vec<String> = rights.iter().map(|right| right.word().to_owned()).collect();
    let kept = scopes.clone();
    let label = name.clone();
    let work = async move |tx: &mut Tx<'_>| {
        let user = match user {
            Some(user) => user,
            None => administrator(tx).await?,
        };
        let wanted = lasts.map(|seconds| tx.now() + Duration::from_secs(seconds));
        let expires_at = wanted.into_iter().chain(latest).min();
        let (name, hash, scopes) = (label.clone(), hash.clone(), kept.clone());
        let new = NewToken { user, org, name, hash, scopes, expires_at };
        let id = tokens::create(tx, FIND, &actor, new).await?;
        Ok((id, tx.now(), expires_at))
    };
    let (id, created_at, expires_at) = app.store.write(work).await?;
    Ok(api::Token {
        id: id.0,
        name,
        token: Some(secret.reveal().to_owned()),
        scopes,
        owner: new.owner,
        created_at: created_at.rfc3339(),
        expires_at: expires_at.map(Timestamp::rfc3339),
        last_used_at: None,
    })
}

fn rights(caller: &Caller, words: &[String]) -> Answer<Vec<Right>> {
    let usual = [Right::Read.word().to_owned()];
    let words = if words.is_empty() { &usual } else { words };
    let mut rights = Vec::new();
    for word in words {
        let right = Right::parse(word).ok_or_else(|| {
            let known: Vec<&str> = Right::ALL.iter().map(|right| right.word()).collect();
            Failure::invalid(format!("a scope is one of {}", known.join(", ")))
        })?;
        if !caller.grants().may_give(right) {
            let message = format!("your token lacks the scope `{right}`, so it cannot be given");
            return Err(Failure::forbidden(message));
        }
        if !rights.contains(&right) {
            rights.push(right);
        }
    }
    Ok(rights)
}

/// A token that is good for one organization makes only such ones.
async fn organization(app: &App, caller: &Caller, owner: Option<&str>) -> Answer<Option<OrgId>> {
    let Some(owner) = owner.map(str::to_owned) else { return Ok(caller.grants().only) };
    let work = async move |tx: &mut Tx<'_>| organizations::by_name(tx, FIND, &owner).await;
    let org = app.store.read(work).await?.id;
    caller.require(Right::Read, Some(org), "organization")?;
    Ok(Some(org))
}

/// Where nobody has to say who they are, they are the first administrator.
async fn administrator(tx: &mut Tx<'_>) -> Result<UserId, StoreError> {
    let mut page = Page::first(Page::LARGEST);
    loop {
        let found = users::list(tx, FIND, page).await?;
        let good = |user: &&users::User| user.admin && user.disabled_at.is_none();
        if let Some(user) = found.iter().find(good) {
            return Ok(user.id);
        }
        let Some(last) = found.last() else {
            return Err(kiln_store::Refusal::NotFound("administrator").into());
        };
        page = Page::after(last.id.0, Page::LARGEST);
    }
}

/// The caller's tokens that are good, and where the list goes on.
pub async fn list(
    app: &App,
    caller: &Caller,
    page: Page,
) -> Answer<(Vec<api::Token>, Option<i64>)> {
    let (user, only) = (caller.user(), caller.grants().only);
    let work = async move |tx: &mut Tx<'_>| {
        let user = match user {
            Some(user) => user,
            None => administrator(tx).await?,
        };
        let found = tokens::list(tx, FIND, user, page).await?;
        let full = found.len() >= page.limit as usize;
        let last = found.last().filter(|_| full).map(|token| token.id.0);
        let mut names = Names::default();
        let mut shown = Vec::new();
        let now = tx.now();
        for token in found.into_iter().filter(|token| is_good(token, now)) {
            // Whoever holds a token of one organization sees nothing beyond it.
            if only.is_none() || token.org == only {
                shown.push(show(tx, &mut names, token).await?);
            }
        }
        Ok((shown, last))
    };
    Ok(app.store.read(work).await?)
}

fn is_good(token: &Token, now: Timestamp) -> bool {
    token.revoked_at.is_none() && token.expires_at.is_none_or(|end| end > now)
}

async fn show(tx: &mut Tx<'_>, names: &mut Names, token: Token) -> Result<api::Token, StoreError> {
    let owner = match token.org {
        Some(org) => Some(names.org(tx, org).await?),
        None => None,
    };
    Ok(api::Token {
        id: token.id.0,
        name: token.name,
        token: None,
        scopes: token.scopes,
        owner,
        created_at: token.created_at.rfc3339(),
        expires_at: token.expires_at.map(Timestamp::rfc3339),
        last_used_at: token.last_used_at.map(Timestamp::rfc3339),
    })
}

/// Revokes one of the caller's own tokens; an administrator of the installation revokes any.
pub async fn revoke(app: &App, caller: &Caller, id: TokenId) -> Answer<()> {
    let any = caller.grants().allow(Right::Admin, None).is_ok();
    let (user, only, actor) = (caller.user(), caller.grants().only, caller.actor());
    let work = async move |tx: &mut Tx<'_>| {
        if let Some(user) = user.filter(|_| !any)
            && !owns(tx, user, only, id).await?
        {
            return Err(kiln_store::Refusal::NotFound("token").into());
        }
        tokens::revoke(tx, FIND, &actor, id).await
    };
    app.store.write(work).await?;
    app.bearers.forget();
    Ok(())
}

async fn owns(
    tx: &mut Tx<'_>,
    user: UserId,
    only: Option<OrgId>,
    id: TokenId,
) -> Result<bool, StoreError> {
    let before = TokenId(id.0.saturating_sub(1));
    let found = tokens::list(tx, FIND, user, Page::after(before.0, 1)).await?;
    Ok(found.iter().any(|token| token.id == id && (only.is_none() || token.org == only)))
}

/// Exchanges a one-time key for a token that may do everything its person may. Works once.
pub async fn redeem(app: &App, key: &str, address: Option<String>) -> Answer<Secret> {
    let scope = Scope::System(Duty::Authentication);
    let (hash, secret) = (token::hash(key), Secret::new(Kind::Api));
    let token_hash = secret.hash();
    let work = async move |tx: &mut Tx<'_>| {
        let user = one_time_keys::redeem(tx, scope, &hash, WELCOME).await?;
        let person = users::get(tx, FIND, user).await?;
        let mut actor = Actor::new(ActorKind::Person, person.name);
        actor.address.clone_from(&address);
        let new = NewToken {
            user,
            org: None,
            name: "from the one-time link".to_owned(),
            hash: token_hash.clone(),
            scopes: Right::ALL.iter().map(|right| right.word().to_owned()).collect(),
            expires_at: Some(tx.now() + Duration::from_secs(USUAL)),
        };
        tokens::create(tx, FIND, &actor, new).await
    };
    app.store.write(work).await?;
    Ok(secret)
}
