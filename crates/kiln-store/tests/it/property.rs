//! Random runs and random events, in a store and in memory: they come to the same, step by step.

mod compare;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kiln_core::id::{JobId, RunId, RunnerId};
use kiln_core::queue::Policy;
use kiln_core::run::{Event, LegState, Rejected};
use kiln_store::claims::Asking;
use kiln_store::runs::{Answer, Happened, JobNews, Refused, Runs, Word};
use kiln_store::{Store, Traffic, Tx};
use kiln_testkit::fleet::{Deed, Fleet};
use kiln_testkit::runs::{Pushed, SYSTEM, Site, add_repository, like_others, somebody};
use kiln_testkit::shapes::{Action, RunShape, actions, runs};
use proptest::prelude::*;

/// How often a case is tried in the suite.
const CASES: u32 = 24;

/// The same runs in a store and in memory.
struct Both {
    site: Site,
    /// Another server of the same database. Each remembers what it wrote, and must not believe it for longer than it is so.
    other: Runs,
    acts: u32,
    fleet: Fleet,
    waiting: Vec<RunShape>,
    /// By run, attempt and leg.
    jobs: BTreeMap<(u64, u32, u32), JobId>,
    /// By job and claim.
    runners: BTreeMap<(JobId, u32), i64>,
    /// What the store has not been told yet, and what became of it in memory.
    batch: Vec<(Happened, Result<(), Rejected>)>,
}

/// S3, S9, S19, issue 4: what a store keeps is what the engine says.
async fn a_store_comes_to_the_same_as_the_engine_in_memory(store: Store) {
    let site = Site::new(store).await;
    let handle = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        proptest!(ProptestConfig::with_cases(CASES), |(shapes in runs(true), actions in actions(50))| {
            handle.block_on(play(&site, shapes, actions));
        });
    });
}
on_both!(a_store_comes_to_the_same_as_the_engine_in_memory);

/// S3: runs that share no groups do not notice what happens to others in the same transaction.
async fn many_events_in_one_transaction_come_to_the_same_as_one_by_one(store: Store) {
    let site = Site::new(store).await;
    let handle = tokio::runtime::Handle::current();
    let play = async |shapes, actions| {
        let mut both = begin(&site, shapes).await;
        for _ in 0..4 {
            both.act(Action::Create).await;
        }
        for action in actions {
            both.gather(action).await;
        }
        both.flush().await;
        both.settle().await;
    };
    tokio::task::block_in_place(|| {
        proptest!(ProptestConfig::with_cases(CASES), |(shapes in runs(false), actions in actions(50))| {
            handle.block_on(play(shapes, actions));
        });
    });
}
on_both!(many_events_in_one_transaction_come_to_the_same_as_one_by_one);

async fn play(site: &Site, shapes: Vec<RunShape>, actions: Vec<Action>) {
    let mut both = begin(site, shapes).await;
    both.act(Action::Create).await;
    for action in actions {
        both.act(action).await;
    }
    both.settle().await;
}

/// An organization of its own for each case.
async fn begin(site: &Site, waiting: Vec<RunShape>) -> Both {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("org-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let (org, repo, workflow) = add_repository(site.store(), &name, "app").await;
    let site = Site { runs: site.runs.clone(), org, repo, workflow };
    Both {
        other: Runs::new(site.store().clone(), Arc::new(Pushed)),
        acts: 0,
        site,
        fleet: Fleet::new(|_| {}),
        waiting,
        jobs: BTreeMap::new(),
        runners: BTreeMap::new(),
        batch: Vec::new(),
    }
}

impl Both {
    async fn act(&mut self, action: Action) {
        let Some(deed) = self.fleet.choose(action) else { return };
        let text = format!("{deed:?}");
        self.change_servers();
        match deed {
            Deed::Create => self.create().await,
            Deed::Deliver => self.deliver().await,
            Deed::Claim(at) => self.claim(1 + u32::try_from(at % 3).unwrap()).await,
            Deed::Wake => self.wake().await,
            Deed::Tell { run, event } => self.tell(run, event).await,
            Deed::Repeat { run, attempt, event } => self.repeat(run, attempt, event).await,
            Deed::Again { run, what } => {
                let id = RunId(i64::try_from(run).unwrap());
                let there = self.site.runs.again(SYSTEM, &somebody(), id, what).await;
                let here = self.fleet.again(run, what);
                assert_eq!(there.is_ok(), here.is_ok(), "{text}: {there:?}, {here:?}");
            }
        }
        self.compare(&text).await;
    }

    /// Some of what happens to a run, one server hears; then the other goes on.
    fn change_servers(&mut self) {
        self.acts += 1;
        if self.acts.is_multiple_of(5) {
            std::mem::swap(&mut self.site.runs, &mut self.other);
        }
    }

    async fn create(&mut self) {
        let Some(shape) = self.waiting.pop() else { return };
        let plan = shape.plan();
        let run = self.site.runs.create(self.site.push(plan.clone())).await.unwrap().run();
        self.fleet.create(run.0.unsigned_abs(), plan);
    }

    /// What is in the outbox now; what comes of it waits for the next time.
    async fn deliver(&mut self) {
        let count = self.fleet.outbox.len();
        let taken = self.site.runs.carry_out().await.unwrap();
        assert!(taken >= count.min(64), "{taken} of {count} tasks");
        for _ in 0..count.min(64) {
            self.fleet.deliver();
        }
    }

    async fn claim(&mut self, want: u32) {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let runner = i64::try_from(COUNT.fetch_add(1, Ordering::Relaxed)).unwrap();
        let (queues, org) = (self.site.queues().await, Some(self.site.org));
        let nonce = runner.to_string();
        let asking = Asking { org, ..Asking::new(RunnerId(runner), queues, want, nonce) };
        let claims = Traffic::new(&self.site.runs, Policy::Fair);
        let claimed = claims.claim(asking).await.unwrap().jobs;
        let queued = self.fleet.legs(|leg| leg.state == LegState::Queued);
        assert_eq!(claimed.len(), queued.len().min(want as usize), "{queued:?}");
        for claimed in claimed {
            let (run, leg) = (claimed.run.0.unsigned_abs(), claimed.number);
            let event = Event::Claimed { leg, runner: runner.unsigned_abs() };
            self.fleet.tell(run, event).expect("the store found it in the queue");
            assert_eq!(self.fleet.leg(run, leg).attempt, claimed.claim);
            self.runners.insert((claimed.job, claimed.claim), runner);
        }
    }

    async fn wake(&mut self) {
        self.sql("UPDATE timers SET at = 1").await;
        self.sql("UPDATE jobs SET wake_at = 1 WHERE state = 'backoff'").await;
        while self.site.runs.wake().await.unwrap().taken > 0 {}
        self.fleet.wake();
    }

    async fn tell(&mut self, run: u64, event: Event) {
        let (there, here) = match (&event, self.leased(run, &event)) {
            // Half of these are found out by the store itself.
            (Event::Lost { leg, attempt, .. }, Some(job)) if attempt % 2 == 1 => {
                self.expire(job, true).await;
                let reason = "its runner was not heard of for too long".to_owned();
                let event = Event::Lost { leg: *leg, attempt: *attempt, reason };
                (Answer::Accepted, self.fleet.tell(run, event))
            }
            (Event::Returned { leg, .. }, Some(job))
                if matches!(self.fleet.leg(run, *leg).state, LegState::Claimed { .. }) =>
            {
                self.expire(job, false).await;
                (Answer::Accepted, self.fleet.tell(run, event))
            }
            _ => {
                let attempt = self.fleet.runs[&run].run.attempt;
                let there = self.say(run, attempt, event.clone()).await;
                (there, self.fleet.tell(run, event))
            }
        };
        check_answer(&there, here);
    }

    fn leased(&self, run: u64, event: &Event) -> Option<JobId> {
        let (Event::Lost { leg, .. } | Event::Returned { leg, .. }) = event else { return None };
        self.jobs.get(&(run, self.fleet.runs[&run].run.attempt, *leg)).copied()
    }

    /// The lease of a job runs out.
    async fn expire(&self, job: JobId, acknowledged: bool) {
        let acknowledged = i64::from(acknowledged);
        let text = format!(
            "UPDATE leases SET expires_at = 1, acknowledged = {acknowledged} WHERE job_id = {}",
            job.0
        );
        self.sql(text.leak()).await;
        assert!(self.site.runs.reap().await.unwrap().taken > 0);
    }

    async fn repeat(&mut self, run: u64, attempt: u32, event: Event) {
        let there = self.say(run, attempt, event.clone()).await;
        // What is said about an earlier attempt changes nothing, whatever the answer is.
        if self.fleet.runs[&run].run.attempt != attempt {
            return;
        }
        // The store asks first whose job it is; to the engine, a job that nobody has is in a wrong state.
        if there == Answer::Refused(Refused::NotYours) {
            let rows = Fleet::rows(&self.fleet.runs[&run]);
            let _ = self.fleet.tell(run, event);
            assert_eq!(rows, Fleet::rows(&self.fleet.runs[&run]));
        } else {
            check_answer(&there, self.fleet.tell(run, event));
        }
    }

    async fn say(&self, run: u64, attempt: u32, event: Event) -> Answer {
        let news = self.news(run, attempt, event).expect("the store has the job");
        self.site.runs.happened(vec![news]).await.unwrap().remove(0)
    }

    /// An event as the store is told of it, if the store was seen to have the job.
    fn news(&self, run: u64, attempt: u32, event: Event) -> Option<Happened> {
        let (leg, claim, word) = match event {
            Event::Started { leg, attempt, .. } => (leg, Some(attempt), Word::Started),
            Event::Uploading { leg, attempt } => (leg, Some(attempt), Word::Uploading),
            Event::Finished { leg, attempt, conclusion, outputs } => {
                (leg, Some(attempt), Word::Finished { conclusion, outputs })
            }
            Event::Lost { leg, attempt, reason } => (leg, Some(attempt), Word::Lost { reason }),
            Event::Returned { leg, attempt } => (leg, Some(attempt), Word::Returned),
            Event::CancelLeg { leg, reason } => (leg, None, Word::Cancel { reason }),
            Event::Unsupported { leg, reason } => (leg, None, Word::Unsupported { reason }),
            event => {
                let run = RunId(i64::try_from(run).unwrap());
                return Some(Happened::Run { run, event });
            }
        };
        let job = *self.jobs.get(&(run, attempt, leg))?;
        let runner = claim.map(|claim| RunnerId(self.runners[&(job, claim)]));
        Some(Happened::Job(JobNews { job, claim, runner, word, heard: None }))
    }

    /// Keeps what happens to runs until there is enough of it for a transaction.
    async fn gather(&mut self, action: Action) {
        match self.fleet.choose(action) {
            Some(Deed::Tell { run, event }) => {
                let attempt = self.fleet.runs[&run].run.attempt;
                if self.batch.len() >= 5 || self.news(run, attempt, event.clone()).is_none() {
                    self.flush().await;
                }
                let news = self.news(run, attempt, event.clone()).expect("the store has the job");
                let answer = self.fleet.tell(run, event);
                self.batch.push((news, answer));
            }
            Some(_) => {
                self.flush().await;
                self.act(action).await;
            }
            None => {}
        }
    }

    async fn flush(&mut self) {
        let (news, expected): (Vec<_>, Vec<_>) = self.batch.drain(..).unzip();
        let text = format!("{news:?}");
        for (there, here) in self.site.runs.happened(news).await.unwrap().iter().zip(expected) {
            check_answer(there, here);
        }
        self.compare(&text).await;
    }

    /// Lets everything go on until nothing can; no run is left behind then.
    async fn settle(&mut self) {
        while !self.waiting.is_empty() {
            self.act(Action::Create).await;
        }
        for _ in 0..1_000 {
            let Some(action) = self.fleet.next() else { break };
            self.act(action).await;
        }
        self.fleet.assert_settled();
    }

    async fn sql(&self, text: &'static str) {
        let work = async move |tx: &mut Tx<'_>| {
            like_others(tx).await?;
            tx.execute(text, &[]).await
        };
        self.site.store().write(work).await.unwrap();
    }
}

fn check_answer(there: &Answer, here: Result<(), Rejected>) {
    let here = match here {
        // The store says besides how it ended, or that nobody wants it any more.
        Ok(()) if matches!(there, Answer::Otherwise(_) | Answer::Unwanted) => return,
        Ok(()) => Answer::Accepted,
        Err(rejected) => Answer::Refused(Refused::Rejected(rejected)),
    };
    assert_eq!(*there, here);
}
