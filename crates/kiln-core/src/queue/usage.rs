//! What organizations and repositories have used of the runners' time, and how long their jobs take.
//!
//! Use is forgotten by 5 % each hour, so half of it after about 13 hours. Nothing is written for that:
//! a figure carries its hour, and is decayed when it is read.

const HOUR: i64 = 3_600_000;
const KEPT_EACH_HOUR: f64 = 0.95;

/// The weight of the latest job in the mean: about the last ten count.
const LATEST: f64 = 0.1;

/// What a job is charged while nobody knows how long its like take.
const UNKNOWN: f64 = 60.0;
/// A claim is never free, or a batch could all go to one.
const LEAST: f64 = 1.0;
/// Four hours: the time limit of a job, unless it says otherwise.
const MOST: f64 = 14_400.0;

/// Seconds of runners used, as of an hour since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    pub consumed: f64,
    pub hour: i64,
}

impl Usage {
    /// What still counts at this time, in milliseconds. A clock that went back decays nothing.
    pub fn at(&self, now: i64) -> f64 {
        let hours = now.div_euclid(HOUR).saturating_sub(self.hour).max(0);
        sane(self.consumed) * KEPT_EACH_HOUR.powi(i32::try_from(hours).unwrap_or(i32::MAX))
    }

    /// Charges seconds; negative ones give back what was charged too much.
    pub fn add(&mut self, seconds: f64, now: i64) {
        self.consumed = sane(self.at(now) + seconds);
        self.hour = self.hour.max(now.div_euclid(HOUR));
    }
}

/// Who has the lowest one is served next.
pub fn ratio(consumed: f64, shares: u32) -> f64 {
    sane(consumed) / f64::from(shares.max(1))
}

/// The mean time of a job in seconds, after `ended` more of them `took` so long together.
pub fn typical(old: Option<f64>, ended: u32, took: f64) -> Option<f64> {
    if ended == 0 {
        return old;
    }
    let mean = sane(took) / f64::from(ended);
    let kept = (1.0 - LATEST).powf(f64::from(ended));
    Some(old.map_or(mean, |old| sane(old) * kept + mean * (1.0 - kept)))
}

/// What a claim is charged in advance, in seconds.
pub fn estimate(typical: Option<f64>) -> f64 {
    typical.filter(|seconds| seconds.is_finite()).map_or(UNKNOWN, |known| known.clamp(LEAST, MOST))
}

/// Finite and not negative, so that it can be compared.
pub(super) fn sane(seconds: f64) -> f64 {
    if seconds > 0.0 && seconds.is_finite() { seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-9 * right.abs().max(1.0), "{left} is not {right}");
    }

    /// S8
    #[test]
    fn use_is_forgotten_by_the_hour() {
        let usage = Usage { consumed: 1000.0, hour: 100 };
        let check = |hour: i64, expect| close(usage.at(hour * HOUR + 59), expect);
        check(100, 1000.0);
        check(101, 950.0);
        check(102, 902.5);
        check(90, 1000.0);
        check(i64::MAX / HOUR - 1, 0.0);
        let half = usage.at(113 * HOUR) + usage.at(114 * HOUR);
        assert!((half / 2.0 - 500.0).abs() < 5.0, "half is left after 13 to 14 hours: {half}");
    }

    /// S8
    #[test]
    fn decay_in_steps_is_decay_at_once() {
        let mut often = Usage { consumed: 1000.0, hour: 0 };
        for hour in 0..50 {
            often.add(0.0, hour * HOUR);
        }
        close(often.at(50 * HOUR), Usage { consumed: 1000.0, hour: 0 }.at(50 * HOUR));
    }

    #[test]
    fn a_correction_never_goes_below_nothing() {
        let mut usage = Usage::default();
        usage.add(60.0, HOUR);
        usage.add(-20.0, HOUR);
        close(usage.consumed, 40.0);
        usage.add(-50.0, HOUR);
        close(usage.consumed, 0.0);
        usage.add(f64::NAN, HOUR);
        close(usage.consumed, 0.0);
        usage.add(5.0, 0);
        assert_eq!(usage.hour, 1, "a clock that went back changes no hour");
    }

    /// S8
    #[test]
    fn the_ratio_is_that_of_the_documents_table() {
        close(ratio(4000.0, 200), 20.0);
        close(ratio(1500.0, 100), 15.0);
        close(ratio(9000.0, 300), 30.0);
        close(ratio(-1.0, 0), 0.0);
    }

    #[test]
    fn the_typical_time_follows_the_latest_jobs() {
        assert_eq!(typical(None, 0, 0.0), None);
        assert_eq!(typical(Some(7.0), 0, 99.0), Some(7.0));
        close(typical(None, 4, 40.0).unwrap(), 10.0);
        close(typical(Some(10.0), 1, 20.0).unwrap(), 11.0);
        let one_by_one = typical(typical(Some(10.0), 1, 20.0), 1, 20.0).unwrap();
        close(typical(Some(10.0), 2, 40.0).unwrap(), one_by_one);
        close(typical(Some(10.0), u32::MAX, f64::from(u32::MAX) * 5.0).unwrap(), 5.0);
    }

    #[test]
    fn an_estimate_is_bounded() {
        let check = |typical, expect| close(estimate(typical), expect);
        check(None, 60.0);
        check(Some(f64::NAN), 60.0);
        check(Some(0.0), 1.0);
        check(Some(42.0), 42.0);
        check(Some(1e9), 14_400.0);
    }
}
