//! Keeps objects compressed, and still reads any part of them.

mod format;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};

use crate::backend::{Backend, Entry, Found, Span, Work};
use crate::content::{collect, gather};
use crate::{BlobError, Content, Name, of_pieces};
use format::{FRAME, Layout, Writer};

/// The end of an object that is read first: enough for the list of frames of most.
const TAIL: u64 = 4 << 10;

/// Around another backend. Sizes and ranges are those of what was put; [`Entry::stored`] is what it takes.
/// Nobody else can read the objects as they lie there, so there are no direct addresses.
#[derive(Debug, Clone)]
pub struct Compressed<B>(pub B);

impl<B: Backend> Compressed<B> {
    /// How an object is laid out; `None` if there is none.
    async fn layout(&self, name: &Name) -> Result<Layout, BlobError> {
        let mut want = TAIL;
        loop {
            let found = self.0.get(name, Span::Last(want)).await?;
            let (size, most) = (found.size, usize::try_from(want).unwrap_or(usize::MAX));
            let tail = collect(found.content, most).await?;
            match Layout::read(&tail, size).map_err(|why| BlobError::damaged(name, why))? {
                Ok(layout) => return Ok(layout),
                Err(more) => want = more,
            }
        }
    }
}

impl<B: Backend> Backend for Compressed<B> {
    fn put<'a>(&'a self, name: &'a Name, content: Content) -> Work<'a, u64> {
        Box::pin(async move {
            let size = Arc::new(AtomicU64::new(0));
            let counted = Arc::clone(&size);
            let content = content.inspect(move |piece| {
                let count = piece.as_ref().map_or(0, |bytes| bytes.len() as u64);
                counted.fetch_add(count, Ordering::Relaxed);
            });
            self.0.put(name, compress(content.boxed())).await?;
            Ok(size.load(Ordering::Relaxed))
        })
    }

    fn get<'a>(&'a self, name: &'a Name, span: Span) -> Work<'a, Found> {
        Box::pin(async move {
            let layout = self.layout(name).await?;
            let range = span.of(name, layout.size())?;
            if range.is_empty() {
                return Ok(Found { size: layout.size(), range, content: of_pieces([]) });
            }
            let frames = layout.frames(range.clone());
            let (from, to) = layout.place(&frames);
            let found = self.0.get(name, Span::Between(from, to)).await?;
            let size = layout.size();
            let state = Expander { name: name.clone(), content: found.content, layout, frames };
            let skip = range.start - state.frames.start as u64 * FRAME as u64;
            let content = cut(expand(state), skip, range.end - range.start);
            Ok(Found { size, range, content })
        })
    }

    fn size<'a>(&'a self, name: &'a Name) -> Work<'a, Option<u64>> {
        Box::pin(async move {
            match self.layout(name).await {
                Ok(layout) => Ok(Some(layout.size())),
                Err(BlobError::NotFound(_)) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn exist<'a>(&'a self, names: &'a [Name]) -> Work<'a, Vec<bool>> {
        self.0.exist(names)
    }

    fn delete<'a>(&'a self, name: &'a Name) -> Work<'a, ()> {
        self.0.delete(name)
    }

    fn list<'a>(
        &'a self,
        folder: &'a Name,
        after: Option<&'a Name>,
        most: usize,
    ) -> Work<'a, Vec<Entry>> {
        self.0.list(folder, after, most)
    }

    fn sweep(&self, before: SystemTime) -> Work<'_, u64> {
        self.0.sweep(before)
    }
}

/// Frames as they are full, and the list of them at the end.
fn compress(content: Content) -> Content {
    let state = Some((content.fuse(), Writer::default(), Vec::new()));
    let frames = stream::unfold(state, |state| async {
        let (mut content, mut writer, mut rest) = state?;
        let want = FRAME.saturating_sub(rest.len());
        let pieces = match gather(&mut content, want).await {
            Ok(pieces) => pieces,
            Err(error) => return Some((Err(error), None)),
        };
        for piece in &pieces {
            rest.extend_from_slice(piece);
        }
        if rest.len() < FRAME && pieces.is_empty() {
            let last = if rest.is_empty() { Vec::new() } else { writer.frame(&rest) };
            return Some((Ok(Bytes::from([last, writer.end()].concat())), None));
        }
        let mut frames = Vec::new();
        let full = rest.len() / FRAME * FRAME;
        for raw in rest[..full].chunks(FRAME) {
            frames.extend(writer.frame(raw));
        }
        rest.drain(..full);
        Some((Ok(frames.into()), Some((content, writer, rest))))
    });
    frames.boxed()
}

/// Frames that are being read.
struct Expander {
    name: Name,
    content: Content,
    layout: Layout,
    frames: std::ops::Range<usize>,
}

/// What was put, frame by frame.
fn expand(expander: Expander) -> Content {
    let state = Some((expander, Vec::new()));
    let raw = stream::unfold(state, |state| async {
        let (mut expander, mut rest) = state?;
        let frame = expander.frames.next()?;
        let stored = expander.layout.stored(frame);
        while rest.len() < stored {
            match expander.content.next().await {
                Some(Ok(piece)) => rest.extend_from_slice(&piece),
                Some(Err(error)) => return Some((Err(error), None)),
                None => {
                    let error = BlobError::damaged(&expander.name, "it ends within a frame");
                    return Some((Err(error), None));
                }
            }
        }
        let raw = expander.layout.expand(frame, &rest[..stored]);
        rest.drain(..stored);
        match raw {
            Ok(raw) => Some((Ok(Bytes::from(raw)), Some((expander, rest)))),
            Err(why) => Some((Err(BlobError::damaged(&expander.name, why)), None)),
        }
    });
    raw.boxed()
}

/// Without the first bytes, and then no more than `length`.
pub(crate) fn cut(content: Content, skip: u64, length: u64) -> Content {
    let within = content.scan((skip, length), |(skip, left), piece| {
        let piece = piece.map(|mut bytes| {
            let away = (bytes.len() as u64).min(*skip);
            *skip -= away;
            let mut bytes = bytes.split_off(usize::try_from(away).expect("it is within a piece"));
            let keep = (bytes.len() as u64).min(*left);
            *left -= keep;
            bytes.truncate(usize::try_from(keep).expect("it is within a piece"));
            bytes
        });
        std::future::ready(Some(piece))
    });
    let is_something = |piece: &Result<Bytes, BlobError>| {
        std::future::ready(piece.as_ref().map_or(true, |bytes| !bytes.is_empty()))
    };
    within.filter(is_something).boxed()
}
