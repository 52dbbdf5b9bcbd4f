//! An artifact that somebody adds to a run with a form.

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

use super::artifacts::{ZIP, check_name, end, shown};
use super::multipart::{Form, Part, boundary};
use super::{Sent, number};
use crate::app::App;
use crate::auth::Caller;
use crate::clock;
use crate::http::error::{Answer, Failure};
use crate::service::blobs::{self, Asker, unkept};
use crate::service::runs::FIND;
use crate::storage::{LIFE, UPLOADS};

/// How many bytes a name may have.
const NAME: usize = 1 << 10;
/// How many pieces of a file wait to be written.
const AHEAD: usize = 4;

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
    let (mut name, mut file) = (None, None);
    while let Some(part) = form.part().await? {
        match part.name.as_str() {
            "name" => name = Some(form.text(NAME).await?),
            "file" if file.is_none() => file = Some(receive(app, &mut form, &part).await?),
            other => {
                let message =
                    format!("`{other}`: expected the fields `name` and `file`, once each");
                return Err(Failure::invalid(message));
            }
        }
    }
    let missing = |field: &str| Failure::invalid(format!("the form has no field `{field}`"));
    let name = name.ok_or_else(|| missing("name"))?;
    check_name(&name)?;
    let file = file.ok_or_else(|| missing("file"))?;
    make(app, caller, run, name, file).await
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
    name: String,
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
        name,
        content_type: file.content_type,
        expires_at: end(app.config.content.artifacts, None, clock::now())?,
        overwrite: false,
    };
    let work = async move |tx: &mut Tx<'_>| {
        let id = artifacts::create(tx, scope, &actor, new.clone()).await?;
        let object = sent.object(tx, org, "artifact").await?;
        artifacts::finalize(tx, scope, id, object, &sent.hash.0, sent.size).await?;
        artifacts::get(tx, scope, id).await
    };
    let made = app.store.write(work).await?;
    debug_assert_eq!(number(made.size), file.size, "what arrived is what is kept");
    Ok(shown(&made))
}
