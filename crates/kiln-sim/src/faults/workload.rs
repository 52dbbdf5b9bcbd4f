//! What a seed asks of Kiln: workflows, triggers, cancels and re-runs; how each job will go; which runners
//! there are.

mod plans;

use std::rc::Rc;
use std::sync::Arc;

use kiln_core::id::{OrgId, RepoId};
use kiln_core::plan::Plan;
use kiln_core::queue::{Capabilities, Offer};
use kiln_core::run::{Again, Conclusion};

use super::kiln::Given;
use crate::random::Random;

/// When faults cease, in milliseconds; what is asked later must go without any.
pub(super) const CALM: u64 = 240_000;

/// A run that somebody asks for.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) org: OrgId,
    pub(super) repo: RepoId,
    pub(super) plan: Arc<Plan>,
}

/// What a person does, and when.
#[derive(Debug, Clone)]
pub(super) struct Act {
    pub(super) at: u64,
    pub(super) deed: Deed,
}

/// Runs are named by their trigger: only the answer says which number they have.
#[derive(Debug, Clone)]
pub(super) enum Deed {
    Trigger {
        key: u64,
        asked: Asked,
    },
    Cancel {
        key: u64,
        forced: bool,
    },
    CancelLeg {
        key: u64,
        leg: u32,
    },
    Again {
        key: u64,
        what: Again,
    },
    /// Of a repository, and of a runner by its place in the fleet.
    Pause {
        repo: RepoId,
        on: bool,
    },
    Drain {
        runner: u64,
        on: bool,
    },
}

impl Deed {
    /// What must not be done any more once faults have ceased, because nobody would undo it.
    pub(super) fn holds_back(&self) -> bool {
        matches!(self, Self::Pause { on: true, .. } | Self::Drain { on: true, .. })
    }
}

/// What kind of runner it is.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub(super) labels: Vec<&'static str>,
    pub(super) capabilities: Rc<Capabilities>,
    pub(super) org: Option<OrgId>,
    pub(super) slots: usize,
    pub(super) single_use: bool,
    /// Whether it speaks protocol 3: several jobs with one question, and several ends with one request.
    pub(super) several: bool,
    /// How fast its clock goes, in thousandths.
    pub(super) pace: u64,
}

#[derive(Debug)]
pub(super) struct Workload {
    pub(super) acts: Vec<Act>,
    pub(super) fleet: Vec<Spec>,
    /// Of some organizations: how many of their jobs may run.
    pub(super) limits: Vec<(OrgId, u32)>,
}

impl Workload {
    pub(super) fn draw(random: &mut Random) -> Self {
        let plans = plans::draw(random);
        let (limits, fleet) = (limits(random), fleet(random));
        let mut acts = Vec::new();
        let early = 3 + random.below(6);
        let late = 1 + random.below(3);
        for key in 0..early + late {
            let plan = Arc::clone(random.pick(&plans).expect("there is at least one plan"));
            let repo = i64::try_from(1 + random.below(3)).unwrap_or(1);
            let asked = Asked { org: OrgId(1 + repo % 2), repo: RepoId(repo), plan };
            let at = if key < early {
                random.below(CALM * 3 / 4)
            } else {
                CALM + 20_000 + random.below(60_000)
            };
            acts.push(Act { at, deed: Deed::Trigger { key, asked } });
            regret(random, key, at, &mut acts);
        }
        hold_back(random, fleet.len() as u64, &mut acts);
        siestas(random, early + late, &mut acts);
        acts.sort_by_key(|act| act.at);
        Self { acts, fleet, limits }
    }
}

/// What people change their mind about.
fn regret(random: &mut Random, key: u64, at: u64, acts: &mut Vec<Act>) {
    let mut later = |random: &mut Random, deed| {
        let soon = random.chance(1, 3);
        let after = if soon { random.below(2_500) } else { 1_000 + random.below(90_000) };
        acts.push(Act { at: at + 100 + after, deed });
    };
    if random.chance(35, 100) {
        let forced = random.chance(1, 3);
        later(random, Deed::Cancel { key, forced });
        if random.chance(1, 4) {
            later(random, Deed::Cancel { key, forced: true });
        }
    }
    if random.chance(15, 100) {
        let leg = u32::try_from(random.below(6)).unwrap_or(0);
        later(random, Deed::CancelLeg { key, leg });
    }
    if random.chance(35, 100) {
        let number = u32::try_from(random.below(6)).unwrap_or(0);
        let what = match random.below(6) {
            0 | 1 => Again::All,
            2 => Again::Node(number),
            3 => Again::Leg(number),
            _ => Again::Failed,
        };
        later(random, Deed::Again { key, what });
    }
}

/// Repositories are paused and runners drained, and all of that is undone in the end: when no late word of the time
/// of faults can come any more that says otherwise.
fn hold_back(random: &mut Random, runners: u64, acts: &mut Vec<Act>) {
    let mut both = |random: &mut Random, deed: &dyn Fn(bool) -> Deed| {
        let at = random.below(CALM * 3 / 4);
        acts.push(Act { at, deed: deed(true) });
        if random.chance(2, 3) {
            acts.push(Act { at: at + 2_000 + random.below(40_000), deed: deed(false) });
        }
        acts.push(Act { at: CALM + 80_000 + random.below(10_000), deed: deed(false) });
    };
    if random.chance(1, 3) {
        let repo = RepoId(i64::try_from(1 + random.below(3)).unwrap_or(1));
        both(random, &|on| Deed::Pause { repo, on });
    }
    if random.chance(1, 3) {
        let runner = random.below(runners);
        both(random, &|on| Deed::Drain { runner, on });
    }
}

/// Long after faults have ceased, when those who are left sleep until they are woken: a repository is paused, asked
/// for work, and resumed. Nothing but the resume can wake them soon.
fn siestas(random: &mut Random, first: u64, acts: &mut Vec<Act>) {
    let mut start = CALM + 95_000;
    for key in first..first + random.below(3) {
        let plan = Arc::new(plans::plain(random.below(5)));
        let repo = i64::try_from(1 + random.below(3)).unwrap_or(1);
        let (org, repo) = (OrgId(1 + repo % 2), RepoId(repo));
        let asked = Asked { org, repo, plan };
        let resumed = start + 5_000 + random.below(40_000);
        acts.push(Act { at: start, deed: Deed::Pause { repo, on: true } });
        acts.push(Act { at: start + 1_000, deed: Deed::Trigger { key, asked } });
        acts.push(Act { at: resumed, deed: Deed::Pause { repo, on: false } });
        start = resumed + 40_000;
    }
}

fn limits(random: &mut Random) -> Vec<(OrgId, u32)> {
    let limit = |random: &mut Random| u32::try_from(1 + random.below(3)).unwrap_or(1);
    let orgs = [OrgId(1), OrgId(2)].into_iter();
    let limited: Vec<OrgId> = orgs.filter(|_| random.chance(1, 2)).collect();
    limited.into_iter().map(|org| (org, limit(random))).collect()
}

/// Some runners that stay for ever and can do nearly everything between them, and some more.
fn fleet(random: &mut Random) -> Vec<Spec> {
    let mut fleet = Vec::new();
    // In some worlds one large machine does nearly all.
    let large = random.chance(1, 3);
    for _ in 0..if large { 1 } else { 2 + random.below(2) } {
        let spec = spec(random, &["linux", "big"], None, false);
        fleet.push(Spec { slots: spec.slots + if large { 4 } else { 0 }, ..spec });
    }
    for _ in 0..random.below(if large { 3 } else { 5 }) {
        let org = random.chance(1, 3).then(|| OrgId(i64::from(random.chance(1, 2)) + 1));
        let single_use = random.chance(1, 2);
        let labels: &[&'static str] = if random.chance(1, 5) { &["big"] } else { &["linux"] };
        fleet.push(spec(random, labels, org, single_use));
    }
    if random.chance(1, 2) {
        fleet.push(spec(random, &["gpu"], None, false));
    }
    fleet
}

fn spec(
    random: &mut Random,
    labels: &[&'static str],
    org: Option<OrgId>,
    single_use: bool,
) -> Spec {
    let words = labels.iter().map(|&label| label.to_owned()).collect();
    let offer = Offer { labels: words, ..Offer::default() };
    let capabilities = Capabilities::new(offer).expect("the labels are plain words");
    let more = usize::try_from(random.below(5) * random.below(2)).unwrap_or(0);
    Spec {
        labels: labels.to_vec(),
        capabilities: Rc::new(capabilities),
        org,
        slots: if single_use { 1 } else { 1 + more },
        single_use,
        several: random.chance(2, 3),
        pace: 800 + random.below(400),
    }
}

/// How one try of a job goes, if nobody disturbs it. A pure function: whoever runs it sees the same.
pub(super) fn fate(seed: u64, given: &Given) -> (u64, Conclusion) {
    let mut number = seed;
    let parts = [
        given.run,
        given.attempt.into(),
        given.workflow as u64,
        given.position as u64,
        given.index.into(),
        given.retries.into(),
    ];
    for part in parts {
        number = Random::new(number ^ part).next();
    }
    let mut random = Random::new(number);
    let millis = match random.below(20) {
        0..=8 => 200 + random.below(3_000),
        9..=17 => 2_000 + random.below(20_000),
        _ => 30_000 + random.below(90_000),
    };
    // In some worlds jobs take round times: those that began together end together.
    let millis = if seed.is_multiple_of(2) { millis.next_multiple_of(2_000) } else { millis };
    let conclusion = match random.below(100) {
        0..=73 => Conclusion::Success,
        74..=96 => Conclusion::Failure,
        _ => Conclusion::TimedOut,
    };
    (millis, conclusion)
}
