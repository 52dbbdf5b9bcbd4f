//! Cuts large archives into chunks after they were sent, one after the other.

use std::time::Duration;

use kiln_core::id::BlobId;

use super::driver::{Done, Duty, Pass, Plan};
use crate::app::App;
use crate::service::packing;

/// After so many looks that found nothing new it begins with the first one again: an archive that could not
/// be cut is tried anew, but not all the time.
const AGAIN: u32 = 120;

/// Goes through all that are not cut yet, by age.
#[derive(Debug)]
pub(super) struct Packing {
    after: BlobId,
    done: usize,
    looks: u32,
}

impl Default for Packing {
    fn default() -> Self {
        Self { after: BlobId(0), done: 0, looks: 0 }
    }
}

impl Duty for Packing {
    fn plan(&self) -> Plan {
        Plan { name: "packing", every: Duration::from_secs(30), wakes: None, everywhere: false }
    }

    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a> {
        Box::pin(async {
            let Some(whole) = packing::next(app, self.after).await? else {
                let done = std::mem::take(&mut self.done);
                self.looks += 1;
                if self.looks >= AGAIN {
                    *self = Self::default();
                }
                return Ok(Done::count(
                    done,
                    "archive cut into chunks",
                    "archives cut into chunks",
                ));
            };
            // One that cannot be cut does not keep the others from it.
            self.after = whole.id;
            self.done += usize::from(packing::pack(app, whole).await?);
            Ok(Done::said("cutting archives into chunks").and_more(true))
        })
    }
}
