//! Points in time as data. Nothing here reads a clock; programs pass the time in.

use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970 in UTC.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The time since an earlier point; zero if it was not earlier.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// As interfaces show it: RFC 3339 with milliseconds, in UTC.
    pub fn rfc3339(self) -> String {
        let (days, rest) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = date(days);
        let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
        let (second, milli) = (rest / 1_000 % 60, rest % 1_000);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, duration: Duration) -> Timestamp {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Timestamp(self.0.saturating_add(millis))
    }
}

impl Sub for Timestamp {
    type Output = Duration;

    fn sub(self, earlier: Timestamp) -> Duration {
        self.since(earlier)
    }
}

/// The date that many days after 1970, counted in years that begin in March, so that the day which some
/// of them lack is the last one.
fn date(days: u64) -> (u64, u64, u64) {
    // From the first of March of the year 0.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_as_interfaces_write_it() {
        let check = |millis, expect: &str| assert_eq!(Timestamp(millis).rfc3339(), expect);
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_399_999, "2000-02-28T23:59:59.999Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(951_868_800_000, "2000-03-01T00:00:00.000Z");
        check(1_735_689_599_001, "2024-12-31T23:59:59.001Z");
        check(4_107_542_400_000, "2100-03-01T00:00:00.000Z");
    }
}
