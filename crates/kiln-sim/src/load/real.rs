//! The policies of a server: the picker of `kiln-core`, with use charged and corrected as the store does.

use std::collections::{HashMap, VecDeque};

use kiln_core::id::{JobId, LaneId, OrgId, QueueId, RepoId};
use kiln_core::queue::{
    self, Asker, Batch, Head, HeadStarts, Next, OrgShare, Pick, Picker, RepoShare, Usage, estimate,
    key, typical,
};

use super::fleet::Fleet;
use super::jobs::Load;
use super::numbers::{id, place, seconds};
use super::simulate::{Asking, Chooser};

/// So few choices rarely take twice from one lane.
const FEW: usize = 8;

/// What an organization or a repository has used, and how long its jobs take.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    usage: Usage,
    typical: Option<f64>,
}

#[derive(Debug)]
pub(super) struct Real<'l> {
    load: &'l Load,
    fleet: &'l Fleet,
    policy: queue::Policy,
    /// The jobs of each lane, first in, first out.
    lanes: Vec<VecDeque<u32>>,
    open: OpenLanes,
    organizations: Vec<Account>,
    repositories: Vec<Account>,
    /// What was charged in advance for each job.
    charged: Vec<f64>,
    head_starts: HeadStarts,
    /// How many heads of each lane the picker has seen in this choice, and of which it has seen any.
    seen: Vec<usize>,
    read: Vec<usize>,
}

impl<'l> Real<'l> {
    pub(super) fn new(load: &'l Load, fleet: &'l Fleet, policy: queue::Policy) -> Self {
        Self {
            load,
            fleet,
            policy,
            lanes: vec![VecDeque::new(); load.lanes.len()],
            open: OpenLanes::new(load),
            organizations: vec![Account::default(); load.organizations.len()],
            repositories: vec![Account::default(); load.repositories.len()],
            charged: vec![0.0; load.jobs.len()],
            head_starts: HeadStarts::default(),
            seen: vec![0; load.lanes.len()],
            read: Vec::new(),
        }
    }

    fn batch(&self, now: i64, asking: &[Asking], running: &[u32]) -> Batch {
        let mut kinds: Vec<u32> = asking
            .iter()
            .flat_map(|asking| self.fleet.serves(asking.pool as usize))
            .copied()
            .filter(|&kind| !self.open.of(kind).is_empty())
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        let open = kinds.iter().flat_map(|&kind| self.open.of(kind)).map(|&lane| lane as usize);
        let mut batch = Batch {
            now,
            policy: self.policy,
            lanes: open.map(|lane| self.lane(lane)).collect(),
            orgs: HashMap::new(),
            repos: HashMap::new(),
            askers: asking.iter().map(|&asking| self.asker(asking, &kinds)).collect(),
        };
        for lane in &batch.lanes {
            let share = || self.organization(place(lane.org.0), now, running);
            batch.orgs.entry(lane.org).or_insert_with(share);
            let share = || self.repository(place(lane.repo.0), now);
            batch.repos.entry(lane.repo).or_insert_with(share);
        }
        batch
    }

    /// One asker for all idle runners of a pool: nothing else tells them apart.
    fn asker(&self, asking: Asking, kinds: &[u32]) -> Asker {
        let serves = self.fleet.serves(asking.pool as usize).iter();
        let open = serves.filter(|kind| kinds.binary_search(kind).is_ok());
        let queues = open.map(|&kind| QueueId(kind.into()).into()).collect();
        Asker { queues, org: None, want: asking.want, warm: Vec::new() }
    }

    fn lane(&self, lane: usize) -> queue::Lane {
        let facts = &self.load.lanes[lane];
        queue::Lane {
            id: LaneId(id(lane)),
            queue: QueueId(facts.kind.into()),
            priority: facts.priority,
            org: OrgId(facts.organization.into()),
            repo: RepoId(facts.repository.into()),
            class: facts.class,
        }
    }

    fn organization(&self, organization: usize, now: i64, running: &[u32]) -> OrgShare {
        let facts = &self.load.organizations[organization];
        OrgShare {
            shares: facts.shares,
            consumed: self.organizations[organization].usage.at(now),
            running: running[organization],
            limit: facts.limit,
        }
    }

    fn repository(&self, repository: usize, now: i64) -> RepoShare {
        let account = &self.repositories[repository];
        RepoShare {
            consumed: account.usage.at(now),
            estimate: estimate(account.typical),
            head_starts: self.head_starts,
            ..RepoShare::default()
        }
    }

    /// Brings the next heads of a lane.
    fn bring(&mut self, picker: &mut Picker<()>, lane: usize, piece: usize) {
        let seen = &mut self.seen[lane];
        if *seen == 0 {
            self.read.push(lane);
        }
        let class = self.load.lanes[lane].class;
        let jobs = self.lanes[lane].iter().skip(*seen).take(piece);
        let head = |&job: &u32| {
            let submitted = self.load.jobs[job as usize].submitted;
            let key = key(submitted, class, &self.head_starts);
            Head { key, job: JobId(job.into()), payload: () }
        };
        let heads: Vec<Head<()>> = jobs.map(head).collect();
        *seen += heads.len();
        let exhausted = heads.len() < piece;
        picker.heads(LaneId(id(lane)), heads, exhausted);
    }

    /// Scores can only be compared once a head of each lane is known: all are brought at once, and not
    /// some by some as the picker would ask for them.
    fn bring_all(&mut self, picker: &mut Picker<()>, asking: &[Asking]) {
        let kinds = asking.iter().flat_map(|asking| self.fleet.serves(asking.pool as usize));
        let lanes: Vec<u32> = kinds.flat_map(|&kind| self.open.of(kind)).copied().collect();
        let piece = if picker.wanted() > FEW { picker.piece(lanes.len()) } else { 1 };
        for lane in lanes {
            // Several pools may serve the same kind.
            if self.seen[lane as usize] == 0 {
                self.bring(picker, lane as usize, piece);
            }
        }
    }

    fn take(&mut self, pick: &Pick<()>, now: i64) -> u32 {
        let lane = place(pick.lane.0);
        let job = self.lanes[lane].pop_front().expect("a lane that was chosen from had a job");
        debug_assert_eq!(i64::from(job), pick.head.job.0, "first in, first out within a lane");
        let facts = &self.load.lanes[lane];
        if self.lanes[lane].is_empty() {
            self.open.close(facts.kind, lane);
        }
        self.charged[job as usize] = pick.estimate;
        self.organizations[facts.organization as usize].usage.add(pick.estimate, now);
        self.repositories[facts.repository as usize].usage.add(pick.estimate, now);
        job
    }
}

impl Chooser for Real<'_> {
    fn submit(&mut self, job: u32) {
        let lane = self.load.jobs[job as usize].lane as usize;
        if self.lanes[lane].is_empty() {
            self.open.open(self.load.lanes[lane].kind, lane);
        }
        self.lanes[lane].push_back(job);
    }

    fn ended(&mut self, job: u32, now: i64) {
        let took = seconds(self.load.jobs[job as usize].millis.into());
        let correction = took - self.charged[job as usize];
        let lane = self.load.lane(job);
        self.organizations[lane.organization as usize].usage.add(correction, now);
        let repository = &mut self.repositories[lane.repository as usize];
        repository.usage.add(correction, now);
        repository.typical = typical(repository.typical, 1, took);
    }

    fn choose(
        &mut self,
        now: i64,
        asking: &[Asking],
        running: &mut [u32],
        chosen: &mut Vec<(u32, u32)>,
    ) {
        let mut picker = Picker::new(self.batch(now, asking, running));
        let mut picks = Vec::new();
        for lane in self.read.drain(..) {
            self.seen[lane] = 0;
        }
        if self.policy == queue::Policy::Score {
            self.bring_all(&mut picker, asking);
        }
        loop {
            match picker.next() {
                Next::Pick(pick) => picks.push(pick),
                Next::Fetch(lanes) => {
                    let piece = picker.piece(lanes.len());
                    for lane in lanes {
                        self.bring(&mut picker, place(lane.0), piece);
                    }
                }
                Next::Done => break,
            }
        }
        for pick in &picks {
            let job = self.take(pick, now);
            running[self.load.lane(job).organization as usize] += 1;
            chosen.push((asking[pick.asker].pool, job));
        }
    }
}

/// The lanes of each kind that have jobs.
#[derive(Debug)]
struct OpenLanes {
    by_kind: Vec<Vec<u32>>,
    /// Where each lane stands among those of its kind.
    places: Vec<usize>,
}

impl OpenLanes {
    fn new(load: &Load) -> Self {
        Self { by_kind: vec![Vec::new(); load.kinds.len()], places: vec![0; load.lanes.len()] }
    }

    fn of(&self, kind: u32) -> &[u32] {
        &self.by_kind[kind as usize]
    }

    fn open(&mut self, kind: u32, lane: usize) {
        let lanes = &mut self.by_kind[kind as usize];
        self.places[lane] = lanes.len();
        lanes.push(super::numbers::number(lane));
    }

    fn close(&mut self, kind: u32, lane: usize) {
        let lanes = &mut self.by_kind[kind as usize];
        let place = self.places[lane];
        lanes.swap_remove(place);
        if let Some(&moved) = lanes.get(place) {
            self.places[moved as usize] = place;
        }
    }
}
