//! Adds up what organizations and repositories used, decayed by the hour.

use std::time::Duration;

use kiln_store::{Tx, claims};

use super::driver::{Done, Duty, Pass, Plan};
use crate::app::App;

#[derive(Debug)]
pub(super) struct Usage;

impl Duty for Usage {
    fn plan(&self) -> Plan {
        Plan { name: "usage", every: Duration::from_secs(5), wakes: None, everywhere: false }
    }

    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a> {
        Box::pin(async {
            let count = app.store.write(async |tx: &mut Tx<'_>| claims::fold(tx).await).await?;
            Ok(Done::count(count, "charge", "charges").and_more(count >= FULL))
        })
    }
}

/// As many as one transaction adds up: then there may be more.
const FULL: usize = 5_000;
