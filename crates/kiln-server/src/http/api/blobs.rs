//! Bytes by their SHA-256, for jobs and for people.

use axum::Json as Reply;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use kiln_blob::{BlobError, Digest, Span};
use kiln_core::id::{ArtifactId, JobId, OrgId};
use kiln_core::time::Timestamp;
use kiln_proto::blob::{Blob, CompleteUpload, Exists, Link, NewUpload, Present, Upload};
use kiln_proto::problem::Problem;

use super::params::{OfBlob, Signed};
use crate::app::Shared;
use crate::auth::{Caller, shown_token};
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Json, OptionalJson, Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::blobs::{self, Asker, Opened};
use crate::service::content::artifacts::ZIP;
use crate::service::content::seen;
use crate::service::report;
use crate::storage::Grant;

/// What a question with many hashes may have as a body.
const QUESTION: usize = 1 << 20;

/// Not among those that must answer within seconds: bytes take their time.
pub(crate) fn routes() -> Routes {
    let questions = Routes::new()
        .routes(routes!(exists))
        .routes(routes!(reserve))
        .routes(routes!(renew))
        .routes(routes!(complete))
        .routes(routes!(read))
        .routes(routes!(link))
        .routes(routes!(read_signed))
        .routes(routes!(read_artifact))
        .layer(DefaultBodyLimit::max(QUESTION));
    let bytes = Routes::new().routes(routes!(send)).layer(DefaultBodyLimit::disable());
    questions.merge(bytes)
}

impl FromRequestParts<Shared> for Asker {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Answer<Self> {
        let token = shown_token(&parts.headers).unwrap_or_default();
        let Some(access) = app.signer.check_job(&token) else {
            let caller = Caller::from_request_parts(parts, app).await?;
            return Ok(Self::Person(Box::new(caller)));
        };
        if report::lease(app, access).await?.is_none() {
            return Err(Failure::unauthorized("the job of this token is over"));
        }
        Ok(Self::Job(access))
    }
}

/// Which bytes an organization has
///
/// They stay for the time of grace, so that they need not be sent.
#[utoipa::path(
    post, path = "/api/blobs/exists", tag = "bytes", request_body = Exists,
    responses((status = 200, body = Present), Problems)
)]
async fn exists(
    State(app): State<Shared>,
    asker: Asker,
    Json(asked): Json<Exists>,
) -> Answer<Reply<Present>> {
    blobs::exists(&app, &asker, asked).await.map(Reply)
}

/// Say which bytes are to be sent
///
/// The answer says where to, each piece with `PUT`, or that there is no need.
#[utoipa::path(
    post, path = "/api/blobs/uploads", tag = "bytes", request_body = NewUpload,
    responses((status = 201, body = Upload), Problems)
)]
async fn reserve(
    State(app): State<Shared>,
    asker: Asker,
    Json(new): Json<NewUpload>,
) -> Answer<(StatusCode, Reply<Upload>)> {
    Ok((StatusCode::CREATED, Reply(blobs::reserve(&app, &asker, new).await?)))
}

/// Say that bytes were sent
///
/// They are read and compared with their SHA-256; from then on they can be had. What takes longer than some
/// seconds is answered with 202: ask the same again.
#[utoipa::path(
    post, path = "/api/blobs/uploads/{id}/complete", tag = "bytes", params(("id" = i64, Path)),
    request_body = Option<CompleteUpload>,
    responses(
        (status = 200, body = Blob),
        (status = 202, description = "It is under way"),
        Problems,
    )
)]
async fn complete(
    State(app): State<Shared>,
    asker: Asker,
    Path(id): Path<i64>,
    OptionalJson(said): OptionalJson<CompleteUpload>,
) -> Answer<Response> {
    let done = blobs::complete_in_time(&app, asker, id, said).await?;
    Ok(done
        .map_or_else(|| StatusCode::ACCEPTED.into_response(), |blob| Reply(blob).into_response()))
}

/// Go on with bytes that take longer than their addresses are good
///
/// The answer has new ones, for another hour.
#[utoipa::path(
    post, path = "/api/blobs/uploads/{id}/renew", tag = "bytes", params(("id" = i64, Path)),
    responses((status = 200, body = Upload), Problems)
)]
async fn renew(
    State(app): State<Shared>,
    asker: Asker,
    Path(id): Path<i64>,
) -> Answer<Reply<Upload>> {
    blobs::renew(&app, &asker, id).await.map(Reply)
}

impl Signed {
    pub(in crate::http) fn grant(&self, method: &'static str, object: String) -> Grant {
        Grant {
            method,
            object,
            size: self.size,
            org: OrgId(self.org),
            job: self.job.map(JobId),
            expires: Timestamp(self.expires),
        }
    }
}

/// Send bytes
///
/// To an address that the server gave, as it was given. Other bytes than those that were named are refused.
#[utoipa::path(
    put, path = "/api/uploads/{id}", tag = "bytes", params(("id" = i64, Path), Signed),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 204), Problems), security(())
)]
async fn send(
    State(app): State<Shared>,
    Path(id): Path<i64>,
    Params(signed): Params<Signed>,
    body: Body,
) -> Answer<StatusCode> {
    let grant = signed.grant("PUT", format!("upload/{id}"));
    let cut = |error: axum::Error| BlobError::Cut(error.to_string());
    let content = body.into_data_stream().map(move |piece| piece.map_err(cut)).boxed();
    blobs::receive(&app, &grant, &signed.signature, id, content).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Bytes, or a part of them with `Range`
#[utoipa::path(
    get, path = "/api/blobs/{hash}", tag = "bytes", params(("hash" = String, Path), OfBlob),
    responses(
        (status = 200, description = "All of them", body = String, content_type = "application/octet-stream"),
        (status = 206, description = "A part", body = String, content_type = "application/octet-stream"),
        (status = 302, description = "They are at another address"),
        (status = 416, description = "There are fewer", body = Problem),
        Problems,
    )
)]
async fn read(
    State(app): State<Shared>,
    asker: Asker,
    Path(hash): Path<String>,
    Params(of): Params<OfBlob>,
    headers: HeaderMap,
) -> Answer<Response> {
    let span = span(&headers);
    let opened = blobs::open(&app, &asker, of.owner.as_deref(), &hash, span.unwrap_or(Span::All));
    answer(opened.await?, span.is_some(), &hash)
}

/// An address of bytes that needs no token, for an hour
#[utoipa::path(
    get, path = "/api/blobs/{hash}/link", tag = "bytes", params(("hash" = String, Path), OfBlob),
    responses((status = 200, body = Link), Problems)
)]
async fn link(
    State(app): State<Shared>,
    asker: Asker,
    Path(hash): Path<String>,
    Params(of): Params<OfBlob>,
) -> Answer<Reply<Link>> {
    blobs::link(&app, &asker, of.owner.as_deref(), &hash).await.map(Reply)
}

/// Bytes, at an address that the server gave
#[utoipa::path(
    get, path = "/api/signed/{hash}", tag = "bytes", params(("hash" = String, Path), Signed),
    responses(
        (status = 200, description = "All of them", body = String, content_type = "application/octet-stream"),
        (status = 206, description = "A part", body = String, content_type = "application/octet-stream"),
        (status = 302, description = "They are at another address"),
        (status = 416, description = "There are fewer", body = Problem),
        Problems,
    ),
    security(())
)]
async fn read_signed(
    State(app): State<Shared>,
    Path(hash): Path<String>,
    Params(signed): Params<Signed>,
    headers: HeaderMap,
) -> Answer<Response> {
    let span = span(&headers);
    let grant = signed.grant("GET", format!("blob/{hash}"));
    let whole = span.unwrap_or(Span::All);
    let opened = blobs::open_signed(&app, &grant, &signed.signature, &hash, whole);
    answer(opened.await?, span.is_some(), &hash)
}

/// An artifact, at an address that the server gave
///
/// What it holds was written by a job: it is a download, and never shown as a page.
#[utoipa::path(
    get, path = "/api/signed/artifacts/{artifact_id}/{file}", tag = "bytes",
    params(("artifact_id" = i64, Path), ("file" = String, Path), Signed),
    responses(
        (status = 200, description = "All of it", body = String, content_type = "application/octet-stream"),
        (status = 206, description = "A part", body = String, content_type = "application/octet-stream"),
        (status = 410, description = "Its time is over", body = Problem),
        (status = 416, description = "There are fewer bytes", body = Problem),
        Problems,
    ),
    security(())
)]
async fn read_artifact(
    State(app): State<Shared>,
    Path((id, file)): Path<(i64, String)>,
    Params(signed): Params<Signed>,
    headers: HeaderMap,
) -> Answer<Response> {
    let (span, id) = (span(&headers), ArtifactId(id));
    let grant = signed.grant("GET", seen::object(id, &file));
    let whole = span.unwrap_or(Span::All);
    let (artifact, opened) = seen::open(&app, &grant, &signed.signature, id, whole).await?;
    let hash = artifact.hash.as_deref().and_then(Digest::from_slice);
    let hash = hash.map(|hash| hash.to_string()).unwrap_or_default();
    let mut response = answer(opened, span.is_some(), &hash)?;
    let headers = response.headers_mut();
    if artifact.content_type == ZIP {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(ZIP));
    }
    headers.insert(header::CONTENT_DISPOSITION, attachment(&file));
    Ok(response)
}

/// The name under which a browser keeps it: without what headers cannot say.
fn attachment(file: &str) -> HeaderValue {
    let plain = |c: char| c.is_ascii_graphic() && !"\"\\;".contains(c) || c == ' ';
    let name: String = file.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let text = format!("attachment; filename=\"{name}\"");
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("attachment"))
}

/// One range of bytes. What asks for several, or in other units, gets all.
fn span(headers: &HeaderMap) -> Option<Span> {
    let text = headers.get(header::RANGE)?.to_str().ok()?.strip_prefix("bytes=")?;
    let (from, to) = text.trim().split_once('-')?;
    match (from.parse::<u64>(), to.parse::<u64>()) {
        (Ok(from), Ok(to)) if from <= to => Some(Span::Between(from, to.saturating_add(1))),
        (Ok(from), Err(_)) if to.is_empty() => Some(Span::Between(from, u64::MAX)),
        (Err(_), Ok(last)) if from.is_empty() => Some(Span::Last(last)),
        _ => None,
    }
}

fn answer(opened: Opened, is_part: bool, hash: &str) -> Answer<Response> {
    let found = match opened {
        Opened::There(url) => {
            return Ok((StatusCode::FOUND, [(header::LOCATION, url)]).into_response());
        }
        Opened::Here(found) => found,
    };
    let (size, range) = (found.size, found.range.clone());
    if is_part && range.is_empty() {
        return Err(blobs::out_of_range(size));
    }
    let mut response = Body::from_stream(found.content).into_response();
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CONTENT_LENGTH, (range.end - range.start).into());
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Ok(tag) = HeaderValue::try_from(format!("\"{hash}\"")) {
        headers.insert(header::ETAG, tag);
    }
    if is_part {
        let text = format!("bytes {}-{}/{size}", range.start, range.end - 1);
        if let Ok(text) = HeaderValue::try_from(text) {
            headers.insert(header::CONTENT_RANGE, text);
        }
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<Span>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, HeaderValue::from_str(text).unwrap());
        assert_eq!(span(&headers), expect, "{text}");
    }

    #[test]
    fn a_range_is_read_as_http_has_it() {
        check("bytes=0-0", Some(Span::Between(0, 1)));
        check("bytes=5-", Some(Span::Between(5, u64::MAX)));
        check("bytes=-5", Some(Span::Last(5)));
        check("bytes=0-18446744073709551615", Some(Span::Between(0, u64::MAX)));
        for all in ["bytes=", "bytes=-", "bytes=5-4", "bytes=0-1,3-4", "lines=0-1", "bytes=a-b"] {
            check(all, None);
        }
    }
}
