//! A runner: it asks for work, does it whether or not a server is there, and tells how it went until it is
//! heard. What it has to tell is on its disk, so that the next process tells it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use kiln_core::id::JobId;
use kiln_core::run::Conclusion;
use kiln_core::time::Timestamp;

use super::bug::Bug;
use super::kiln::{Asking, Command, Given, News, Rules, Word};
use super::message::{Actor, Answer, Ask, Mark, Message, Out, Timer};
use super::server::LONGEST_POLL;
use super::workload::{Spec, fate};
use crate::random::Random;

const PATIENCE: u64 = 10_000;
const HEARTBEAT: u64 = 15_000;
/// How long a job may clean up when it is cancelled.
const GRACE: u64 = 3_000;
const FIRST_PAUSE: u64 = 100;
const LONGEST_PAUSE: u64 = 5_000;

/// What is on the disk of a job.
#[derive(Debug, Clone, Copy)]
struct Spooled {
    given: Given,
    /// How it ended, as far as that is known.
    end: Option<Word>,
}

/// A lease that goes on: until when, and what is to be done about the job.
type Renewed = (Timestamp, Option<Command>);

/// What a request was about.
#[derive(Debug, Clone)]
enum About {
    Work,
    Beat(Vec<(JobId, u32)>),
    /// Nobody waits for the answer.
    Started,
    End(JobId, u32),
    Ends(Vec<(JobId, u32)>),
}

#[derive(Debug)]
pub(super) struct Runner {
    pub(super) number: usize,
    pub(super) spec: Spec,
    pub(super) up: bool,
    pub(super) life: u32,
    seed: u64,
    servers: usize,
    rules: Rules,
    random: Random,
    count: u64,
    spool: BTreeMap<(JobId, u32), Spooled>,
    /// A runner for a single job has had it.
    spent: bool,
    // What follows is lost with the process.
    /// Jobs under way, and whether they were told to stop.
    running: BTreeMap<(JobId, u32), bool>,
    requests: BTreeMap<u64, About>,
    nonce: Option<u64>,
    /// Jobs of an answer that have no place yet.
    handed: VecDeque<Given>,
    /// How many there were in the answer.
    came: usize,
    /// Jobs whose ends are to be told with others, and nobody has begun to.
    ended: BTreeSet<(JobId, u32)>,
    pause: u64,
    beating: bool,
    /// Since when it could take one more job.
    pub(super) free_since: Option<u64>,
}

impl Runner {
    pub(super) fn new(
        number: usize,
        spec: Spec,
        seed: u64,
        servers: usize,
        rules: Rules,
        random: Random,
    ) -> Self {
        Self {
            number,
            spec,
            up: false,
            life: 0,
            seed,
            servers,
            rules,
            random,
            count: 0,
            spool: BTreeMap::new(),
            spent: false,
            running: BTreeMap::new(),
            requests: BTreeMap::new(),
            nonce: None,
            handed: VecDeque::new(),
            came: 0,
            ended: BTreeSet::new(),
            pause: FIRST_PAUSE,
            beating: false,
            free_since: None,
        }
    }

    fn id(&self) -> u64 {
        self.number as u64
    }

    pub(super) fn start(&mut self, out: &mut Out) {
        self.up = true;
        let repeats = self.rules.has(Bug::RunnerRepeats);
        let mut repeated = Vec::new();
        for (name, spooled) in &mut self.spool {
            if spooled.end.is_none() && repeats {
                repeated.push(spooled.given);
                continue;
            }
            // Its processes died with the runner, and not by its own fault.
            spooled.end.get_or_insert(Word::Lost);
            out.after(1, Timer::Deliver(name.0, name.1));
        }
        for given in repeated {
            self.begin(given, out);
        }
        self.note_room(out.now);
        out.after(5, Timer::Ask);
        self.heartbeat_soon(out);
    }

    pub(super) fn crash(&mut self, out: &mut Out) {
        self.up = false;
        self.life += 1;
        for (job, claim) in std::mem::take(&mut self.running).into_keys() {
            out.marks.push(Mark::Ended { job, claim, conclusion: None });
        }
        self.requests.clear();
        self.nonce = None;
        // Nobody tells of these: they go back when their leases run out.
        self.handed.clear();
        self.ended.clear();
        self.pause = FIRST_PAUSE;
        self.beating = false;
        self.free_since = None;
    }

    /// Whether it has nothing left to do or to tell.
    pub(super) fn is_idle(&self) -> bool {
        self.spool.is_empty()
    }

    fn free_slots(&self) -> usize {
        if self.spent { 0 } else { self.spec.slots.saturating_sub(self.running.len()) }
    }

    fn has_room(&self) -> bool {
        self.free_slots() > 0
    }

    fn note_room(&mut self, now: u64) {
        let free = self.up && self.has_room();
        self.free_since = if free { self.free_since.or(Some(now)) } else { None };
    }

    fn request(&mut self, ask: Ask, about: About, patience: u64, out: &mut Out) {
        self.count += 1;
        let server = usize::try_from(self.random.below(self.servers as u64)).unwrap_or(0);
        self.requests.insert(self.count, about);
        out.send(Actor::Server(server), Message::Request { id: self.count, ask });
        out.after(patience, Timer::Overdue(self.count));
    }

    pub(super) fn remind(&mut self, timer: Timer, out: &mut Out) {
        match timer {
            Timer::Ask => self.ask(out),
            Timer::Place => self.place(out),
            Timer::Beat => {
                self.beating = false;
                self.beat(out);
            }
            Timer::Finish(job, claim) => self.finish((job, claim), out),
            Timer::Deliver(job, claim) => self.deliver((job, claim), out),
            Timer::Tell => self.tell(out),
            Timer::Overdue(id) => {
                if let Some(about) = self.requests.remove(&id) {
                    self.failed(&about, out);
                }
            }
            _ => {}
        }
        self.note_room(out.now);
    }

    pub(super) fn hear(&mut self, message: Message, out: &mut Out) {
        let (id, answer) = match message {
            Message::Response { id, answer } => (id, answer),
            Message::Refused { id } => (id, Answer::Unavailable),
            _ => return,
        };
        // A late or repeated answer finds nobody who waits for it.
        let Some(about) = self.requests.remove(&id) else { return };
        match (about, answer) {
            (about, Answer::Unavailable) => self.failed(&about, out),
            (About::Work, Answer::Jobs(jobs)) => {
                self.nonce = None;
                self.pause = FIRST_PAUSE;
                self.came = jobs.len();
                self.handed = jobs.into();
                self.place(out);
            }
            (About::Beat(named), Answer::Held(held)) => {
                for (name, held) in named.into_iter().zip(held) {
                    self.told(name, held, out);
                }
            }
            (About::End(job, claim), answer) => self.heard((job, claim), &answer, out),
            (About::Ends(names), Answer::Together(answers)) => {
                for (name, answer) in names.into_iter().zip(answers) {
                    match answer {
                        Some(answer) => self.heard(name, &answer, out),
                        None => self.tell_alone(name, out),
                    }
                }
            }
            _ => {}
        }
        self.note_room(out.now);
    }

    /// Asks for work, with the same nonce until there is an answer. What is wanted may change meanwhile.
    fn ask(&mut self, out: &mut Out) {
        let asks = self.requests.values().any(|about| matches!(about, About::Work));
        if asks || !self.handed.is_empty() || !self.has_room() {
            return;
        }
        // Of a server that became older it wants one, also with a question that it asked another one before.
        let one = !self.spec.several || self.random.chance(1, 10);
        let want = if one { 1 } else { u32::try_from(self.free_slots()).unwrap_or(1) };
        let nonce = match self.nonce {
            Some(nonce) => nonce,
            None => self.random.next(),
        };
        self.nonce = Some(nonce);
        let asking = Asking {
            runner: self.id(),
            nonce,
            capabilities: self.spec.capabilities.clone(),
            org: self.spec.org,
            single_use: self.spec.single_use,
            want,
        };
        self.request(Ask::Claim(asking), About::Work, LONGEST_POLL + PATIENCE, out);
    }

    /// Gives the jobs of an answer their places, one after the other. Only then it is known whether there is room for
    /// more.
    fn place(&mut self, out: &mut Out) {
        if let Some(given) = self.handed.pop_front() {
            self.take(given, out);
        }
        if self.handed.is_empty() {
            out.after(1, Timer::Ask);
        } else {
            out.after(self.random.below(10), Timer::Place);
        }
    }

    fn take(&mut self, given: Given, out: &mut Out) {
        let name = (given.job, given.claim);
        if self.spool.contains_key(&name) {
            return;
        }
        // Its disk may be full by then, above all with several at once.
        let full = self.random.chance(if self.came > 1 { 10 } else { 2 }, 100);
        let back = !self.has_room() || full;
        // One job is all it takes, even if it gives that back.
        self.spent |= self.spec.single_use;
        let end = back.then_some(Word::Returned);
        self.spool.insert(name, Spooled { given, end });
        if back {
            out.after(1, Timer::Deliver(name.0, name.1));
            return;
        }
        self.begin(given, out);
    }

    fn begin(&mut self, given: Given, out: &mut Out) {
        let (job, claim) = (given.job, given.claim);
        out.marks.push(Mark::Began(given));
        self.running.insert((job, claim), false);
        out.after(fate(self.seed, &given).0, Timer::Finish(job, claim));
        let news = News { job, claim, runner: self.id(), word: Word::Started };
        self.request(Ask::News(news), About::Started, PATIENCE, out);
        self.heartbeat_soon(out);
    }

    fn heartbeat_soon(&mut self, out: &mut Out) {
        if !self.beating && !self.spool.is_empty() {
            self.beating = true;
            out.after(200, Timer::Beat);
        }
    }

    fn beat(&mut self, out: &mut Out) {
        if self.spool.is_empty() {
            return;
        }
        let held: Vec<(JobId, u32)> = self.spool.keys().copied().collect();
        let ask = Ask::Beat { runner: self.id(), held: held.clone() };
        self.request(ask, About::Beat(held), PATIENCE, out);
        self.beating = true;
        out.after(HEARTBEAT, Timer::Beat);
    }

    /// What Kiln says about a job that this runner thinks it has.
    fn told(&mut self, name: (JobId, u32), held: Option<Renewed>, out: &mut Out) {
        match held {
            None => {
                // It is somebody else's: whatever there is to tell, nobody wants to hear it.
                self.stop(name, None, out);
                self.spool.remove(&name);
            }
            Some((_, Some(Command::Kill))) => self.stop(name, Some(Conclusion::Cancelled), out),
            Some((_, Some(Command::Cancel))) => {
                if let Some(stopping) = self.running.get_mut(&name)
                    && !std::mem::replace(stopping, true)
                {
                    out.after(GRACE, Timer::Finish(name.0, name.1));
                }
            }
            Some((_, None)) => {}
        }
    }

    fn finish(&mut self, name: (JobId, u32), out: &mut Out) {
        let Some(stopping) = self.running.get(&name) else { return };
        let conclusion = if *stopping {
            Conclusion::Cancelled
        } else {
            fate(self.seed, &self.spool[&name].given).1
        };
        self.stop(name, Some(conclusion), out);
    }

    fn stop(&mut self, name: (JobId, u32), conclusion: Option<Conclusion>, out: &mut Out) {
        if self.running.remove(&name).is_none() {
            return;
        }
        out.marks.push(Mark::Ended { job: name.0, claim: name.1, conclusion });
        if let (Some(conclusion), Some(spooled)) = (conclusion, self.spool.get_mut(&name)) {
            spooled.end = Some(Word::Finished(conclusion));
            out.after(1, Timer::Deliver(name.0, name.1));
        }
        out.after(1, Timer::Ask);
    }

    fn deliver(&mut self, name: (JobId, u32), out: &mut Out) {
        let word = self.spool.get(&name).and_then(|spooled| spooled.end);
        let long = self.random.chance(1, 20);
        if !self.spec.several || long || word == Some(Word::Returned) {
            return self.tell_alone(name, out);
        }
        if self.ended.is_empty() {
            out.after(self.random.below(50), Timer::Tell);
        }
        self.ended.insert(name);
    }

    /// Tells how jobs ended that came together. Who came alone goes alone.
    fn tell(&mut self, out: &mut Out) {
        let come = std::mem::take(&mut self.ended).into_iter();
        let (names, ends): (Vec<_>, Vec<_>) =
            come.filter_map(|name| Some((name, self.end_of(name)?))).unzip();
        match names[..] {
            [] => {}
            [name] => self.tell_alone(name, out),
            _ => self.request(Ask::Ends(ends), About::Ends(names), PATIENCE, out),
        }
    }

    fn tell_alone(&mut self, name: (JobId, u32), out: &mut Out) {
        if let Some(news) = self.end_of(name) {
            self.request(Ask::News(news), About::End(name.0, name.1), PATIENCE, out);
        }
    }

    fn end_of(&self, (job, claim): (JobId, u32)) -> Option<News> {
        let word = self.spool.get(&(job, claim))?.end?;
        Some(News { job, claim, runner: self.id(), word })
    }

    /// The end was heard, or is not wanted.
    fn heard(&mut self, name: (JobId, u32), answer: &Answer, out: &mut Out) {
        let Some(spooled) = self.spool.remove(&name) else { return };
        let (job, claim) = name;
        let heard = match (spooled.end, answer) {
            (Some(Word::Finished(_)), Answer::Ended(before)) => Some(*before),
            (Some(Word::Finished(conclusion)), Answer::Accepted) => Some(conclusion),
            _ => None,
        };
        out.marks.extend(heard.map(|conclusion| Mark::Heard { job, claim, conclusion }));
        out.after(1, Timer::Ask);
    }

    /// Nobody answered: it is tried again, a little later each time.
    fn failed(&mut self, about: &About, out: &mut Out) {
        let pause = self.pause;
        match about {
            About::Work => {
                self.pause = (pause * 2).min(LONGEST_PAUSE);
                out.after(pause, Timer::Ask);
            }
            About::End(job, claim) => out.after(500 + pause, Timer::Deliver(*job, *claim)),
            About::Ends(names) => {
                for name in names {
                    self.tell_alone(*name, out);
                }
            }
            About::Beat(_) | About::Started => {}
        }
    }
}
