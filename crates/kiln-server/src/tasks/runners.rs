//! Forgets runners that were not heard of for long.

use std::time::Duration;

use kiln_core::time::Timestamp;
use kiln_store::Tx;
use kiln_store::directory::runners;

use super::driver::{Done, Duty, Pass, Plan};
use crate::app::App;

#[derive(Debug)]
pub(super) struct Runners {
    pub(super) after: Duration,
}

impl Duty for Runners {
    fn plan(&self) -> Plan {
        Plan {
            name: "silent runners",
            every: Duration::from_mins(10),
            wakes: None,
            everywhere: false,
        }
    }

    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a> {
        let silent = u64::try_from(self.after.as_millis()).unwrap_or(u64::MAX);
        Box::pin(async move {
            let forget = async move |tx: &mut Tx<'_>| {
                let before = Timestamp(tx.now().0.saturating_sub(silent));
                runners::forget(tx, before).await
            };
            let gone = app.store.write(forget).await?;
            Ok(Done::count(gone.len(), "runner forgotten", "runners forgotten"))
        })
    }
}
