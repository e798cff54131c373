//! One filter with its secret and its lease: what the gate asks, and what the population keeps in step.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::filter::{BlockedBloom, Hint};
use crate::gate::freshness::{Lease, Moment};
use crate::names::FilterKey;

/// A complete filter, published to readers by one pointer together with its lease.
#[derive(Debug)]
pub struct Generation {
    number: u64,
    filter: BlockedBloom,
    lease: Lease,
    /// Names that ceased to be held since the filter was filled: they stay in it.
    released: AtomicU64,
}

impl Generation {
    /// `number`: counts from 1 in each process. `filter`: holds every name visible at `fresh_at`.
    #[must_use]
    pub const fn new(number: u64, filter: BlockedBloom, fresh_at: Moment) -> Self {
        Self {
            number,
            filter,
            lease: Lease::beginning(fresh_at),
            released: AtomicU64::new(0),
        }
    }

    /// The same generation with more room: `double` is this filter [`doubled`](BlockedBloom::doubled), still to be
    /// filled. The lease is as old as can be, until somebody who knows better renews it.
    #[must_use]
    pub fn with_room(&self, double: BlockedBloom) -> Self {
        Self {
            number: self.number,
            filter: double,
            lease: Lease::beginning(Moment::LONG_AGO),
            released: AtomicU64::new(self.released()),
        }
    }

    /// Which filter of this process this is, counted from 1.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The filter itself, for its self-knowledge.
    #[must_use]
    pub const fn filter(&self) -> &BlockedBloom {
        &self.filter
    }

    /// The lease that the population renews.
    #[must_use]
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// A row holds, or is about to hold, this name.
    pub fn insert(&self, key: &FilterKey) {
        self.filter.insert(key.as_ref());
    }

    /// Names that ceased to be held since the filter was filled, each change counted once.
    #[must_use]
    pub fn released(&self) -> u64 {
        // Relaxed: a number for people and for a rule of thumb; nothing is published by it.
        self.released.load(Ordering::Relaxed)
    }

    /// Counts names that ceased to be held.
    pub fn count_released(&self, names: u64) {
        // Relaxed: see `released`.
        self.released.fetch_add(names, Ordering::Relaxed);
    }

    /// What the filter says, or `None` when it is older than `max_staleness` and must not be asked.
    #[must_use]
    pub fn probe(&self, key: &FilterKey, max_staleness: Duration) -> Option<Hint> {
        // The order is the promise: lease, bits, clock. See `freshness`.
        let renewed_at = self.lease.renewed_at();
        let hint = self.filter.probe(key.as_ref());
        (Moment::now().since(renewed_at) <= max_staleness).then_some(hint)
    }

    /// What the filter says of each key, in their order, with their loads from memory under way together; `None` as in
    /// [`probe`](Self::probe).
    #[must_use]
    pub fn probe_batch(&self, keys: &[FilterKey], max_staleness: Duration) -> Option<Vec<Hint>> {
        // The same order for all of them at once: one lease before the first bit, one clock after the last.
        let renewed_at = self.lease.renewed_at();
        let hints = self.filter.probe_batch(keys);
        (Moment::now().since(renewed_at) <= max_staleness).then_some(hints)
    }
}
