//! The one place of the server that looks at the clock.

use std::time::{SystemTime, UNIX_EPOCH};

use kiln_core::time::Timestamp;

#[expect(clippy::disallowed_methods, reason = "this is the clock of the server")]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A time as the interface shows it: `2026-01-02T03:04:05.678Z`.
pub fn rfc3339(time: Timestamp) -> String {
    let (seconds, millis) = (time.0 / 1_000, time.0 % 1_000);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// The date so many days after the first of January 1970. Years begin in March here, so that the day
/// that some years have more is their last.
fn date(days: u64) -> (u64, u64, u64) {
    const FOUR_CENTURIES: u64 = 146_097;
    let days = days + 719_468;
    let (era, day) = (days / FOUR_CENTURIES, days % FOUR_CENTURIES);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_the_standard_says() {
        let check = |millis, expect: &str| assert_eq!(rfc3339(Timestamp(millis)), expect);
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(1_709_164_799_999, "2024-02-28T23:59:59.999Z");
        check(1_767_322_984_005, "2026-01-02T03:03:04.005Z");
        check(4_107_542_400_000, "2100-03-01T00:00:00.000Z");
    }
}
