//! Runners that wait for work at a server.
//!
//! When work comes, one of each kind is woken. Whoever was woken and gets a job wakes more of its kind, and whoever
//! goes without having got one wakes another in its place.

use super::{Server, Then};
use crate::faults::bug::Bug;
use crate::faults::kiln::{Asking, Given, News, Offered, Word, Work};
use crate::faults::message::{Actor, Answer, Message, Out, Timer};
use crate::faults::workload::CALM;

/// How long a poll waits for work.
pub(in crate::faults) const LONGEST_POLL: u64 = 50_000;

/// How many jobs are given with one answer.
const MOST_AT_ONCE: u32 = 16;

/// A runner that waits for work.
#[derive(Debug)]
pub(super) struct Poll {
    from: Actor,
    request: u64,
    asking: Asking,
    waits: Waits,
    /// Work came while it asked, and there was nobody else to wake.
    nudged: bool,
    over: bool,
    /// How many were woken in a row before it; none if nobody woke it.
    woken: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// It asks, or will with the next question.
    No,
    Asleep,
    /// It may have nothing: it must not be woken in the place of one that can work.
    Apart,
}

impl Server {
    pub(super) fn poll(&mut self, from: Actor, request: u64, asking: Asking, out: &mut Out) {
        self.count += 1;
        let poll = Poll {
            from,
            request,
            asking,
            waits: Waits::No,
            nudged: false,
            over: false,
            woken: None,
        };
        self.polls.insert(self.count, poll);
        out.after(LONGEST_POLL, Timer::PollEnds(self.count));
        self.ask(out);
    }

    /// Asks for all who are awake, unless a question is under way.
    pub(super) fn ask(&mut self, out: &mut Out) {
        if self.asking {
            return;
        }
        let awake = self.polls.iter().filter(|(_, poll)| poll.waits == Waits::No);
        let (polls, asking): (Vec<u64>, Vec<Asking>) =
            awake.map(|(number, poll)| (*number, self.question(poll))).unzip();
        if polls.is_empty() {
            return;
        }
        self.asking = true;
        self.transact(vec![Work::Claim(asking)], Then::Polls(polls), out);
    }

    /// Several jobs on one machine are slower than on several, of which some wait for work.
    fn question(&self, poll: &Poll) -> Asking {
        let Poll { asking, .. } = poll;
        let spreads = !self.rules.has(Bug::TakesFromSleepers);
        let one = self.older || (spreads && self.sleepers().any(|other| other.meets(asking)));
        let most = if one { 1 } else { MOST_AT_ONCE };
        Asking { want: asking.want.min(most), ..asking.clone() }
    }

    /// What those would ask for who sleep until there is work.
    pub(in crate::faults) fn sleepers(&self) -> impl Iterator<Item = &Asking> + Clone {
        let asleep = self.polls.values().filter(|poll| poll.waits == Waits::Asleep);
        asleep.map(|poll| &poll.asking)
    }

    pub(super) fn answered(&mut self, polls: Vec<u64>, offers: Vec<Offered>, out: &mut Out) {
        self.asking = false;
        for (poll, offered) in polls.into_iter().zip(offers) {
            self.offered(poll, offered, out);
        }
        self.ask(out);
    }

    fn offered(&mut self, number: u64, offered: Offered, out: &mut Out) {
        let Some(poll) = self.polls.get_mut(&number) else { return };
        let nudged = std::mem::take(&mut poll.nudged);
        if !offered.jobs.is_empty() || poll.over {
            if let Some(poll) = self.polls.remove(&number) {
                self.prepare(poll, offered.jobs, out);
            }
        } else if !offered.may_have {
            // What it may have can have changed while it asked.
            poll.waits = if nudged { Waits::No } else { Waits::Apart };
            if let Some(row) = poll.woken.take() {
                let kind = poll.asking.clone();
                self.wake_alike(&kind, 1, row);
            }
        } else if nudged {
            poll.woken = Some(0);
        } else {
            poll.waits = Waits::Asleep;
            poll.woken = None;
        }
    }

    /// Not all that is to be known of a job can be read at any moment. Such a job goes back if others can be told of,
    /// and so do those that another server gave with an answer that got lost, if the runner wants one by now.
    fn prepare(&mut self, poll: Poll, mut jobs: Vec<Given>, out: &mut Out) {
        if self.older {
            // It takes the first one, and knows of no others: they go back when their leases run out.
            jobs.truncate(1);
        }
        let calm = out.now >= CALM;
        let (mut jobs, mut back): (Vec<Given>, Vec<Given>) =
            jobs.into_iter().partition(|_| calm || !self.random.chance(1, 30));
        if poll.asking.want == 1 && jobs.len() > 1 {
            back.extend(jobs.drain(1..));
        }
        if back.is_empty() {
            return self.give(poll, jobs, out);
        }
        if jobs.is_empty() {
            return self.turn_away(&poll, out);
        }
        let (runner, word) = (poll.asking.runner, Word::Returned);
        let news =
            back.into_iter().map(|Given { job, claim, .. }| News { job, claim, runner, word });
        let works = news.map(Work::News).collect();
        self.transact(works, Then::GaveBack { poll: Box::new(poll), jobs }, out);
    }

    /// What went back is not told of, and neither is what was taken away before it could go back.
    pub(super) fn gave_back(&mut self, poll: Poll, jobs: Vec<Given>, out: &mut Out) {
        self.give(poll, jobs, out);
        self.ask(out);
    }

    fn give(&mut self, poll: Poll, jobs: Vec<Given>, out: &mut Out) {
        let Poll { from: to, request: id, asking, woken, .. } = poll;
        let served = !jobs.is_empty();
        let wakes = !served || !self.rules.has(Bug::ServedWakesNobody);
        out.send(to, Message::Response { id, answer: Answer::Jobs(jobs) });
        match woken.filter(|_| wakes) {
            Some(0) if served => self.wake_alike(&asking, 1, 1),
            Some(row) if served => self.wake_alike(&asking, 2, row + 1),
            Some(row) => self.wake_alike(&asking, 1, row),
            None => {}
        }
    }

    /// It has to ask again, and another one in its place.
    pub(super) fn turn_away(&mut self, poll: &Poll, out: &mut Out) {
        let (to, id) = (poll.from, poll.request);
        out.send(to, Message::Response { id, answer: Answer::Unavailable });
        if let Some(row) = poll.woken {
            self.wake_alike(&poll.asking, 1, row);
        }
    }

    /// The database does not answer those who asked.
    pub(super) fn unanswered(&mut self, polls: Vec<u64>, out: &mut Out) {
        self.asking = false;
        for number in polls {
            if let Some(poll) = self.polls.remove(&number) {
                self.turn_away(&poll, out);
            }
        }
        self.ask(out);
    }

    /// There may be work for one of each kind, and for those who could have none before.
    pub(super) fn wake(&mut self, out: &mut Out) {
        let mut kinds: Vec<Asking> = Vec::new();
        for poll in self.polls.values_mut() {
            if poll.waits == Waits::Apart {
                poll.waits = Waits::No;
            }
            if !kinds.iter().any(|kind| kind.is_alike(&poll.asking)) {
                kinds.push(poll.asking.clone());
            }
        }
        for kind in kinds {
            self.wake_alike(&kind, 1, 0);
        }
        self.ask(out);
    }

    /// Hints may get lost: all look by themselves.
    pub(super) fn wake_all(&mut self, out: &mut Out) {
        for poll in self.polls.values_mut() {
            poll.nudged = self.asking;
            if std::mem::replace(&mut poll.waits, Waits::No) == Waits::Asleep {
                poll.woken = Some(0);
            }
        }
        self.ask(out);
    }

    /// Wakes up to so many of a kind; if fewer sleep, those who are asking have to ask again.
    fn wake_alike(&mut self, kind: &Asking, mut count: u32, row: u32) {
        let misses = self.asking && !self.rules.has(Bug::LostWakeUp);
        let mut alike: Vec<&mut Poll> =
            self.polls.values_mut().filter(|poll| kind.is_alike(&poll.asking)).collect();
        for poll in &mut alike {
            if poll.waits == Waits::Asleep && count > 0 {
                poll.waits = Waits::No;
                poll.woken = Some(row);
                count -= 1;
            }
        }
        for poll in alike.into_iter().filter(|poll| poll.waits == Waits::No) {
            poll.nudged |= misses && count > 0;
        }
    }

    /// A poll that asks at this moment waits for its answer: it may hold a job.
    pub(super) fn end_poll(&mut self, number: u64, out: &mut Out) {
        let Some(poll) = self.polls.get_mut(&number) else { return };
        poll.over = true;
        if poll.waits != Waits::No {
            self.offered(number, Offered::default(), out);
        }
    }
}
