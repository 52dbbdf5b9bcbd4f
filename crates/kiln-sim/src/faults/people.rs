//! People: they trigger runs, cancel them and run them again, and ask again when nobody answers.

use std::collections::BTreeMap;

use super::message::{Actor, Answer, Ask, Mark, Message, Out, Promise, Timer};
use super::workload::{Act, CALM, Deed};
use crate::random::Random;

const PATIENCE: u64 = 15_000;
/// How often somebody asks for a re-run of a run that has not ended.
const MOST_TRIES: u32 = 12;

#[derive(Debug)]
pub(super) struct People {
    pub(super) acts: Vec<Act>,
    servers: usize,
    random: Random,
    count: u64,
    /// What each request is about, by its place in the list.
    requests: BTreeMap<u64, usize>,
    /// The run that each trigger made, as it was answered.
    runs: BTreeMap<u64, u64>,
    tries: BTreeMap<usize, u32>,
    pub(super) open: usize,
}

impl People {
    pub(super) fn new(acts: Vec<Act>, servers: usize, random: Random) -> Self {
        Self {
            open: acts.len(),
            acts,
            servers,
            random,
            count: 0,
            requests: BTreeMap::new(),
            runs: BTreeMap::new(),
            tries: BTreeMap::new(),
        }
    }

    pub(super) fn remind(&mut self, timer: Timer, out: &mut Out) {
        match timer {
            Timer::Act(at) => self.act(at, out),
            Timer::Overdue(id) => {
                if let Some(at) = self.requests.remove(&id) {
                    self.unanswered(at, out);
                }
            }
            _ => {}
        }
    }

    fn act(&mut self, at: usize, out: &mut Out) {
        let run = |key: &u64| self.runs.get(key).copied();
        let ask = match &self.acts[at].deed {
            Deed::Trigger { key, asked } => Some(Ask::Trigger { key: *key, asked: asked.clone() }),
            Deed::Cancel { key, forced } => {
                run(key).map(|run| Ask::Cancel { run, forced: *forced })
            }
            Deed::CancelLeg { key, leg } => run(key).map(|run| Ask::CancelLeg { run, leg: *leg }),
            Deed::Again { key, what } => run(key).map(|run| Ask::Again { run, what: *what }),
            Deed::Pause { repo, on } => Some(Ask::Pause { repo: *repo, on: *on }),
            Deed::Drain { runner, on } => Some(Ask::Drain { runner: *runner, on: *on }),
        };
        let Some(ask) = ask else { return self.later(at, out) };
        self.count += 1;
        let server = usize::try_from(self.random.below(self.servers as u64)).unwrap_or(0);
        self.requests.insert(self.count, at);
        out.send(Actor::Server(server), Message::Request { id: self.count, ask });
        out.after(PATIENCE, Timer::Overdue(self.count));
    }

    pub(super) fn hear(&mut self, message: Message, out: &mut Out) {
        let (id, answer) = match message {
            Message::Response { id, answer } => (id, answer),
            Message::Refused { id } => (id, Answer::Unavailable),
            _ => return,
        };
        let Some(at) = self.requests.remove(&id) else { return };
        let run = |key: &u64| self.runs.get(key).copied();
        let promise = match (&self.acts[at].deed, answer) {
            (_, Answer::Unavailable) => return self.unanswered(at, out),
            (Deed::Trigger { key, .. }, Answer::Created(run)) => {
                self.runs.insert(*key, run);
                Some(Promise::Created { key: *key, run })
            }
            (Deed::Cancel { key, .. }, Answer::Accepted) => {
                run(key).map(|run| Promise::Cancelled { run })
            }
            (Deed::Again { key, .. }, Answer::Attempt(attempt)) => {
                run(key).map(|run| Promise::Attempt { run, attempt })
            }
            // It has not ended yet, so it cannot be run again.
            (Deed::Again { .. }, Answer::Refused(_)) => return self.later(at, out),
            _ => None,
        };
        out.marks.extend(promise.map(Mark::Promised));
        self.open -= 1;
    }

    fn unanswered(&mut self, at: usize, out: &mut Out) {
        if let Deed::Again { .. } = self.acts[at].deed {
            // It may have happened, and must not happen twice.
            self.open -= 1;
            return;
        }
        if self.acts[at].deed.holds_back() && out.now >= CALM {
            self.open -= 1;
            return;
        }
        out.after(1_000 + self.random.below(2_000), Timer::Act(at));
    }

    fn later(&mut self, at: usize, out: &mut Out) {
        let tries = self.tries.entry(at).or_default();
        *tries += 1;
        if *tries > MOST_TRIES {
            self.open -= 1;
        } else {
            out.after(15_000, Timer::Act(at));
        }
    }
}
