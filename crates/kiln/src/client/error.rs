//! Why a request was not done, in words that name the fix.

use kiln_proto::problem::Problem;
use reqwest::StatusCode;

use super::settings::{self, Settings};

/// A request that failed.
#[derive(Debug)]
pub(crate) struct ClientError {
    pub(crate) kind: Kind,
    text: String,
}

/// What callers tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nobody answered, or not to the end: it may work later.
    Away,
    /// The server cannot at the moment.
    Busy,
    /// There is none, or it is not for whoever asks.
    NotFound,
    /// It is there, and not for whoever asks.
    Forbidden,
    /// The state of things forbids it.
    Conflict,
    /// Anything else, which will not get better by itself.
    Other,
}

impl ClientError {
    fn new(kind: Kind, text: String) -> Self {
        Self { kind, text }
    }

    /// The request did not get through, or its answer did not.
    pub(crate) fn transport(settings: &Settings, error: &reqwest::Error) -> Self {
        let server = settings::shown(&settings.server);
        let cause = cause(error);
        let start = "start one with `kiln up`, or name another with `--server URL` or KILN_SERVER";
        if error.is_timeout() {
            return Self::late(settings);
        }
        let text = if error.is_builder() {
            return Self::new(Kind::Other, format!("cannot ask {server}: {cause}"));
        } else if is_about_certificates(&cause) {
            return Self::new(
                Kind::Other,
                format!(
                    "the certificate of {server} is not trusted: {cause}; KILN_CA can name a file with \
                     the certificate of your own authority"
                ),
            );
        } else if error.is_connect() && settings.is_local() {
            format!("no Kiln server answers at {server} ({cause}); {start}")
        } else if error.is_connect() {
            format!(
                "cannot reach {server}: {cause}; check `--server` or KILN_SERVER, the network and the proxy"
            )
        } else {
            format!("{server} broke off: {cause}; try again")
        };
        Self::new(Kind::Away, text)
    }

    /// Nothing came for too long.
    pub(crate) fn late(settings: &Settings) -> Self {
        let server = settings::shown(&settings.server);
        Self::new(
            Kind::Away,
            format!(
                "{server} took longer than {} s to answer; is it the right address, and not overloaded? \
                 KILN_TIMEOUT sets how long to wait",
                settings.timeout.as_secs()
            ),
        )
    }

    /// The server said no.
    pub(crate) fn refused(settings: &Settings, status: StatusCode, body: &[u8]) -> Self {
        let server = settings::shown(&settings.server);
        let Some(said) = said(body) else { return Self::foreign(&server, status) };
        let (kind, text) = match status {
            StatusCode::UNAUTHORIZED => (Kind::Other, unknown_caller(settings, &server, &said)),
            StatusCode::FORBIDDEN => {
                let of =
                    settings.token.as_ref().map_or("this request", |token| token.source.as_str());
                (
                    Kind::Forbidden,
                    format!(
                        "not allowed: {said} (token: {of}); `kiln token create NAME --scope …` makes one that may"
                    ),
                )
            }
            StatusCode::NOT_FOUND => {
                (Kind::NotFound, format!("{said} at {server}, or it is not for you"))
            }
            StatusCode::CONFLICT => (Kind::Conflict, said),
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                (Kind::Busy, format!("{server} cannot do it at the moment: {said}; try again"))
            }
            status if status.is_server_error() => (Kind::Busy, format!("{server} failed: {said}")),
            _ => (Kind::Other, said),
        };
        Self::new(kind, text)
    }

    /// Something else than a Kiln server answered, perhaps a proxy on the way.
    fn foreign(server: &str, status: StatusCode) -> Self {
        let kind = if status.is_server_error() { Kind::Busy } else { Kind::Other };
        let text = match status {
            StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                format!(
                    "{server} answered `{status}`: the server behind that address is away; try again"
                )
            }
            status if status.is_redirection() => {
                format!(
                    "{server} answered `{status}`; name the address that it leads to with `--server`"
                )
            }
            _ => format!(
                "{server} answered `{status}` as no Kiln server of this version does ({}); is that its \
                 address?",
                env!("CARGO_PKG_VERSION")
            ),
        };
        Self::new(kind, text)
    }

    /// The answer is not what this Kiln expects.
    pub(crate) fn garbled(settings: &Settings, version: Option<&str>, reason: &str) -> Self {
        let server = settings::shown(&settings.server);
        let own = env!("CARGO_PKG_VERSION");
        let remedy = match version {
            Some(theirs) if theirs != own => {
                format!("the server is Kiln {theirs}, this is Kiln {own}: use the same version")
            }
            _ => format!("is that a Kiln server? This is Kiln {own}"),
        };
        Self::new(
            Kind::Other,
            format!(
                "{server} answered something that this Kiln does not understand ({reason}); {remedy}"
            ),
        )
    }
}

impl std::fmt::Display for ClientError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ClientError {}

/// What an error is about, if it is one of these.
pub(crate) fn kind(error: &anyhow::Error) -> Option<Kind> {
    error.downcast_ref::<ClientError>().map(|error| error.kind)
}

/// What a problem document says.
fn said(body: &[u8]) -> Option<String> {
    let problem: Problem = serde_json::from_slice(body).ok()?;
    let text = problem.detail.filter(|detail| !detail.is_empty()).unwrap_or(problem.title);
    Some(crate::output::one_line(&text))
}

fn unknown_caller(settings: &Settings, server: &str, said: &str) -> String {
    match &settings.token {
        None => format!(
            "{server} wants to know who you are: run `kiln login {server}`, or set KILN_TOKEN"
        ),
        Some(token) => format!(
            "{server} does not take the token from {}: {said}; it may have expired or been revoked: \
             `kiln login {server}` takes a new one",
            token.source
        ),
    }
}

fn is_about_certificates(cause: &str) -> bool {
    cause.contains("certificate") || cause.contains("UnknownIssuer")
}

/// The innermost reason, which is the one that people can do something about.
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    let text = inner.to_string();
    let bare = text.split(" (os error").next().unwrap_or(&text);
    bare.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::settings::{Asked, Environment};

    fn settings(token: Option<&str>) -> Settings {
        let asked = Asked { server: Some("https://ci.example"), token, context: None };
        Settings::find(asked, &Environment::default()).unwrap()
    }

    fn problem(status: u16, detail: &str) -> Vec<u8> {
        let problem = Problem {
            kind: "about:blank#x".to_owned(),
            title: "Title".to_owned(),
            status,
            detail: Some(detail.to_owned()),
            instance: None,
            message: String::new(),
            documentation_url: None,
            wanted: None,
        };
        serde_json::to_vec(&problem).unwrap()
    }

    #[track_caller]
    fn check(token: Option<&str>, status: u16, body: &[u8], kind: Kind, words: &[&str]) {
        let status = StatusCode::from_u16(status).unwrap();
        let error = ClientError::refused(&settings(token), status, body);
        assert_eq!(error.kind, kind, "{error}");
        for word in words {
            assert!(error.to_string().contains(word), "{error}");
        }
        assert!(!error.to_string().contains("kpat_"), "{error}");
    }

    #[test]
    fn a_refusal_names_the_fix() {
        let no = |status| problem(status, "there is no such run");
        check(
            None,
            401,
            &no(401),
            Kind::Other,
            &["who you are", "kiln login https://ci.example", "KILN_TOKEN"],
        );
        check(Some("kpat_x"), 401, &no(401), Kind::Other, &["`--token`", "expired", "kiln login"]);
        check(
            Some("kpat_x"),
            403,
            &no(403),
            Kind::Forbidden,
            &["not allowed", "kiln token create"],
        );
        check(None, 404, &no(404), Kind::NotFound, &["there is no such run at https://ci.example"]);
        check(None, 409, &problem(409, "it is over"), Kind::Conflict, &["it is over"]);
        check(None, 422, &problem(422, "bad input"), Kind::Other, &["bad input"]);
        check(None, 503, &problem(503, "stopping"), Kind::Busy, &["stopping", "try again"]);
        check(
            None,
            500,
            &problem(500, "its log says why"),
            Kind::Busy,
            &["failed: its log says why"],
        );
    }

    #[test]
    fn what_is_no_kiln_server_is_said_to_be_none() {
        check(None, 404, b"<html>", Kind::Other, &["404", "is that its address?"]);
        check(None, 502, b"Bad Gateway", Kind::Busy, &["502", "away"]);
        check(None, 302, b"", Kind::Other, &["302", "--server"]);
    }

    #[test]
    fn another_version_is_named() {
        let error = ClientError::garbled(&settings(None), Some("9.9.9"), "missing field `id`");
        assert!(error.to_string().contains("the server is Kiln 9.9.9"), "{error}");
    }
}
