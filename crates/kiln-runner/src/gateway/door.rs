//! Who may come in, and whom they meet.

use std::fmt;
use std::io::{self, BufReader, Read as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::json;

use crate::loopback::http::Fault;
use crate::loopback::patience::Patience;
use crate::loopback::secret;

use super::grants::Grants;
use super::passes::Passes;
use super::request::{Answer, Reply, Request, Stop};
use super::services::{Reason, Refusal, Services};
use super::spool::{BUFFER, Spool};
use super::token::Tokens;
use super::{Facts, blobs, cache_v1, oidc, rest, twirp};

/// What is asked must have been said by then.
const HEAD_TIME: Duration = Duration::from_mins(1);
/// A client that takes nothing for so long is gone.
const WRITE_TIME: Duration = Duration::from_mins(1);
/// How much of a body is read for nothing, so that its client hears the answer.
const MOST_DRAINED: u64 = 256 << 20;

/// What answers the connections of one job.
pub(super) struct Door {
    pub(super) services: Arc<dyn Services>,
    pub(super) facts: Facts,
    pub(super) tokens: Tokens,
    pub(super) grants: Grants,
    pub(super) passes: Passes,
    pub(super) spool: Spool,
    port: OnceLock<u16>,
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Door {
    pub(super) fn new(
        services: Arc<dyn Services>,
        facts: Facts,
        tokens: Tokens,
        spool: Spool,
    ) -> Self {
        let (grants, passes) = (Grants::default(), Passes::default());
        Self { services, facts, tokens, grants, passes, spool, port: OnceLock::new() }
    }

    pub(super) fn open_at(&self, port: u16) {
        self.port.get_or_init(|| port);
    }

    /// The address of a path here. Not by name: Node does not find names below `localhost` everywhere.
    pub(super) fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port.get().copied().unwrap_or_default())
    }

    pub(super) fn answer(&self, stream: &TcpStream) {
        let _ = stream.set_write_timeout(Some(WRITE_TIME));
        let _ = stream.set_nodelay(true);
        let from = BufReader::with_capacity(BUFFER, Patience::within(stream, HEAD_TIME));
        let refused = match Request::read(stream, from) {
            Ok(mut request) => match self.route(&mut request, stream) {
                Ok(reply) => {
                    // Whoever does not want to hear it has hung up.
                    let _ = reply.write(stream);
                    None
                }
                Err(stop) => Some((refuse(stop), Some(request.from))),
            },
            Err(fault) => Some((refuse(fault.into()), None)),
        };
        if let Some((Some(reply), rest)) = refused {
            let _ = reply.write(stream);
            // What was sent and not read would cut off the answer.
            let _ = stream.shutdown(Shutdown::Write);
            if let Some(rest) = rest {
                let _ = io::copy(&mut rest.take(MOST_DRAINED), &mut io::sink());
            }
        }
        let _ = stream.shutdown(Shutdown::Both);
    }

    fn route(&self, request: &mut Request<'_>, stream: &TcpStream) -> Answer {
        let path = request.head.path.clone();
        if let Some(call) = path.strip_prefix("/twirp/github.actions.results.api.v1.") {
            admit(request, &self.tokens.runtime)?;
            return twirp::answer(self, request, call);
        }
        if let Some(rest) = path.strip_prefix("/_apis/artifactcache/") {
            admit(request, &self.tokens.runtime)?;
            return cache_v1::answer(self, request, rest);
        }
        if let Some(number) = path.strip_prefix("/blobs/") {
            return blobs::answer(self, request, number);
        }
        if let Some(rest) = path.strip_prefix("/api/v3/") {
            admit(request, &self.facts.token)?;
            return rest::answer(self, request, rest);
        }
        match path.as_str() {
            "/.well-known/openid-configuration" => oidc::configuration(self),
            "/.well-known/jwks" => oidc::keys(self),
            oidc::PATH if self.facts.may_identify => {
                let unknown = |_| Refusal::new(Reason::Unknown, "nobody knows who asks");
                let ends = stream.peer_addr().and_then(|peer| Ok((peer, stream.local_addr()?)));
                let word = request.credential().unwrap_or_default();
                let pass = self.passes.check(word, ends.map_err(unknown)?)?;
                oidc::answer(self, request, &pass)
            }
            oidc::PATH => {
                let message = "the job needs `permissions: {id-token: write}`";
                Err(Refusal::new(Reason::Forbidden, message).into())
            }
            _ => Err(no_such(request)),
        }
    }
}

/// Only the token for this door opens it.
fn admit(request: &Request<'_>, token: &str) -> Result<(), Stop> {
    let given = request.credential().unwrap_or_default();
    if !token.is_empty() && secret::is(given, token) {
        return Ok(());
    }
    Err(Refusal::new(Reason::Unknown, "the token of the job is needed").into())
}

/// What the gateway does not have.
pub(super) fn no_such(request: &Request<'_>) -> Stop {
    let message = format!("Kiln has no `{} {}`", request.method(), request.head.path);
    Refusal::not_found(message).into()
}

/// An answer in words that all clients find theirs in. Who is gone gets none.
fn refuse(stop: Stop) -> Option<Reply> {
    let refusal = match stop {
        Stop::Refused(refusal) => refusal,
        Stop::Broken(Fault::Gone) => return None,
        Stop::Broken(Fault::Malformed(why)) => Refusal::invalid(why),
        Stop::Broken(Fault::TooLarge) => Refusal::new(Reason::TooLarge, "the request is too large"),
    };
    let code = match refusal.reason {
        Reason::Invalid => "invalid_argument",
        Reason::Unknown => "unauthenticated",
        Reason::Forbidden => "permission_denied",
        Reason::NotFound => "not_found",
        Reason::Exists => "already_exists",
        Reason::TooLarge => "resource_exhausted",
        Reason::Unavailable => "unavailable",
    };
    let message = &refusal.message;
    let body = json!({"code": code, "msg": message, "message": message});
    Some(Reply::json_with(refusal.reason.status(), &body))
}
