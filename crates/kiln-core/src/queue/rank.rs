//! In which order runners that wait are asked to take a job.

use crate::time::Timestamp;

/// A runner that waits, as far as the order matters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Idle {
    /// How many queues it could serve: who can do little is asked first.
    pub reach: usize,
    /// It has worked for the job's repository lately.
    pub warm: bool,
    /// How fast it is, compared with others: 2 takes half the time.
    pub speed: f64,
    /// Since when it waits.
    pub since: Timestamp,
}

/// The places of the runners in the order in which they should be asked: the most constrained first, then
/// those that are warm, then the fastest, then who has waited longest.
pub fn rank(idle: &[Idle]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..idle.len()).collect();
    order.sort_by(|&left, &right| {
        let (left, right) = (&idle[left], &idle[right]);
        let fit = (left.reach, !left.warm).cmp(&(right.reach, !right.warm));
        fit.then(right.speed.total_cmp(&left.speed)).then(left.since.cmp(&right.since))
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(reach: usize, warm: bool, speed: f64, since: u64) -> Idle {
        Idle { reach, warm, speed, since: Timestamp(since) }
    }

    /// S15
    #[test]
    fn the_best_fit_is_asked_first() {
        let check = |runners: &[Idle], expect: &[usize]| assert_eq!(rank(runners), expect);
        check(&[], &[]);
        check(&[idle(2, true, 9.0, 1), idle(1, false, 1.0, 9)], &[1, 0]);
        check(&[idle(1, false, 9.0, 1), idle(1, true, 1.0, 9)], &[1, 0]);
        check(&[idle(1, true, 1.0, 1), idle(1, true, 1.5, 9)], &[1, 0]);
        check(&[idle(1, true, 1.0, 9), idle(1, true, 1.0, 1)], &[1, 0]);
        check(&[idle(1, true, 1.0, 1), idle(1, true, 1.0, 1)], &[0, 1]);
    }

    #[test]
    fn a_speed_that_makes_no_sense_does_no_harm() {
        assert_eq!(rank(&[idle(1, true, f64::NAN, 1), idle(1, true, 1.0, 1)]).len(), 2);
    }
}
