//! Waiting for more of a log.

use std::io;
use std::time::Duration;

use kiln_core::id::JobId;
use kiln_store::{Signal, StoreError, Tx, claims, runs};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::app::{App, Shared};
use crate::bus::Listener;
use crate::logs::LogId;
use crate::logs::tails::TELL;
use crate::service::runs::FIND;

/// An eye on the log of one claim.
pub(super) struct Watch {
    app: Shared,
    log: LogId,
    changes: watch::Receiver<u64>,
    ear: Listener,
    /// When other servers were last told.
    told: Option<Instant>,
}

/// Why waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Woken {
    /// There is probably more.
    Grew,
    /// The job may have come further, at this time or later.
    Look(Instant),
    /// The server stops.
    Stopping,
}

impl Watch {
    pub(super) fn new(app: &Shared, log: LogId) -> Self {
        let (changes, ear) = (app.logs.follow(log), app.bus.listen());
        Self { app: Shared::clone(app), log, changes, ear, told: None }
    }

    /// What comes from now on will be noticed. Says how long the log was at the last write on this server.
    pub(super) fn begin_to_read(&mut self) -> u64 {
        *self.changes.borrow_and_update()
    }

    /// Until there may be more.
    pub(super) async fn wait(&mut self, life: Life) -> Woken {
        if self.told.is_none_or(|told| told.elapsed() >= TELL) {
            self.app.tails.watch(self.log.job);
            self.told = Some(Instant::now());
        }
        let (began, patience) = (Instant::now(), life.patience());
        tokio::select! {
            () = self.app.stopping.cancelled() => Woken::Stopping,
            changed = self.changes.changed() => {
                if changed.is_err() {
                    tokio::time::sleep(patience).await;
                }
                Woken::Grew
            }
            woken = heard(&mut self.ear, self.log.job) => woken,
            () = tokio::time::sleep(patience) => Woken::Look(began),
        }
    }

    /// Once nothing more can come: what another server wrote at the very end is known here, too.
    pub(super) async fn settle(&self) -> io::Result<()> {
        self.app.logs.length(self.log).await.map(drop).map_err(io::Error::other)
    }

    pub(super) async fn life(&self) -> Result<Life, StoreError> {
        life_of(&self.app, self.log).await
    }
}

/// The next hint that concerns a job.
async fn heard(ear: &mut Listener, job: JobId) -> Woken {
    loop {
        match ear.next().await {
            Signal::Log(own) if own == job => return Woken::Grew,
            Signal::Run(run) if run == job.run() => return Woken::Look(Instant::now()),
            Signal::Everything => return Woken::Look(Instant::now()),
            _ => {}
        }
    }
}

/// How far the claim is whose log it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// No runner has it yet.
    Before,
    Under,
    /// Nothing more can come.
    Over,
}

impl Life {
    /// Hints of other servers can get lost.
    fn patience(self) -> Duration {
        match self {
            Self::Under => Duration::from_secs(1),
            Self::Before | Self::Over => Duration::from_secs(5),
        }
    }
}

pub(crate) async fn life_of(app: &App, log: LogId) -> Result<Life, StoreError> {
    let LogId { job, claim } = log;
    app.store.read(async move |tx: &mut Tx<'_>| life(tx, job, claim).await).await
}

/// How far a claim is.
pub(super) async fn life(tx: &mut Tx<'_>, job: JobId, claim: u32) -> Result<Life, StoreError> {
    if claims::lease(tx, job, claim).await?.is_some() {
        return Ok(Life::Under);
    }
    let view = runs::view(tx, FIND, job.run(), None).await?;
    let Some(found) = view.jobs.into_iter().find(|own| own.id == job) else {
        return Ok(Life::Over);
    };
    let before = found.claim < claim && !found.state.is_done();
    Ok(if before { Life::Before } else { Life::Over })
}
