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

    /// Reads RFC 3339, such as `2026-11-16T09:30:00Z` or `…T09:30:00.250+01:00`.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let part = |from: usize, to: usize| -> Option<u64> {
            let digits = bytes.get(from..to)?;
            let plain = digits.iter().all(u8::is_ascii_digit);
            text.get(from..to).filter(|_| plain)?.parse().ok()
        };
        let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
        let marked = marks.iter().all(|(at, mark)| bytes.get(*at) == Some(mark));
        let joined = bytes.get(10).is_some_and(|mark| b"Tt ".contains(mark));
        let days = days(part(0, 4)?, part(5, 7)?, part(8, 10)?).filter(|_| marked && joined)?;
        let (hour, minute, second) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let rest = text.get(19..)?;
        let digits = rest.strip_prefix('.').unwrap_or("");
        let digits = &digits[..digits.bytes().take_while(u8::is_ascii_digit).count()];
        let milli: u64 = format!("{digits:0<3}").get(..3)?.parse().ok()?;
        let zone = &rest[if digits.is_empty() { 0 } else { digits.len() + 1 }..];
        let local = days * 86_400_000 + ((hour * 60 + minute) * 60 + second) * 1_000 + milli;
        let millis = i64::try_from(local).ok()? - offset(zone)?;
        u64::try_from(millis).ok().map(Self)
    }
}

/// How far a zone is from UTC, in milliseconds.
fn offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let sign = match zone.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let two = |text: &str| {
        let plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i64>().ok().filter(|_| plain)
    };
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000)
}

/// The days from 1970 to a date, if there is such a date.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    // Years begin in March here, as in `date`.
    let (year, march_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * march_month + 2) / 5 + day.checked_sub(1)?;
    let count = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year;
    let count = count.checked_sub(719_468)?;
    // A day that the month does not have leads to another date.
    (date(count).2 == day).then_some(count)
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

    #[test]
    fn a_time_is_read_as_it_is_written_and_nothing_else_is_one() {
        for millis in [0, 951_782_399_999, 951_782_400_000, 1_735_689_599_001, 4_107_542_400_000] {
            let text = Timestamp(millis).rfc3339();
            assert_eq!(Timestamp::parse_rfc3339(&text), Some(Timestamp(millis)), "{text}");
        }
        let check = |text: &str, expect: Option<u64>| {
            assert_eq!(Timestamp::parse_rfc3339(text), expect.map(Timestamp), "{text}");
        };
        check("1970-01-01T01:00:00+01:00", Some(0));
        check("1970-01-01 00:00:01.5Z", Some(1_500));
        check("1970-01-01T00:00:00.123456789-00:30", Some(1_800_123));
        for text in [
            "",
            "1970",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-13-01T00:00:00Z",
            "2001-02-29T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00+1:00",
            "1970-01-01T00:00:00+01:00",
            "1970-01-01T00:00:00.Zx",
            "1970-01-00T00:00:00Z",
            "+970-01-01T00:00:00Z",
            "1970-01-01T00:00:00é",
            "197é-01-01T00:00:00Z",
        ] {
            check(text, None);
        }
    }
}
