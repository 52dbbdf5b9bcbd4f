//! Removes bytes that nothing refers to, after their time of grace.

use std::time::Duration;

use super::driver::{Done, Duty, Fault, NOTHING, Pass, Plan};
use crate::app::App;
use crate::service::garbage::{Round, Trouble};
use crate::service::storage;

/// A round under way. One that failed goes on where it was.
#[derive(Debug, Default)]
pub(super) struct Garbage(Round);

impl From<Trouble> for Fault {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Store(error) => error.into(),
            Trouble::Bytes(error) => Self { text: error.to_string(), outage: false },
        }
    }
}

impl Duty for Garbage {
    fn plan(&self) -> Plan {
        Plan { name: "garbage", every: Duration::from_mins(10), wakes: None, everywhere: false }
    }

    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a> {
        Box::pin(async {
            self.0.go_on(app).await?;
            if !self.0.is_over() {
                return Ok(Done::said("looking for bytes that nothing refers to").and_more(true));
            }
            let freed = std::mem::take(&mut self.0).freed;
            if freed.is_nothing() {
                return Ok(Done::said(NOTHING));
            }
            storage::note_round(app, freed).await?;
            let (blobs, bytes, strays) = (freed.blobs, freed.bytes, freed.strays);
            Ok(Done::said(format!("{blobs} blobs removed, {bytes} bytes; {strays} strays")))
        })
    }
}
