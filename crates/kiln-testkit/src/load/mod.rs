//! Load on a store, from many sides at once: runs are created, claimed, finished, lost, cancelled and
//! run again, and every answer is told to whoever wants to check it later.

mod answers;
mod drain;
mod plans;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kiln_core::id::{OrgId, RepoId, RunId, RunnerId, WorkflowId};
use kiln_core::plan::Plan;
use kiln_core::queue::Policy;
use kiln_core::run::{Again, Conclusion, Event};
use kiln_store::claims::{self, Asking, Beat, Claimed};
use kiln_store::runs::{Answer, Happened, JobNews, Runs, Word};
use kiln_store::{Actor, Store, StoreError, Tx};
use tokio::task::JoinSet;
use tokio::time::sleep;

pub use answers::{Answered, forgotten};
pub use drain::{drain, lose_runners, open_runs};

use crate::dice::Dice;
use crate::runs::{Pushed, SYSTEM, Site};

/// How many runners ask for work.
const RUNNERS: i64 = 4;
/// How many jobs the organization may run at once.
const LIMIT: i64 = 6;
/// How many runs are open at most.
const OPEN: i64 = 30;

/// Hears each answer.
pub type Told = Arc<dyn Fn(Answered) + Send + Sync>;

/// A site in a database that may be new or filled.
pub async fn open_site(store: Store) -> Site {
    store.migrate().await.expect("the database is ours");
    let find = async |tx: &mut Tx<'_>| {
        let sql = "SELECT org_id, repo_id, id FROM workflows ORDER BY id LIMIT 1";
        let row = tx.row(sql, &[]).await?;
        row.map(|row| Ok((OrgId(row.get(0)?), RepoId(row.get(1)?), WorkflowId(row.get(2)?))))
            .transpose()
    };
    let found: Option<_> = store.read(find).await.expect("the database is ours");
    let Some((org, repo, workflow)) = found else {
        let site = Site::new(store).await;
        limit(&site).await;
        return site;
    };
    Site { runs: Runs::new(store, Arc::new(Pushed)), org, repo, workflow }
}

/// Lets the organization run a few jobs at once, so that its counter has something to count.
async fn limit(site: &Site) {
    let org = site.org;
    let work = async move |tx: &mut Tx<'_>| {
        let sql = "INSERT INTO org_loads (org_id, running, job_limit) VALUES ($1, 0, $2)";
        tx.execute(sql, &[org.0.into(), LIMIT.into()]).await
    };
    site.store().write(work).await.expect("the organization is new");
}

/// Load under way. It ends when it is dropped or told to.
#[derive(Debug)]
pub struct Load {
    tasks: JoinSet<()>,
    shared: Arc<Shared>,
}

/// What its tasks share.
struct Shared {
    site: Site,
    seed: u64,
    plans: Vec<Arc<Plan>>,
    told: Told,
    runs: Mutex<Vec<RunId>>,
    ended: AtomicBool,
    trouble: AtomicU64,
    doubts: AtomicU64,
    count: AtomicU64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl Load {
    /// Begins. The seed decides what is done, and makes keys of different loads differ.
    pub fn start(site: Site, seed: u64, told: Told) -> Self {
        let mut dice = Dice::new(seed);
        let shared = Arc::new(Shared {
            site,
            seed,
            plans: (0..16).map(|_| plans::plan(&mut dice)).collect(),
            told,
            runs: Mutex::default(),
            ended: AtomicBool::new(false),
            trouble: AtomicU64::new(0),
            doubts: AtomicU64::new(0),
            count: AtomicU64::new(0),
        });
        let mut tasks = JoinSet::new();
        for runner in 1..=RUNNERS {
            tasks.spawn(Arc::clone(&shared).serve(runner, dice.fork()));
        }
        tasks.spawn(Arc::clone(&shared).create(dice.fork()));
        tasks.spawn(Arc::clone(&shared).disturb(dice.fork()));
        tasks.spawn(Arc::clone(&shared).keep_house());
        Self { tasks, shared }
    }

    /// How often the database could not be reached, and how often an answer was in doubt.
    pub fn trouble(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.shared.trouble), count(&self.shared.doubts))
    }

    /// Lets everybody finish what they are at.
    pub async fn end(mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("no part of the load panics");
        }
    }
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
    }

    fn tell(&self, answered: Answered) {
        (self.told)(answered);
    }

    /// Asks again until there is an answer. All questions here may be asked twice.
    async fn insist<T, F>(&self, ask: impl Fn() -> F) -> Option<T>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        loop {
            match ask().await {
                Ok(answer) => return Some(answer),
                Err(StoreError::Refused(_)) => return None,
                Err(StoreError::Transient(_)) => self.trouble.fetch_add(1, Ordering::Relaxed),
                Err(StoreError::InDoubt(_)) => self.doubts.fetch_add(1, Ordering::Relaxed),
                Err(other) => panic!("no load should bring this about: {other}"),
            };
            // A server that recovers has better things to do than to refuse connections.
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn nonce(&self) -> String {
        format!("{}-{}", self.seed, self.count.fetch_add(1, Ordering::Relaxed))
    }

    async fn create(self: Arc<Self>, mut dice: Dice) {
        while self.goes_on() {
            if self.insist(|| count_open(&self.site)).await >= Some(OPEN) {
                sleep(Duration::from_millis(10)).await;
                continue;
            }
            let mut new = self.site.push(dice.one_of(&self.plans).clone());
            new.once = vec![(self.nonce(), Duration::from_hours(1))];
            let created = self.insist(|| self.site.runs.create(new.clone())).await;
            if let Some(created) = created {
                let run = created.run();
                self.tell(Answered::Created { run });
                self.runs.lock().unwrap_or_else(PoisonError::into_inner).push(run);
            }
        }
    }

    /// A runner that is not quite reliable.
    async fn serve(self: Arc<Self>, runner: i64, mut dice: Dice) {
        while self.goes_on() {
            let want = 1 + u32::try_from(dice.below(3)).unwrap_or(0);
            let claimed = self.claim(runner, want).await;
            if claimed.is_empty() {
                sleep(Duration::from_millis(3)).await;
            }
            for job in &claimed {
                let (job, claim) = (job.job, job.claim);
                self.tell(Answered::Claimed { job, claim, runner });
            }
            for job in claimed {
                self.work(runner, &job, &mut dice).await;
            }
        }
    }

    async fn claim(&self, runner: i64, want: u32) -> Vec<Claimed> {
        let nonce = self.nonce();
        let answers = self.insist(|| self.ask(runner, want, nonce.clone())).await;
        answers.map(|mut answers| answers.remove(0)).unwrap_or_default()
    }

    async fn ask(
        &self,
        runner: i64,
        want: u32,
        nonce: String,
    ) -> Result<Vec<Vec<Claimed>>, StoreError> {
        let queues = self.site.store().read(async |tx| claims::queues(tx).await).await?;
        let queues = queues.into_iter().map(|(queue, _)| queue);
        let asking = [Asking::new(RunnerId(runner), queues, want, nonce)];
        let work =
            async move |tx: &mut Tx<'_>| Ok(claims::claim(tx, Policy::Fair, &asking).await?.jobs);
        self.site.store().write(work).await
    }

    async fn work(&self, runner: i64, job: &Claimed, dice: &mut Dice) {
        let released = Answered::Released { job: job.job, claim: job.claim };
        match dice.below(20) {
            0 if self.say(runner, job, Word::Returned).await => self.tell(released),
            1 if self.say(runner, job, Word::Lost { reason: "power".into() }).await => {
                self.tell(released);
            }
            2 => self.fall_silent(job).await,
            dice_says => {
                if dice_says % 2 == 0 {
                    self.beat(runner, job).await;
                }
                self.finish(runner, job, dice).await;
            }
        }
    }

    async fn finish(&self, runner: i64, job: &Claimed, dice: &mut Dice) {
        match self.answer(runner, job, Word::Started).await {
            Some(Answer::Accepted) => self.tell(Answered::Started { job: job.job }),
            // Its cancel came first: it never starts, whatever its runner does before it hears of that.
            Some(Answer::Unwanted) => {}
            _ => return,
        }
        if dice.percent(20) {
            self.say(runner, job, Word::Uploading).await;
        }
        let conclusion = match dice.below(10) {
            0 => Conclusion::TimedOut,
            1 | 2 => Conclusion::Failure,
            _ => Conclusion::Success,
        };
        if self.say(runner, job, Word::Finished { conclusion, outputs: Vec::new() }).await {
            let (job, claim) = (job.job, job.claim);
            let conclusion = conclusion.github().to_owned();
            self.tell(Answered::Finished { job, claim, conclusion });
        }
    }

    /// Says something about a job, and whether that was accepted.
    async fn say(&self, runner: i64, job: &Claimed, word: Word) -> bool {
        let answer = self.answer(runner, job, word).await;
        matches!(answer, Some(Answer::Accepted | Answer::Unwanted))
    }

    async fn answer(&self, runner: i64, job: &Claimed, word: Word) -> Option<Answer> {
        let news = JobNews {
            job: job.job,
            claim: Some(job.claim),
            runner: Some(RunnerId(runner)),
            word,
            heard: None,
        };
        let happened = vec![Happened::Job(news)];
        let answers = self.insist(|| self.site.runs.happened(happened.clone())).await?;
        answers.into_iter().next()
    }

    async fn beat(&self, runner: i64, job: &Claimed) {
        let beats = [Beat { runner: RunnerId(runner), held: vec![(job.job, job.claim)] }];
        let ask = || {
            let beats = beats.clone();
            let work = async move |tx: &mut Tx<'_>| claims::heartbeat(tx, &beats).await;
            self.site.store().write(work)
        };
        self.insist(ask).await;
    }

    /// Leaves a job alone; its lease runs out at once, because nobody wants to wait for it.
    async fn fall_silent(&self, job: &Claimed) {
        let (id, claim) = (job.job.0, job.claim);
        let ask = || {
            let work = async move |tx: &mut Tx<'_>| {
                let sql = "UPDATE leases SET expires_at = 1 WHERE job_id = $1 AND claim = $2";
                tx.execute(sql, &[id.into(), claim.into()]).await
            };
            self.site.store().write(work)
        };
        self.insist(ask).await;
    }

    /// Cancels runs, and runs them again.
    async fn disturb(self: Arc<Self>, mut dice: Dice) {
        while self.goes_on() {
            sleep(Duration::from_millis(10)).await;
            let known = self.runs.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if known.is_empty() {
                continue;
            }
            let run = *dice.one_of(&known);
            if dice.percent(30) {
                self.cancel(run, dice.percent(30)).await;
            } else {
                let what = *dice.one_of(&[Again::All, Again::Failed]);
                let actor = Actor::system("load");
                let again = || self.site.runs.again(SYSTEM, &actor, run, what);
                if let Some(attempt) = self.insist(again).await {
                    self.tell(Answered::Again { run, attempt });
                }
            }
        }
    }

    async fn cancel(&self, run: RunId, forced: bool) {
        let event = Event::Cancel { by: "load".into(), reason: "no".into(), forced };
        let happened = vec![Happened::Run { run, event }];
        let answers = self.insist(|| self.site.runs.happened(happened.clone())).await;
        if answers.is_some_and(|answers| answers[0] == Answer::Accepted) {
            self.tell(Answered::Cancelled { run });
        }
    }

    /// What a server does on its own.
    async fn keep_house(self: Arc<Self>) {
        while self.goes_on() {
            self.insist(|| self.site.runs.reap()).await;
            self.insist(|| self.site.runs.wake()).await;
            self.insist(|| self.site.runs.carry_out()).await;
            self.insist(|| claims::tidy_lanes(self.site.store())).await;
            let fold = async |tx: &mut Tx<'_>| claims::fold(tx).await;
            self.insist(|| self.site.store().write(fold)).await;
            sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn count_open(site: &Site) -> Result<i64, StoreError> {
    let count = async |tx: &mut Tx<'_>| {
        let sql = "SELECT count(*) FROM runs WHERE conclusion IS NULL";
        tx.one("count", sql, &[]).await?.get(0)
    };
    site.store().read(count).await
}
