//! The loop of the agent: hears what happens, lets the dispatcher decide, and does it.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kiln_fault::Point;
use kiln_proto::job::{Job, JobRef};
use kiln_proto::version::TELLS_ALL_AT_ONCE;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::process::{Control, Tree, end_orphans, let_go_of_start};

use super::delivery::{Delivered, Delivery};
use super::dispatcher::{Dispatcher, Mood, Order, Stop};
use super::ends::Ends;
use super::execute::Work;
use super::limit::{FAREWELL, Limit};
use super::reporter::Progress;
use super::session::Session;
use super::spool::{self, Spool};
use super::talk::Talk;
use super::{Agent, AgentError, Ended, Message, clock, room};

/// How often the machine is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// A job that was longer than this may have changed the machine, and the next one should know.
const LONG: Duration = Duration::from_secs(1);

/// A job at hand.
struct AtHand {
    token: String,
    spool: Spool,
    /// Nothing when its processes belonged to an earlier process of the runner.
    control: Option<Control>,
    unwanted: Arc<AtomicBool>,
    delivery: AbortHandle,
    /// Nothing more is said about it.
    is_abandoned: bool,
}

pub(super) struct Lead<'a> {
    agent: &'a Agent,
    dispatcher: Dispatcher,
    at_hand: HashMap<JobRef, AtHand>,
    ends: Ends,
    sender: mpsc::UnboundedSender<Message>,
    receiver: mpsc::UnboundedReceiver<Message>,
    mood: watch::Sender<Mood>,
    /// When the machine was looked at last.
    looked: std::time::Instant,
    /// Threads of jobs. They end after their job, when its files are gone.
    threads: JoinSet<()>,
    /// What is told to the server, and both conversations.
    talks: JoinSet<()>,
}

impl<'a> Lead<'a> {
    pub(super) fn new(agent: &'a Agent) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let session = Arc::clone(&agent.session);
        let (ends, telling) = Ends::new(move |together| {
            let session = Arc::clone(&session);
            async move { session.complete_all(&together).await }
        });
        let mut talks = JoinSet::new();
        talks.spawn(telling);
        Self {
            agent,
            dispatcher: Dispatcher::new(agent.settings.slots, agent.settings.once),
            at_hand: HashMap::new(),
            ends,
            sender,
            receiver,
            mood: watch::Sender::default(),
            looked: clock::instant(),
            threads: JoinSet::new(),
            talks,
        }
    }

    pub(super) async fn run(
        mut self,
        mut stop: watch::Receiver<Stop>,
    ) -> Result<Ended, AgentError> {
        let session = Arc::clone(&self.agent.session);
        let left = spool::left(&self.agent.shop.data);
        tokio::select! {
            registered = session.register(left.iter().map(|left| left.state.job).collect()) => registered?,
            () = told_to_stop(&session, &mut stop) => return Ok(Ended::default()),
        }
        // Who told it to stop while it registered is heard now.
        if *stop.borrow() > Stop::No {
            stop.mark_changed();
        }
        let_go_of_start();
        self.recover(left);
        self.start_talks();
        let ended = self.until_over(&mut stop).await;
        if ended.is_err() {
            for job in self.at_hand.values() {
                job.control.iter().for_each(Control::kill);
            }
        }
        self.farewell().await;
        ended?;
        let mut ended = Ended { given_back: self.dispatcher.given_back(), unregistered: false };
        if self.agent.settings.unregister {
            let left = tokio::time::timeout(FAREWELL, session.unregister()).await;
            match left {
                Ok(Ok(returned)) => {
                    ended.given_back += returned;
                    ended.unregistered = true;
                }
                Ok(Err(why)) => tracing::warn!(why, "cannot unregister"),
                Err(_) => tracing::warn!("cannot unregister: the server does not answer"),
            }
        }
        Ok(ended)
    }

    fn start_talks(&mut self) {
        let talk = Talk {
            session: Arc::clone(&self.agent.session),
            mood: self.mood.subscribe(),
            messages: self.sender.clone(),
        };
        self.look();
        let (mirrors, gauge) = (self.agent.shop.mirrors.clone(), self.agent.gauge.clone());
        self.talks.spawn(talk.clone().claims(mirrors, gauge.clone()));
        self.talks.spawn(talk.heartbeats(gauge));
    }

    /// Delivers what an earlier process of this runner left, after its processes and files.
    fn recover(&mut self, left: Vec<spool::Left>) {
        for left in &left {
            if let Ok(tree) = Tree::of_token(&left.state.tree) {
                let swept = tree.sweep();
                if swept.killed > 0 {
                    tracing::warn!("ended {} processes of an earlier job", swept.killed);
                }
            }
        }
        room::tidy(&self.agent.shop.work);
        for spool::Left { spool, state, complete } in left {
            let (job, token) = (state.job, state.token);
            tracing::info!(job = job.job_id, name = state.name, "delivering what was left");
            let (log, events) = (complete.log_bytes, complete.sequence);
            let progress = Progress { log, events, complete: Some(Arc::new(complete)) };
            // Nothing more will come, but the receiver wants to know that somebody could speak.
            let (_, progress) = watch::channel(progress);
            self.dispatcher.recovered(job);
            self.deliver(job, token, spool, progress, None, Arc::default());
        }
    }

    fn deliver(
        &mut self,
        job: JobRef,
        token: String,
        spool: Spool,
        progress: watch::Receiver<Progress>,
        control: Option<Control>,
        unwanted: Arc<AtomicBool>,
    ) {
        let http = self.agent.session.http.clone();
        let (sender, messages) = (self.sender.clone(), self.sender.clone());
        let (told, kept) = (token.clone(), spool.clone());
        let tells_all_at_once = self.agent.session.server_protocol() >= TELLS_ALL_AT_ONCE;
        let delivery = Delivery {
            http,
            job,
            token: told,
            spool: kept,
            progress,
            tells_all_at_once,
            ends: self.ends.clone(),
            log_sent: AtomicU64::new(0),
            messages,
        };
        let delivery = self.talks.spawn(async move {
            let delivered = delivery.run().await;
            let _ = sender.send(Message::Delivered(job, delivered));
        });
        let is_abandoned = false;
        let at_hand = AtHand { token, spool, control, unwanted, delivery, is_abandoned };
        self.at_hand.insert(job, at_hand);
    }

    async fn until_over(&mut self, stop: &mut watch::Receiver<Stop>) -> Result<(), AgentError> {
        let mut look = tokio::time::interval(LOOK);
        let mut listens = true;
        let mut limit = Limit::default();
        loop {
            self.tell();
            if self.dispatcher.is_over() {
                return Ok(());
            }
            limit.set(&self.dispatcher, self.agent.settings.grace);
            tokio::select! {
                message = self.receiver.recv() => {
                    if let Some(message) = message {
                        self.message(message)?;
                    }
                }
                changed = stop.changed(), if listens => {
                    // Without anybody who could say more, it drains.
                    listens = changed.is_ok();
                    let wanted = if listens { *stop.borrow_and_update() } else { Stop::Drain };
                    let orders = self.dispatcher.stop(wanted);
                    self.obey_all(orders);
                }
                () = limit.over() => {
                    if self.dispatcher.stopping() > Stop::Drain {
                        let jobs = self.dispatcher.untold();
                        tracing::warn!(jobs, "not all is delivered; the next start goes on with it");
                        return Ok(());
                    }
                    tracing::warn!("the time to finish is over, cancelling what still runs");
                    let orders = self.dispatcher.stop(Stop::HandBack);
                    self.obey_all(orders);
                }
                _ = look.tick() => self.look(),
            }
        }
    }

    /// Lets both conversations know how things are.
    fn tell(&self) {
        let now = self.dispatcher.mood();
        self.mood.send_if_modified(|mood| {
            let is_other = *mood != now;
            *mood = now;
            is_other
        });
    }

    fn look(&mut self) {
        self.looked = clock::instant();
        let trouble = self.agent.gauge.look().trouble;
        if trouble != self.dispatcher.mood().trouble {
            match &trouble {
                Some(trouble) => tracing::warn!("taking no jobs: {trouble}"),
                None => tracing::info!("taking jobs again"),
            }
            self.dispatcher.trouble(trouble);
        }
        while self.threads.try_join_next().is_some() {}
        while self.talks.try_join_next().is_some() {}
    }

    fn message(&mut self, message: Message) -> Result<(), AgentError> {
        match message {
            Message::Claimed(job, taken) => {
                self.claimed(job);
                self.tell();
                let _ = taken.send(());
            }
            Message::Command(command) => {
                tracing::info!(?command, "told by the server");
                let orders = self.dispatcher.command(&command);
                self.obey_all(orders);
            }
            Message::Started(job) => self.dispatcher.started(job),
            Message::Finished(job) => self.finished(job),
            Message::NotBegun(job, reason) => self.not_begun(job, &reason),
            Message::Delivered(job, delivered) => self.delivered(job, delivered),
            Message::GivenBack(job) => self.dispatcher.ended(job, true),
            Message::Fatal(error) => return Err(error),
        }
        Ok(())
    }

    fn claimed(&mut self, job: Box<Job>) {
        match self.dispatcher.claimed(job.reference()) {
            Order::Run { slot, .. } => self.begin(job, slot),
            _ => self.give_back(job.reference(), job.token.clone(), "the runner is stopping"),
        }
    }

    fn begin(&mut self, job: Box<Job>, slot: usize) {
        let reference = job.reference();
        tracing::info!(job = job.job_id, name = job.job_name, repo = job.repo, "claimed");
        let (Ok(control), Some(identity)) = (Control::new(), self.agent.session.identity()) else {
            self.dispatcher.finished(reference);
            let why = "the runner has too many files open";
            return self.give_back(reference, job.token.clone(), why);
        };
        let (sender, progress) = watch::channel(Progress::default());
        let unwanted = Arc::new(AtomicBool::new(false));
        let spool = Spool::of(&self.agent.shop.data, reference);
        let token = job.token.clone();
        let work = Work {
            shop: Arc::clone(&self.agent.shop),
            identity,
            http: self.agent.session.http.clone(),
            runtime: Handle::current(),
            url: self.agent.session.http.address(&job.source.clone_url),
            job,
            slot,
            control: control.clone(),
            unwanted: Arc::clone(&unwanted),
            progress: sender,
        };
        let messages = self.sender.clone();
        self.threads.spawn_blocking(move || {
            let started = || drop(messages.send(Message::Started(reference)));
            let finished = || drop(messages.send(Message::Finished(reference)));
            let ran = catch_unwind(AssertUnwindSafe(|| work.run(started, finished)));
            let fault = |_| Err("Kiln itself failed before the job began".to_owned());
            if let Err(reason) = ran.unwrap_or_else(fault) {
                let _ = messages.send(Message::NotBegun(reference, reason));
            }
        });
        self.deliver(reference, token, spool, progress, Some(control), unwanted);
    }

    fn finished(&mut self, job: JobRef) {
        if clock::instant() - self.looked > LONG {
            self.look();
        }
        self.dispatcher.finished(job);
        if self.agent.settings.alone && self.dispatcher.is_idle() {
            // What dropped its mark is a job's all the same: there is nobody else. No job begins
            // meanwhile, and with nobody there it costs nothing.
            end_orphans();
        }
        if self.at_hand.get(&job).is_some_and(|at_hand| at_hand.is_abandoned) {
            self.ended(job);
        }
    }

    fn not_begun(&mut self, job: JobRef, reason: &str) {
        // Whatever stood in its way may stand in the way of the next.
        self.look();
        self.dispatcher.finished(job);
        let Some(at_hand) = self.at_hand.remove(&job) else { return };
        at_hand.delivery.abort();
        at_hand.spool.remove();
        if at_hand.is_abandoned {
            return self.dispatcher.ended(job, false);
        }
        self.give_back(job, at_hand.token, reason);
    }

    fn give_back(&mut self, job: JobRef, token: String, reason: &str) {
        tracing::info!(job = job.job_id, reason, "giving back");
        let session = Arc::clone(&self.agent.session);
        let (sender, reason) = (self.sender.clone(), reason.to_owned());
        self.talks.spawn(async move {
            session.give_back(job, &token, &reason).await;
            let _ = sender.send(Message::GivenBack(job));
        });
    }

    fn delivered(&mut self, job: JobRef, delivered: Delivered) {
        match delivered {
            Delivered::Accepted => {
                Point::RunnerCompleted.pass();
                self.ended(job);
            }
            Delivered::Refused(why) => {
                tracing::warn!(job = job.job_id, why, "the server does not want it any more");
                self.obey(Order::Abandon(job));
            }
        }
    }

    fn ended(&mut self, job: JobRef) {
        if let Some(at_hand) = self.at_hand.remove(&job) {
            at_hand.delivery.abort();
            at_hand.spool.remove();
        }
        self.dispatcher.ended(job, false);
    }

    fn obey_all(&mut self, orders: Vec<Order>) {
        for order in orders {
            self.obey(order);
        }
    }

    fn obey(&mut self, order: Order) {
        let (Order::Run { job, .. }
        | Order::GiveBack(job)
        | Order::HandBack(job)
        | Order::Cancel(job)
        | Order::Kill(job)
        | Order::Abandon(job)) = order;
        let Some(at_hand) = self.at_hand.get_mut(&job) else { return };
        match order {
            Order::HandBack(_) => at_hand.unwanted.store(true, Ordering::SeqCst),
            Order::Abandon(_) => {
                at_hand.is_abandoned = true;
                at_hand.delivery.abort();
            }
            _ => {}
        }
        match (&at_hand.control, order) {
            (Some(control), Order::Cancel(_) | Order::HandBack(_)) => control.cancel(),
            (Some(control), Order::Kill(_) | Order::Abandon(_)) => {
                control.cancel();
                control.kill();
            }
            _ => {}
        }
        let is_over = self.dispatcher.is_delivering(job);
        if matches!(order, Order::Abandon(_)) && is_over {
            self.ended(job);
        }
    }

    /// Waits for what is still under way, but not for ever.
    async fn farewell(&mut self) {
        self.talks.abort_all();
        let threads = async { while self.threads.join_next().await.is_some() {} };
        if tokio::time::timeout(FAREWELL, threads).await.is_err() {
            tracing::warn!("files of jobs are still being removed; the next start goes on with it");
        }
    }
}

/// Waits until the runner is told to stop, and for the answer if it just asks to be let in: without the credential in that answer
/// nobody could ever come back as the runner that the server has by then.
async fn told_to_stop(session: &Session, stop: &mut watch::Receiver<Stop>) {
    let _ = stop.wait_for(|stop| *stop > Stop::No).await;
    let _ = tokio::time::timeout(FAREWELL, session.has_asked()).await;
}
