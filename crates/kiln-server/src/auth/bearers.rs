//! Tokens that were shown lately, so that not every request asks the database.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kiln_core::access::{Grants, Right, Role};
use kiln_core::id::OrgId;
use kiln_core::time::Timestamp;
use kiln_store::directory::members;
use kiln_store::directory::tokens::{self, Bearer};
use kiln_store::{Duty, Page, Refusal, Scope, Store, StoreError, Tx};

use crate::clock;

/// How long a token that was revoked on another server may still be good on this one.
const FRESH: Duration = Duration::from_secs(5);
/// How many tokens are remembered.
const CAPACITY: usize = 10_000;
const SCOPE: Scope = Scope::System(Duty::Authentication);

/// What is known of a token.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) bearer: Bearer,
    pub(super) grants: Grants,
}

type Entries = HashMap<Vec<u8>, (Timestamp, Arc<Known>)>;

/// Tokens by their hashes.
#[derive(Debug, Clone, Default)]
pub struct Bearers(Arc<Mutex<Entries>>);

impl Bearers {
    /// Who has this token; nobody when it is not good.
    pub(super) async fn find(
        &self,
        store: &Store,
        hash: Vec<u8>,
    ) -> Result<Option<Arc<Known>>, StoreError> {
        let now = clock::now();
        if let Some(known) = self.recent(&hash, now) {
            return Ok(Some(known));
        }
        let key = hash.clone();
        let found = store.read(async move |tx: &mut Tx<'_>| look_up(tx, &key).await).await;
        let known = match found {
            Ok(known) => Arc::new(known),
            Err(StoreError::Refused(Refusal::NotFound(_))) => return Ok(None),
            Err(error) => return Err(error),
        };
        note_use(store, &known, now);
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= CAPACITY {
            entries.clear();
        }
        entries.insert(hash, (now, Arc::clone(&known)));
        Ok(Some(known))
    }

    /// Whether the token with this hash is good.
    pub async fn knows(&self, store: &Store, hash: Vec<u8>) -> Result<bool, StoreError> {
        Ok(self.find(store, hash).await?.is_some())
    }

    /// Everything is asked anew: a token was revoked, or somebody's role changed.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn recent(&self, hash: &[u8], now: Timestamp) -> Option<Arc<Known>> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, known) = entries.get(hash)?;
        let expired = known.bearer.token.expires_at.is_some_and(|end| end <= now);
        // A clock that was set back makes an entry old, not young for ever.
        let fresh = now >= *at && now.since(*at) < FRESH;
        (fresh && !expired).then(|| Arc::clone(known))
    }
}

/// Written beside the request, which does not wait for it.
fn note_use(store: &Store, known: &Known, now: Timestamp) {
    let token = &known.bearer.token;
    let lately = token.last_used_at.is_some_and(|at| now.since(at) < tokens::DEBOUNCE);
    if !lately {
        let (store, token) = (store.clone(), token.id);
        tokio::spawn(async move {
            let work = async move |tx: &mut Tx<'_>| tokens::used(tx, SCOPE, token).await;
            if let Err(error) = store.write(work).await {
                tracing::debug!(%error, "the use of a token was not noted");
            }
        });
    }
}

async fn look_up(tx: &mut Tx<'_>, hash: &[u8]) -> Result<Known, StoreError> {
    let bearer = tokens::find_by_hash(tx, SCOPE, hash).await?;
    if bearer.user.disabled_at.is_some() {
        return Err(Refusal::NotFound("token").into());
    }
    let page = Page::first(Page::LARGEST);
    let memberships = members::of_user(tx, SCOPE, bearer.user.id, page).await?;
    let roles = memberships.iter().map(|member| (member.org, role(member.role)));
    let grants = Grants {
        administrator: bearer.user.admin,
        roles: roles.collect(),
        rights: bearer.token.scopes.iter().filter_map(|word| Right::parse(word)).collect(),
        only: bearer.token.org.map(|org| OrgId(org.0)),
    };
    Ok(Known { bearer, grants })
}

fn role(role: members::Role) -> Role {
    match role {
        members::Role::Viewer => Role::Viewer,
        members::Role::Developer => Role::Developer,
        members::Role::Admin => Role::Admin,
    }
}
