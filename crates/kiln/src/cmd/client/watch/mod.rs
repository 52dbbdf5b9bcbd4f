//! `kiln watch`: a run until its end, over breaks of the connection and restarts of the server.

mod change;
mod failure;
mod picture;
mod view;

use std::future::pending;
use std::time::Duration;

use anyhow::{Result, anyhow};
use kiln_core::id::RunId;
use kiln_proto::api::{Cancel, RunDetail};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::interrupt::Interrupts;
use super::named_or_latest;
use super::words::outcome;
use crate::Outcome;
use crate::cli::WatchArgs;
use crate::client::Client;
use crate::client::error::{ClientError, Kind};
use crate::client::events::{Heard, listen};
use crate::output::time::now;
use crate::output::{Console, Manner, one_line};
use view::View;

/// How long after something happened it is looked at: what happens together is looked at once.
const TOGETHER: Duration = Duration::from_millis(100);
/// How often it is looked at when nothing is heard: reasons change without an event.
const QUIET_LOOK: Duration = Duration::from_secs(5);
/// How often it is looked at when the server is away.
const AWAY_LOOK: Duration = Duration::from_secs(1);
/// How long the server may be away.
const PATIENCE: Duration = Duration::from_mins(10);
/// How often the live view may change.
const FRAME: Duration = Duration::from_millis(85);

/// How to watch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watching {
    pub(super) manner: Manner,
    pub(super) cancel_on_interrupt: bool,
    /// Show this attempt instead of the latest.
    pub(super) attempt: Option<u32>,
    /// An earlier attempt than this one is not what is waited for.
    pub(super) least_attempt: u32,
}

impl Default for Watching {
    fn default() -> Self {
        Self { manner: Manner::Plain, cancel_on_interrupt: false, attempt: None, least_attempt: 0 }
    }
}

pub(super) async fn run(args: &WatchArgs, console: &mut Console) -> Result<Outcome> {
    let manner = Manner::choose(args.server.json, args.progress)?;
    let (client, target) = named_or_latest(args.run.as_deref(), &args.server).await?;
    let watching = Watching {
        manner,
        cancel_on_interrupt: args.cancel_on_interrupt,
        attempt: target.attempt,
        least_attempt: 0,
    };
    until_the_end(&client, target.what.run(), &watching, console).await
}

/// How a run stands at this moment, as at its end.
pub(super) fn standing_now(detail: &RunDetail) -> String {
    let run = &detail.run;
    format!(
        "{} · {}\n{}\n{}",
        one_line(&run.name),
        one_line(&run.title),
        one_line(&run.url),
        view::ending(detail, now())
    )
}

/// Watches a run until it ends, and gives the exit code for how it did.
pub(super) async fn until_the_end(
    client: &Client,
    run: RunId,
    watching: &Watching,
    console: &mut Console,
) -> Result<Outcome> {
    // The first look says at once if there is no such run.
    let first = client.run(&run.to_string(), watching.attempt).await?;
    let mut interrupts = Interrupts::listen()?;
    let mut watch = Watch::new(client, run, watching);
    let ended = watch.watch(first, &mut interrupts, console).await;
    match ended {
        Ok(Some(detail)) => {
            watch.view.end(console)?;
            if watching.manner != Manner::Json {
                failure::show(client, &detail, console).await?;
            }
            Ok(outcome(detail.run.conclusion.as_deref()))
        }
        Ok(None) => {
            watch.view.clear(console);
            let slug = run.slug();
            console.note_line(&format!(
                "{slug} goes on: `kiln watch {slug}` shows it again, `kiln cancel {slug}` cancels it"
            ));
            Ok(Outcome::Cancelled)
        }
        Err(error) => {
            watch.view.clear(console);
            Err(error)
        }
    }
}

/// One watch, from the first look to the last.
struct Watch<'c> {
    client: &'c Client,
    run: RunId,
    watching: &'c Watching,
    view: View,
    /// A look that is under way.
    looking: Option<JoinHandle<Result<RunDetail>>>,
    /// When to look next.
    due: Instant,
    /// Since when the server is away.
    away: Option<Instant>,
    cancelled: bool,
}

impl<'c> Watch<'c> {
    fn new(client: &'c Client, run: RunId, watching: &'c Watching) -> Self {
        Self {
            client,
            run,
            watching,
            view: View::new(watching.manner),
            looking: None,
            due: Instant::now() + QUIET_LOOK,
            away: None,
            cancelled: false,
        }
    }

    /// The run at its end; nothing when somebody stopped watching.
    async fn watch(
        &mut self,
        first: RunDetail,
        interrupts: &mut Interrupts,
        console: &mut Console,
    ) -> Result<Option<RunDetail>> {
        if let Some(detail) = self.seen(first, console)? {
            return Ok(Some(detail));
        }
        let mut heard = listen(self.client.clone(), self.run);
        let mut frames = tokio::time::interval(FRAME);
        loop {
            tokio::select! {
                _ = frames.tick() => self.view.paint(now(), console),
                Some(heard) = heard.recv() => self.hear(&heard, console),
                () = sleep_until(self.due), if self.looking.is_none() => self.look(),
                seen = joined(self.looking.as_mut()) => {
                    self.looking = None;
                    if let Some(detail) = self.looked(seen, console)? {
                        return Ok(Some(detail));
                    }
                }
                () = interrupts.next() => {
                    if !self.watching.cancel_on_interrupt || self.cancelled {
                        return Ok(None);
                    }
                    self.cancel(console).await?;
                }
            }
            if console.is_closed() {
                return Ok(None);
            }
        }
    }

    fn hear(&mut self, heard: &Heard, console: &mut Console) {
        match heard {
            Heard::News => self.due = self.due.min(Instant::now() + TOGETHER),
            // Whether it is really away, the next look says.
            Heard::Lost(error) if error.kind == Kind::Away => {
                self.view.away(error, console);
                self.due = self.due.min(Instant::now() + AWAY_LOOK);
            }
            Heard::Lost(_) => {}
        }
    }

    fn look(&mut self) {
        let (client, run, attempt) =
            (self.client.clone(), self.run.to_string(), self.watching.attempt);
        self.looking = Some(tokio::spawn(async move { client.run(&run, attempt).await }));
    }

    /// What a look brought. A server that is away is asked again for some time.
    fn looked(
        &mut self,
        seen: Result<RunDetail>,
        console: &mut Console,
    ) -> Result<Option<RunDetail>> {
        let error = match seen {
            Ok(detail) => return self.seen(detail, console),
            Err(error) => error.downcast::<ClientError>()?,
        };
        let since = *self.away.get_or_insert_with(Instant::now);
        if !matches!(error.kind, Kind::Away | Kind::Busy) || since.elapsed() > PATIENCE {
            return Err(error.into());
        }
        self.view.away(&error, console);
        self.due = Instant::now() + AWAY_LOOK;
        Ok(None)
    }

    /// Shows the run as it is, and gives it back if it is over.
    fn seen(&mut self, detail: RunDetail, console: &mut Console) -> Result<Option<RunDetail>> {
        self.away = None;
        self.due = Instant::now() + QUIET_LOOK;
        if detail.run.attempt < self.watching.least_attempt {
            self.due = Instant::now() + TOGETHER;
            return Ok(None);
        }
        let over = detail.run.status == "completed";
        self.view.look(detail.clone(), console)?;
        Ok(over.then_some(detail))
    }

    async fn cancel(&mut self, console: &mut Console) -> Result<()> {
        self.cancelled = true;
        let id = self.run.to_string();
        let reason = Some("interrupted while it was watched".to_owned());
        let call = self.client.post(&["runs", &id, "cancel"]).body(&Cancel { reason });
        match call.done().await {
            Ok(()) => {
                self.view.say("cancelling… press Ctrl-C again to stop watching", console);
                self.due = Instant::now();
                Ok(())
            }
            Err(error) => Err(anyhow!("{} could not be cancelled: {error:#}", self.run.slug())),
        }
    }
}

/// The end of a look, if one is under way.
async fn joined(looking: Option<&mut JoinHandle<Result<RunDetail>>>) -> Result<RunDetail> {
    match looking {
        Some(looking) => looking.await?,
        None => pending().await,
    }
}
