//! Hints that something changed: where to look, never what is true.
//!
//! A transaction collects them with [`Tx::signal`](crate::Tx::signal); they go out after its commit, to
//! this process at once and on PostgreSQL to the other servers a moment later. A hint can get lost with
//! a connection, so whoever waits for one looks again after a while anyway.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kiln_core::id::{JobId, QueueId, RunId, RunnerId};
use tokio::sync::Notify;

/// What there is to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Hints may have got lost: look at everything.
    Everything,
    /// Jobs can be claimed from this queue.
    Work(QueueId),
    /// Something happened in this run.
    Run(RunId),
    /// A command waits for this runner.
    Runner(RunnerId),
    /// A message was put into the outbox.
    Outbox,
    /// A timer was set.
    Timer,
    /// The log of this job has grown, where somebody watches it.
    Log(JobId),
    /// Somebody watches the log of this job on another server.
    Watch(JobId),
}

/// How many different hints are worth keeping apart.
const DISTINCT: usize = 1_000;
/// What fits into a notification of PostgreSQL, which has room for 7,999 bytes.
const PAYLOAD: usize = 7_900;

/// Hints, each once. Too many of them become [`Signal::Everything`], so a set never grows for long.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Signals(BTreeSet<Signal>);

impl Signals {
    pub(crate) fn everything() -> Self {
        Self([Signal::Everything].into())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, signal: Signal) {
        if self.0.first() == Some(&Signal::Everything) {
            return;
        }
        self.0.insert(signal);
        if signal == Signal::Everything || self.0.len() > DISTINCT {
            *self = Self::everything();
        }
    }

    pub(crate) fn merge(&mut self, others: &Self) {
        for signal in &others.0 {
            self.add(*signal);
        }
    }

    /// The text of a notification.
    pub(crate) fn payload(&self) -> String {
        let mut text = String::new();
        for signal in &self.0 {
            let _ = write!(text, "{signal} ");
            if text.len() > PAYLOAD {
                return Signal::Everything.to_string();
            }
        }
        text
    }

    /// What another server meant. A newer one may know words that we do not.
    pub(crate) fn of_payload(text: &str) -> Self {
        let mut signals = Self::default();
        for word in text.split_ascii_whitespace() {
            signals.add(word.parse().unwrap_or(Signal::Everything));
        }
        signals
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("*"),
            Self::Work(queue) => write!(f, "q{queue}"),
            Self::Run(run) => write!(f, "r{run}"),
            Self::Runner(runner) => write!(f, "n{runner}"),
            Self::Outbox => f.write_str("outbox"),
            Self::Timer => f.write_str("timer"),
            Self::Log(job) => write!(f, "l{job}"),
            Self::Watch(job) => write!(f, "w{job}"),
        }
    }
}

impl FromStr for Signal {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let id = |rest: &str| rest.parse::<i64>().map_err(|_| ());
        match text {
            "*" => Ok(Self::Everything),
            "outbox" => Ok(Self::Outbox),
            "timer" => Ok(Self::Timer),
            _ => match text.split_at_checked(1).ok_or(())? {
                ("q", rest) => Ok(Self::Work(QueueId(id(rest)?))),
                ("r", rest) => Ok(Self::Run(RunId(id(rest)?))),
                ("n", rest) => Ok(Self::Runner(RunnerId(id(rest)?))),
                ("l", rest) => Ok(Self::Log(JobId(id(rest)?))),
                ("w", rest) => Ok(Self::Watch(JobId(id(rest)?))),
                _ => Err(()),
            },
        }
    }
}

/// Where hints wait for one who listens. Whoever puts one in never waits.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Signals>,
    more: Notify,
}

impl Inbox {
    pub(crate) fn put(&self, signals: &Signals) {
        locked(&self.waiting).merge(signals);
        self.more.notify_one();
    }

    /// All that waits, as soon as anything does. Nothing is lost when this is given up.
    pub(crate) async fn take(&self) -> Signals {
        loop {
            let waiting = std::mem::take(&mut *locked(&self.waiting));
            if !waiting.is_empty() {
                return waiting;
            }
            self.more.notified().await;
        }
    }
}

/// Where a hint comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Here,
    AnotherServer,
}

/// All inboxes of this process.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    listeners: Mutex<Vec<Weak<Inbox>>>,
    /// What is to be told to other servers, if there can be any.
    outgoing: Option<Arc<Inbox>>,
}

impl Hub {
    pub(crate) fn with_others() -> Self {
        Self { outgoing: Some(Arc::default()), ..Self::default() }
    }

    pub(crate) fn outgoing(&self) -> Option<Arc<Inbox>> {
        self.outgoing.clone()
    }

    pub(crate) fn publish(&self, signals: &Signals, origin: Origin) {
        if signals.is_empty() {
            return;
        }
        let listeners: Vec<_> = locked(&self.listeners).iter().filter_map(Weak::upgrade).collect();
        for inbox in listeners {
            inbox.put(signals);
        }
        if let (Origin::Here, Some(outgoing)) = (origin, &self.outgoing) {
            outgoing.put(signals);
        }
    }

    /// Tells other servers alone, if there can be any.
    pub(crate) fn tell_others(&self, signal: Signal) {
        if let Some(outgoing) = &self.outgoing {
            let mut signals = Signals::default();
            signals.add(signal);
            outgoing.put(&signals);
        }
    }

    /// Whoever begins to listen knows nothing yet, and has to look at everything first.
    pub(crate) fn subscribe(&self) -> Subscription {
        let inbox = Arc::new(Inbox::default());
        inbox.put(&Signals::everything());
        let mut listeners = locked(&self.listeners);
        listeners.retain(|listener| listener.strong_count() > 0);
        listeners.push(Arc::downgrade(&inbox));
        Subscription(inbox)
    }
}

/// An ear for hints. One that is slow hears less detail, and holds nobody up.
#[derive(Debug)]
pub struct Subscription(Arc<Inbox>);

impl Subscription {
    /// What changed since the last time, each once; after this much patience [`Signal::Everything`],
    /// because hints can get lost. The first answer is `Everything`, too, and comes at once.
    pub async fn next(&mut self, patience: Duration) -> Vec<Signal> {
        match tokio::time::timeout(patience, self.0.take()).await {
            Ok(signals) => signals.0.into_iter().collect(),
            Err(_) => vec![Signal::Everything],
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(signals: impl IntoIterator<Item = Signal>) -> Signals {
        let mut set = Signals::default();
        signals.into_iter().for_each(|signal| set.add(signal));
        set
    }

    #[test]
    fn a_payload_leads_back_to_its_signals() {
        let all = set([
            Signal::Work(QueueId(7)),
            Signal::Run(RunId(i64::MAX)),
            Signal::Runner(RunnerId(0)),
            Signal::Outbox,
            Signal::Timer,
            Signal::Log(JobId(5)),
            Signal::Watch(JobId(6)),
        ]);
        assert_eq!(Signals::of_payload(&all.payload()), all);
        assert_eq!(Signals::of_payload("*"), Signals::everything());
        assert!(Signals::of_payload("").is_empty());
    }

    #[test]
    fn what_a_newer_server_says_may_mean_anything() {
        for text in ["future", "q", "qx", "q1 🦀", "-", "r99999999999999999999"] {
            assert_eq!(Signals::of_payload(text), Signals::everything(), "{text}");
        }
    }

    #[test]
    fn too_much_for_a_notification_is_everything() {
        let far = 1 << 52;
        let many = set((far..far + 999).map(|id| Signal::Run(RunId(id))));
        assert_eq!(many.payload(), "*");
        let few = set((far..far + 400).map(|id| Signal::Run(RunId(id))));
        assert!(few.payload().len() < 7_999);
        assert_eq!(Signals::of_payload(&few.payload()), few);
    }

    #[test]
    fn a_set_does_not_grow_without_bound() {
        let flood = set((0..1_000_000).map(|id| Signal::Run(RunId(id))));
        assert_eq!(flood, Signals::everything());
    }

    #[tokio::test]
    async fn a_slow_ear_hears_everything_and_holds_nobody_up() {
        let hub = Hub::default();
        let mut slow = hub.subscribe();
        slow.next(Duration::MAX).await;
        for id in 0..100_000 {
            hub.publish(&set([Signal::Run(RunId(id))]), Origin::Here);
        }
        assert_eq!(slow.next(Duration::MAX).await, [Signal::Everything]);
        hub.publish(&set([Signal::Timer]), Origin::Here);
        assert_eq!(slow.next(Duration::MAX).await, [Signal::Timer]);
    }

    #[tokio::test]
    async fn patience_ends_with_everything() {
        let hub = Hub::default();
        let mut ear = hub.subscribe();
        ear.next(Duration::MAX).await;
        assert_eq!(ear.next(Duration::from_millis(1)).await, [Signal::Everything]);
    }

    #[tokio::test]
    async fn what_came_from_another_server_is_not_sent_on() {
        let hub = Hub::with_others();
        let outgoing = hub.outgoing().unwrap();
        hub.publish(&set([Signal::Timer]), Origin::AnotherServer);
        hub.publish(&set([Signal::Outbox]), Origin::Here);
        assert_eq!(outgoing.take().await, set([Signal::Outbox]));
        let mut ear = hub.subscribe();
        ear.next(Duration::MAX).await;
        hub.tell_others(Signal::Log(JobId(1)));
        assert_eq!(outgoing.take().await, set([Signal::Log(JobId(1))]));
        assert_eq!(ear.next(Duration::from_millis(1)).await, [Signal::Everything]);
    }
}
