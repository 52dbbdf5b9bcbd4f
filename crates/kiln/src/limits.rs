//! Limits as people type them: minutes, sizes, loads.

use std::time::Duration;

/// Minutes, also parts of one.
pub(crate) fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 =
        text.parse().map_err(|_| "expected minutes, such as 30 or 0.5".to_owned())?;
    if !(0.0..=1e7).contains(&minutes) {
        return Err("expected minutes from 0 to 10000000".to_owned());
    }
    Ok(Duration::from_secs_f64(minutes * 60.0))
}

/// Minutes above zero.
pub(crate) fn some_minutes(text: &str) -> Result<Duration, String> {
    minutes(text).and_then(|limit| {
        if limit.is_zero() { Err("expected more than 0 minutes".to_owned()) } else { Ok(limit) }
    })
}

/// A time with its unit; seconds without one.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time, such as 90s, 30m, 4h or 7d".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit = match &text[digits..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).map(Duration::from_secs).ok_or_else(wrong)
}

/// Bytes, with or without a unit.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || "expected a size, such as 64MB, 4GB or 512KiB".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit: u64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(wrong)
}

/// Processes for each core.
pub(crate) fn load(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load: &f64| load.is_finite() && *load > 0.0);
    load.ok_or_else(|| "expected processes for each core, such as 4 or 1.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_a_number_above_zero() {
        assert_eq!(load("1.5"), Ok(1.5));
        for wrong in ["", "0", "-1", "inf", "nan", "much"] {
            load(wrong).unwrap_err();
        }
    }

    #[test]
    fn times_have_units() {
        let check = |text: &str, seconds: Option<u64>| {
            assert_eq!(duration(text).ok(), seconds.map(Duration::from_secs), "{text}");
        };
        check("90", Some(90));
        check("2m", Some(120));
        check("7d", Some(604_800));
        check("0s", Some(0));
        for wrong in ["", "d", "1w", "-1s", "1.5h", "99999999999999999999d"] {
            check(wrong, None);
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, expect) in [
            ("12", Some(12)),
            ("64MB", Some(64_000_000)),
            ("4 gb", Some(4_000_000_000)),
            ("512KiB", Some(524_288)),
            ("", None),
            ("GB", None),
            ("-1", None),
            ("1.5GB", None),
            ("3 apples", None),
            ("99999999999999TB", None),
        ] {
            assert_eq!(size(text).ok(), expect, "{text}");
        }
    }

    #[test]
    fn minutes_may_have_parts() {
        assert_eq!(minutes("0.5"), Ok(Duration::from_secs(30)));
        assert_eq!(minutes("0"), Ok(Duration::ZERO));
        for wrong in ["-1", "NaN", "inf", "x", "1e300"] {
            assert!(minutes(wrong).is_err(), "{wrong}");
        }
        assert!(some_minutes("0").is_err());
    }
}
