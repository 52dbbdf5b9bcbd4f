//! An artifact that somebody adds to a run with a form.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use futures_util::{FutureExt as _, StreamExt as _};
use kiln_blob::{BlobError, Content, Digest, Name};
use kiln_core::id::RunId;
use kiln_proto::blob::CompleteUpload;
use kiln_proto::content::{Artifact, Complete};
use kiln_store::content::{artifacts, uploads};
use kiln_store::{Scope, Tx};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::artifacts::{ZIP, check_name, shown};
use super::multipart::{Form, Part, boundary};
use super::{Sent, kinds, number};
use crate::app::App;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::service::blobs::{self, Asker, unkept};
use crate::service::runs::FIND;
use crate::storage::{LIFE, UPLOADS};

const DAY: Duration = Duration::from_hours(24);
/// How many bytes a name may have.
const NAME: usize = 1 << 10;
/// How many pieces of a file wait to be written.
const AHEAD: usize = 4;

/// What a form says beside the bytes.
#[derive(Debug, Clone, Default)]
struct Said {
    name: Option<String>,
    /// Replaces one of the same name.
    overwrite: bool,
    /// Keeps it beyond its time.
    keep: bool,
    /// How long it stays otherwise.
    retention: Option<Duration>,
}

impl Said {
    async fn take(&mut self, field: &str, form: &mut Reading) -> Answer<()> {
        match field {
            "name" => self.name = Some(form.text(NAME).await?),
            "overwrite" => self.overwrite = flag(field, &form.text(NAME).await?)?,
            "keep" => self.keep = flag(field, &form.text(NAME).await?)?,
            "retention_days" => {
                let wrong = || Failure::invalid("`retention_days`: expected a number from 1");
                let days = form.text(NAME).await?.parse::<u32>().ok().filter(|days| *days > 0);
                self.retention = Some(DAY * days.ok_or_else(wrong)?);
            }
            other => {
                let message = format!(
                    "`{other}`: expected the fields `name`, `file`, `overwrite`, \
                     `retention_days` and `keep`, `file` once"
                );
                return Err(Failure::invalid(message));
            }
        }
        Ok(())
    }
}

fn flag(field: &str, text: &str) -> Answer<bool> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Failure::invalid(format!("`{field}`: expected `true` or `false`"))),
    }
}

/// A file that has arrived, and is nobody's yet.
struct Arrived {
    place: Name,
    hash: Digest,
    size: u64,
    content_type: String,
}

type Reading = Form<axum::body::BodyDataStream>;

/// Reads the form, keeps its file, and makes an artifact of it.
pub async fn upload(
    app: &App,
    caller: Caller,
    run: RunId,
    headers: &HeaderMap,
    body: Body,
) -> Answer<Artifact> {
    let mut form = Form::new(body.into_data_stream(), &boundary(headers)?);
    let (mut said, mut file) = (Said::default(), None);
    while let Some(part) = form.part().await? {
        match part.name.as_str() {
            "file" if file.is_none() => file = Some(receive(app, &mut form, &part).await?),
            other => said.take(other, &mut form).await?,
        }
    }
    let missing = |field: &str| Failure::invalid(format!("the form has no field `{field}`"));
    check_name(said.name.as_ref().ok_or_else(|| missing("name"))?)?;
    let file = file.ok_or_else(|| missing("file"))?;
    if said.keep && caller.steps().is_some() {
        return Err(Failure::forbidden("a job may not keep something for ever"));
    }
    make(app, caller, run, said, file).await
}

/// Writes a file as it comes.
async fn receive(app: &App, form: &mut Reading, part: &Part) -> Answer<Arrived> {
    let place = Name::fresh(UPLOADS);
    let (sender, mut receiver) = mpsc::channel::<Result<bytes::Bytes, BlobError>>(AHEAD);
    let content: Content =
        futures_util::stream::poll_fn(move |context| receiver.poll_recv(context)).boxed();
    let write = app.storage.backend().put(&place, content);
    let read = pass_on(form, sender, app.config.storage.largest);
    let (written, read) = tokio::join!(write, read.boxed());
    let (hash, size) = read?;
    written.map_err(unkept)?;
    let is_zip = part.file.as_ref().is_some_and(|file| file.to_ascii_lowercase().ends_with(".zip"));
    let said = part.content_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned());
    let content_type = if is_zip { ZIP.to_owned() } else { said };
    Ok(Arrived { place, hash, size, content_type })
}

/// Hands on what is read, and says what it was. Whoever writes learns if it breaks off.
async fn pass_on(
    form: &mut Reading,
    sender: mpsc::Sender<Result<bytes::Bytes, BlobError>>,
    largest: u64,
) -> Answer<(Digest, u64)> {
    let (mut hash, mut size) = (Sha256::new(), 0_u64);
    loop {
        let piece = match form.piece().await {
            Ok(Some(piece)) => piece,
            Ok(None) => return Ok((Digest(hash.finalize().into()), size)),
            Err(failure) => {
                let _ = sender.send(Err(BlobError::Cut("the form broke off".to_owned()))).await;
                return Err(failure);
            }
        };
        size += piece.len() as u64;
        if size > largest {
            let _ = sender.send(Err(BlobError::Cut("too many bytes".to_owned()))).await;
            return Err(Failure::too_large(format!("an upload may have {largest} bytes")));
        }
        hash.update(&piece);
        if sender.send(Ok(piece)).await.is_err() {
            // Whoever writes has given up, and says why.
            return Ok((Digest(hash.finalize().into()), size));
        }
    }
}

async fn make(
    app: &App,
    caller: Caller,
    run: RunId,
    said: Said,
    file: Arrived,
) -> Answer<Artifact> {
    let find = async move |tx: &mut Tx<'_>| kiln_store::runs::get(tx, FIND, run).await;
    let found = app.store.read(find).await?;
    let (scope, org) = (Scope::Org(found.org), found.org);
    let new = uploads::NewUpload {
        org,
        job: None,
        hash: file.hash.0.to_vec(),
        size: i64::try_from(file.size).unwrap_or(i64::MAX),
        place: file.place.to_string(),
        parts: None,
        life: LIFE,
        // They have arrived already.
        budget: i64::MAX,
    };
    let reserve = async move |tx: &mut Tx<'_>| uploads::reserve(tx, scope, new.clone()).await;
    let id = app.store.write(reserve).await?.id;
    let actor = caller.actor();
    let asker = Asker::Person(Box::new(caller));
    let blob = blobs::complete(app, &asker, id.0, CompleteUpload::default()).await?;
    let sent = Sent::read(&Complete { hash: blob.hash, size: blob.size })?;
    let new = artifacts::NewArtifact {
        run,
        attempt: found.attempt.into(),
        job: None,
        claim: None,
        name: said.name.unwrap_or_default(),
        content_type: file.content_type,
        expires_at: None,
        overwrite: said.overwrite,
    };
    let content = app.config.content;
    let work = async move |tx: &mut Tx<'_>| {
        let longest = kinds::longest(tx, scope, &content, run).await?;
        let stays = said.retention.map_or(longest, |asked| asked.min(longest));
        let new = artifacts::NewArtifact { expires_at: Some(tx.now() + stays), ..new.clone() };
        let id = artifacts::create(tx, scope, &actor, new).await?;
        sent.left(tx, &actor, &content, id).await?;
        if said.keep {
            artifacts::set_keep(tx, scope, &actor, id, true).await?;
        }
        artifacts::get(tx, scope, id).await
    };
    let made = app.store.write(work).await?;
    debug_assert_eq!(number(made.size), file.size, "what arrived is what is kept");
    Ok(shown(&made))
}
