//! The world: one clock, one queue of what happens next, and everybody who takes part.

mod strike;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use kiln_core::queue::Policy;
use kiln_core::run::MAX_STEPS;

use super::auditor::{Auditor, Step};
use super::bug::Bug;
use super::calamity::{self, Calamity, Fault};
use super::database::{Database, Waiting};
use super::history::History;
use super::kiln::{Done, Rules, Signal, Work};
use super::message::{Actor, Answer, Mark, Message, Out, Timer};
use super::network::Network;
use super::people::People;
use super::runner::Runner;
use super::server::Server;
use super::told;
use super::workload::{CALM, Spec, Workload};
use super::{Outcome, Setup};
use crate::random::Random;

/// Nothing takes longer than this when there are no faults: then nothing moves any more. The longest is a lease of a clock that
/// went back by six minutes.
const QUIET: u64 = 500_000;
/// A world that is not through by then never will be.
const LONGEST: u64 = CALM + 6 * 3_600_000;
/// How often the auditor looks for jobs and runners that wait for each other.
const PATROL: u64 = 5_000;
/// From when on it does: by then no request of the time of faults is under way.
const PATROL_FROM: u64 = CALM + 75_000;

#[derive(Debug)]
enum What {
    Deliver { from: Actor, to: Actor, message: Message },
    Remind { actor: Actor, life: u32, timer: Timer },
    Flushed { life: u32 },
    Fault(Fault),
    Calm,
    Patrol,
}

/// Something that is due. The heap has the earliest on top, then whatever was put in first.
#[derive(Debug)]
struct Due {
    at: u64,
    count: u64,
    what: What,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.count).cmp(&(other.at, other.count))
    }
}

#[derive(Debug)]
pub(super) struct World {
    now: u64,
    count: u64,
    due: BinaryHeap<Reverse<Due>>,
    random: Random,
    network: Network,
    database: Database,
    servers: Vec<Server>,
    runners: Vec<Runner>,
    people: People,
    auditor: Auditor,
    history: History,
    rules: Rules,
    frozen: BTreeMap<Actor, u64>,
    slow_disk: Option<(u64, u64)>,
    last_change: u64,
    several_ends: usize,
}

fn few(random: &mut Random) -> usize {
    usize::try_from(1 + random.below(4)).unwrap_or(1)
}

/// Where it is planted that somebody is not woken, nobody looks by himself, or it would not be seen for long. That those who are
/// woken are enough is seen where nothing is planted.
fn looks(bug: Option<Bug>, random: &mut Random) -> bool {
    let missed = [Bug::LostWakeUp, Bug::ResumeWakesNobody, Bug::ServedWakesNobody];
    match bug {
        Some(bug) => !missed.contains(&bug),
        None => !random.chance(1, 3),
    }
}

impl World {
    pub(super) fn new(setup: Setup) -> Self {
        let mut random = Random::new(setup.seed);
        let workload = Workload::draw(&mut random.fork());
        let rules = Rules {
            bug: setup.bug,
            sparse: random.chance(1, 4),
            // Few plans are so large that it takes more than one transaction to tell all their jobs.
            steps: if random.chance(1, 3) { few(&mut random) } else { MAX_STEPS },
            ways: usize::try_from(1 + random.below(2)).unwrap_or(1),
            gives_up: random.chance(1, 2),
            policy: random.pick(&Policy::ALL).copied().unwrap_or_default(),
            looks: looks(setup.bug, &mut random),
        };
        let servers = usize::try_from(1 + random.below(3)).unwrap_or(1);
        let faults = calamity::draw(&mut random.fork(), servers, workload.fleet.len());
        let database = Database::new(rules, &workload);
        let network = Network::new(random.fork());
        let fleet = workload.fleet.into_iter().enumerate();
        let runners = fleet
            .map(|(number, spec)| {
                Runner::new(number, spec, setup.seed, servers, rules, random.fork())
            })
            .collect();
        let people = People::new(workload.acts, servers, random.fork());
        let mut world = Self {
            now: 0,
            count: 0,
            due: BinaryHeap::new(),
            random: random.fork(),
            network,
            database,
            servers: (0..servers).map(|number| Server::new(number, rules, random.fork())).collect(),
            runners,
            people,
            auditor: Auditor::default(),
            history: History::new(),
            rules,
            frozen: BTreeMap::new(),
            slow_disk: None,
            last_change: 0,
            several_ends: 0,
        };
        world.begin(faults);
        world
    }

    fn begin(&mut self, faults: Vec<Calamity>) {
        for number in 0..self.servers.len() {
            self.restart(Actor::Server(number));
        }
        for number in 0..self.runners.len() {
            self.restart(Actor::Runner(number));
        }
        for (place, at) in self.people.acts.iter().map(|act| act.at).enumerate().collect::<Vec<_>>()
        {
            let timer = Timer::Act(place);
            self.schedule(at, What::Remind { actor: Actor::People, life: 0, timer });
        }
        for Calamity { at, what } in faults {
            self.schedule(at.min(CALM - 1), What::Fault(what));
        }
        self.schedule(CALM, What::Calm);
        self.schedule(PATROL_FROM, What::Patrol);
    }

    pub(super) fn run(mut self, seed: u64) -> Outcome {
        while self.auditor.finding().is_none() {
            let Some(Reverse(due)) = self.due.pop() else { break };
            self.now = due.at;
            if self.is_over() {
                break;
            }
            self.happen(due.what);
        }
        if self.auditor.finding().is_none() {
            self.close();
        }
        Outcome {
            seed,
            bug: self.rules.bug,
            finding: self.auditor.finding().cloned(),
            millis: self.now,
            events: self.history.count(),
            runs: self.database.rows.runs.len(),
            executions: self.auditor.executions(),
            several_jobs: self.auditor.several_jobs(),
            several_ends: self.several_ends,
            hash: self.history.hash(),
            history: self.history.into_lines(),
        }
    }

    /// Whether all is done, or nothing has moved for so long that nothing will.
    fn is_over(&self) -> bool {
        if self.now < CALM + QUIET / 2 {
            return false;
        }
        let idle = self.now - self.last_change;
        let done = self
            .database
            .rows
            .runs
            .values()
            .all(|run| matches!(run.hood.run.state, kiln_core::run::RunState::Done(_)));
        let told = self.people.open == 0
            && self.database.rows.outbox.is_empty()
            && self.runners.iter().all(Runner::is_idle);
        (done && told && idle > 30_000) || idle > QUIET || self.now > LONGEST
    }

    fn close(&mut self) {
        let open = self.people.open;
        let fleet: Vec<&Spec> = self
            .runners
            .iter()
            .filter(|runner| !runner.spec.single_use)
            .map(|runner| &runner.spec)
            .collect();
        self.auditor.at_the_end(&self.database.rows, &fleet, open);
    }

    fn schedule(&mut self, at: u64, what: What) {
        self.count += 1;
        self.due.push(Reverse(Due { at: at.max(self.now), count: self.count, what }));
    }

    fn happen(&mut self, what: What) {
        let actor = match &what {
            What::Deliver { to, .. } => Some(*to),
            What::Remind { actor, .. } => Some(*actor),
            _ => None,
        };
        if let Some(thaw) = actor.and_then(|actor| self.frozen.get(&actor))
            && *thaw > self.now
        {
            let thaw = *thaw;
            return self.schedule(thaw, what);
        }
        match what {
            What::Deliver { from, to, message } => self.deliver(from, to, message),
            What::Remind { actor, life, timer } => self.remind(actor, life, timer),
            What::Flushed { life } if life == self.database.life => self.flushed(),
            What::Flushed { .. } => {}
            What::Fault(fault) => self.strike(fault),
            What::Calm => self.calm_down(),
            What::Patrol => self.patrol(),
        }
    }

    fn life(&self, actor: Actor) -> u32 {
        match actor {
            Actor::Server(number) => self.servers[number].life,
            Actor::Runner(number) => self.runners[number].life,
            Actor::Database => self.database.life,
            Actor::People => 0,
        }
    }

    fn is_up(&self, actor: Actor) -> bool {
        match actor {
            Actor::Server(number) => self.servers[number].up,
            Actor::Runner(number) => self.runners[number].up,
            Actor::Database => self.database.up,
            Actor::People => true,
        }
    }

    fn note(&mut self, line: &str) {
        self.history.note(self.now, line);
    }

    fn deliver(&mut self, from: Actor, to: Actor, message: Message) {
        if !self.is_up(to) {
            // A process that is not there refuses the connection; one behind a cut link says nothing.
            if let Message::Request { id, .. } = message {
                self.send(to, from, &Message::Refused { id });
            }
            return;
        }
        if let Some(line) = told::message(from, to, &message) {
            self.note(&line);
        }
        if let Message::Response { answer: Answer::Together(heard), .. } = &message
            && heard.iter().flatten().count() > 1
        {
            self.several_ends += 1;
        }
        let mut out = Out::new(self.now);
        match (to, message) {
            (Actor::Server(number), message) => self.servers[number].hear(from, message, &mut out),
            (Actor::Runner(number), message) => self.runners[number].hear(message, &mut out),
            (Actor::People, message) => self.people.hear(message, &mut out),
            (Actor::Database, Message::Transact { ticket, works }) => {
                if let Actor::Server(server) = from {
                    self.transact(server, ticket, &works);
                }
            }
            (Actor::Database, Message::Lead { asked }) => {
                if let Actor::Server(server) = from
                    && self.database.leads(self.now, server)
                {
                    self.send(to, from, &Message::Led { asked });
                }
            }
            (Actor::Database, _) => {}
        }
        self.carry_out(to, out);
    }

    fn remind(&mut self, actor: Actor, life: u32, timer: Timer) {
        if !self.is_up(actor) || self.life(actor) != life {
            return;
        }
        let mut out = Out::new(self.now);
        match actor {
            Actor::Server(number) => self.servers[number].remind(timer, &mut out),
            Actor::Runner(number) => self.runners[number].remind(timer, &mut out),
            Actor::People => self.people.remind(timer, &mut out),
            Actor::Database => {}
        }
        self.carry_out(actor, out);
    }

    fn carry_out(&mut self, actor: Actor, out: Out) {
        for mark in out.marks {
            self.note(&told::mark(actor, &mark));
            let runner = match actor {
                Actor::Runner(number) => Some((number, &self.runners[number].spec)),
                _ => None,
            };
            self.auditor.marked(&mark, runner, &self.database.rows);
            if let Mark::Began(_) | Mark::Ended { .. } = mark {
                self.last_change = self.now;
            }
        }
        for (to, message) in out.sends {
            if let (Actor::Server(server), Message::Transact { works, .. }) = (actor, &message) {
                self.auditor.asked(works, &self.servers[server].sleepers());
            }
            self.send(actor, to, &message);
        }
        let pace = match actor {
            Actor::Runner(number) => self.runners[number].spec.pace,
            _ => 1_000,
        };
        let life = self.life(actor);
        for (after, timer) in out.timers {
            let at = self.now + after * pace / 1_000;
            self.schedule(at, What::Remind { actor, life, timer });
        }
    }

    fn send(&mut self, from: Actor, to: Actor, message: &Message) {
        for at in self.network.arrivals(self.now, from, to, message) {
            self.schedule(at, What::Deliver { from, to, message: message.clone() });
        }
    }

    /// What shares a commit is looked at piece by piece, and answered as a whole.
    fn transact(&mut self, server: usize, ticket: u64, works: &[Work]) {
        let mut signals = Vec::new();
        let done = works.iter().map(|work| self.perform(server, work, &mut signals)).collect();
        if let Some(waiting) = self.database.answer_later(Waiting { server, ticket, done, signals })
        {
            self.answer(waiting);
        }
        self.flush();
    }

    fn perform(&mut self, server: usize, work: &Work, signals: &mut Vec<Signal>) -> Done {
        let before = self.database.rows.clone();
        let done = self.database.perform(self.now, work, signals);
        if let Some(line) = told::transaction(server, work, &done) {
            self.note(&line);
        }
        let mut ledger = std::mem::take(&mut self.database.rows.ledger);
        let now = self.database.clock(self.now);
        let after = &self.database.rows;
        let step = Step { before: &before, after, work, done: &done, now };
        self.auditor.performed(&step, Rc::make_mut(&mut ledger));
        self.database.rows.ledger = ledger;
        let runs = before.runs.values().zip(self.database.rows.runs.values());
        let grown = before.runs.len() != self.database.rows.runs.len();
        if grown || runs.into_iter().any(|(before, after)| !Rc::ptr_eq(before, after)) {
            self.last_change = self.now;
        }
        done
    }

    fn flush(&mut self) {
        if self.database.flush() {
            let slow = self.slow_disk.filter(|(_, until)| *until > self.now);
            let takes = match slow {
                Some((most, _)) => self.random.below(most),
                None => 1 + self.random.below(5),
            };
            let life = self.database.life;
            self.schedule(self.now + takes, What::Flushed { life });
        }
    }

    fn flushed(&mut self) {
        for waiting in self.database.flushed() {
            self.answer(waiting);
        }
        if self.database.has_more() {
            self.flush();
        }
    }

    /// The answer to the one who asked, and hints for all.
    fn answer(&mut self, waiting: Waiting) {
        let Waiting { server, ticket, done, signals } = waiting;
        self.send(Actor::Database, Actor::Server(server), &Message::Transacted { ticket, done });
        if signals.is_empty() {
            return;
        }
        for other in 0..self.servers.len() {
            let lost = self.rules.has(Bug::LostWakeUp) && other != server;
            let heard: Vec<Signal> = if lost {
                signals.iter().copied().filter(|signal| *signal != Signal::Work).collect()
            } else {
                signals.clone()
            };
            self.send(Actor::Database, Actor::Server(other), &Message::Notify(heard));
        }
    }

    fn patrol(&mut self) {
        let free = self.runners.iter().filter_map(|runner| {
            let since = runner.free_since?.max(PATROL_FROM);
            Some((runner.number, since, &runner.spec))
        });
        let free: Vec<_> = free.collect();
        self.auditor.nobody_sleeps(self.now, &self.database.rows, &free);
        self.schedule(self.now + PATROL, What::Patrol);
    }
}
