//! A server: it turns requests into transactions, keeps polls waiting, and does duties while it leads.
//!
//! It remembers nothing that matters: polls, ends that it heard, who leads. A restart costs time alone.

mod ends;
mod polls;

use std::collections::BTreeMap;

use kiln_core::id::JobId;
use kiln_core::run::Conclusion;

use super::database::SILENCE;
use super::kiln::{Done, Given, LEASE, News, Rules, Signal, Task, Work};
use super::message::{Actor, Answer, Ask, Message, Out, Timer};
use crate::random::Random;
use ends::{Share, Together};
use polls::Poll;

pub(super) use polls::LONGEST_POLL;

/// How long a transaction may take.
const PATIENCE: u64 = 8_000;
const ASK_TO_LEAD: u64 = 2_000;
const REAP: u64 = 5_000;
const RING: u64 = 3_000;
const OUTBOX: u64 = 10_000;
/// Hints may get lost, so who waits looks by itself now and then.
const LOOK: u64 = 10_000;
const GIVE_UP: u64 = 30_000;
/// What a busy server needs between two transactions of the reaper.
const BUSY: u64 = 2_500;

/// What to do when a transaction is answered.
#[derive(Debug)]
enum Then {
    Answer { to: Actor, request: u64, news: Option<News> },
    Ends(Share),
    Polls(Vec<u64>),
    GaveBack { poll: Box<Poll>, jobs: Vec<Given> },
    Reap,
    Tasks,
    Nothing,
}

#[derive(Debug)]
pub(super) struct Server {
    number: usize,
    pub(super) up: bool,
    pub(super) life: u32,
    rules: Rules,
    random: Random,
    /// An older one speaks protocol 2: it gives one job with an answer, and does not know of several ends.
    older: bool,
    count: u64,
    tickets: BTreeMap<u64, Then>,
    polls: BTreeMap<u64, Poll>,
    /// A question for its polls is under way.
    asking: bool,
    together: BTreeMap<u64, Together>,
    /// Ends that were heard lately.
    ends: BTreeMap<(JobId, u32), Conclusion>,
    tasks: Vec<Task>,
    /// Leases that were found to have run out.
    expired: Vec<JobId>,
    leads_until: u64,
    /// Since when runners could be heard.
    heard_since: u64,
}

impl Server {
    pub(super) fn new(number: usize, rules: Rules, mut random: Random) -> Self {
        Self {
            number,
            up: false,
            life: 0,
            rules,
            // It may have been replaced since it ran last.
            older: random.chance(1, 6),
            random,
            count: 0,
            tickets: BTreeMap::new(),
            polls: BTreeMap::new(),
            asking: false,
            together: BTreeMap::new(),
            ends: BTreeMap::new(),
            tasks: Vec::new(),
            expired: Vec::new(),
            leads_until: 0,
            heard_since: 0,
        }
    }

    pub(super) fn start(&mut self, out: &mut Out) {
        let (life, count) = (self.life, self.count);
        let random = self.random.fork();
        *self = Self { up: true, life, count, ..Self::new(self.number, self.rules, random) };
        self.heard_since = out.now;
        for (after, timer) in
            [(10, Timer::Lead), (REAP, Timer::Reap), (RING, Timer::Ring), (50, Timer::Outbox)]
        {
            out.after(after + 37 * self.number as u64, timer);
        }
        out.after(LOOK, Timer::Look);
        if self.rules.gives_up {
            out.after(GIVE_UP, Timer::GiveUp);
        }
    }

    pub(super) fn crash(&mut self) {
        self.up = false;
        self.life += 1;
    }

    pub(super) fn hear(&mut self, from: Actor, message: Message, out: &mut Out) {
        match message {
            Message::Request { id, ask } => self.request(from, id, ask, out),
            Message::Transacted { ticket, done } => self.transacted(ticket, done, out),
            Message::Notify(signals) => self.signals(&signals, out),
            Message::Led { asked } => self.leads_until = asked + SILENCE,
            _ => {}
        }
    }

    fn request(&mut self, from: Actor, id: u64, ask: Ask, out: &mut Out) {
        let mut news = None;
        let work = match ask {
            Ask::Trigger { key, asked } => Work::Create { key, asked },
            Ask::Cancel { run, forced } => Work::Cancel { run, forced },
            Ask::CancelLeg { run, leg } => Work::CancelLeg { run, leg },
            Ask::Pause { repo, on } => Work::Pause { repo, on },
            Ask::Drain { runner, on } => Work::Drain { runner, on },
            Ask::Again { run, what } => Work::Again { run, what },
            Ask::Claim(asking) => return self.poll(from, id, asking, out),
            Ask::Beat { runner, held } => Work::Beat { runner, held },
            Ask::Ends(_) if self.older => {
                return out.send(from, Message::Response { id, answer: Answer::Unavailable });
            }
            Ask::Ends(ends) => return self.hear_together((from, id), ends, out),
            Ask::News(said) => {
                if let Some(answer) = self.heard_before(&said) {
                    return out.send(from, Message::Response { id, answer });
                }
                news = Some(said.clone());
                Work::News(said)
            }
        };
        self.transact(vec![work], Then::Answer { to: from, request: id, news }, out);
    }

    fn transact(&mut self, works: Vec<Work>, then: Then, out: &mut Out) {
        self.count += 1;
        self.tickets.insert(self.count, then);
        out.send(Actor::Database, Message::Transact { ticket: self.count, works });
        out.after(PATIENCE, Timer::Overdue(self.count));
    }

    fn transacted(&mut self, ticket: u64, mut done: Vec<Done>, out: &mut Out) {
        let Some(then) = self.tickets.remove(&ticket) else { return };
        let then = match then {
            Then::GaveBack { poll, jobs } => return self.gave_back(*poll, jobs, out),
            Then::Ends(share) => return self.heard_some(share, done, out),
            then => then,
        };
        let Some(done) = done.pop() else { return };
        match (then, done) {
            (Then::Answer { to, request, news }, done) => {
                if let (Some(news), Done::Accepted) = (news, &done) {
                    self.remember_end(&news);
                }
                let answer = answer(done);
                out.send(to, Message::Response { id: request, answer });
            }
            (Then::Polls(polls), Done::Given(offers)) => self.answered(polls, offers, out),
            (Then::Reap, Done::Expired(jobs)) if !jobs.is_empty() => {
                self.expired = jobs;
                out.after(BUSY, Timer::ReapFound);
            }
            (Then::Tasks, Done::Tasks(tasks)) => {
                self.tasks.extend(tasks);
                self.next_task(out);
            }
            (Then::Tasks, _) => self.next_task(out),
            _ => {}
        }
    }

    /// Does the next task that it took, one after the other.
    fn next_task(&mut self, out: &mut Out) {
        if self.tasks.is_empty() {
            return;
        }
        let task = self.tasks.remove(0);
        self.transact(vec![Work::DoTask(task)], Then::Tasks, out);
    }

    fn signals(&mut self, signals: &[Signal], out: &mut Out) {
        for signal in signals {
            match signal {
                Signal::Work => self.wake(out),
                Signal::Outbox => self.transact(vec![Work::TakeTasks], Then::Tasks, out),
                Signal::Timer if self.is_leader(out.now) => {
                    self.transact(vec![Work::Ring], Then::Nothing, out);
                }
                Signal::Timer => {}
            }
        }
    }

    pub(super) fn remind(&mut self, timer: Timer, out: &mut Out) {
        match timer {
            Timer::Overdue(ticket) => self.overdue(ticket, out),
            Timer::Lead => {
                out.send(Actor::Database, Message::Lead { asked: out.now });
                out.after(ASK_TO_LEAD, Timer::Lead);
            }
            Timer::Reap => {
                let patient = out.now.saturating_sub(self.heard_since) >= LEASE;
                if self.is_leader(out.now) && patient {
                    self.transact(vec![Work::Expired], Then::Reap, out);
                }
                out.after(REAP, Timer::Reap);
            }
            Timer::ReapFound => {
                let jobs = std::mem::take(&mut self.expired);
                self.transact(vec![Work::Reap(jobs)], Then::Nothing, out);
            }
            Timer::Ring => {
                if self.is_leader(out.now) {
                    self.transact(vec![Work::Ring], Then::Nothing, out);
                }
                out.after(RING, Timer::Ring);
            }
            Timer::Outbox => {
                self.transact(vec![Work::TakeTasks], Then::Tasks, out);
                out.after(OUTBOX, Timer::Outbox);
            }
            Timer::GiveUp => {
                if self.is_leader(out.now) {
                    self.transact(vec![Work::GiveUp], Then::Nothing, out);
                }
                out.after(GIVE_UP, Timer::GiveUp);
            }
            Timer::Look => {
                if self.rules.looks {
                    self.wake_all(out);
                }
                out.after(LOOK, Timer::Look);
            }
            Timer::PollEnds(number) => self.end_poll(number, out),
            _ => {}
        }
    }

    /// The database does not answer: what was asked may be done, or may not.
    fn overdue(&mut self, ticket: u64, out: &mut Out) {
        let Some(then) = self.tickets.remove(&ticket) else { return };
        self.heard_since = out.now;
        match then {
            Then::Answer { to, request: id, .. } => {
                out.send(to, Message::Response { id, answer: Answer::Unavailable });
            }
            Then::Polls(polls) => self.unanswered(polls, out),
            Then::GaveBack { poll, .. } => {
                self.turn_away(&poll, out);
                self.ask(out);
            }
            Then::Ends(share) => self.heard_some(share, Vec::new(), out),
            // What was taken comes again when the patience of the outbox is over.
            Then::Tasks => self.tasks.clear(),
            Then::Reap | Then::Nothing => {}
        }
    }

    pub(super) fn is_leader(&self, now: u64) -> bool {
        now < self.leads_until
    }
}

fn answer(done: Done) -> Answer {
    match done {
        Done::Run(run) => Answer::Created(run),
        Done::Attempt(attempt) => Answer::Attempt(attempt),
        Done::Refused(reason) => Answer::Refused(reason),
        Done::Held(held) => Answer::Held(held),
        _ => Answer::Accepted,
    }
}
