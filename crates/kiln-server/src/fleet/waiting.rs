//! Who waits for work, and who is woken when there is some.
//!
//! Runners that may take the same jobs are of one *kind*: if one of them gets nothing, neither would the
//! others. So when work comes, one of each kind is woken; if it gets a job, it wakes more of its kind, and
//! they more again; if it gets none, the rest sleep on. One job for thousands of runners costs a few
//! questions, and thousands of jobs are handed out in a few rounds.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kiln_core::id::{OrgId, QueueId};
use kiln_core::queue::Serving;
use kiln_core::time::Timestamp;
use tokio::sync::oneshot;

use super::{Member, locked};
use crate::clock;

/// What runners of a kind may take.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    pub(super) org: Option<OrgId>,
    pub(super) queues: Arc<[Serving]>,
}

impl Kind {
    fn takes(&self, queue: QueueId) -> bool {
        self.queues.iter().any(|one| one.queue == queue)
    }

    /// Whether there can be jobs that both may take.
    fn meets(&self, other: &Self) -> bool {
        let apart = self.org.zip(other.org).is_some_and(|(org, other)| org != other);
        !apart && self.queues.iter().any(|one| other.takes(one.queue))
    }
}

/// The faster sleeps in front, then the one that has slept longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Bed {
    slowness: i64,
    number: u64,
}

#[derive(Debug)]
struct Sleeper {
    wake: oneshot::Sender<u32>,
    /// Repositories whose files the runner has.
    warm: Arc<[String]>,
}

#[derive(Debug)]
struct Room {
    /// Changes when work came and nobody slept: who is asking meanwhile has to ask again.
    news: u64,
    sleepers: BTreeMap<Bed, Sleeper>,
}

#[derive(Debug, Default)]
struct Rooms {
    /// Grows with every bed and every piece of news, so that no number comes twice.
    count: u64,
    by_kind: HashMap<Kind, Room>,
    /// When jobs that wait for preferred runners may be had by others.
    alarms: HashMap<Kind, Timestamp>,
}

/// All waiting runners of this server.
#[derive(Debug, Default, Clone)]
pub(super) struct Waiting(Arc<Mutex<Rooms>>);

/// A runner that asks, and sleeps when there is nothing.
#[derive(Debug)]
pub struct Seat {
    waiting: Waiting,
    kind: Kind,
    warm: Arc<[String]>,
    slowness: i64,
    /// The news of the kind when the question was asked.
    news: u64,
    /// How many were woken in a row before this one; none if nobody woke it. Whoever is woken owes the
    /// others a word.
    woken: Option<u32>,
}

/// Nobody is woken again sooner than this.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// How many rooms without sleepers are kept.
const EMPTY_ROOMS: usize = 1_000;

impl Rooms {
    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn room(&mut self, kind: &Kind) -> &mut Room {
        if !self.by_kind.contains_key(kind) {
            if self.by_kind.len() >= EMPTY_ROOMS {
                self.by_kind.retain(|_, room| !room.sleepers.is_empty());
            }
            // A room that was closed meanwhile opens with news.
            let news = self.next();
            self.by_kind.insert(kind.clone(), Room { news, sleepers: BTreeMap::new() });
        }
        self.by_kind.get_mut(kind).expect("it was made just now")
    }

    /// Wakes up to this many of a kind: first those that have the files at hand.
    fn wake(&mut self, kind: &Kind, mut count: u32, row: u32, wanted: &[String]) {
        let news = self.next();
        let Some(room) = self.by_kind.get_mut(kind) else { return };
        while count > 0 {
            let is_warm = |sleeper: &Sleeper| sleeper.warm.iter().any(|name| wanted.contains(name));
            let warm = || room.sleepers.iter().find(|(_, sleeper)| is_warm(sleeper));
            let bed = if wanted.is_empty() { None } else { warm() };
            let bed = bed.or_else(|| room.sleepers.iter().next()).map(|(bed, _)| *bed);
            let Some(sleeper) = bed.and_then(|bed| room.sleepers.remove(&bed)) else {
                room.news = news;
                return;
            };
            // One that has just gone is not counted.
            if sleeper.wake.send(row).is_ok() {
                count -= 1;
            }
        }
    }
}

impl Waiting {
    /// Must be called before the question is asked.
    pub(super) fn sit_down(&self, member: &Member, kind: Kind, warm: Arc<[String]>) -> Seat {
        let news = locked(&self.0).room(&kind).news;
        #[expect(clippy::cast_possible_truncation, reason = "a factor near one")]
        let slowness = (member.runner.speed * -1_000.0) as i64;
        Seat { waiting: self.clone(), kind, warm, slowness, news, woken: None }
    }

    /// Work came to a queue, or may have come to any.
    pub(super) fn work(&self, queue: Option<QueueId>, wanted: &[String]) {
        let mut rooms = locked(&self.0);
        let concerns = |kind: &&Kind| queue.is_none_or(|queue| kind.takes(queue));
        let mut kinds: Vec<Kind> = rooms.by_kind.keys().filter(concerns).cloned().collect();
        // The most constrained ask first.
        kinds.sort_by_key(|kind| (kind.queues.len(), kind.org.is_none()));
        for kind in kinds {
            rooms.wake(&kind, 1, 0, wanted);
        }
    }

    /// Whether it matters which repositories have work in a queue.
    pub(super) fn cares(&self, queue: QueueId) -> bool {
        let rooms = locked(&self.0);
        let concerned = rooms.by_kind.iter().filter(|(kind, _)| kind.takes(queue));
        concerned.into_iter().any(|(_, room)| {
            room.sleepers.len() > 1 && room.sleepers.values().any(|one| !one.warm.is_empty())
        })
    }

    /// All who sleep look anew: what they may take has changed.
    pub(super) fn wake_all(&self) {
        let mut rooms = locked(&self.0);
        for (_, room) in std::mem::take(&mut rooms.by_kind) {
            for sleeper in room.sleepers.into_values() {
                let _ = sleeper.wake.send(0);
            }
        }
    }

    pub(super) fn sleeping(&self) -> usize {
        locked(&self.0).by_kind.values().map(|room| room.sleepers.len()).sum()
    }
}

impl Seat {
    /// Whether it is the right one for a runner that may take these.
    pub fn is_for(&self, queues: &[Serving]) -> bool {
        *self.kind.queues == *queues
    }

    /// Whether others wait for work that this one may take.
    pub fn others_sleep(&self) -> bool {
        let rooms = locked(&self.waiting.0);
        let mut rooms = rooms.by_kind.iter().filter(|(_, room)| !room.sleepers.is_empty());
        rooms.any(|(kind, _)| self.kind.meets(kind))
    }

    /// There is a job that this kind may have from then on: one of them asks again at that time.
    pub fn wake_at(&self, again: Timestamp) {
        {
            let mut rooms = locked(&self.waiting.0);
            if rooms.alarms.get(&self.kind).is_some_and(|set| *set <= again) {
                return;
            }
            rooms.alarms.insert(self.kind.clone(), again);
        }
        let (waiting, kind) = (self.waiting.clone(), self.kind.clone());
        // The database has a clock of its own.
        let pause = again.since(clock::now()).max(SHORTEST_PAUSE);
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let mut rooms = locked(&waiting.0);
            if rooms.alarms.get(&kind) == Some(&again) {
                rooms.alarms.remove(&kind);
                rooms.wake(&kind, 1, 0, &[]);
            }
        });
    }

    /// There was a job: there may be more for others of this kind.
    pub fn served(mut self) {
        if let Some(row) = self.woken.take() {
            let more = if row == 0 { 1 } else { 2 };
            locked(&self.waiting.0).wake(&self.kind, more, row.saturating_add(1), &[]);
        }
    }

    /// There was nothing: sleeps until there may be something, at most for this long. The next question
    /// can be asked then, if anybody is still there to ask it.
    pub async fn sleep(mut self, longest: Duration) -> Option<Self> {
        self.woken = None;
        let (wake, mut woken) = oneshot::channel();
        let Some(bed) = self.lie_down(wake) else { return Some(self) };
        let bedside = Bedside { seat: &mut self, bed, woken: &mut woken };
        let row = tokio::time::timeout(longest, &mut *bedside.woken).await.ok()?.ok()?;
        bedside.seat.woken = Some(row);
        bedside.seat.refresh();
        drop(bedside);
        Some(self)
    }

    /// None if there was news since the question: it has to be asked again.
    fn lie_down(&mut self, wake: oneshot::Sender<u32>) -> Option<Bed> {
        let mut rooms = locked(&self.waiting.0);
        let bed = Bed { slowness: self.slowness, number: rooms.next() };
        let room = rooms.room(&self.kind);
        if room.news != self.news {
            self.news = room.news;
            self.woken = Some(0);
            return None;
        }
        room.sleepers.insert(bed, Sleeper { wake, warm: Arc::clone(&self.warm) });
        Some(bed)
    }

    /// What is news from now on.
    fn refresh(&mut self) {
        self.news = locked(&self.waiting.0).room(&self.kind).news;
    }
}

impl Drop for Seat {
    /// Somebody was woken and goes without having asked: another one has to.
    fn drop(&mut self) {
        if let Some(row) = self.woken {
            locked(&self.waiting.0).wake(&self.kind, 1, row, &[]);
        }
    }
}

/// Leaves the bed in any case, also when nobody waits for the sleeper any more.
struct Bedside<'s> {
    seat: &'s mut Seat,
    bed: Bed,
    woken: &'s mut oneshot::Receiver<u32>,
}

impl Drop for Bedside<'_> {
    fn drop(&mut self) {
        if self.seat.woken.is_some() {
            return;
        }
        let mut rooms = locked(&self.seat.waiting.0);
        if let Some(room) = rooms.by_kind.get_mut(&self.seat.kind) {
            room.sleepers.remove(&self.bed);
        }
        // The word may have come at the last moment; the seat passes it on.
        self.seat.woken = self.woken.try_recv().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::member;
    use super::*;

    const LONG: Duration = Duration::from_hours(1);

    fn kind(queues: &[i64], org: Option<i64>) -> Kind {
        Kind { org: org.map(OrgId), queues: queues.iter().map(|id| QueueId(*id).into()).collect() }
    }

    fn sit(waiting: &Waiting, queues: &[i64], org: Option<i64>, warm: &[&str]) -> Seat {
        let warm = warm.iter().map(|name| (*name).to_owned()).collect();
        waiting.sit_down(&member(1, 1.0), kind(queues, org), warm)
    }

    type Sleeping = tokio::task::JoinHandle<Option<Seat>>;

    /// Lets the tasks of the test run until they all wait.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    async fn asleep(
        waiting: &Waiting,
        queues: &[i64],
        org: Option<i64>,
        warm: &[&str],
    ) -> Sleeping {
        let seat = sit(waiting, queues, org, warm);
        let sleeping = tokio::spawn(seat.sleep(LONG));
        settle().await;
        sleeping
    }

    #[tokio::test]
    async fn one_job_wakes_one_of_each_kind_and_no_more() {
        let waiting = Waiting::default();
        let mut sleeping = Vec::new();
        for _ in 0..500 {
            sleeping.push(asleep(&waiting, &[1], None, &[]).await);
        }
        sleeping.push(asleep(&waiting, &[1, 2], Some(7), &[]).await);
        sleeping.push(asleep(&waiting, &[2], None, &[]).await);
        waiting.work(Some(QueueId(1)), &[]);
        settle().await;
        let awake = sleeping.iter().filter(|one| one.is_finished()).count();
        assert_eq!((awake, waiting.sleeping()), (2, 500));
    }

    #[tokio::test]
    async fn whoever_gets_a_job_wakes_more_and_whoever_gets_none_wakes_nobody() {
        let waiting = Waiting::default();
        let mut sleeping = Vec::new();
        for _ in 0..100 {
            sleeping.push(asleep(&waiting, &[1], None, &[]).await);
        }
        waiting.work(Some(QueueId(1)), &[]);
        // Jobs for 50: each round wakes as many as the last one got, and more.
        let (mut jobs, mut rounds) = (50_i32, 0);
        loop {
            settle().await;
            let (awake, asleep): (Vec<_>, Vec<_>) =
                sleeping.into_iter().partition(Sleeping::is_finished);
            sleeping = asleep;
            if awake.is_empty() {
                break;
            }
            rounds += 1;
            for seat in awake {
                let seat = seat.await.unwrap().unwrap();
                if jobs > 0 {
                    jobs -= 1;
                    seat.served();
                } else {
                    sleeping.push(tokio::spawn(seat.sleep(LONG)));
                }
            }
        }
        assert_eq!((jobs, waiting.sleeping()), (0, 50));
        assert!(rounds < 12, "{rounds}");
    }

    #[tokio::test]
    async fn work_that_comes_while_one_asks_is_not_missed() {
        let waiting = Waiting::default();
        let seat = sit(&waiting, &[1], None, &[]);
        waiting.work(Some(QueueId(2)), &[]);
        waiting.work(Some(QueueId(1)), &[]);
        let seat = seat.sleep(LONG).await.expect("it has to ask again at once");
        assert!(seat.sleep(Duration::from_millis(1)).await.is_none());
    }

    #[tokio::test]
    async fn who_is_woken_and_goes_wakes_another() {
        let waiting = Waiting::default();
        let first = asleep(&waiting, &[1], None, &[]).await;
        let second = asleep(&waiting, &[1], None, &[]).await;
        waiting.work(Some(QueueId(1)), &[]);
        settle().await;
        assert!(first.is_finished() && !second.is_finished());
        drop(first.await.unwrap());
        settle().await;
        assert!(second.is_finished());
        // And if all are gone, it is news for the next.
        let asking = sit(&waiting, &[1], None, &[]);
        drop(second.await.unwrap());
        assert!(asking.sleep(LONG).await.is_some());
    }

    #[tokio::test]
    async fn who_is_given_up_while_asleep_leaves_no_bed_behind() {
        let waiting = Waiting::default();
        let sleeping = asleep(&waiting, &[1], None, &[]).await;
        sleeping.abort();
        assert!(sleeping.await.unwrap_err().is_cancelled());
        assert_eq!(waiting.sleeping(), 0);
        let seat = sit(&waiting, &[1], None, &[]);
        assert!(seat.sleep(Duration::from_millis(1)).await.is_none());
        assert_eq!(waiting.sleeping(), 0);
    }

    /// S20
    #[tokio::test]
    async fn who_is_not_preferred_asks_again_when_its_time_has_come() {
        let waiting = Waiting::default();
        let sleeping = asleep(&waiting, &[1], None, &[]).await;
        let later = clock::now() + Duration::from_millis(100);
        let asking = sit(&waiting, &[1], None, &[]);
        asking.wake_at(later);
        // The first alarm is enough for the kind.
        asking.wake_at(later + LONG);
        drop(asking);
        assert!(!sleeping.is_finished());
        assert!(sleeping.await.unwrap().is_some());
        assert!(clock::now() >= later);
    }

    /// S15
    #[tokio::test]
    async fn who_has_the_files_is_woken_first_then_the_faster() {
        let waiting = Waiting::default();
        let slow = asleep(&waiting, &[1], None, &[]).await;
        let seat = waiting.sit_down(&member(2, 2.0), kind(&[1], None), Arc::default());
        let fast = tokio::spawn(seat.sleep(LONG));
        settle().await;
        let warm = asleep(&waiting, &[1], None, &["acme/app"]).await;
        assert!(waiting.cares(QueueId(1)) && !waiting.cares(QueueId(2)));
        for expected in [&warm, &fast, &slow] {
            assert!(!expected.is_finished());
            waiting.work(Some(QueueId(1)), &["acme/app".to_owned()]);
            settle().await;
            assert!(expected.is_finished());
        }
    }
}
