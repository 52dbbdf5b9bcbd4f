//! A runner asks for work, and waits for it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use kiln_core::id::{RepoId, RunnerId};
use kiln_core::queue::Serving;
use kiln_fault::Point;
use kiln_proto::job::{Contexts, Job};
use kiln_proto::runner::{Claim, LONGEST_POLL};
use kiln_store::claims::{Asking, Claimed};
use kiln_store::runs::Assignment;
use kiln_store::{Offered, StoreError};
use tokio::time::{Instant, timeout_at};

use super::job::{self, Unpreparable};
use super::report;
use crate::app::App;
use crate::fleet::{Member, Seat};
use crate::http::error::{Answer, Failure};
use crate::token::JobAccess;

/// The longest name of a question.
const LONGEST_NONCE: usize = 100;
/// How many jobs are given with one answer.
const MOST_AT_ONCE: u32 = 16;
/// How long the texts of several jobs may be together: a runner takes no answer beyond 64 MiB.
const LONGEST_ANSWER: usize = 16 << 20;
/// How many repositories that are at hand are worth knowing.
const MOST_WARM: usize = 20;

/// Waits for a job, up to as long as the runner wants, or for several if it has room for them. None is none in time.
pub async fn claim(app: &App, member: Arc<Member>, asked: Claim) -> Answer<Vec<Job>> {
    check(&asked)?;
    let warm: Arc<[String]> = asked.warm.into_iter().take(MOST_WARM).collect();
    let at_hand = Box::pin(app.fleet.repositories(&member, &warm)).await?;
    let question = Question { nonce: asked.nonce, at_hand, want: asked.want.max(1) };
    let until = Instant::now() + Duration::from_secs(asked.wait.min(LONGEST_POLL).into());
    let mut poll = Poll { app, member, question, warm, until };
    loop {
        let Some((offered, seat)) = poll.next().await? else { return Ok(Vec::new()) };
        // Boxed, as all that is large here: thousands wait in this place, and each would keep room for it.
        let jobs = Box::pin(poll.prepared(*offered)).await?;
        if jobs.is_empty() {
            continue;
        }
        Point::ServerClaimed.pass();
        seat.served();
        if poll.member.runner.about.single_use {
            // What is known of it says that it has no job.
            app.fleet.forget(poll.member.runner.id);
        }
        return Ok(jobs);
    }
}

fn check(asked: &Claim) -> Answer<()> {
    let nonce = &asked.nonce;
    let good = !nonce.is_empty() && nonce.len() <= LONGEST_NONCE && !nonce.contains('\0');
    if good {
        return Ok(());
    }
    let expected = "a text of 1 to 100 bytes, another one for each question";
    Err(Failure::invalid(format!("nonce: expected {expected}")))
}

/// About how long a job is in an answer.
fn length(job: &Job) -> usize {
    let Contexts { github, vars, inputs, needs, matrix, strategy } = &job.contexts;
    let texts = [&job.plan, github, vars, inputs, needs, matrix, strategy];
    texts.iter().map(|text| text.get().len()).sum::<usize>() + job.secrets.encrypted_data.len()
}

/// A question that a runner asks until there is an answer.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) nonce: String,
    /// Repositories whose files the runner has.
    pub(crate) at_hand: Vec<RepoId>,
    /// How many jobs the runner has room for.
    pub(crate) want: u32,
}

/// A poll under way.
#[derive(Debug)]
pub(crate) struct Poll<'a> {
    pub(crate) app: &'a App,
    pub(crate) member: Arc<Member>,
    pub(crate) question: Question,
    pub(crate) warm: Arc<[String]>,
    pub(crate) until: Instant,
}

impl Poll<'_> {
    /// All that the runner must know of these. What was taken away again, by a cancel for example, is left out. What cannot be
    /// prepared at the moment goes back if others can, and so does what would make the answer too long.
    async fn prepared(&self, offered: Offered) -> Answer<Vec<Job>> {
        let claimed = offered.jobs;
        let preparing = claimed.iter().zip(offered.assignments);
        // At once, so that what they ask for shares transactions.
        let prepared = join_all(preparing.map(|(job, known)| self.prepare(job, known))).await;
        let most = if self.question.want > 1 { usize::MAX } else { 1 };
        let (mut jobs, mut faults, mut back) = (Vec::new(), Vec::new(), Vec::new());
        let mut room = LONGEST_ANSWER;
        for (claimed, prepared) in claimed.iter().zip(prepared) {
            match prepared {
                Ok(None) => {}
                Ok(Some(job)) if jobs.is_empty() || (jobs.len() < most && length(&job) <= room) => {
                    room = room.saturating_sub(length(&job));
                    jobs.push(job);
                }
                Ok(Some(_)) => back.push(claimed),
                Err(fault) => {
                    faults.push(fault);
                    back.push(claimed);
                }
            }
        }
        if jobs.is_empty()
            && let Some(fault) = faults.pop()
        {
            return Err(fault);
        }
        for claimed in back {
            let Claimed { job, claim, org, repo, .. } = *claimed;
            let access = JobAccess { job, claim, runner: self.member.runner.id, org, repo };
            report::take_back(self.app, access, "it could not be told of with the others").await?;
        }
        Ok(jobs)
    }

    async fn prepare(&self, claimed: &Claimed, known: Option<Assignment>) -> Answer<Option<Job>> {
        let runner = self.member.runner.id;
        match job::prepare(self.app, &self.member, claimed, known).await {
            Ok(Some(job)) => {
                self.app.fleet.remember_heard(claimed.job, claimed.claim, runner, 0);
                Ok(Some(job))
            }
            Ok(None) => Ok(None),
            Err(Unpreparable::Now(error)) => Err(error.into()),
            Err(Unpreparable::Ever(reason)) => {
                job::fail(self.app, runner, claimed, &reason).await?;
                Ok(None)
            }
        }
    }

    /// The next jobs for this runner, or none when the time is over.
    pub(crate) async fn next(&mut self) -> Answer<Option<(Box<Offered>, Seat)>> {
        let id = self.member.runner.id;
        let mut nudges = self.app.fleet.nudges(id);
        let mut seat: Option<Seat> = None;
        loop {
            nudges.mark_unchanged();
            self.member = Box::pin(self.app.fleet.member(id)).await?;
            let taken = match seat.take() {
                // What it may take can have changed while it slept.
                Some(seat) if seat.is_for(&self.queues()) => seat,
                _ => self.app.fleet.sit_down(&self.member, self.queues(), Arc::clone(&self.warm)),
            };
            let offered = Box::pin(self.ask(id, &taken)).await?;
            if !offered.jobs.is_empty() {
                return Ok(Some((Box::new(offered), taken)));
            }
            if let Some(again) = offered.again {
                taken.wake_at(again);
            }
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.app.stopping.is_cancelled() {
                return Ok(None);
            }
            if self.want() == 0 {
                // It must not be woken in the place of one that can work.
                drop(taken);
                tokio::select! {
                    _ = nudges.changed() => {}
                    () = tokio::time::sleep_until(self.until) => return Ok(None),
                    () = self.app.stopping.cancelled() => return Ok(None),
                }
                continue;
            }
            tokio::select! {
                woken = taken.sleep(left) => match woken {
                    Some(woken) => seat = Some(woken),
                    None => return Ok(None),
                },
                _ = nudges.changed() => {}
                () = self.app.stopping.cancelled() => return Ok(None),
            }
        }
    }

    fn queues(&self) -> Arc<[Serving]> {
        self.member.queues()
    }

    async fn ask(&self, runner: RunnerId, seat: &Seat) -> Result<Offered, StoreError> {
        // Several jobs on one machine are slower than on several, of which some wait for work.
        let most = if seat.others_sleep() { 1 } else { self.question.want.min(MOST_AT_ONCE) };
        let asking = Asking {
            runner,
            queues: self.queues().to_vec(),
            org: self.member.runner.org,
            want: self.want().min(most),
            nonce: self.question.nonce.clone(),
            warm: self.question.at_hand.clone(),
        };
        let claim = self.app.traffic.claim(asking);
        // A database that hangs must not hold the runner longer than it wants to wait.
        match timeout_at(self.until + Duration::from_secs(5), claim).await {
            Ok(offered) => offered,
            // It may be done after all: the runner asks the same question again.
            Err(_) => Err(StoreError::Transient("the claim took too long".to_owned())),
        }
    }

    /// None for a runner that is to stop, or had its single job. Even then a question that was answered
    /// before is answered again.
    fn want(&self) -> u32 {
        let runner = &self.member.runner;
        let spent = runner.about.single_use && runner.leases + runner.completed + runner.failed > 0;
        let room = u32::try_from(runner.about.max_parallel).unwrap_or(1).max(1);
        let room = if runner.about.single_use { 1 } else { room };
        if self.member.is_leaving() || spent { 0 } else { room }
    }
}
