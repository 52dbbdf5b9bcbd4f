//! Remembers which objects are there, so that not every question goes to the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::backend::{Backend, Direct, Entry, Found, Span, Work};
use crate::{Content, Name};

/// Around another backend. Only that something is there is remembered, with its size, never that it is
/// missing. Names of blobs are used once, so that what another server removes is not asked for again.
#[derive(Debug, Clone)]
pub struct Remembered<B> {
    inner: B,
    known: Arc<Mutex<Generations>>,
}

/// Two of them: when the young one is full, the old one is forgotten and the young one grows old. What is
/// asked for moves to the young one, so that it stays.
#[derive(Debug)]
struct Generations {
    most: usize,
    young: HashMap<Name, u64>,
    old: HashMap<Name, u64>,
}

impl<B: Backend> Remembered<B> {
    /// Up to this many are remembered.
    pub fn new(inner: B, most: usize) -> Self {
        let most = (most / 2).max(1);
        let known = Generations { most, young: HashMap::new(), old: HashMap::new() };
        Self { inner, known: Arc::new(Mutex::new(known)) }
    }

    fn known(&self) -> MutexGuard<'_, Generations> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn get(&mut self, name: &Name) -> Option<u64> {
        if let Some(size) = self.young.get(name) {
            return Some(*size);
        }
        let size = self.old.remove(name)?;
        self.insert(name.clone(), size);
        Some(size)
    }

    fn insert(&mut self, name: Name, size: u64) {
        if self.young.len() >= self.most {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(name, size);
    }

    fn remove(&mut self, name: &Name) {
        self.young.remove(name);
        self.old.remove(name);
    }
}

impl<B: Backend> Backend for Remembered<B> {
    fn put<'a>(&'a self, name: &'a Name, content: Content) -> Work<'a, u64> {
        Box::pin(async move {
            let size = self.inner.put(name, content).await?;
            self.known().insert(name.clone(), size);
            Ok(size)
        })
    }

    fn get<'a>(&'a self, name: &'a Name, span: Span) -> Work<'a, Found> {
        Box::pin(async move {
            let found = self.inner.get(name, span).await;
            if found.is_err() {
                self.known().remove(name);
            }
            found
        })
    }

    fn size<'a>(&'a self, name: &'a Name) -> Work<'a, Option<u64>> {
        Box::pin(async move {
            if let Some(size) = self.known().get(name) {
                return Ok(Some(size));
            }
            let size = self.inner.size(name).await?;
            if let Some(size) = size {
                self.known().insert(name.clone(), size);
            }
            Ok(size)
        })
    }

    fn delete<'a>(&'a self, name: &'a Name) -> Work<'a, ()> {
        Box::pin(async move {
            self.known().remove(name);
            let done = self.inner.delete(name).await;
            // Somebody may have asked in between.
            self.known().remove(name);
            done
        })
    }

    fn list<'a>(
        &'a self,
        folder: &'a Name,
        after: Option<&'a Name>,
        most: usize,
    ) -> Work<'a, Vec<Entry>> {
        self.inner.list(folder, after, most)
    }

    fn sweep(&self, before: SystemTime) -> Work<'_, u64> {
        self.inner.sweep(before)
    }

    fn direct(&self) -> Option<&dyn Direct> {
        self.inner.direct()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_bound_and_what_is_used_stays() {
        let mut known = Generations { most: 10, young: HashMap::new(), old: HashMap::new() };
        let name = |number: u64| Name::new(format!("a/{number}")).unwrap();
        known.insert(name(0), 7);
        for number in 1..1_000 {
            known.insert(name(number), number);
            assert_eq!(known.get(&name(0)), Some(7), "{number}");
            assert!(known.young.len() + known.old.len() <= 20);
        }
        assert_eq!(known.get(&name(5)), None);
        known.remove(&name(0));
        assert_eq!(known.get(&name(0)), None);
    }
}
