//! A bounded memory.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// How many were ever put in, and each with its count then.
type Entries<K, V> = (u64, HashMap<K, (u64, V)>);

/// A bounded memory: when it is full, the half that was put in first goes.
pub struct Cache<K, V> {
    entries: Mutex<Entries<K, V>>,
    capacity: usize,
}

impl<K, V> std::fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl<K: std::hash::Hash + Eq, V: Clone> Cache<K, V> {
    pub fn new(capacity: usize) -> Self {
        Self { entries: Mutex::new((0, HashMap::new())), capacity }
    }

    pub fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.1.get(key).map(|(_, value)| value.clone())
    }

    pub fn put(&self, key: K, value: V) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, map) = &mut *entries;
        *count += 1;
        if map.len() >= self.capacity {
            let oldest = *count - u64::try_from(self.capacity / 2).unwrap_or(1);
            map.retain(|_, (at, _)| *at > oldest);
        }
        map.insert(key, (*count, value));
    }
}

#[cfg(test)]
mod tests {
    use super::Cache;

    #[test]
    fn a_full_cache_forgets_what_came_first() {
        let cache = Cache::new(10);
        for number in 0..100 {
            cache.put(number, number);
        }
        assert_eq!(cache.get(&99), Some(99));
        assert_eq!(cache.get(&0), None);
        assert!(cache.entries.lock().unwrap().1.len() <= 10);
    }
}
