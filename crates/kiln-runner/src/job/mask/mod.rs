//! Secrets never reach a log: each known value and its usual encodings become `***`.

mod encodings;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// What stands in the place of a secret.
pub const STARS: &str = "***";

/// All patterns together may have this many bytes; a step could otherwise fill the memory with masks.
const MAX_PATTERN_BYTES: usize = 8 << 20;
/// Up to here the fast automaton is worth its memory, about 256 bytes for each byte of pattern.
const MAX_DFA_BYTES: usize = 32 << 10;

/// Why a value will not be masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("an empty value cannot be masked")]
    Empty,
    #[error("a single character is not masked, as it would make the log unreadable")]
    TooShort,
    #[error("too many values to mask: their encodings exceed {} MiB", MAX_PATTERN_BYTES >> 20)]
    TooMany,
}

/// The known secrets of a job. Cloning is cheap beside the number of secrets.
#[derive(Clone, Default)]
pub struct Masker {
    values: HashSet<String>,
    generations: Vec<Arc<Generation>>,
    longest: usize,
    pattern_bytes: usize,
}

/// Patterns that were compiled together. A new mask joins the generations of its own size and
/// smaller only, so that ten thousand masks one after the other do not compile everything each time.
struct Generation {
    patterns: Vec<String>,
    automaton: AhoCorasick,
}

impl Generation {
    fn compile(patterns: Vec<String>) -> Arc<Self> {
        let bytes: usize = patterns.iter().map(String::len).sum();
        let kind = if bytes <= MAX_DFA_BYTES {
            AhoCorasickKind::DFA
        } else {
            AhoCorasickKind::ContiguousNFA
        };
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .kind(Some(kind))
            .build(&patterns)
            .expect("the size of all patterns is far below the limits of an automaton");
        Arc::new(Self { patterns, automaton })
    }
}

impl Masker {
    /// Masks a value, each of its lines and their encodings from now on.
    pub fn add(&mut self, value: &str) -> Result<(), Refused> {
        let patterns = self.patterns_for(value)?;
        self.grow(patterns);
        Ok(())
    }

    /// Masks many values at the cost of one. Values that are empty or too short are passed over;
    /// an error says that at least one did not fit, though all others are masked.
    pub fn add_all<'a>(
        &mut self,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), Refused> {
        let mut patterns = Vec::new();
        let mut result = Ok(());
        for value in values {
            match self.patterns_for(value) {
                Ok(more) => patterns.extend(more),
                Err(Refused::TooMany) => result = Err(Refused::TooMany),
                Err(Refused::Empty | Refused::TooShort) => {}
            }
        }
        self.grow(patterns);
        result
    }

    /// Whether there is nothing to mask.
    pub fn is_empty(&self) -> bool {
        self.generations.is_empty()
    }

    /// Whether a secret occurs in the text, in any of its encodings.
    pub fn occurs_in(&self, text: &[u8]) -> bool {
        self.generations.iter().any(|generation| generation.automaton.is_match(text))
    }

    /// A whole line, or any other text that stands alone, without its secrets.
    pub fn mask_line<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        let secret = self.secret_ranges(line, line.len(), None);
        if secret.is_empty() {
            return Cow::Borrowed(line);
        }
        let mut shown = Vec::with_capacity(line.len());
        let mut at = 0;
        for range in secret {
            shown.extend_from_slice(&line[at..range.start]);
            shown.extend_from_slice(STARS.as_bytes());
            at = range.end;
        }
        shown.extend_from_slice(&line[at..]);
        Cow::Owned(shown)
    }

    /// Like [`Self::mask_line`] for text.
    pub fn mask_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.mask_line(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => Cow::Owned(
                String::from_utf8(bytes).expect("patterns are text and end where characters end"),
            ),
        }
    }

    /// One piece of a line that arrives in several. What could be the beginning of a secret waits
    /// in `carry`, which belongs to one stream; the last piece empties it. Put together, the pieces
    /// are exactly what [`Self::mask_line`] makes of the whole line.
    pub fn mask_chunk<'a>(
        &self,
        carry: &mut Carry,
        chunk: &'a [u8],
        is_last: bool,
    ) -> Cow<'a, [u8]> {
        if carry.is_idle() && (is_last || self.is_empty()) {
            return self.mask_line(chunk);
        }
        let mut text = std::mem::take(&mut carry.bytes);
        text.extend_from_slice(chunk);
        // Every match that begins before `cut` has been seen to its end.
        let kept_back = if is_last { 0 } else { self.longest.saturating_sub(1) };
        let cut = text.len().saturating_sub(kept_back);
        let continued = carry.masked.take();
        let secret = self.secret_ranges(&text, cut, continued);

        let mut shown = Vec::with_capacity(cut);
        let mut at = 0;
        for range in &secret {
            shown.extend_from_slice(&text[at..range.start]);
            if range.start > 0 || continued.is_none() {
                shown.extend_from_slice(STARS.as_bytes());
            }
            at = range.end;
        }
        shown.extend_from_slice(text.get(at..cut).unwrap_or_default());
        if !is_last {
            let end = secret.last().map(|range| range.end);
            carry.masked = end.and_then(|end| end.checked_sub(cut));
            text.drain(..cut);
            carry.bytes = text;
        }
        Cow::Owned(shown)
    }

    fn patterns_for(&mut self, value: &str) -> Result<Vec<String>, Refused> {
        if value.trim().is_empty() {
            return Err(Refused::Empty);
        }
        let parts: Vec<&str> = parts(value).collect();
        if parts.is_empty() {
            return Err(Refused::TooShort);
        }
        let is_new = |part: &&&str| !self.values.contains(**part);
        let mut patterns: Vec<String> =
            parts.iter().filter(is_new).flat_map(|part| encodings::all(part)).collect();
        patterns.sort_unstable();
        patterns.dedup();
        let bytes: usize = patterns.iter().map(String::len).sum();
        if self.pattern_bytes + bytes > MAX_PATTERN_BYTES {
            return Err(Refused::TooMany);
        }
        self.values.extend(parts.into_iter().map(str::to_owned));
        self.pattern_bytes += bytes;
        Ok(patterns)
    }

    fn grow(&mut self, mut patterns: Vec<String>) {
        if patterns.is_empty() {
            return;
        }
        while let Some(last) = self.generations.last()
            && last.patterns.len() <= 2 * patterns.len()
        {
            patterns.extend_from_slice(&last.patterns);
            self.generations.pop();
        }
        let longest = patterns.iter().map(String::len).max();
        self.longest = self.longest.max(longest.unwrap_or(0));
        self.generations.push(Generation::compile(patterns));
    }

    /// Where secrets stand that begin before `cut`, in order; what overlaps or touches is one
    /// range. `continued` says how many bytes at the beginning belong to a secret already begun.
    fn secret_ranges(
        &self,
        text: &[u8],
        cut: usize,
        continued: Option<usize>,
    ) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = continued.map(|end| 0..end).into_iter().collect();
        for generation in &self.generations {
            // Most texts hold none, which a plain search finds out much faster.
            if !generation.automaton.is_match(text) {
                continue;
            }
            let earlier = ranges.len();
            for found in generation.automaton.find_overlapping_iter(text) {
                if found.start() < cut {
                    add_range(&mut ranges, earlier, found.range());
                }
            }
        }
        ranges.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<usize>> = Vec::new();
        for range in ranges {
            add_range(&mut merged, 0, range);
        }
        merged
    }
}

/// Adds a range to a list from index `first` on, whose ends are in order and not beyond its own.
fn add_range(ranges: &mut Vec<Range<usize>>, first: usize, mut range: Range<usize>) {
    while ranges.len() > first
        && let Some(last) = ranges.last()
        && last.end >= range.start
    {
        range = last.start.min(range.start)..last.end.max(range.end);
        ranges.pop();
    }
    ranges.push(range);
}

/// The value, and each of its lines without the blanks around it. Lines come one by one in a log.
/// Of a JSON document we would not mask the lines that are only a bracket.
fn parts(value: &str) -> impl Iterator<Item = &str> {
    let long_enough = |part: &&str| part.chars().nth(1).is_some();
    let lines = value
        .split(['\r', '\n'])
        .map(str::trim)
        .filter(|line| line.contains(char::is_alphanumeric));
    let whole = Some(value).filter(|value| value.trim().chars().nth(1).is_some());
    whole.into_iter().chain(lines.filter(long_enough))
}

/// What a stream has not yet shown because a secret may begin there.
#[derive(Default)]
pub struct Carry {
    bytes: Vec<u8>,
    /// The stream's output ends with a mask that covers this many of the bytes.
    masked: Option<usize>,
}

impl Carry {
    fn is_idle(&self) -> bool {
        self.bytes.is_empty() && self.masked.is_none()
    }
}

/// Numbers only: a secret must not reach a log by way of `{:?}` either.
impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masker").field("values", &self.values.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Carry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carry").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}
