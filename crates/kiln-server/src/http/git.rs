//! Repositories for git itself: its smart protocol over HTTP, for reading.
//!
//! The password is a token of a job (its runner's, or the one that its steps see), which reads its own
//! repository as long as there is its lease, or an API token, which reads what its owner may look at.

use std::io::{self, Read as _};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use flate2::read::GzDecoder;
use futures_util::stream;
use kiln_core::access::Right;
use kiln_proto::problem::Problem;
use kiln_store::directory::repositories::{self, Repository};
use kiln_store::{Duty, Scope, Tx};
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::error::{Answer, Failure};
use super::extract::{self, Path, Query};
use crate::app::{App, Shared};
use crate::auth::{Caller, shown_token};
use crate::http::routes::{Routes, routes};
use crate::service::report;
use crate::sources::{Location, SourceError, Sources};
use crate::token::JobAccess;

/// The longest question of git, packed or not.
const LONGEST: usize = 32 << 20;
/// How many pieces of an answer wait for a slow client.
const AHEAD: usize = 16;
/// A client that takes nothing for this long is given up, and git with it.
const STALLED: Duration = Duration::from_mins(1);

pub fn routes() -> Routes {
    Routes::new()
        .routes(routes!(refs))
        .routes(routes!(upload_pack))
        .layer(DefaultBodyLimit::max(LONGEST))
}

#[derive(Debug, Deserialize)]
struct Service {
    #[serde(default)]
    service: String,
}

/// List what a repository has
///
/// For `git clone` and `git fetch`.
#[utoipa::path(
    get,
    path = "/{owner}/{repo}/info/refs",
    tag = "git",
    params(
        ("owner" = String, Path),
        ("repo" = String, Path, description = "The name with `.git`"),
        ("service" = String, Query, description = "`git-upload-pack`"),
    ),
    responses(
        (status = 200, content_type = "application/x-git-upload-pack-advertisement"),
        (status = 401, body = Problem),
        (status = 403, description = "Only reading is served", body = Problem),
        (status = 404, body = Problem),
    )
)]
async fn refs(
    State(app): State<Shared>,
    Readable(repository): Readable,
    headers: HeaderMap,
    Query(Service { service }): Query<Service>,
) -> Answer<Response> {
    if service != "git-upload-pack" {
        let detail = "repositories can only be read here, with `service=git-upload-pack`";
        return Err(Failure::forbidden(detail));
    }
    serve(&app, &headers, &repository, None).await
}

/// Fetch from a repository
#[utoipa::path(
    post,
    path = "/{owner}/{repo}/git-upload-pack",
    tag = "git",
    params(("owner" = String, Path), ("repo" = String, Path, description = "The name with `.git`")),
    request_body(content = String, content_type = "application/x-git-upload-pack-request"),
    responses(
        (status = 200, content_type = "application/x-git-upload-pack-result"),
        (status = 400, body = Problem),
        (status = 401, body = Problem),
        (status = 404, body = Problem),
        (status = 413, body = Problem),
    )
)]
async fn upload_pack(
    State(app): State<Shared>,
    Readable(repository): Readable,
    headers: HeaderMap,
    extract::Body(body): extract::Body,
) -> Answer<Response> {
    let body = unpacked(&headers, body).await?;
    serve(&app, &headers, &repository, Some(body)).await
}

fn unauthorized(detail: &str) -> Failure {
    Failure::new(StatusCode::UNAUTHORIZED, "unauthorized", detail).with_header(
        header::WWW_AUTHENTICATE,
        HeaderValue::from_static("Basic realm=\"kiln\", charset=\"UTF-8\""),
    )
}

/// The repository that the path names, if whoever asks may read it. Known before any body is read.
#[derive(Debug)]
struct Readable(Repository);

impl FromRequestParts<Shared> for Readable {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Answer<Self> {
        let Path((owner, repo)) = Path::<(String, String)>::from_request_parts(parts, app).await?;
        let missing = || Failure::not_found("repository");
        let name = format!("{owner}/{}", repo.strip_suffix(".git").ok_or_else(missing)?);
        let token = shown_token(&parts.headers).unwrap_or_default();
        let job = app.signer.check_reading(&token).or_else(|| app.signer.check_job(&token));
        let repository = match job {
            Some(access) => of_job(app, access, name).await?,
            None => of_caller(app, parts, name).await?,
        };
        Ok(Self(repository))
    }
}

/// A job reads its own repository, as long as it has its lease.
async fn of_job(app: &App, access: JobAccess, name: String) -> Answer<Repository> {
    if report::lease(app, access).await?.is_none() {
        return Err(unauthorized("the job of this token is over"));
    }
    let repository = find(app, Scope::Org(access.org), name).await?;
    let is_own = repository.id == access.repo;
    if is_own { Ok(repository) } else { Err(Failure::not_found("repository")) }
}

/// Others read what they may look at.
async fn of_caller(app: &Shared, parts: &mut Parts, name: String) -> Answer<Repository> {
    let caller = match Caller::from_request_parts(parts, app).await {
        // git asks for a password when it is challenged this way.
        Err(failure) if failure.status() == StatusCode::UNAUTHORIZED => {
            return Err(unauthorized("a token of a job or an API token is needed as password"));
        }
        caller => caller?,
    };
    let repository = find(app, Scope::System(Duty::Authentication), name).await?;
    caller.require(Right::Read, Some(repository.org), "repository")?;
    Ok(repository)
}

async fn find(app: &App, scope: Scope, name: String) -> Answer<Repository> {
    let read = async move |tx: &mut Tx<'_>| repositories::by_name(tx, scope, &name).await;
    Ok(app.store.read(read).await?)
}

/// What git asks, also when it sent that compressed.
async fn unpacked(headers: &HeaderMap, body: Bytes) -> Answer<Vec<u8>> {
    match headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Ok(body.to_vec()),
        Some(b"gzip" | b"x-gzip") => {
            let unpack = move || {
                let mut plain = Vec::new();
                let most = u64::try_from(LONGEST).unwrap_or(u64::MAX);
                GzDecoder::new(&*body).take(most + 1).read_to_end(&mut plain).map(|_| plain)
            };
            let plain = tokio::task::spawn_blocking(unpack).await.map_err(Failure::internal)?;
            let plain = plain
                .map_err(|error| Failure::bad_request(format!("the body is no gzip: {error}")))?;
            if plain.len() > LONGEST {
                return Err(Failure::too_large("the unpacked body is larger than 32 MiB"));
            }
            Ok(plain)
        }
        Some(_) => Err(Failure::bad_request("only bodies in plain or in gzip are understood")),
    }
}

/// Lets git answer on a thread that may block, and sends on what it says while it says it.
async fn serve(
    app: &App,
    headers: &HeaderMap,
    repository: &Repository,
    body: Option<Vec<u8>>,
) -> Answer<Response> {
    let source = repository.clone_url.clone().ok_or_else(|| Failure::not_found("repository"))?;
    let location = Location { id: repository.id.0, source };
    let protocol = headers.get("git-protocol").and_then(|value| value.to_str().ok());
    let protocol = protocol.filter(|text| text.len() < 256).map(ToOwned::to_owned);
    let kind = if body.is_none() { "advertisement" } else { "result" };
    let is_second =
        protocol.iter().flat_map(|text| text.split(':')).any(|part| part == "version=2");
    let turn = app.workflows.clones().next().await.map_err(|error| broken(&error))?;
    // One place is kept for how it ended.
    let (sender, mut receiver) = mpsc::channel(AHEAD + 1);
    if body.is_none() && !is_second {
        let _ = sender.try_send(Ok(Bytes::from_static(b"001e# service=git-upload-pack\n0000")));
    }
    let sources = Arc::clone(app.workflows.sources());
    tokio::task::spawn_blocking(move || {
        let _turn = turn;
        ask(&*sources, &location, protocol.as_deref(), body, &sender);
    });
    // What goes wrong before the first byte can still be told in the status.
    let first = match receiver.recv().await {
        Some(Err(error)) => return Err(broken(&error)),
        first => first,
    };
    let rest = stream::unfold((first, receiver), |(first, mut receiver)| async move {
        let next = match first {
            Some(first) => Some(first),
            None => receiver.recv().await,
        };
        next.map(|piece| (piece.map_err(io::Error::other), (None, receiver)))
    });
    Response::builder()
        .header(header::CONTENT_TYPE, format!("application/x-git-upload-pack-{kind}"))
        .header(header::CACHE_CONTROL, "no-cache")
        .body(Body::from_stream(rest))
        .map_err(Failure::internal)
}

type Piece = Result<Bytes, SourceError>;

fn ask(
    sources: &dyn Sources,
    location: &Location,
    protocol: Option<&str>,
    body: Option<Vec<u8>>,
    sender: &mpsc::Sender<Piece>,
) {
    let last = sender.try_reserve();
    let mut write = |bytes: &[u8]| send(sender, bytes, STALLED);
    if let Err(error) = sources.upload_pack(location, protocol, body, &mut write)
        && let Ok(last) = last
    {
        last.send(Err(error));
    }
}

/// Hands a piece on, as soon as the client takes it.
fn send(sender: &mpsc::Sender<Piece>, bytes: &[u8], patience: Duration) -> io::Result<()> {
    let piece = sender.send(Ok(Bytes::copy_from_slice(bytes)));
    match Handle::current().block_on(async { tokio::time::timeout(patience, piece).await }) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
        Err(_) => {
            tracing::warn!("a client of git took nothing for {patience:?} and was given up");
            Err(io::ErrorKind::TimedOut.into())
        }
    }
}

fn broken(error: &SourceError) -> Failure {
    match error {
        SourceError::NotFound(_) => Failure::not_found("repository"),
        SourceError::Broken(reason) => {
            tracing::warn!(reason, "a repository cannot be read");
            Failure::unavailable("the repository cannot be read at the moment")
        }
        SourceError::Busy => Failure::unavailable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_that_takes_nothing_or_is_gone_is_given_up() {
        let (sender, mut receiver) = mpsc::channel(2);
        let sent = tokio::task::spawn_blocking(move || {
            let last = sender.try_reserve().unwrap();
            let first = send(&sender, b"one", Duration::from_mins(1));
            let second = send(&sender, b"two", Duration::from_millis(10));
            last.send(Err(SourceError::Broken("stalled".to_owned())));
            (first, second)
        });
        let (first, second) = sent.await.unwrap();
        assert!(first.is_ok());
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(receiver.recv().await.unwrap().unwrap(), "one");
        // The answer breaks off: a whole one would be taken for all there is.
        assert!(receiver.recv().await.unwrap().is_err());
        assert!(receiver.recv().await.is_none());

        let (sender, receiver) = mpsc::channel(1);
        drop(receiver);
        let sent = tokio::task::spawn_blocking(move || send(&sender, b"x", Duration::from_mins(1)));
        assert_eq!(sent.await.unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
