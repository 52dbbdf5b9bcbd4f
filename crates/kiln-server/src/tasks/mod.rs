//! What the server does by itself.
//!
//! Each duty is a pass that can be repeated at any time and by any server. Most are done by one server of
//! a database, the one that leads; what each did last stands on the [`Board`].

mod archive;
mod board;
mod content;
mod driver;
mod garbage;
mod lanes;
mod leases;
mod manifests;
mod old_logs;
mod outbox;
mod packing;
mod retention;
mod runners;
mod timers;
mod unsupported;
mod usage;

use std::sync::Arc;
use std::time::Duration;

use kiln_store::Leadership;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::app::Shared;

pub use board::Board;
use driver::Duty;

/// The lock that the one server holds which does what only one may do.
const LEADERSHIP: &str = "duties";

/// The duties of a server, under way.
#[derive(Debug)]
pub struct Duties(JoinSet<&'static str>);

impl Duties {
    /// Begins with all of them. Must be called where tokio runs.
    pub fn start(app: &Shared) -> Self {
        let leadership = Arc::new(app.store.leadership(LEADERSHIP));
        let mut running = JoinSet::new();
        for duty in all(app) {
            begin(&mut running, app, &leadership, duty);
        }
        Self(running)
    }

    /// Waits until all passes that are under way have ended, up to a bound. Says which have not.
    pub(crate) async fn end(mut self, grace: Duration) -> Vec<&'static str> {
        let all = async { while self.0.join_next().await.is_some() {} };
        if timeout(grace, all).await.is_ok() {
            return Vec::new();
        }
        let left = self.0.len();
        self.0.shutdown().await;
        vec!["duties"; left]
    }
}

fn begin(
    running: &mut JoinSet<&'static str>,
    app: &Shared,
    leadership: &Arc<Leadership>,
    duty: Box<dyn Duty>,
) {
    let name = duty.plan().name;
    app.board.add(&duty.plan());
    let (app, leadership) = (Arc::clone(app), Arc::clone(leadership));
    running.spawn(async move {
        driver::run(duty, &app, &leadership).await;
        name
    });
}

fn all(app: &Shared) -> Vec<Box<dyn Duty>> {
    let config = &app.config;
    vec![
        Box::new(outbox::Outbox),
        Box::new(timers::Timers),
        Box::new(leases::Leases::new()),
        Box::new(unsupported::Unsupported { grace: config.limits.unsupported }),
        Box::new(usage::Usage),
        Box::new(lanes::Lanes),
        Box::new(retention::Retention::new(config.keep)),
        Box::new(archive::Archive::default()),
        Box::new(old_logs::OldLogs::default()),
        Box::new(packing::Packing::default()),
        Box::new(content::Content),
        Box::new(manifests::Manifests::default()),
        Box::new(garbage::Garbage::default()),
        Box::new(runners::Runners { after: config.forget_runners }),
    ]
}
