//! The last line of a log that was cut.

use kiln_proto::log::{Line, truncated};

use super::split;
use crate::clock;

/// Takes over what fits. If that is not all, a last line says so, and makes the log longer than the limit:
/// that is how a log is known to be cut.
pub(super) fn append_within(fresh: &mut Vec<u8>, bytes: &[u8], room: u64, limit: u64) -> u64 {
    let start = fresh.len();
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    fresh.extend_from_slice(&bytes[..bytes.len().min(room)]);
    if bytes.len() > room {
        fresh.push(b'\n');
        let (text, step) = (truncated(limit), step_at(bytes, room));
        Line { at: clock::now().0, step, text: text.as_bytes() }.write(fresh);
    }
    (fresh.len() - start) as u64
}

/// The step that was printing at a byte, so that whoever looks at that step alone sees where it was cut. The last
/// line that begins before the byte says it. A piece begins anywhere in a line, so that its first bytes count only
/// where nothing else is.
fn step_at(bytes: &[u8], at: usize) -> u32 {
    let begins = [memchr::memrchr(b'\n', &bytes[..at]), memchr::memchr(b'\n', bytes)];
    let lines = begins.into_iter().flatten().map(|end| &bytes[end + 1..]);
    let mut lines = lines.chain([bytes]).filter(|line| !line.is_empty());
    let first = |bytes| split::Lines(bytes).next().unwrap_or(bytes);
    lines.next().map_or(0, |line| Line::parse(split::bare(first(line))).step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_belongs_to_the_step_that_was_cut() {
        let check = |bytes: &str, room: u64, expect: u32| {
            let mut fresh = Vec::new();
            append_within(&mut fresh, bytes.as_bytes(), room, 9);
            let fresh = String::from_utf8(fresh).unwrap();
            let mark = fresh.lines().last().unwrap();
            assert!(mark.ends_with(" [... log truncated at 9 bytes]"), "{mark}");
            assert_eq!(Line::parse(mark.as_bytes()).step, expect, "{bytes:?} {room}");
        };
        check("1 4 abc\n2 5 def\n", 12, 5);
        check("1 4 abc\n2 5 def", 8, 5);
        check("bc\n2 6 def\n", 1, 6);
        check("1 7 abc", 3, 7);
        check("1 7 abc\n", 3, 7);
        check("neither time nor step", 3, 0);
    }
}
