//! What the gate can know without the database: the live generation and the names lately found taken.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;

use crate::filter::Hint;
use crate::gate::decision::Memory;
use crate::gate::generation::Generation;
use crate::gate::store::Sink;
use crate::gate::taken::TakenCache;
use crate::names::{Canonical, FilterKey};

/// Shared by the questions (readers), the sign-up and the population (writers).
#[derive(Debug)]
pub struct Recall {
    live: ArcSwapOption<Generation>,
    /// A generation that is complete up to a snapshot and not yet asked. Weak: it goes when its build is given up.
    /// Guarded while it is read or replaced, and while a name is noted.
    next: Mutex<Weak<Generation>>,
    taken: TakenCache,
    max_staleness: Duration,
}

impl Recall {
    /// Knows nothing yet. `max_staleness`: how old a lease may be for its filter to be believed.
    #[must_use]
    pub fn new(max_staleness: Duration, taken: TakenCache) -> Self {
        Self {
            live: ArcSwapOption::empty(),
            next: Mutex::default(),
            taken,
            max_staleness,
        }
    }

    /// What memory alone can promise about a name.
    #[must_use]
    pub fn of(&self, key: &FilterKey, name: &Canonical) -> Memory {
        let live = self.live.load();
        match live
            .as_ref()
            .and_then(|generation| generation.probe(key, self.max_staleness))
        {
            None => Memory::Untrusted,
            Some(hint) => self.beyond(hint, key, name),
        }
    }

    /// What memory alone can promise about each of many names, in their order; one generation answers for all. `keys`:
    /// those of `names`.
    #[must_use]
    pub fn of_many(&self, keys: &[FilterKey], names: &[Canonical]) -> Vec<Memory> {
        let live = self.live.load();
        match live
            .as_ref()
            .and_then(|generation| generation.probe_batch(keys, self.max_staleness))
        {
            None => vec![Memory::Untrusted; names.len()],
            Some(hints) => hints
                .into_iter()
                .zip(keys.iter().zip(names))
                .map(|(hint, (key, name))| self.beyond(hint, key, name))
                .collect(),
        }
    }

    /// What the cache adds to what a trusted filter says.
    fn beyond(&self, hint: Hint, key: &FilterKey, name: &Canonical) -> Memory {
        match hint {
            Hint::Absent => Memory::Absent,
            Hint::Maybe if self.taken.holds(key, name) => Memory::KnownTaken,
            Hint::Maybe => Memory::Maybe,
        }
    }

    /// A row is about to hold this name, or holds it by now: no filter may say *absent* from now on, neither the one
    /// that is asked nor the one that is about to be.
    pub fn note(&self, key: &FilterKey) {
        // The next one first: if it is published in between, it is the live one when that is read. Locked until the
        // live one has the name too: whoever announces waits for this, and may then copy the live filter.
        let next = self.lock_next();
        if let Some(generation) = next.upgrade() {
            generation.insert(key);
        }
        if let Some(generation) = self.live.load().as_ref() {
            generation.insert(key);
        }
        drop(next);
    }

    /// The announced generation, if any, must have this name too.
    fn note_in_next(&self, key: &FilterKey) {
        if let Some(generation) = self.lock_next().upgrade() {
            generation.insert(key);
        }
    }

    /// Announces the generation that will be published next. Every name noted or applied after this is in it.
    ///
    /// Call it before its feed is polled for the first time: a name is then either in what that poll reads, or noted
    /// after this. Or before the live filter is copied into it: a name is then in the copy, or noted after this.
    pub fn announce(&self, generation: &Arc<Generation>) {
        *self.lock_next() = Arc::downgrade(generation);
    }

    /// Makes a complete, fresh generation the one that is asked. Release/Acquire is the pointer swap's own.
    pub fn publish(&self, generation: Arc<Generation>) {
        self.live.store(Some(generation));
        *self.lock_next() = Weak::new();
    }

    /// Stops asking the filter. Every question goes to the database until the next [`publish`](Self::publish).
    pub fn distrust(&self) {
        self.live.store(None);
    }

    /// The generation that is asked now.
    #[must_use]
    pub fn live(&self) -> Option<Arc<Generation>> {
        self.live.load_full()
    }

    /// Whether the filter would be believed now.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.live
            .load()
            .as_ref()
            .is_some_and(|generation| generation.lease().age() <= self.max_staleness)
    }

    /// How old a lease may be.
    #[must_use]
    pub const fn max_staleness(&self) -> Duration {
        self.max_staleness
    }

    /// The names lately found taken.
    #[must_use]
    pub const fn taken(&self) -> &TakenCache {
        &self.taken
    }

    fn lock_next(&self) -> MutexGuard<'_, Weak<Generation>> {
        // A pointer is whole whenever a panic might have happened.
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Applies what a feed reports to a live generation and to the cache.
pub struct Apply<'a> {
    recall: &'a Recall,
    generation: &'a Generation,
    truncated: bool,
    released: u64,
}

impl<'a> Apply<'a> {
    /// Changes go into `generation` and out of `recall`'s cache.
    #[must_use]
    pub const fn to(recall: &'a Recall, generation: &'a Generation) -> Self {
        Self {
            recall,
            generation,
            truncated: false,
            released: 0,
        }
    }

    /// How many names the feed reported as released.
    #[must_use]
    pub const fn released_names(&self) -> u64 {
        self.released
    }

    /// Whether the feed reported that every row is gone.
    #[must_use]
    pub const fn saw_truncation(&self) -> bool {
        self.truncated
    }
}

impl Sink for Apply<'_> {
    fn held(&mut self, raw: &[u8]) {
        let key = FilterKey::of_bytes(raw);
        self.recall.note_in_next(&key);
        self.generation.insert(&key);
    }

    fn released(&mut self, raw: &[u8]) {
        self.released += 1;
        self.recall.taken.forget(&FilterKey::of_bytes(raw));
    }

    fn truncated(&mut self) {
        self.truncated = true;
        self.recall.taken.forget_all();
    }
}
