//! How a compressed object is laid out: frames, each of them zstd of its own or as it came when that is
//! shorter; the stored length of each; and an end of fixed length that says how many there are.

use std::ops::Range;

/// How many bytes a frame holds, but for the last one.
pub(super) const FRAME: usize = 256 << 10;
/// The end: the size of what was put, the number of frames, and the mark.
const END: usize = 8 + 4 + 8;
const MARK: &[u8; 8] = b"kilnzst1";
/// Set in the length of a frame that is kept as it came.
const PLAIN: u32 = 1 << 31;
/// Fast: the bytes of a build are seldom read again.
const LEVEL: i32 = 1;

/// Writes frames, and remembers how long they are.
#[derive(Debug, Default)]
pub(super) struct Writer {
    lengths: Vec<u8>,
    size: u64,
}

impl Writer {
    pub(super) fn frame(&mut self, raw: &[u8]) -> Vec<u8> {
        self.size += raw.len() as u64;
        let (bytes, mark) = match compress(raw) {
            Ok(packed) if packed.len() < raw.len() => (packed, 0),
            _ => (raw.to_vec(), PLAIN),
        };
        let length = u32::try_from(bytes.len()).expect("a frame is small");
        self.lengths.extend((length | mark).to_le_bytes());
        bytes
    }

    pub(super) fn end(self) -> Vec<u8> {
        let frames = u32::try_from(self.lengths.len() / 4).expect("there are fewer than 2^32");
        let size = self.size.to_le_bytes();
        [&self.lengths, &size[..], &frames.to_le_bytes(), MARK].concat()
    }
}

/// With a checksum, so that what rotted is noticed.
fn compress(raw: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    compressor.include_checksum(true)?;
    compressor.compress(raw)
}

/// Where the frames of an object lie.
#[derive(Debug)]
pub(super) struct Layout {
    size: u64,
    /// Where each begins; one more says where the last one ends.
    starts: Vec<u64>,
    plain: Vec<bool>,
}

impl Layout {
    /// From the end of an object of this size; or how much of the end is needed.
    pub(super) fn read(tail: &[u8], stored: u64) -> Result<Result<Self, u64>, String> {
        let end = tail.len().checked_sub(END).map(|from| &tail[from..]);
        let Some((size, rest)) = end.and_then(|end| end.split_first_chunk::<8>()) else {
            return Err("it is too short to be one of ours".to_owned());
        };
        let Some((frames, mark)) = rest.split_first_chunk::<4>() else {
            return Err("it is too short to be one of ours".to_owned());
        };
        if mark != MARK {
            return Err("it does not end like one of ours".to_owned());
        }
        let frames = u32::from_le_bytes(*frames) as usize;
        let wanted = frames as u64 * 4 + END as u64;
        if wanted > stored {
            return Err("its list of frames is longer than all of it".to_owned());
        }
        if wanted > tail.len() as u64 {
            return Ok(Err(wanted));
        }
        let list = &tail[tail.len() - END - frames * 4..tail.len() - END];
        let layout = Self::of(u64::from_le_bytes(*size), list);
        if layout.starts.last().copied() != Some(stored - wanted) || !layout.is_sound() {
            return Err("its list of frames does not fit its size".to_owned());
        }
        Ok(Ok(layout))
    }

    fn of(size: u64, list: &[u8]) -> Self {
        let (mut starts, mut plain, mut at) = (vec![0], Vec::new(), 0);
        for length in list.as_chunks::<4>().0 {
            let length = u32::from_le_bytes(*length);
            plain.push(length & PLAIN != 0);
            at += u64::from(length & !PLAIN);
            starts.push(at);
        }
        Self { size, starts, plain }
    }

    /// Every frame but the last is full, and none is longer than what it holds.
    fn is_sound(&self) -> bool {
        let frames = self.plain.len() as u64;
        frames == self.size.div_ceil(FRAME as u64)
            && (0..self.plain.len()).all(|frame| {
                let (stored, raw) = (self.stored(frame), self.raw(frame));
                if self.plain[frame] { stored == raw } else { stored < raw }
            })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The frames that hold these bytes.
    pub(super) fn frames(&self, range: Range<u64>) -> Range<usize> {
        let frame = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
        let from = frame(range.start / FRAME as u64).min(self.plain.len());
        let to = frame(range.end.div_ceil(FRAME as u64)).min(self.plain.len());
        from..if range.is_empty() { from } else { to }
    }

    pub(super) fn place(&self, frames: &Range<usize>) -> (u64, u64) {
        (self.starts[frames.start], self.starts[frames.end])
    }

    pub(super) fn stored(&self, frame: usize) -> usize {
        usize::try_from(self.starts[frame + 1] - self.starts[frame]).expect("a frame is small")
    }

    fn raw(&self, frame: usize) -> usize {
        let left = self.size.saturating_sub(frame as u64 * FRAME as u64);
        usize::try_from(left).unwrap_or(usize::MAX).min(FRAME)
    }

    pub(super) fn expand(&self, frame: usize, stored: &[u8]) -> Result<Vec<u8>, String> {
        if self.plain[frame] {
            return Ok(stored.to_vec());
        }
        let raw = self.raw(frame);
        match zstd::bulk::decompress(stored, raw) {
            Ok(bytes) if bytes.len() == raw => Ok(bytes),
            Ok(bytes) => Err(format!("frame {frame} has {} bytes, expected {raw}", bytes.len())),
            Err(error) => Err(format!("frame {frame} cannot be read: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(raw: &[u8]) -> Vec<u8> {
        let mut writer = Writer::default();
        let frames: Vec<u8> = raw.chunks(FRAME).flat_map(|raw| writer.frame(raw)).collect();
        [frames, writer.end()].concat()
    }

    #[test]
    fn every_end_that_is_broken_is_refused() {
        let whole = written(&vec![7; 3 * FRAME + 5]);
        let read = |bytes: &[u8]| Layout::read(bytes, bytes.len() as u64);
        let layout = read(&whole).unwrap().unwrap();
        assert_eq!((layout.size(), layout.plain.len()), (3 * FRAME as u64 + 5, 4));
        assert_eq!(layout.frames(FRAME as u64 - 1..FRAME as u64 + 1), 0..2);
        for at in whole.len() - END - 16..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            // A length that changed does not fit the size of all any more.
            assert!(read(&changed).is_err(), "{at}");
        }
        for cut in 1..whole.len() {
            assert!(!matches!(read(&whole[cut..]), Ok(Ok(_))), "{cut}");
            assert!(!matches!(read(&whole[..whole.len() - cut]), Ok(Ok(_))), "{cut}");
        }
    }

    #[test]
    fn a_short_tail_says_how_much_is_needed() {
        let whole = written(&vec![7; 9 * FRAME]);
        let tail = &whole[whole.len() - END..];
        assert_eq!(Layout::read(tail, whole.len() as u64).unwrap().unwrap_err(), 9 * 4 + 20);
    }
}
