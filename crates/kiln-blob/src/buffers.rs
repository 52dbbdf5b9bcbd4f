//! Large buffers that are used again.
//!
//! Whoever reads a large object needs the same few buffers over and over. If each was given back to the
//! allocator by another thread than the one that takes the next, a server would keep many times what it needs,
//! and the system would have to clear each page anew.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Buffers of one size. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Buffers(Arc<Shelf>);

#[derive(Debug)]
struct Shelf {
    size: usize,
    /// How many are kept that nobody uses.
    most: usize,
    free: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    pub(crate) fn new(size: usize, most: usize) -> Self {
        Self(Arc::new(Shelf { size, most, free: Mutex::default() }))
    }

    /// A buffer to be filled, with whatever was in it before.
    pub(crate) fn take(&self) -> Buffer {
        let free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Buffer { bytes: free.unwrap_or_else(|| vec![0; self.0.size]), home: Arc::clone(&self.0) }
    }
}

/// A buffer that goes back when nobody looks into it any more.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    home: Arc<Shelf>,
}

impl Buffer {
    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// What was filled of it, for all who want to read it.
    pub(crate) fn freeze(self, length: usize) -> Bytes {
        Bytes::from_owner(self).slice(..length)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut free = self.home.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < self.home.most {
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_when_the_last_reader_is_gone() {
        let buffers = Buffers::new(8, 1);
        let mut first = buffers.take();
        first.as_mut()[..3].copy_from_slice(b"abc");
        let place = first.as_ref().as_ptr();
        let bytes = first.freeze(3);
        let part = bytes.slice(1..);
        assert_ne!(buffers.take().as_ref().as_ptr(), place, "somebody reads it");
        drop(bytes);
        assert_eq!(part, b"bc"[..]);
        buffers.0.free.lock().unwrap().clear();
        drop(part);
        assert_eq!(buffers.take().as_ref().as_ptr(), place);
    }

    #[test]
    fn no_more_are_kept_than_was_said() {
        let buffers = Buffers::new(8, 2);
        drop([buffers.take(), buffers.take(), buffers.take()]);
        assert_eq!(buffers.0.free.lock().unwrap().len(), 2);
    }
}
