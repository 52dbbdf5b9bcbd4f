//! Words, widths and colours that all views of a run share.

use std::borrow::Cow;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Style};
use kiln_core::run::Conclusion;
use unicode_width::UnicodeWidthChar as _;

pub(crate) const QUIET: Style = Style::new().dimmed();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const CALM: Style = AnsiColor::Yellow.on_default();

pub(crate) fn style(conclusion: Conclusion) -> Style {
    match conclusion {
        Conclusion::Success => GOOD,
        Conclusion::Failure | Conclusion::StartupFailure | Conclusion::TimedOut => BAD,
        Conclusion::Cancelled | Conclusion::Skipped => CALM,
    }
}

/// Whether people must look at it.
pub(crate) fn is_bad(conclusion: Conclusion) -> bool {
    conclusion.is_failure() || conclusion == Conclusion::TimedOut
}

/// One sign for an end, so that colour never stands alone.
pub(crate) fn mark(conclusion: Conclusion) -> char {
    match conclusion {
        Conclusion::Success => '✓',
        Conclusion::Failure | Conclusion::StartupFailure | Conclusion::TimedOut => '✗',
        Conclusion::Cancelled | Conclusion::Skipped => '-',
    }
}

/// How many columns a text takes at most, whatever the terminal makes of sequences of emoji.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

fn columns(c: char) -> usize {
    // This one makes the character before it wide.
    if c == '\u{fe0f}' { 1 } else { c.width().unwrap_or(0) }
}

/// The text in at most so many columns, with a sign where it was cut.
pub(crate) fn fit(text: &str, most: usize) -> Cow<'_, str> {
    if width(text) <= most {
        return text.into();
    }
    let mut left = most.saturating_sub(1);
    let kept: String = text
        .chars()
        .take_while(|c| {
            let fits = columns(*c) <= left;
            left = left.saturating_sub(columns(*c));
            fits
        })
        .collect();
    (if most == 0 { kept } else { format!("{}…", kept.trim_end()) }).into()
}

/// The text in exactly so many columns.
pub(crate) fn column(text: &str, exactly: usize) -> String {
    let text = fit(text, exactly);
    format!("{text}{}", " ".repeat(exactly.saturating_sub(width(&text))))
}

/// A line of a log as a terminal may show it: what a step prints must not move the cursor.
pub(crate) fn shown(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    let bare = anstream::adapter::strip_str(&line).to_string();
    let last = bare.trim_end().rsplit('\r').next().unwrap_or_default().replace('\t', "    ");
    let visible: String = last.chars().filter(|c| !c.is_control()).collect();
    said(&visible)
}

/// A line with the markers of the runner as words.
pub(crate) fn said(line: &str) -> String {
    for (marker, style, word) in [
        ("##[error]", BAD, "error:"),
        ("##[warning]", CALM, "warning:"),
        ("##[notice]", GOOD, "notice:"),
    ] {
        if let Some(message) = line.strip_prefix(marker) {
            return format!("{style}{word}{style:#} {message}");
        }
    }
    line.to_owned()
}

/// A time that runs: `00:14`, or with hours.
pub(crate) fn clock(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes:02}:{seconds:02}")
    }
}

/// A time that is over.
pub(crate) fn took(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    if seconds < 99.95 { format!("{seconds:.1} s") } else { clock(elapsed) }
}

/// `1.5 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (bytes.checked_ilog2().unwrap_or(0) / 10).min(4);
    if power == 0 {
        return format!("{bytes} B");
    }
    let tenths = (u128::from(bytes) * 10) >> (10 * power);
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[power as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_never_takes_more_columns_than_it_may() {
        for (text, most, expect) in [
            ("build", 5, "build"),
            ("build", 4, "bui…"),
            ("build", 1, "…"),
            ("build", 0, ""),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("a ❤\u{fe0f} b", 4, "a ❤…"),
        ] {
            assert_eq!(fit(text, most), expect, "{text} in {most}");
            assert!(width(&fit(text, most)) <= most);
            assert_eq!(width(&column(text, most)), most);
        }
    }

    #[test]
    fn what_a_step_prints_cannot_steer_the_terminal() {
        for (line, expect) in [
            ("\u{1b}[31mred\u{1b}[0m \u{1b}[2J\u{1b}]0;title\u{7}end", "red end"),
            ("10%\r20%\r100%\r", "100%"),
            ("a\tb\u{8}", "a    b"),
        ] {
            assert_eq!(shown(line.as_bytes()), expect);
        }
        assert_eq!(shown(b"##[error]no"), format!("{BAD}error:{BAD:#} no"));
        assert_eq!(shown(b"\xff"), "\u{fffd}");
    }

    #[test]
    fn times_are_short() {
        assert_eq!(clock(Duration::from_secs(14)), "00:14");
        assert_eq!(clock(Duration::from_secs(3_723)), "1:02:03");
        assert_eq!(took(Duration::from_millis(1_249)), "1.2 s");
        assert_eq!(took(Duration::from_secs(125)), "02:05");
    }
}
