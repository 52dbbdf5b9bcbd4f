//! How values are read. Each says what it expected when it cannot.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use kiln_core::queue::Policy;
use kiln_store::Options;

use super::network::Network;

pub(super) type Read<T> = Result<T, String>;

pub(super) fn address(text: &str) -> Read<SocketAddr> {
    // `localhost:8420` is what people write.
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    text.parse().map_err(|_| "expected an address and a port, such as `127.0.0.1:8420`".to_owned())
}

pub(super) fn url(text: &str) -> Read<String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.unwrap_or_default().split('/').next().unwrap_or_default();
    let odd = |c: char| c.is_whitespace() || c.is_control() || "?#@\\\"<>".contains(c);
    if host.is_empty() || text.chars().any(odd) {
        let expected =
            "expected an address without user and query, such as `https://ci.example.org`";
        return Err(expected.to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// May hold a user and a password.
pub(super) fn proxy(text: &str) -> Read<String> {
    let schemes = ["http://", "https://", "socks5://"];
    if schemes.iter().any(|scheme| text.starts_with(scheme) && text.len() > scheme.len()) {
        return Ok(text.to_owned());
    }
    Err("expected `http://…`, `https://…` or `socks5://…`".to_owned())
}

pub(super) fn path(text: &str) -> Read<PathBuf> {
    if text.is_empty() || text.contains('\0') {
        return Err("expected a path".to_owned());
    }
    Ok(text.into())
}

/// Letters without spaces, such as the name of a bucket.
pub(super) fn word(text: &str) -> Read<String> {
    if text.is_empty() || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("expected a word without spaces".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn certificates(text: &str) -> Read<PathBuf> {
    let path = path(text)?;
    let content =
        std::fs::read_to_string(&path).map_err(|error| format!("cannot be read: {error}"))?;
    if !content.contains("-----BEGIN CERTIFICATE-----") {
        return Err("there is no certificate in PEM in it".to_owned());
    }
    Ok(path)
}

pub(super) fn database(text: &str) -> Read<Options> {
    path(text)?;
    text.parse::<Options>().map_err(|error| error.to_string())
}

pub(super) fn flag(text: &str) -> Read<bool> {
    match text {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("expected `true` or `false`".to_owned()),
    }
}

pub(super) fn number<T: TryFrom<u64>>(text: &str, least: u64, most: u64) -> Read<T> {
    let number = text.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("expected a number from {least} to {most}"))
}

/// A list, with commas between.
fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

pub(super) fn hosts(text: &str) -> Read<Vec<String>> {
    if text.contains(|c: char| c.is_control() || c.is_whitespace() && c != ' ') {
        return Err("expected names of hosts, with commas between".to_owned());
    }
    Ok(list(text).map(str::to_owned).collect())
}

pub(super) fn networks(text: &str) -> Read<Vec<Network>> {
    list(text).map(Network::from_str).collect()
}

/// Whether proxies speak as RFC 7239 says.
pub(super) fn is_forwarded(text: &str) -> Read<bool> {
    match text {
        "forwarded" => Ok(true),
        "x-forwarded" => Ok(false),
        _ => Err("expected `x-forwarded` or `forwarded`".to_owned()),
    }
}

pub(super) fn policy(text: &str) -> Read<Policy> {
    Policy::parse(text).ok_or_else(|| "expected `fair` or `score`".to_owned())
}

pub(super) fn is_json(text: &str) -> Read<bool> {
    match text {
        "json" => Ok(true),
        "text" => Ok(false),
        _ => Err("expected `text` or `json`".to_owned()),
    }
}

/// The number at the start, and the unit behind it.
fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim()))
}

pub(super) fn duration(text: &str) -> Read<Duration> {
    let read = || {
        let (number, unit) = split(text)?;
        let millis = match unit {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        // A hundred years is for ever.
        let most = 36_500 * 86_400_000;
        number.checked_mul(millis).filter(|millis| (1..=most).contains(millis))
    };
    let millis = read().ok_or("expected a duration, such as `90s`, `30m`, `4h` or `7d`")?;
    Ok(Duration::from_millis(millis))
}

pub(super) fn size(text: &str) -> Read<u64> {
    let read = || {
        let (number, unit) = split(text)?;
        let bytes: u64 = match unit {
            "" | "B" => 1,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return None,
        };
        number.checked_mul(bytes).filter(|bytes| *bytes > 0)
    };
    read().ok_or_else(|| "expected a size, such as `500kB`, `64MB` or `4GiB`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: std::fmt::Debug>(parse: impl Fn(&str) -> Read<T>, text: &str, expect: &str) {
        let shown = match parse(text) {
            Ok(value) => format!("{value:?}"),
            Err(error) => error,
        };
        assert_eq!(shown, expect, "{text}");
    }

    #[test]
    fn durations_and_sizes_have_units_and_bounds() {
        check(duration, "90", "90s");
        check(duration, "4h", "14400s");
        check(duration, "250ms", "250ms");
        check(duration, "1d", "86400s");
        let expected = "expected a duration, such as `90s`, `30m`, `4h` or `7d`";
        for broken in ["", "h", "-1s", "1.5h", "4 hours", "0s", "99999999999999999999s", "9999999d"]
        {
            check(duration, broken, expected);
        }
        check(size, "64MB", "64000000");
        check(size, "1KiB", "1024");
        let expected = "expected a size, such as `500kB`, `64MB` or `4GiB`";
        for broken in ["", "0", "1TB", "99999999999GB", "-1"] {
            check(size, broken, expected);
        }
    }

    #[test]
    fn addresses_and_urls_are_whole() {
        check(address, "localhost:80", "127.0.0.1:80");
        check(address, "[::1]:8420", "[::1]:8420");
        let expected = "expected an address and a port, such as `127.0.0.1:8420`";
        for broken in ["", "8420", "127.0.0.1", "host:1", "127.0.0.1:99999"] {
            check(address, broken, expected);
        }
        check(url, "https://ci.example.org/kiln/", "\"https://ci.example.org/kiln\"");
        for broken in ["", "ci.example.org", "https://", "ftp://x", "https://a b", "https://u:p@h"]
        {
            assert!(url(broken).is_err(), "{broken}");
        }
        check(flag, "on", "true");
        check(flag, "maybe", "expected `true` or `false`");
        check(|text| number::<u32>(text, 1, 9), "10", "expected a number from 1 to 9");
    }
}
