//! The end of a log that is watched, in memory: its viewers take it from there.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// How much of it stays.
pub(super) const REMEMBERED: usize = 64 << 10;

/// It ends where the log ended when this server last heard of it, or is empty.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<End>);

#[derive(Debug, Default)]
struct End {
    from: u64,
    bytes: Bytes,
}

impl End {
    fn end(&self) -> u64 {
        self.from + self.bytes.len() as u64
    }
}

impl Recent {
    /// Takes what comes behind an offset, if somebody watches and it is not too much.
    pub(super) fn add(&self, before: u64, fresh: Bytes, is_followed: bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What is known already may come again, from those who read what others wrote.
        if fresh.is_empty() || before + fresh.len() as u64 <= known.end() {
            return;
        }
        if !is_followed || fresh.len() > REMEMBERED {
            *known = End::default();
            return;
        }
        let goes_on = !known.bytes.is_empty()
            && known.end() == before
            && known.bytes.len() + fresh.len() <= REMEMBERED;
        *known = if goes_on {
            End { from: known.from, bytes: [&known.bytes[..], &fresh].concat().into() }
        } else {
            End { from: before, bytes: fresh }
        };
    }

    /// The log has gone on, and nobody knows how.
    pub(super) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = End::default();
    }

    /// Bytes from here on, if they are at hand.
    pub(super) fn get(&self, from: u64, limit: usize) -> Option<Bytes> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(from.checked_sub(known.from)?).ok()?;
        let end = known.bytes.len().min(start.saturating_add(limit));
        (start < end).then(|| known.bytes.slice(start..end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_where_the_log_ends_or_is_empty() {
        let recent = Recent::default();
        let add = |before, text: &'static str| {
            recent.add(before, Bytes::from_static(text.as_bytes()), true);
        };
        add(10, "ab");
        add(12, "cd");
        assert_eq!(recent.get(11, 9).as_deref(), Some(&b"bcd"[..]));
        assert_eq!(recent.get(11, 1).as_deref(), Some(&b"b"[..]));
        assert_eq!((recent.get(9, 9), recent.get(14, 9)), (None, None));
        // Somebody who was slow says it again.
        add(10, "ab");
        assert_eq!(recent.get(13, 9).as_deref(), Some(&b"d"[..]));
        // Behind a gap it begins anew.
        add(20, "x");
        assert_eq!(recent.get(13, 9), None);
        recent.add(21, vec![b'y'; REMEMBERED + 1].into(), true);
        assert_eq!(recent.get(20, 9), None);
        add(99, "z");
        recent.add(100, Bytes::from_static(b"unseen"), false);
        assert_eq!(recent.get(99, 9), None);
    }
}
