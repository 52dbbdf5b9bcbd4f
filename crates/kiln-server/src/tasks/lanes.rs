//! Keeps the lanes of the queue short, so that claims stay cheap.

use std::time::Duration;

use kiln_store::claims;

use super::driver::{Done, Duty, Pass, Plan};
use crate::app::App;

#[derive(Debug)]
pub(super) struct Lanes;

impl Duty for Lanes {
    fn plan(&self) -> Plan {
        Plan { name: "lanes", every: Duration::from_secs(1), wakes: None, everywhere: false }
    }

    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a> {
        Box::pin(async {
            let count = claims::tidy_lanes(&app.store).await?;
            Ok(Done::count(count, "lane", "lanes"))
        })
    }
}
