//! The first start: an administrator, a link for the browser, and a token for the command line.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kiln_core::access::Right;
use kiln_core::id::{PoolId, UserId};
use kiln_store::directory::one_time_keys::{self, NewOneTimeKey};
use kiln_store::directory::pools::{self, NewPool};
use kiln_store::directory::registration_keys::{self, NewRegistrationKey};
use kiln_store::directory::tokens::{self, NewToken};
use kiln_store::directory::users::{self, NewUser};
use kiln_store::{Actor, Duty, Refusal, Scope, Store, StoreError, Tx};

use crate::config::Config;
use crate::files;
use crate::token::{Kind, Secret};

/// The administrator that a first start makes.
pub const ADMINISTRATOR: &str = "admin";
/// What a one-time key of the first start is for.
pub const PURPOSE: &str = "welcome";
/// The pool of runners that serve all organizations.
const POOL: &str = "default";
const LINK_LASTS: Duration = Duration::from_hours(24);
const KEY_LASTS: Duration = Duration::from_mins(10);
const SCOPE: Scope = Scope::System(Duty::Administration);

/// What a start made.
#[derive(Debug, Clone)]
pub struct Welcome {
    /// The database was empty.
    pub is_first: bool,
    /// The part of the link that works once.
    pub key: Option<Secret>,
    /// A token for the command line on this machine, where there was none.
    pub token: Option<Secret>,
    /// Where the command line finds server and token.
    pub client_file: PathBuf,
}

impl Welcome {
    /// Where the administrator comes in, once.
    pub fn link(&self, config: &Config) -> Option<String> {
        let key = self.key.as_ref()?;
        Some(format!("{}/welcome/{}", config.public_url, key.reveal()))
    }
}

fn actor() -> Actor {
    Actor::system("first start")
}

/// Makes what is missing. Of several servers that start at once, one makes the administrator.
pub(crate) async fn welcome(store: &Store, config: &Config) -> Result<Welcome, StoreError> {
    let client_file = config.data.join("client.toml");
    let has_file = client_file.exists();
    let some = store.read(async |tx: &mut Tx<'_>| users::any(tx).await).await?;
    let mut welcome = Welcome { is_first: false, key: None, token: None, client_file };
    if some && has_file {
        return Ok(welcome);
    }
    let (key, token) = (Secret::new(Kind::OneTime), Secret::new(Kind::Api));
    let (key_hash, token_hash) = (key.hash(), token.hash());
    let work = async move |tx: &mut Tx<'_>| make(tx, &key_hash, &token_hash).await;
    let (is_first, has_token) = store.write(work).await?;
    welcome.is_first = is_first;
    welcome.key = is_first.then_some(key);
    welcome.token = has_token.then_some(token);
    Ok(welcome)
}

/// Says whether the administrator is new, and whether the token is good.
async fn make(tx: &mut Tx<'_>, key: &[u8], token: &[u8]) -> Result<(bool, bool), StoreError> {
    let is_first = !users::any(tx).await?;
    if is_first {
        let user = administrator(tx).await?;
        let new = NewOneTimeKey {
            user,
            purpose: PURPOSE.to_owned(),
            hash: key.to_owned(),
            expires_at: tx.now() + LINK_LASTS,
        };
        one_time_keys::create(tx, SCOPE, &actor(), new).await?;
    }
    let user = match users::by_name(tx, SCOPE, ADMINISTRATOR).await {
        Ok(user) if user.admin && user.disabled_at.is_none() => user.id,
        // Somebody else administers this installation; the command line needs a token of theirs.
        Ok(_) | Err(StoreError::Refused(Refusal::NotFound(_))) => return Ok((is_first, false)),
        Err(error) => return Err(error),
    };
    let new = NewToken {
        user,
        org: None,
        name: "the command line beside the server".to_owned(),
        hash: token.to_owned(),
        scopes: Right::ALL.iter().map(|right| right.word().to_owned()).collect(),
        expires_at: None,
    };
    tokens::create(tx, SCOPE, &actor(), new).await?;
    Ok((is_first, true))
}

async fn administrator(tx: &mut Tx<'_>) -> Result<UserId, StoreError> {
    let new = NewUser { name: ADMINISTRATOR.to_owned(), email: None, display_name: None };
    let user = users::create(tx, &actor(), new).await?;
    users::set_admin(tx, SCOPE, &actor(), user, true).await?;
    Ok(user)
}

/// Tells the command line on this machine where the server is.
pub(crate) fn write_client_file(config: &Config, welcome: &Welcome) -> io::Result<()> {
    let path = &welcome.client_file;
    let server = format!("server = {}", quoted(&config.local_url()));
    let ca = config.outbound.ca_file.as_ref().filter(|_| config.tls.is_some());
    let ca = ca.map(|path| format!("ca = {}", quoted(&path.to_string_lossy())));
    let token = match &welcome.token {
        Some(token) => Some(format!("token = \"{}\"", token.reveal())),
        None => {
            // The server may listen elsewhere than the last time; the token stays.
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let has = |wanted: &String| text.lines().any(|line| line == wanted);
            if has(&server) && ca.as_ref().is_none_or(has) {
                return Ok(());
            }
            text.lines().find(|line| line.starts_with("token = ")).map(str::to_owned)
        }
    };
    let lines = ["# Written by the server, for the command line of this user.".to_owned(), server];
    let lines: Vec<String> = lines.into_iter().chain(token).chain(ca).collect();
    files::write_private(path, &format!("{}\n", lines.join("\n")))
}

/// A text of TOML, which is written as those of JSON are.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A key that lets one runner in, soon. For the runner in the same process.
pub async fn registration_key(store: &Store) -> Result<Secret, StoreError> {
    let secret = Secret::new(Kind::RegistrationKey);
    let hash = secret.hash();
    let work = async move |tx: &mut Tx<'_>| {
        let pool = shared_pool(tx).await?;
        let expires_at = tx.now() + KEY_LASTS;
        let new = NewRegistrationKey { pool, hash: hash.clone(), expires_at, uses: Some(1) };
        registration_keys::create(tx, SCOPE, &actor(), new).await
    };
    store.write(work).await?;
    Ok(secret)
}

async fn shared_pool(tx: &mut Tx<'_>) -> Result<PoolId, StoreError> {
    match pools::by_name(tx, SCOPE, None, POOL).await {
        Ok(pool) => return Ok(pool.id),
        Err(StoreError::Refused(Refusal::NotFound(_))) => {}
        Err(error) => return Err(error),
    }
    let new = NewPool { org: None, name: POOL.to_owned(), settings: "{}".to_owned() };
    pools::create(tx, SCOPE, &actor(), new).await
}
