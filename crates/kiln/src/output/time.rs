//! Times as people read them: how long ago, how long it took, and when.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kiln_core::time::Timestamp;

/// What a table shows where there is nothing to show.
pub(crate) const NOTHING: &str = "-";

#[expect(clippy::disallowed_methods, reason = "people want to know how long ago something was")]
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Reads RFC 3339, with or without parts of a second.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    Timestamp::parse_rfc3339(text)
}

/// A point in time as people type it: how long ago it was, or the time itself.
pub(crate) fn since(text: &str) -> Result<Timestamp, String> {
    let ago = |seconds: u64| Timestamp(now().0.saturating_sub(seconds.saturating_mul(1_000)));
    let wrong = |_| "expected how long ago, such as 10m, or a time such as 2026-11-16T09:30:00Z";
    parse(text).map_or_else(|| span(text).map(ago).map_err(wrong), Ok).map_err(str::to_owned)
}

/// How long ago, in one unit: `3m`.
pub(crate) fn age(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// How long, in two units: `1m 12s`.
pub(crate) fn lasted(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// How long ago a time of the server was.
pub(crate) fn ago(text: &str, now: Timestamp) -> String {
    parse(text).map_or_else(|| NOTHING.to_owned(), |at| age(now.since(at)))
}

/// How long it is until a time of the server.
pub(crate) fn until(text: &str, now: Timestamp) -> String {
    match parse(text) {
        Some(at) if at > now => format!("in {}", age(at.since(now))),
        Some(_) => "over".to_owned(),
        None => NOTHING.to_owned(),
    }
}

/// How long something took that began and perhaps ended at times of the server.
pub(crate) fn between(start: Option<&str>, end: Option<&str>, now: Timestamp) -> Option<Duration> {
    let start = start.and_then(parse)?;
    let end = match end {
        Some(end) => parse(end)?,
        None => now,
    };
    Some(end.since(start))
}

/// A span as people type it: `90s`, `15m`, `12h`, `30d`; plain seconds as well.
pub(crate) fn span(text: &str) -> Result<u64, String> {
    let wrong = || "expected a time such as 30m, 12h or 90d".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit = match &text[digits..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_server_are_read_as_they_are_written() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-16T05:31:15.250Z", 1_794_807_075_250),
            ("2024-02-29T23:59:59.9Z", 1_709_251_199_900),
            ("2026-11-16T06:31:15.250123+01:00", 1_794_807_075_250),
        ] {
            assert_eq!(parse(text), Some(Timestamp(millis)), "{text}");
        }
        for text in
            ["1970-01-01T00:00:00.000Z", "2026-11-16T05:31:15.250Z", "2024-02-29T23:59:59.900Z"]
        {
            assert_eq!(parse(text).unwrap().rfc3339(), text);
        }
        for text in
            ["", "yesterday", "2026-13-01T00:00:00Z", "2026-11-16T05:31:15", "2026-11-16T05:31:15é"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_point_in_time_is_typed_as_an_age_or_as_a_time() {
        assert_eq!(since("1970-01-01T00:00:01Z"), Ok(Timestamp(1_000)));
        // The age is taken first: a millisecond may pass between two looks at the clock.
        let then = since("10m").unwrap();
        let ten = now().since(then).as_secs();
        assert!((600..660).contains(&ten), "{ten}");
        assert!(since("yesterday").unwrap_err().contains("10m"));
    }

    #[test]
    fn ages_have_one_unit_and_durations_two() {
        for (seconds, old, long) in [
            (0, "0s", "0s"),
            (59, "59s", "59s"),
            (72, "1m", "1m 12s"),
            (3_600, "1h", "1h 0m"),
            (90_000, "25h", "1d 1h"),
            (200_000, "2d", "2d 7h"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), old);
            assert_eq!(lasted(Duration::from_secs(seconds)), long);
        }
        let now = parse("2026-11-16T05:31:15Z").unwrap();
        assert_eq!(ago("2026-11-16T05:28:15Z", now), "3m");
        assert_eq!(ago("2026-11-16T05:28:15", now), NOTHING);
        assert_eq!(until("2026-11-17T05:28:15Z", now), "in 23h");
        assert_eq!(until("2026-11-15T05:28:15Z", now), "over");
    }

    #[test]
    fn spans_are_typed_with_a_unit() {
        for (text, expect) in [
            ("90", Some(90)),
            ("90s", Some(90)),
            ("2h", Some(7200)),
            ("30d", Some(2_592_000)),
            ("0", Some(0)),
        ] {
            assert_eq!(span(text).ok(), expect, "{text}");
        }
        for wrong in ["", "h", "1y", "-1", "1.5h", "99999999999999999w"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }
}
