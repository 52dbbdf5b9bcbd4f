//! The two long conversations with the server: asking for work, and being heard while there is some.

use std::sync::Arc;
use std::time::Duration;

use kiln_proto::job::Job;
use kiln_proto::runner::{Claim, HEARTBEAT, Health, Heartbeat, LONGEST_POLL};
use tokio::sync::{mpsc, oneshot, watch};

use crate::random;

use super::Message;
use super::backoff::Backoff;
use super::clock;
use super::dispatcher::Mood;
use super::health::Gauge;
use super::mirrors::Mirrors;
use super::session::{Session, Trouble};

/// Jobs come and go faster than the server needs to hear of it: a change waits for others.
const SETTLE: Duration = Duration::from_millis(200);

/// What both conversations need.
#[derive(Debug, Clone)]
pub(super) struct Talk {
    pub(super) session: Arc<Session>,
    pub(super) mood: watch::Receiver<Mood>,
    pub(super) messages: mpsc::UnboundedSender<Message>,
}

impl Talk {
    /// Asks for jobs whenever one is wanted, until nobody listens any more.
    pub(super) async fn claims(mut self, mirrors: Mirrors, gauge: Gauge) {
        let mut backoff = Backoff::default();
        loop {
            if self.mood.wait_for(|mood| mood.wants_work).await.is_err() {
                return;
            }
            // The question keeps its nonce until it has an answer: what was given and got lost on
            // the way is given again.
            let Ok(nonce) = random::hex::<16>() else { return };
            let want = self.mood.borrow().free;
            let question = Claim { nonce, wait: LONGEST_POLL, warm: mirrors.warm(), want };
            if !self.ask(&question, &gauge, &mut backoff).await {
                return;
            }
        }
    }

    /// Asks until there is an answer, or no more wish for one. Returns whether to go on.
    async fn ask(&mut self, question: &Claim, gauge: &Gauge, backoff: &mut Backoff) -> bool {
        loop {
            let mut mood = self.mood.clone();
            let answer = tokio::select! {
                biased;
                answer = self.session.claim(question) => answer,
                () = until(&mut mood, |mood| !mood.wants_work) => {
                    return self.ask_for_the_last_time(question, gauge).await;
                }
            };
            match answer {
                Ok(jobs) => {
                    backoff.reset();
                    return self.hand_over(jobs).await;
                }
                Err(Trouble::Fatal(error)) => {
                    let _ = self.messages.send(Message::Fatal(error));
                    return false;
                }
                Err(Trouble::Later(why, after)) => {
                    let pause = backoff.pause(after);
                    tracing::warn!(why, "the server is away, asking again in {pause:?}");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// The question was broken off. If the answer was on its way, it holds jobs that are now ours.
    async fn ask_for_the_last_time(&mut self, question: &Claim, gauge: &Gauge) -> bool {
        let mood = self.mood.borrow().clone();
        // The server must know first that there is no wish for another.
        if self.session.heartbeat(&heartbeat(&mood, gauge, 0)).await.is_err() {
            return true;
        }
        let question = Claim { wait: 0, ..question.clone() };
        match self.session.claim(&question).await {
            Ok(jobs) => self.hand_over(jobs).await,
            Err(_) => true,
        }
    }

    /// Waits until the jobs have their places: only then it is known whether there is room for more.
    async fn hand_over(&self, jobs: Vec<Job>) -> bool {
        for job in jobs {
            let (taken, is_taken) = oneshot::channel();
            let message = Message::Claimed(Box::new(job), taken);
            if self.messages.send(message).is_err() || is_taken.await.is_err() {
                return false;
            }
        }
        true
    }

    /// Lets the server hear of the jobs at hand, and hears its commands, until nobody listens any more.
    pub(super) async fn heartbeats(mut self, gauge: Gauge) {
        let mut backoff = Backoff::default();
        let mut hasty = Backoff::default();
        // What the server was told last, as far as it matters to it.
        let mut leaving = false;
        loop {
            if self.mood.wait_for(|mood| mood.must_be_heard(leaving)).await.is_err() {
                return;
            }
            // The claim has just told the server all that this heartbeat could.
            tokio::time::sleep(SETTLE).await;
            let told = self.mood.borrow_and_update().clone();
            if !told.must_be_heard(leaving) {
                continue;
            }
            // With nothing to be told about, nothing is waited for.
            let wait = if told.must_be_heard(told.is_leaving()) { HEARTBEAT } else { 0 };
            let heartbeat = heartbeat(&told, &gauge, wait);
            let begun = clock::instant();
            let mut mood = self.mood.clone();
            let answer = tokio::select! {
                biased;
                answer = self.session.heartbeat(&heartbeat) => answer,
                // What was told is not true any more, and perhaps it was heard.
                () = until(&mut mood, |now| says_more(&told, now)) => {
                    leaving |= told.is_leaving();
                    continue;
                }
            };
            match answer {
                Ok(answer) => {
                    backoff.reset();
                    leaving = told.is_leaving();
                    let is_quick = clock::instant() - begun < Duration::from_secs(1);
                    if is_quick && wait > 0 && answer.commands.is_empty() {
                        // A server that does not wait must not be asked all the time.
                        tokio::time::sleep(hasty.pause(None)).await;
                    } else {
                        hasty.reset();
                    }
                    for command in answer.commands {
                        let _ = self.messages.send(Message::Command(command));
                    }
                }
                Err(Trouble::Fatal(error)) => {
                    let _ = self.messages.send(Message::Fatal(error));
                    return;
                }
                Err(Trouble::Later(why, after)) => {
                    tracing::debug!(why, "not heard");
                    tokio::time::sleep(backoff.pause(after)).await;
                }
            }
        }
    }
}

/// The trouble is the one that the runner acts on: of any other the server would never hear that it is over.
fn heartbeat(mood: &Mood, gauge: &Gauge, wait: u32) -> Heartbeat {
    let (jobs, draining) = (mood.jobs.clone(), mood.draining);
    let health = Health { trouble: mood.trouble.clone(), ..gauge.look() };
    Heartbeat { jobs, draining, health, wait }
}

/// Waits for a mood, or until there will be no other.
async fn until(mood: &mut watch::Receiver<Mood>, is_so: impl FnMut(&Mood) -> bool) {
    let _ = mood.wait_for(is_so).await;
}

/// Whether the server must hear at once what has changed. A job that is gone can wait.
fn says_more(told: &Mood, now: &Mood) -> bool {
    let is_new = now.jobs.iter().any(|job| !told.jobs.contains(job));
    is_new
        || (now.jobs.is_empty() && !told.jobs.is_empty())
        || now.draining != told.draining
        || now.trouble.is_some() != told.trouble.is_some()
}

#[cfg(test)]
mod tests {
    use kiln_proto::job::JobRef;

    use super::super::health::Bounds;
    use super::*;

    /// S15
    #[test]
    fn the_server_hears_of_trouble_when_the_runner_acts_on_it_and_not_before() {
        let bounds = Bounds { least_disk_mb: u64::MAX, ..Bounds::default() };
        let gauge = Gauge { work: "/".into(), bounds, cores: 1 };
        assert!(gauge.look().trouble.is_some(), "the disk has become full just now");
        let unaware = Mood::default();
        assert_eq!(heartbeat(&unaware, &gauge, 0).health.trouble, None);
        let aware = Mood { trouble: Some("no room".to_owned()), ..Mood::default() };
        assert_eq!(heartbeat(&aware, &gauge, 0).health.trouble.as_deref(), Some("no room"));
    }

    #[test]
    fn the_server_hears_at_once_of_new_jobs_but_not_of_those_that_are_gone() {
        let job = |id| JobRef { job_id: id, attempt: 1 };
        let mood = |jobs: &[i64]| Mood {
            jobs: jobs.iter().map(|id| job(*id)).collect(),
            ..Mood::default()
        };
        let check = |told: &[i64], now: &[i64], expect: bool| {
            assert_eq!(says_more(&mood(told), &mood(now)), expect, "{told:?} {now:?}");
        };
        check(&[1, 2], &[1, 2], false);
        check(&[1, 2], &[2], false);
        check(&[1, 2], &[2, 3], true);
        check(&[1], &[], true);
        check(&[], &[], false);
        let draining = Mood { draining: true, ..mood(&[1]) };
        assert!(says_more(&mood(&[1]), &draining));
    }
}
