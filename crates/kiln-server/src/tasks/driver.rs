//! Has a duty done again and again: when its time has come, when something calls for it, and again when
//! it failed.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use kiln_store::{Leadership, Signal, StoreError};
use tokio::time::{Instant, sleep};

use crate::app::{App, Shared};
use crate::bus::Listener;

/// How often a server that does not lead asks whether it does now.
const ASK: Duration = Duration::from_millis(500);
/// The first and the longest wait after a pass that failed.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// Between two passes when there is more to do at once, so that others get their turn.
const BREATH: Duration = Duration::from_millis(5);

/// What a pass says that found nothing to do.
pub(super) const NOTHING: &str = "nothing to do";

/// When a duty is done, and by whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) name: &'static str,
    /// Between two passes, when nothing calls for one earlier.
    pub(super) every: Duration,
    /// The hint that calls for a pass.
    pub(super) wakes: Option<Signal>,
    /// Whether all servers do it, not only the one that leads.
    pub(super) everywhere: bool,
}

/// What a pass did.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// In words.
    pub(super) report: String,
    /// There is more to do at once.
    pub(super) more: bool,
}

impl Done {
    pub(super) fn said(report: impl Into<String>) -> Self {
        Self { report: report.into(), more: false }
    }

    /// A number of things, or that there was nothing.
    pub(super) fn count(count: usize, one: &str, many: &str) -> Self {
        match count {
            0 => Self::said(NOTHING),
            1 => Self::said(format!("1 {one}")),
            count => Self::said(format!("{count} {many}")),
        }
    }

    pub(super) fn and_more(mut self, more: bool) -> Self {
        self.more = more;
        self
    }
}

/// Why a pass failed.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) text: String,
    /// The database could not be used at all.
    pub(super) outage: bool,
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self { outage: error.concerns_all(), text: error.to_string() }
    }
}

impl From<crate::logs::LogError> for Fault {
    fn from(error: crate::logs::LogError) -> Self {
        Self { text: error.to_string(), outage: false }
    }
}

pub(super) type Pass<'a> = Pin<Box<dyn Future<Output = Result<Done, Fault>> + Send + 'a>>;

/// Something that the server does by itself.
pub(super) trait Duty: Send {
    fn plan(&self) -> Plan;

    /// One pass. It may be repeated, and may be cut off anywhere.
    fn pass<'a>(&'a mut self, app: &'a App) -> Pass<'a>;
}

/// Does the duty until the server is to stop; never stops in the middle of a pass.
pub(super) async fn run(mut duty: Box<dyn Duty>, app: &Shared, leadership: &Leadership) {
    let plan = duty.plan();
    let mut ear = app.bus.listen();
    let mut failures = 0;
    loop {
        let may = plan.everywhere || leadership.is_leader();
        app.board.stands(plan.name, may);
        let mut pause = ASK;
        if may {
            // One pass answers all hints there are by now.
            while ear.next().now_or_never().is_some() {}
            match once(&mut *duty, app, plan.name).await {
                Ok(done) => {
                    failures = 0;
                    pause = if done.more { BREATH } else { plan.every };
                }
                Err(()) => {
                    failures += 1;
                    pause = wait_after(failures);
                }
            }
        }
        tokio::select! {
            biased;
            () = app.stopping.cancelled() => return,
            () = sleep(pause) => {}
            () = called(&mut ear, plan), if may && failures == 0 => {}
        }
    }
}

async fn called(ear: &mut Listener, plan: Plan) {
    match plan.wakes {
        Some(wanted) => ear.until(|signal| signal == wanted).await,
        None => std::future::pending().await,
    }
}

/// A pass, with its note on the board. A panic is an error like any other.
async fn once(duty: &mut dyn Duty, app: &App, name: &'static str) -> Result<Done, ()> {
    let begun = Instant::now();
    let pass = AssertUnwindSafe(duty.pass(app)).catch_unwind().await;
    let took = begun.elapsed();
    let fault = match pass {
        Ok(Ok(done)) => {
            app.board.done(name, took, &done.report);
            return Ok(done);
        }
        Ok(Err(fault)) => fault,
        Err(panic) => Fault { text: format!("panicked: {}", words_of(&*panic)), outage: false },
    };
    tracing::warn!(duty = name, error = fault.text, "a duty failed and is tried again");
    app.board.failed(name, took, &fault);
    Err(())
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

/// 1, 2, 4, … seconds.
fn wait_after(failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_WAIT.saturating_mul(factor).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound() {
        let seconds = |failures| wait_after(failures).as_secs();
        assert_eq!([1, 2, 3, 7, 100].map(seconds), [1, 2, 4, 60, 60]);
    }

    #[test]
    fn a_report_counts() {
        let report = |count| Done::count(count, "task", "tasks").report;
        assert_eq!([0, 1, 2].map(report), ["nothing to do", "1 task", "2 tasks"]);
    }
}
