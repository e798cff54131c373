//! The cache of names lately found taken. Only *taken* is ever cached: a cached *free* would hide the next insert.
//!
//! Bounded in entries and in time, and dropped at once when the feed reports a name released. An answer that was on its
//! way when the release came in is not remembered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::sync::Cache;

use crate::names::{Canonical, FilterKey};

/// Names that the database said are held.
#[derive(Debug)]
pub struct TakenCache {
    /// Keyed by the coarse fold, so that a release finds its entry however the database spells the name; the value
    /// tells apart the names that share a fold.
    entries: Cache<FilterKey, Canonical>,
    releases: AtomicU64,
}

/// The state of the releases when a lookup was sent.
#[derive(Debug, Clone, Copy)]
pub struct Epoch(u64);

impl TakenCache {
    /// `capacity`: entries. `time_to_live`: how long one *taken* may be repeated without asking again.
    #[must_use]
    pub fn new(capacity: u64, time_to_live: Duration) -> Self {
        let entries = Cache::builder()
            .max_capacity(capacity)
            .time_to_live(time_to_live)
            .build();
        Self {
            entries,
            releases: AtomicU64::new(0),
        }
    }

    /// Whether the name is known to be held.
    #[must_use]
    pub fn holds(&self, key: &FilterKey, name: &Canonical) -> bool {
        self.entries.get(key).is_some_and(|held| held == *name)
    }

    /// Call before a lookup is sent.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        // SeqCst on this counter throughout: a release is counted before its entry is dropped, and an entry is
        // checked after it is put in; the two must be seen in one order. Neither is on the path of a free name.
        Epoch(self.releases.load(Ordering::SeqCst))
    }

    /// Remembers that the database said *held*, unless a release came in since the lookup was sent.
    pub fn remember(&self, sent_at: Epoch, key: &FilterKey, name: Canonical) {
        if self.epoch().0 != sent_at.0 {
            return;
        }
        self.entries.insert(key.clone(), name);
        if self.epoch().0 != sent_at.0 {
            self.entries.invalidate(key);
        }
    }

    /// A row no longer holds this name.
    pub fn forget(&self, key: &FilterKey) {
        self.releases.fetch_add(1, Ordering::SeqCst);
        self.entries.invalidate(key);
    }

    /// Every row is gone.
    pub fn forget_all(&self) {
        self.releases.fetch_add(1, Ordering::SeqCst);
        self.entries.invalidate_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> (FilterKey, Canonical) {
        (FilterKey::of(text), Canonical::stored(text))
    }

    fn cache() -> TakenCache {
        TakenCache::new(100, Duration::from_mins(1))
    }

    #[test]
    fn a_name_found_taken_is_known_until_it_is_released() {
        let (cache, (key, alice)) = (cache(), name("alice"));
        assert!(!cache.holds(&key, &alice));
        cache.remember(cache.epoch(), &key, alice.clone());
        assert!(cache.holds(&key, &alice));
        cache.forget(&key);
        assert!(!cache.holds(&key, &alice));
    }

    #[test]
    fn an_answer_overtaken_by_a_release_is_not_remembered() {
        let (cache, (key, alice)) = (cache(), name("alice"));
        let sent_at = cache.epoch();
        cache.forget(&key);
        cache.remember(sent_at, &key, alice.clone());
        assert!(!cache.holds(&key, &alice));
    }

    #[test]
    fn two_names_with_one_fold_are_not_confused() {
        let cache = cache();
        let (key, dotless) = name("kadıköy");
        let (same_key, dotted) = name("kadikoy");
        assert_eq!(key, same_key, "the fold is coarser than the names");
        cache.remember(cache.epoch(), &key, dotless);
        assert!(!cache.holds(&key, &dotted));
    }
}
