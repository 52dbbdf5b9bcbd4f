//! Bytes that nothing refers to go, piece by piece.
//!
//! A round looks at all rows and at all that lies in the store. It can be cut off anywhere: the next one
//! begins anew and finds what is left. Several may be under way at once.

use std::collections::HashSet;
use std::time::{Duration, UNIX_EPOCH};

use kiln_blob::{BlobError, Entry, Name, Parts};
use kiln_core::id::BlobId;
use kiln_core::time::Timestamp;
use kiln_fault::Point;
use kiln_store::content::garbage::{self, Removal, Step};
use kiln_store::{Duty, Scope, StoreError, Tx};

use crate::app::App;
use crate::clock;
use crate::storage::FOLDERS;

const SCOPE: Scope = Scope::System(Duty::Retention);
/// How many rows or objects one step looks at.
const PIECE: u32 = 500;
/// What lies in the store without a row is left alone for at least so long: somebody may be about to
/// write the row.
const STRAY: Duration = Duration::from_hours(6);

/// A store that refuses for so long to forget an upload in parts is not asked again: perhaps it calls one that it does
/// not know forbidden, or the key lacks the right. The bucket's own rule ends what is left.
const REFUSED: Duration = Duration::from_hours(24 * 7);

/// Why a piece of a round failed. What was done stays done.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Bytes(#[from] BlobError),
}

/// What was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Freed {
    /// Blobs that lost their last reference and were marked.
    pub marked: u64,
    pub blobs: u64,
    pub bytes: u64,
    /// Uploads that nobody completed.
    pub uploads: u64,
    /// Objects in the store that no row knew, and drafts of writers that died.
    pub strays: u64,
}

impl Freed {
    pub fn is_nothing(&self) -> bool {
        Self { marked: 0, ..*self } == Self::default()
    }
}

/// One round through everything.
#[derive(Debug, Default)]
pub struct Round {
    pub freed: Freed,
    stage: Stage,
}

/// How far it has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Expired,
    Uploads,
    Mark(BlobId),
    Sweep,
    /// The last place that was looked at.
    Remove(String),
    /// The number of the folder, and the last object that was looked at.
    Strays(usize, Option<Name>),
    Over,
}

impl Round {
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// The next piece.
    pub async fn go_on(&mut self, app: &App) -> Result<(), Trouble> {
        self.stage = match self.stage.clone() {
            Stage::Expired => self.expire(app).await?,
            Stage::Uploads => self.give_up(app).await?,
            Stage::Mark(after) => self.mark(app, after).await?,
            Stage::Sweep => self.sweep(app).await?,
            Stage::Remove(after) => return self.remove(app, after).await,
            Stage::Strays(folder, after) => self.strays(app, folder, after).await?,
            Stage::Over => Stage::Over,
        };
        Ok(())
    }

    async fn expire(&mut self, app: &App) -> Result<Stage, Trouble> {
        let expire = async |tx: &mut Tx<'_>| garbage::expire(tx, SCOPE, PIECE).await;
        let Step { more, .. } = app.store.write(expire).await?;
        Ok(if more { Stage::Expired } else { Stage::Uploads })
    }

    async fn give_up(&mut self, app: &App) -> Result<Stage, Trouble> {
        let before = ago(app.config.storage.grace);
        let work = async move |tx: &mut Tx<'_>| garbage::give_up(tx, SCOPE, before, PIECE).await;
        let Step { count, more, .. } = app.store.write(work).await?;
        self.freed.uploads += count;
        Ok(if more { Stage::Uploads } else { Stage::Mark(BlobId(0)) })
    }

    async fn mark(&mut self, app: &App, after: BlobId) -> Result<Stage, Trouble> {
        let work = async move |tx: &mut Tx<'_>| garbage::mark(tx, SCOPE, after, PIECE).await;
        let (marked, next) = app.store.write(work).await?;
        self.freed.marked += marked;
        Ok(next.map_or(Stage::Sweep, Stage::Mark))
    }

    async fn sweep(&mut self, app: &App) -> Result<Stage, Trouble> {
        let before = ago(app.config.storage.grace);
        let work = async move |tx: &mut Tx<'_>| garbage::sweep(tx, SCOPE, before, PIECE).await;
        let Step { count, bytes, more } = app.store.write(work).await?;
        self.freed.blobs += count;
        self.freed.bytes += u64::try_from(bytes).unwrap_or_default();
        if count > 0 {
            Point::DutySwept.pass();
        }
        // A piece of which nothing could go would be found again at once.
        Ok(if more && count > 0 { Stage::Sweep } else { Stage::Remove(String::new()) })
    }

    /// Removes the bytes whose rows are gone. A place is used once, so that nobody can have put anything there. The row
    /// that says so goes last: after a crash or an error all of it is done again, by the next round. What the store
    /// refuses to let go of is said, and holds up nothing else.
    async fn remove(&mut self, app: &App, after: String) -> Result<(), Trouble> {
        // Not by a reader, which may see what is not flushed yet: these bytes are gone for good.
        let next = async move |tx: &mut Tx<'_>| garbage::removals(tx, SCOPE, &after, PIECE).await;
        let next = app.store.write(next).await?;
        let (mut places, mut trouble) = (Vec::with_capacity(next.len()), Ok(()));
        let last = next.last().map(|removal| removal.place.clone());
        for removal in next {
            match let_go(app, &removal).await {
                Ok(()) => places.push(removal.place),
                Err(error) => trouble = Err(error),
            }
        }
        let removed = async move |tx: &mut Tx<'_>| garbage::removed(tx, SCOPE, &places).await;
        app.store.write(removed).await?;
        self.stage = last.map_or(Stage::Strays(0, None), Stage::Remove);
        Ok(trouble?)
    }

    /// What lies in the store for long and no row knows: a server died between the two.
    async fn strays(
        &mut self,
        app: &App,
        number: usize,
        after: Option<Name>,
    ) -> Result<Stage, Trouble> {
        let backend = app.storage.backend();
        let old = UNIX_EPOCH + Duration::from_millis(ago(app.config.storage.grace.max(STRAY)).0);
        let Some(folder) = FOLDERS.get(number) else {
            self.freed.strays += backend.sweep(old).await?;
            return Ok(Stage::Over);
        };
        let found = backend.list(&Name::new(*folder)?, after.as_ref(), PIECE as usize).await?;
        let Some(last) = found.last().map(|entry| entry.name.clone()) else {
            return Ok(Stage::Strays(number + 1, None));
        };
        let is_old = |entry: &Entry| entry.modified < old;
        let names: Vec<Name> = found.into_iter().filter(is_old).map(|entry| entry.name).collect();
        let places: Vec<String> = names.iter().map(Name::to_string).collect();
        let known = async move |tx: &mut Tx<'_>| garbage::known(tx, SCOPE, &places).await;
        let known: HashSet<String> = app.store.read(known).await?.into_iter().collect();
        for name in names.iter().filter(|name| !known.contains(name.as_str())) {
            backend.delete(name).await?;
            self.freed.strays += 1;
        }
        Ok(Stage::Strays(number, Some(last)))
    }
}

async fn let_go(app: &App, removal: &Removal) -> Result<(), BlobError> {
    // What is no name of ours cannot lie there.
    let Ok(name) = Name::new(removal.place.as_str()) else { return Ok(()) };
    let backend = app.storage.backend();
    if let (Some(upload), Some(direct)) = (&removal.parts, backend.direct()) {
        match direct.abort_parts(&name, &Parts(upload.clone())).await {
            Err(error) if removal.since < ago(REFUSED) => {
                tracing::warn!(%error, place = removal.place, "an upload in parts is left to the store");
            }
            aborted => aborted?,
        }
    }
    backend.delete(&name).await
}

fn ago(time: Duration) -> Timestamp {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Timestamp(clock::now().0.saturating_sub(millis))
}
