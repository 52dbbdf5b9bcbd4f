//! Checks bytes against the digest in their name, on their way in and out.

use std::time::SystemTime;

use crate::backend::{Backend, Direct, Entry, Found, Span, Work};
use crate::{Content, Name, checked};

/// Around another backend. A whole object that is read is right, or its stream ends with an error; one
/// that is written is right, or it is not kept. Names without a digest pass as they are.
#[derive(Debug, Clone)]
pub struct Verified<B>(pub B);

impl<B: Backend> Backend for Verified<B> {
    fn put<'a>(&'a self, name: &'a Name, content: Content) -> Work<'a, u64> {
        match name.digest() {
            Some(digest) => self.0.put(name, checked(content, digest, None)),
            None => self.0.put(name, content),
        }
    }

    fn get<'a>(&'a self, name: &'a Name, span: Span) -> Work<'a, Found> {
        Box::pin(async move {
            let Found { size, range, content } = self.0.get(name, span).await?;
            let is_whole = range == (0..size);
            let content = match name.digest().filter(|_| is_whole) {
                Some(digest) => checked(content, digest, Some(size)),
                None => content,
            };
            Ok(Found { size, range, content })
        })
    }

    fn size<'a>(&'a self, name: &'a Name) -> Work<'a, Option<u64>> {
        self.0.size(name)
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

    fn direct(&self) -> Option<&dyn Direct> {
        self.0.direct()
    }
}
