//! What a place for bytes can do.

use std::fmt;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt as _, stream};

use crate::{BlobError, Content, Name};

/// Something under way.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = Result<T, BlobError>> + Send + 'a>>;

/// How many questions are asked of a backend at once.
const AT_ONCE: usize = 16;

/// Which part of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    All,
    /// From this byte to the one before that, or to the end if that comes earlier.
    Between(u64, u64),
    /// This many bytes at the end, or all if there are fewer.
    Last(u64),
}

impl Span {
    /// The bytes of an object of this size. One that begins behind the end has none; an empty object has
    /// nothing but its beginning.
    pub fn of(self, name: &Name, size: u64) -> Result<Range<u64>, BlobError> {
        match self {
            Self::All => Ok(0..size),
            Self::Between(from, _) if from > size => {
                Err(BlobError::OutOfRange { name: name.clone(), from, size })
            }
            Self::Between(from, to) => Ok(from..to.clamp(from, size)),
            Self::Last(count) => Ok(size.saturating_sub(count)..size),
        }
    }
}

/// An object that is being read.
pub struct Found {
    /// Of the whole object.
    pub size: u64,
    /// Which of its bytes come.
    pub range: Range<u64>,
    pub content: Content,
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Found");
        shown.field("size", &self.size).field("range", &self.range).finish_non_exhaustive()
    }
}

/// An object in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: Name,
    /// As it is kept, which may be less than what can be read from it.
    pub stored: u64,
    pub modified: SystemTime,
}

/// A place for objects. An object is there as a whole, or not at all.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Writes an object, instead of one that is there; says how many bytes it has. It can be read when
    /// all of it is safe, and not before. If the content ends with an error, if writing fails or if the
    /// future is dropped, there is nothing new.
    fn put<'a>(&'a self, name: &'a Name, content: Content) -> Work<'a, u64>;

    fn get<'a>(&'a self, name: &'a Name, span: Span) -> Work<'a, Found>;

    /// How many bytes can be read of an object; `None` if there is none.
    fn size<'a>(&'a self, name: &'a Name) -> Work<'a, Option<u64>>;

    /// Which of them are there, in the same order.
    fn exist<'a>(&'a self, names: &'a [Name]) -> Work<'a, Vec<bool>> {
        Box::pin(async move {
            let asked: Vec<_> = names.iter().map(|name| self.size(name)).collect();
            let sizes: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
            sizes.into_iter().map(|size| size.map(|size| size.is_some())).collect()
        })
    }

    /// Removes an object. That there is none is fine.
    fn delete<'a>(&'a self, name: &'a Name) -> Work<'a, ()>;

    /// Objects below a folder that come after a name, in the order of their names.
    fn list<'a>(
        &'a self,
        folder: &'a Name,
        after: Option<&'a Name>,
        most: usize,
    ) -> Work<'a, Vec<Entry>>;

    /// Removes what writers left behind that died before this time; says how many.
    fn sweep(&self, _before: SystemTime) -> Work<'_, u64> {
        Box::pin(async { Ok(0) })
    }

    /// Addresses under which others can write and read objects as they are, without us.
    fn direct(&self) -> Option<&dyn Direct> {
        None
    }
}

impl<B: Backend + ?Sized> Backend for Arc<B> {
    fn put<'a>(&'a self, name: &'a Name, content: Content) -> Work<'a, u64> {
        (**self).put(name, content)
    }

    fn get<'a>(&'a self, name: &'a Name, span: Span) -> Work<'a, Found> {
        (**self).get(name, span)
    }

    fn size<'a>(&'a self, name: &'a Name) -> Work<'a, Option<u64>> {
        (**self).size(name)
    }

    fn exist<'a>(&'a self, names: &'a [Name]) -> Work<'a, Vec<bool>> {
        (**self).exist(names)
    }

    fn delete<'a>(&'a self, name: &'a Name) -> Work<'a, ()> {
        (**self).delete(name)
    }

    fn list<'a>(
        &'a self,
        folder: &'a Name,
        after: Option<&'a Name>,
        most: usize,
    ) -> Work<'a, Vec<Entry>> {
        (**self).list(folder, after, most)
    }

    fn sweep(&self, before: SystemTime) -> Work<'_, u64> {
        (**self).sweep(before)
    }

    fn direct(&self) -> Option<&dyn Direct> {
        (**self).direct()
    }
}

/// An upload in parts, under way at the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts(pub String);

/// Addresses of a store that are good for one thing and some time.
pub trait Direct: fmt::Debug + Send + Sync {
    /// For a PUT of exactly `size` bytes.
    fn put_url<'a>(&'a self, name: &'a Name, size: u64, life: Duration) -> Work<'a, String>;

    fn get_url<'a>(&'a self, name: &'a Name, life: Duration) -> Work<'a, String>;

    fn begin_parts<'a>(&'a self, name: &'a Name) -> Work<'a, Parts>;

    /// For a PUT of the part with this number, from 1 on.
    fn part_url<'a>(
        &'a self,
        name: &'a Name,
        parts: &'a Parts,
        number: u32,
        life: Duration,
    ) -> Work<'a, String>;

    /// Makes one object of all parts, given what the store said to each (`ETag`).
    fn finish_parts<'a>(
        &'a self,
        name: &'a Name,
        parts: &'a Parts,
        tags: Vec<String>,
    ) -> Work<'a, ()>;

    fn abort_parts<'a>(&'a self, name: &'a Name, parts: &'a Parts) -> Work<'a, ()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without")]
    fn check(span: Span, size: u64, expect: Option<Range<u64>>) {
        let name = Name::new("a").unwrap();
        assert_eq!(span.of(&name, size).ok(), expect, "{span:?} of {size}");
    }

    #[test]
    fn a_span_stays_within_its_object() {
        check(Span::All, 3, Some(0..3));
        check(Span::Between(1, 2), 3, Some(1..2));
        check(Span::Between(1, 99), 3, Some(1..3));
        check(Span::Between(3, 4), 3, Some(3..3));
        check(Span::Between(4, 5), 3, None);
        check(Span::Between(2, 1), 3, Some(2..2));
        check(Span::Last(2), 3, Some(1..3));
        check(Span::Last(9), 3, Some(0..3));
        check(Span::Last(0), 3, Some(3..3));
        check(Span::Between(u64::MAX, u64::MAX), 3, None);
    }
}
