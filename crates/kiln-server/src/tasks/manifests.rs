//! Cleans up what manifests own whose time is over, in the order of their priorities.

use std::time::Duration;

use kiln_core::id::{ManifestId, ObjectId};
use kiln_core::time::Timestamp;
use kiln_fault::Point;
use kiln_store::content::belongings;
use kiln_store::content::manifests::{self, Manifest, ManifestState, Resource};
use kiln_store::{Scope, StoreError, Tx};

use super::driver::{Done, Duty, NOTHING, Pass, Plan};
use crate::app::App;
use crate::service::manifests::{Kind, clean_up};

const SCOPE: Scope = Scope::System(kiln_store::Duty::Retention);
/// How many manifests one pass looks at.
const MOST: u32 = 20;
/// How many drafts of ended runs one pass seals.
const SEALS: u32 = 500;
/// How many resources of a manifest go in one transaction.
const PIECE: usize = 200;

/// When a run's own manifest is looked at again of which somebody keeps an artifact.
const AGAIN: Duration = Duration::from_hours(24);

/// A pass can be cut off anywhere: what was cleaned up has left its manifest, and the next finds the rest.
#[derive(Debug, Default)]
pub(super) struct Manifests {
    /// The last one that was looked at, so that those that cannot be cleaned up do not keep others from it; none
    /// if the next pass begins with the first.
    last: Option<(Timestamp, ManifestId)>,
}

impl Manifests {
    /// The next of those whose time is over.
    async fn next(&mut self, app: &App) -> Result<Vec<Manifest>, StoreError> {
        let after = self.last.take().unwrap_or((Timestamp(0), ManifestId(0)));
        let due = async move |tx: &mut Tx<'_>| manifests::due(tx, SCOPE, after, MOST).await;
        let due = app.store.read(due).await?;
        let last = due.last().filter(|_| due.len() >= MOST as usize);
        self.last = last.and_then(|last| Some((last.expires_at?, last.id)));
        Ok(due)
    }
}

impl Duty for Manifests {
    fn plan(&self) -> Plan {
        Plan { name: "manifests", every: Duration::from_mins(1), wakes: None, everywhere: false }
    }

    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a> {
        Box::pin(async {
            let seal = async |tx: &mut Tx<'_>| manifests::seal_ended(tx, SCOPE, SEALS).await;
            let sealed = app.store.write(seal).await?;
            let due = self.next(app).await?;
            let (mut gone, mut resources) = (0, 0);
            let mut more = sealed >= u64::from(SEALS) || self.last.is_some();
            let mut fault = None;
            for manifest in due {
                // One that cannot be cleaned up does not keep the others from it.
                let (cleaned, is_over) = match one(app, manifest).await {
                    Ok(done) => done,
                    Err(error) if error.concerns_all() => return Err(error.into()),
                    Err(error) => {
                        fault = Some(error);
                        continue;
                    }
                };
                resources += cleaned;
                gone += usize::from(is_over);
                more |= cleaned >= PIECE;
                Point::DutyCleaned.pass();
            }
            if let Some(fault) = fault {
                return Err(fault.into());
            }
            if resources + gone == 0 && sealed == 0 {
                return Ok(Done::said(NOTHING).and_more(more));
            }
            let ended = match sealed {
                0 => String::new(),
                sealed => format!(", {sealed} sealed because their runs ended"),
            };
            let report =
                format!("{resources} resources cleaned up, {gone} manifests are over{ended}");
            tracing::info!(report, "manifests were cleaned up");
            Ok(Done::said(report).and_more(more))
        })
    }
}

/// The next piece of a manifest. Says how much of it went, and whether it is over.
async fn one(app: &App, manifest: Manifest) -> Result<(usize, bool), StoreError> {
    let (org, id, own) = (manifest.org, manifest.id, manifest.own);
    let work = async move |tx: &mut Tx<'_>| {
        let mut cleaned = 0;
        let mut owned = manifests::resources(tx, SCOPE, id).await?;
        if own && leave_needed(tx, &mut owned).await? {
            belongings::put_off(tx, SCOPE, id, tx.now() + AGAIN).await?;
        }
        let ours = owned.iter().filter(|resource| Kind::read(&resource.kind).is_some());
        for resource in ours.take(PIECE) {
            clean_up(tx, org, id, resource).await?;
            cleaned += 1;
        }
        let is_over = manifests::get(tx, SCOPE, id).await?.state == ManifestState::Expired;
        if is_over {
            manifests::forget(tx, SCOPE, id).await?;
        }
        Ok((cleaned, is_over))
    };
    app.store.write(work).await
}

/// Leaves out what an artifact still has, which goes with that. Says whether there is any.
async fn leave_needed(tx: &mut Tx<'_>, owned: &mut Vec<Resource>) -> Result<bool, StoreError> {
    let all = std::mem::take(owned);
    let count = all.len();
    for resource in all {
        let object = ObjectId(resource.id.parse().unwrap_or_default());
        if !belongings::is_needed(tx, SCOPE, object).await? {
            owned.push(resource);
        }
    }
    Ok(owned.len() < count)
}
