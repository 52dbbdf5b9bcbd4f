//! Concurrency groups: one holder at a time, and who waits for it.

use std::collections::VecDeque;

use crate::plan::QueueMode;

/// How many may wait in a group with `queue: max`.
pub const MAX_WAITING: usize = 100;

/// What takes part in a group: a whole run, or one leg of one of its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    pub run: u64,
    /// Of the run: what was meant for an earlier one is not for this.
    pub attempt: u32,
    /// `None` for the run itself.
    pub leg: Option<u32>,
}

/// The state of one group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    holder: Option<Member>,
    waiting: VecDeque<Member>,
}

/// What the group decides when somebody asks to enter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// Whether the newcomer holds the group now; otherwise it waits, or is among `cancelled`.
    pub admitted: bool,
    /// Members that must be cancelled. One that holds the group keeps it until it has really ended.
    pub cancelled: Vec<Member>,
}

impl Group {
    /// A group with these members: the first one holds it, the others wait in this order.
    pub fn of(members: impl IntoIterator<Item = Member>) -> Self {
        let mut members = members.into_iter();
        Self { holder: members.next(), waiting: members.collect() }
    }

    /// The holder, then those that wait, in their order.
    pub fn members(&self) -> impl Iterator<Item = Member> {
        self.holder.into_iter().chain(self.waiting())
    }

    pub fn holder(&self) -> Option<Member> {
        self.holder
    }

    pub fn waiting(&self) -> impl Iterator<Item = Member> {
        self.waiting.iter().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.holder.is_none() && self.waiting.is_empty()
    }

    /// Asks for the group. Asking again changes nothing.
    pub fn enter(&mut self, newcomer: Member, cancel_in_progress: bool, queue: QueueMode) -> Entry {
        if self.holder == Some(newcomer) {
            return Entry { admitted: true, cancelled: Vec::new() };
        }
        if self.waiting.contains(&newcomer) {
            return Entry::default();
        }
        let Some(holder) = self.holder else {
            self.holder = Some(newcomer);
            return Entry { admitted: true, cancelled: Vec::new() };
        };
        // A run and one of its own jobs in the same group would wait for each other for ever.
        if holder.run == newcomer.run && holder.leg.is_none() {
            return Entry { admitted: false, cancelled: vec![newcomer] };
        }
        let mut cancelled = Vec::new();
        match queue {
            QueueMode::Single => cancelled.extend(self.waiting.drain(..)),
            QueueMode::Max if self.waiting.len() >= MAX_WAITING => {
                return Entry { admitted: false, cancelled: vec![newcomer] };
            }
            QueueMode::Max => {}
        }
        if cancel_in_progress {
            cancelled.push(holder);
        }
        self.waiting.push_back(newcomer);
        Entry { admitted: false, cancelled }
    }

    /// Takes a member out, whatever its part was. Returns who holds the group from now on, if that
    /// changed.
    pub fn leave(&mut self, member: Member) -> Option<Member> {
        self.waiting.retain(|other| *other != member);
        if self.holder != Some(member) {
            return None;
        }
        self.holder = self.waiting.pop_front();
        self.holder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(number: u64) -> Member {
        Member { run: number, attempt: 1, leg: None }
    }

    fn enter(group: &mut Group, number: u64) -> Entry {
        group.enter(run(number), false, QueueMode::Single)
    }

    /// S9
    #[test]
    fn one_holds_one_waits_and_a_newer_one_replaces_the_waiting() {
        let mut group = Group::default();
        assert!(enter(&mut group, 1).admitted);
        assert_eq!(enter(&mut group, 2), Entry::default());
        assert_eq!(enter(&mut group, 3).cancelled, [run(2)]);
        assert_eq!(group.leave(run(2)), None);
        assert_eq!(group.leave(run(1)), Some(run(3)));
        assert_eq!(group.leave(run(3)), None);
        assert!(group.is_empty());
    }

    /// S9: cancel-in-progress never evicts whom it has just admitted, and the cancelled holder keeps
    /// its place until it is gone.
    #[test]
    fn cancel_in_progress_cancels_the_holder_and_waits_for_its_end() {
        let mut group = Group::default();
        assert!(group.enter(run(1), true, QueueMode::Single).admitted);
        assert_eq!(group.enter(run(1), true, QueueMode::Single).cancelled, []);
        let entry = group.enter(run(2), true, QueueMode::Single);
        assert_eq!((entry.admitted, entry.cancelled), (false, vec![run(1)]));
        assert_eq!(group.holder(), Some(run(1)));
        assert_eq!(group.leave(run(1)), Some(run(2)));
    }

    /// S9, P14
    #[test]
    fn a_queue_is_served_in_order_and_has_an_end() {
        let mut group = Group::default();
        for number in 0..=MAX_WAITING as u64 {
            group.enter(run(number), false, QueueMode::Max);
        }
        let late = group.enter(run(999), false, QueueMode::Max);
        assert_eq!(late.cancelled, [run(999)]);
        assert_eq!(group.leave(run(0)), Some(run(1)));
        assert_eq!(group.leave(run(1)), Some(run(2)));
    }

    /// S9
    #[test]
    fn a_job_in_the_group_of_its_own_run_is_cancelled_instead_of_waiting_for_ever() {
        let mut group = Group::default();
        enter(&mut group, 1);
        let job = Member { leg: Some(4), ..run(1) };
        assert_eq!(group.enter(job, false, QueueMode::Single).cancelled, [job]);
        assert_eq!(group.waiting().count(), 0);
    }
}
