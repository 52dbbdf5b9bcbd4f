//! Runs in memory that share concurrency groups: what a store must come to, too.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use kiln_core::plan::Plan;
use kiln_core::run::{
    Again, Conclusion, Effect, Event, Group, Leg, LegState, Neighbourhood, Refused, Rejected, Run,
    RunState, Wait, again, apply, explain,
};
use kiln_core::time::Timestamp;

use crate::runs::expressions;
use crate::shapes::Action;

/// An event, and the rows and groups around it before.
#[derive(Debug)]
pub struct Moment<'m> {
    pub before: &'m Neighbourhood,
    pub event: &'m Event,
    pub now: Timestamp,
    pub after: &'m Neighbourhood,
    pub answer: &'m Result<Vec<Effect>, Rejected>,
}

/// What one run has to tell another, or itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    pub run: u64,
    pub attempt: u32,
    pub event: Event,
}

/// All runs, the groups they share, and what is on its way.
pub struct Fleet {
    pub runs: BTreeMap<u64, Neighbourhood>,
    pub groups: BTreeMap<String, Group>,
    pub outbox: VecDeque<Letter>,
    /// What runners said, to be said again.
    pub said: Vec<(u64, u32, Event)>,
    pub now: Timestamp,
    /// Sees each event.
    witness: fn(&Moment<'_>),
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("groups", &self.groups).finish_non_exhaustive()
    }
}

/// What an action comes to.
#[derive(Debug, Clone)]
pub enum Deed {
    Create,
    Deliver,
    Claim(usize),
    Wake,
    Tell {
        run: u64,
        event: Event,
    },
    /// A word about an attempt of the run that may be over.
    Repeat {
        run: u64,
        attempt: u32,
        event: Event,
    },
    Again {
        run: u64,
        what: Again,
    },
}

impl Fleet {
    pub fn new(witness: fn(&Moment<'_>)) -> Self {
        Self {
            runs: BTreeMap::new(),
            groups: BTreeMap::new(),
            outbox: VecDeque::new(),
            said: Vec::new(),
            now: Timestamp(1_000),
            witness,
        }
    }

    pub fn create(&mut self, run: u64, plan: Arc<Plan>) {
        self.runs.insert(run, Neighbourhood::new(Run::new(run, plan)));
        self.tell(run, Event::Start).expect("a new run can start");
    }

    pub fn again(&mut self, run: u64, what: Again) -> Result<(), Refused> {
        let hood = again(&self.runs[&run], what)?;
        self.runs.insert(run, hood);
        self.tell(run, Event::Start).expect("a new attempt can start");
        Ok(())
    }

    /// Applies one event; what it asks of others waits in the outbox.
    pub fn tell(&mut self, run: u64, event: Event) -> Result<(), Rejected> {
        let attempt = self.runs[&run].run.attempt;
        let hood = self.runs.get_mut(&run).expect("only runs that exist hear of events");
        hood.groups = std::mem::take(&mut self.groups);
        let before = hood.clone();
        let evaluator = expressions().at_attempt(attempt);
        let answer = apply(hood, event.clone(), self.now, &evaluator);
        let moment =
            Moment { before: &before, event: &event, now: self.now, after: hood, answer: &answer };
        (self.witness)(&moment);
        self.groups = std::mem::take(&mut hood.groups);
        self.now = self.now + Duration::from_millis(1);
        if is_of_a_runner(&event) {
            self.said.push((run, attempt, event));
        }
        self.post(run, attempt, answer?);
        Ok(())
    }

    fn post(&mut self, run: u64, attempt: u32, effects: Vec<Effect>) {
        for effect in effects {
            let letter = match effect {
                Effect::Continue(step) => Letter { run, attempt, event: Event::Step(step) },
                Effect::Admit(member) => Letter {
                    run: member.run,
                    attempt: member.attempt,
                    event: Event::Admitted(member),
                },
                Effect::CancelMember { member, reason } => {
                    let event = match member.leg {
                        Some(leg) => Event::CancelLeg { leg, reason },
                        None => Event::Cancel { by: "concurrency".into(), reason, forced: false },
                    };
                    Letter { run: member.run, attempt: member.attempt, event }
                }
                _ => continue,
            };
            self.outbox.push_back(letter);
        }
    }

    /// The next letter, unless it came too late.
    pub fn deliver(&mut self) -> bool {
        let Some(letter) = self.outbox.pop_front() else { return false };
        if self.runs[&letter.run].run.attempt == letter.attempt {
            // Who has ended does not mind.
            let _ = self.tell(letter.run, letter.event);
        }
        true
    }

    /// Lets the time of all waits pass.
    pub fn wake(&mut self) {
        self.now = self.now + Duration::from_hours(24);
        let waits = |leg: &Leg| matches!(leg.state, LegState::Waiting(Wait::Backoff { .. }));
        for (run, leg) in self.legs(waits) {
            self.tell(run, Event::Wake { leg }).expect("nobody refuses to wake");
        }
    }

    pub fn legs(&self, wanted: impl Fn(&Leg) -> bool) -> Vec<(u64, u32)> {
        let legs =
            self.runs.iter().flat_map(|(run, hood)| hood.legs.values().map(move |leg| (*run, leg)));
        legs.filter(|(_, leg)| wanted(leg)).map(|(run, leg)| (run, leg.number)).collect()
    }

    pub fn leg(&self, run: u64, leg: u32) -> &Leg {
        &self.runs[&run].legs[&leg]
    }

    /// What an action comes to now, if it is possible.
    pub fn choose(&self, action: Action) -> Option<Deed> {
        let held = |leg: &Leg| leg.state.is_held();
        let open = |leg: &Leg| !leg.state.is_done();
        let queued = |leg: &Leg| leg.state == LegState::Queued;
        let runs: Vec<u64> = self.runs.keys().copied().collect();
        match action {
            Action::Create => Some(Deed::Create),
            Action::Deliver => Some(Deed::Deliver),
            Action::Claim(at) => Some(Deed::Claim(at)),
            Action::Wake => Some(Deed::Wake),
            Action::Started(at) => {
                let started = |leg, attempt| Event::Started { leg, attempt, preparing: None };
                self.word(held, at, started)
            }
            Action::Uploading(at) => {
                self.word(held, at, |leg, attempt| Event::Uploading { leg, attempt })
            }
            Action::Finished(at, end) => {
                self.word(held, at, |leg, attempt| finished(leg, attempt, end))
            }
            Action::Lost(at) => self.word(held, at, |leg, attempt| Event::Lost {
                leg,
                attempt,
                reason: "gone".into(),
            }),
            Action::Returned(at) => {
                self.word(held, at, |leg, attempt| Event::Returned { leg, attempt })
            }
            Action::CancelLeg(at) => {
                self.word(open, at, |leg, _| Event::CancelLeg { leg, reason: "enough".into() })
            }
            Action::Unsupported(at) => self.word(queued, at, |leg, _| Event::Unsupported {
                leg,
                reason: "no such runner".into(),
            }),
            Action::Repeat(at) => {
                let (run, attempt, event) = pick(&self.said, at)?;
                Some(Deed::Repeat { run, attempt, event })
            }
            Action::Cancel(at, forced) => {
                let event = Event::Cancel { by: "me".into(), reason: "enough".into(), forced };
                Some(Deed::Tell { run: pick(&runs, at)?, event })
            }
            Action::Again(at, what) => {
                let run = pick(&runs, at)?;
                Some(Deed::Again { run, what: self.what(run, what) })
            }
        }
    }

    fn word(
        &self,
        wanted: impl Fn(&Leg) -> bool,
        at: usize,
        event: impl Fn(u32, u32) -> Event,
    ) -> Option<Deed> {
        let (run, leg) = pick(&self.legs(wanted), at)?;
        Some(Deed::Tell { run, event: event(leg, self.leg(run, leg).attempt) })
    }

    fn what(&self, run: u64, what: usize) -> Again {
        let hood = &self.runs[&run];
        let node = hood.nodes.keys().nth(what / 8 % hood.nodes.len().max(1));
        let leg = hood.legs.keys().nth(what / 8 % hood.legs.len().max(1));
        match (what % 8, node, leg) {
            (0, ..) => Again::All,
            (1 | 2, Some(node), _) => Again::Node(*node),
            (3 | 4, _, Some(leg)) => Again::Leg(*leg),
            _ => Again::Failed,
        }
    }

    /// What lets everything go on; nothing if all has ended.
    pub fn next(&self) -> Option<Action> {
        let open = |wanted: fn(&Leg) -> bool| !self.legs(wanted).is_empty();
        if !self.outbox.is_empty() {
            Some(Action::Deliver)
        } else if open(|leg| leg.state.is_held()) {
            Some(Action::Finished(0, 7))
        } else if open(|leg| leg.state == LegState::Queued) {
            Some(Action::Claim(2))
        } else {
            open(|leg| !leg.state.is_done()).then_some(Action::Wake)
        }
    }

    /// Nobody waits for anything any more.
    pub fn assert_settled(&self) {
        for (run, hood) in &self.runs {
            let waits: Vec<String> = hood.nodes.keys().map(|node| explain(hood, *node)).collect();
            let done = matches!(hood.run.state, RunState::Done(_));
            assert!(done, "run {run} is stuck: {waits:?}, {:?}", self.groups);
        }
        assert!(self.groups.is_empty(), "a gate leaked: {:?}", self.groups);
    }

    /// The rows of a run as text, to compare; without what never changes.
    pub fn rows(hood: &Neighbourhood) -> Vec<String> {
        let run = Run { plan: Arc::default(), ..hood.run.clone() };
        let mut rows = vec![format!("{run:?}")];
        rows.extend(hood.scopes.values().map(|scope| format!("{scope:?}")));
        rows.extend(hood.nodes.values().map(|node| format!("{node:?}")));
        rows.extend(hood.legs.values().map(|leg| format!("{leg:?}")));
        rows
    }
}

fn finished(leg: u32, attempt: u32, end: usize) -> Event {
    let (conclusion, output) = match end % 8 {
        0 | 1 => (Conclusion::Failure, "no"),
        2 => (Conclusion::TimedOut, ""),
        3 => (Conclusion::Cancelled, ""),
        4 => (Conclusion::Success, "no"),
        _ => (Conclusion::Success, "yes"),
    };
    let outputs = vec![("o".to_owned(), output.to_owned())];
    Event::Finished { leg, attempt, conclusion, outputs }
}

fn pick<T: Clone>(from: &[T], index: usize) -> Option<T> {
    (!from.is_empty()).then(|| from[index % from.len()].clone())
}

fn is_of_a_runner(event: &Event) -> bool {
    matches!(
        event,
        Event::Started { .. }
            | Event::Uploading { .. }
            | Event::Finished { .. }
            | Event::Lost { .. }
            | Event::Returned { .. }
    )
}
