//! Words with which one process asks who its job is.
//!
//! Its environment can be read by every process of the same user. So a word is good for the process that it was given
//! to and those that it starts, and no longer than that process runs: whoever else has it hears no.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::loopback::secret;
use crate::process::Leader;
use crate::random;

use super::services::{Reason, Refusal};

/// The passes that are good at the moment.
#[derive(Debug, Default, Clone)]
pub(super) struct Passes(Arc<Mutex<Vec<Arc<Inner>>>>);

struct Inner {
    word: String,
    leader: Leader,
    /// What was issued to whoever had it, in words.
    issued: Mutex<Vec<String>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass").field("leader", &self.leader).finish_non_exhaustive()
    }
}

/// A pass; it is good as long as this is there.
#[derive(Debug)]
pub(crate) struct Pass {
    all: Passes,
    own: Arc<Inner>,
}

impl Passes {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<Inner>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pass for a process that is about to start.
    pub(super) fn give(&self, leader: Leader) -> io::Result<Pass> {
        let (word, issued) = (random::hex::<32>()?, Mutex::default());
        let own = Arc::new(Inner { word, leader, issued });
        self.all().push(Arc::clone(&own));
        Ok(Pass { all: self.clone(), own })
    }

    /// Whose word this is, if it comes from them.
    pub(super) fn check(
        &self,
        word: &str,
        (peer, here): (SocketAddr, SocketAddr),
    ) -> Result<Used, Refusal> {
        let known = self.all().iter().find(|pass| secret::is(word, &pass.word)).cloned();
        let unknown = || Refusal::new(Reason::Unknown, "the token of a step that runs is needed");
        let known = known.ok_or_else(unknown)?;
        if known.leader.is_at(peer, here) {
            return Ok(Used(known));
        }
        let message = "this token is for the process of another step";
        tracing::warn!(%peer, "a process asked who the job is with the token of another one");
        Err(Refusal::new(Reason::Forbidden, message))
    }
}

impl Pass {
    pub(crate) fn word(&self) -> &str {
        &self.own.word
    }

    pub(crate) fn leader(&self) -> &Leader {
        &self.own.leader
    }

    /// What was issued since this was asked last, for the log.
    pub(crate) fn issued(&self) -> Vec<String> {
        std::mem::take(&mut self.own.issued.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.all.all().retain(|pass| !Arc::ptr_eq(pass, &self.own));
    }
}

/// A pass in somebody's hand.
#[derive(Debug)]
pub(super) struct Used(Arc<Inner>);

impl Used {
    /// Notes what a token says for whom.
    pub(super) fn note(&self, token: &str) {
        let text = describe(token);
        tracing::info!("{text}");
        self.0.issued.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
}

fn describe(token: &str) -> String {
    let claims = || -> Option<Value> {
        let middle = token.split('.').nth(1)?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(middle).ok()?).ok()
    };
    let claims = claims().unwrap_or_default();
    // It goes into a log: whatever an audience holds must stay on its line.
    let claim = |name: &str| claims[name].as_str().unwrap_or("unknown").escape_debug().to_string();
    format!(
        "An identity token was issued to this step: audience `{}`, subject `{}`",
        claim("aud"),
        claim("sub")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_described_on_one_line() {
        let claims = r#"{"aud":"x\n##[error]y","sub":"repo:a/b:ref:refs/heads/main"}"#;
        let token = format!("h.{}.s", URL_SAFE_NO_PAD.encode(claims));
        let text = describe(&token);
        assert!(text.contains(r"audience `x\n##[error]y`"), "{text}");
        assert!(text.ends_with("subject `repo:a/b:ref:refs/heads/main`"), "{text}");
        assert!(describe("no token").contains("`unknown`"));
    }
}
