//! The last line of a log that was cut.

use kiln_proto::log::{Line, truncated};

use crate::clock;

/// Takes over what fits. If that is not all, a last line says so, and makes the log longer than the limit:
/// that is how a log is known to be cut.
pub(super) fn append_within(fresh: &mut Vec<u8>, bytes: &[u8], room: u64, limit: u64) -> u64 {
    let start = fresh.len();
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    fresh.extend_from_slice(&bytes[..bytes.len().min(room)]);
    if bytes.len() > room {
        fresh.push(b'\n');
        let text = truncated(limit);
        Line { at: clock::now().0, step: 0, text: text.as_bytes() }.write(fresh);
    }
    (fresh.len() - start) as u64
}
