//! Confirming names in the database: many questions, few statements.
//!
//! Questions that wait together travel together. A question that finds a free lane leaves at once; while all lanes are
//! on their way, the others gather, one entry per name, and the next lane to come back takes them all. So nothing is
//! ever delayed to make a batch, and a crowd asking for one name costs one statement, or two when it comes late.
//!
//! A question never joins a statement that has already left: that statement may have read the table before a row was
//! committed which the asker knows of. It may be answered by what the earlier statement put into the cache of names
//! found taken.
//!
//! Cancel-safe: a question that goes away leaves an entry that nobody waits for, and such names are not asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::gate::decision::Memory;
use crate::gate::recall::Recall;
use crate::gate::spellings::Spellings;
use crate::gate::store::Store;
use crate::names::{Canonical, FilterKey};
use crate::telemetry::Metrics;

/// How lookups are bounded.
#[derive(Debug, Clone, Copy)]
pub struct LookupLimits {
    /// Statements on their way at one time.
    pub lanes: usize,
    /// Names waiting for a lane; more are refused at once, so that a burst cannot starve anybody.
    pub waiting: usize,
    /// Names in one statement.
    pub batch: usize,
    /// How long a question waits for its answer, gathering included.
    pub deadline: Duration,
}

impl Default for LookupLimits {
    fn default() -> Self {
        // Two lanes: on one machine with its database, more connections were measured to answer fewer questions.
        Self {
            lanes: 2,
            waiting: 10_000,
            batch: 1_000,
            deadline: Duration::from_millis(500),
        }
    }
}

/// What came back for one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The database answered; `true`: a row holds the name.
    InDatabase(bool),
    /// A statement that left before this one found the name taken.
    TakenInCache,
    /// No answer: unreachable, overdue, or too many waiting.
    Nothing,
}

/// Sends lookups. Cheap to clone.
#[derive(Clone)]
pub struct Lookups {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    recall: Arc<Recall>,
    metrics: Arc<Metrics>,
    limits: LookupLimits,
    /// Guards what waits and how many lanes are out. Held for map operations only, never over an await.
    gathering: Mutex<Gathering>,
}

#[derive(Default)]
struct Gathering {
    waiting: HashMap<Spellings, Waiting>,
    lanes_out: usize,
}

struct Waiting {
    key: FilterKey,
    askers: Vec<oneshot::Sender<Found>>,
}

impl Lookups {
    /// Lookups in `store`, whose *taken* answers go into the cache of `recall`.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        recall: Arc<Recall>,
        metrics: Arc<Metrics>,
        limits: LookupLimits,
    ) -> Self {
        let gathering = Mutex::default();
        Self {
            shared: Arc::new(Shared {
                store,
                recall,
                metrics,
                limits,
                gathering,
            }),
        }
    }

    /// Asks the database about one name, together with whoever else asks.
    pub async fn find(&self, key: FilterKey, name: impl Into<Spellings>) -> Found {
        let found = match self.join(key, name.into()) {
            Some(answer) => timeout(self.shared.limits.deadline, answer)
                .await
                .ok()
                .and_then(Result::ok),
            None => None, // too many are waiting
        };
        let found = found.unwrap_or(Found::Nothing);
        if found == Found::Nothing {
            self.shared.metrics.lookup_failures.inc();
        }
        found
    }

    /// Asks about one name alone and at once: no gathering, no cache.
    pub async fn find_alone(&self, name: impl Into<Spellings>) -> Found {
        let Shared {
            store,
            metrics,
            limits,
            ..
        } = &*self.shared;
        metrics.lookup_statements.inc();
        metrics.lookup_names.inc();
        let names: Vec<Canonical> = name.into().iter().cloned().collect();
        if let Ok(Ok(held)) = timeout(limits.deadline, store.held(&names)).await {
            return Found::InDatabase(held.contains(&true));
        }
        metrics.lookup_failures.inc();
        Found::Nothing
    }

    fn join(&self, key: FilterKey, name: Spellings) -> Option<oneshot::Receiver<Found>> {
        let (asker, answer) = oneshot::channel();
        let mut gathering = self.shared.gathering();
        if gathering.waiting.len() >= self.shared.limits.waiting
            && !gathering.waiting.contains_key(&name)
        {
            return None;
        }
        gathering
            .waiting
            .entry(name)
            .or_insert_with(|| Waiting {
                key,
                askers: Vec::new(),
            })
            .askers
            .push(asker);
        if gathering.lanes_out < self.shared.limits.lanes {
            gathering.lanes_out += 1;
            tokio::spawn(
                Lane {
                    shared: Arc::clone(&self.shared),
                    is_back: false,
                }
                .run(),
            );
        }
        Some(answer)
    }
}

impl Shared {
    fn gathering(&self) -> std::sync::MutexGuard<'_, Gathering> {
        // A panic while the map was held leaves it whole: every operation on it is one call.
        self.gathering
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A statement's way to the database and back, again and again until nothing waits. Ends by itself: every statement
/// has a deadline, and a lane with nothing to carry is gone.
struct Lane {
    shared: Arc<Shared>,
    is_back: bool,
}

impl Lane {
    async fn run(mut self) {
        while let Some(batch) = self.load() {
            self.carry(batch).await;
        }
    }

    /// Takes what waits, or gives the lane back in the same breath: no question can slip in between.
    fn load(&mut self) -> Option<Vec<(Spellings, Waiting)>> {
        let mut gathering = self.shared.gathering();
        if gathering.waiting.is_empty() {
            gathering.lanes_out -= 1;
            self.is_back = true;
            return None;
        }
        if gathering.waiting.len() <= self.shared.limits.batch {
            return Some(gathering.waiting.drain().collect());
        }
        let names: Vec<Spellings> = gathering
            .waiting
            .keys()
            .take(self.shared.limits.batch)
            .cloned()
            .collect();
        Some(
            names
                .into_iter()
                .filter_map(|name| gathering.waiting.remove_entry(&name))
                .collect(),
        )
    }

    async fn carry(&self, mut batch: Vec<(Spellings, Waiting)>) {
        let Shared {
            store,
            recall,
            metrics,
            limits,
            ..
        } = &*self.shared;
        batch.retain_mut(|(name, waiting)| {
            let is_known = |spelling| recall.of(&waiting.key, spelling) == Memory::KnownTaken;
            if name.iter().any(is_known) {
                waiting.answer(Found::TakenInCache);
            }
            waiting.askers.retain(|asker| !asker.is_closed());
            !waiting.askers.is_empty()
        });
        if batch.is_empty() {
            return;
        }
        metrics.lookup_statements.inc();
        metrics.lookup_names.inc_by(batch.len() as u64);
        let names: Vec<Canonical> = batch
            .iter()
            .flat_map(|(name, _)| name.iter().cloned())
            .collect();
        let sent_at = recall.taken().epoch();
        let held = match timeout(limits.deadline, store.held(&names)).await {
            Ok(Ok(held)) => held,
            unanswered => {
                if let Ok(Err(error)) = unanswered {
                    tracing::debug!(error = %error, names = names.len(), "a lookup brought no answer");
                }
                for (_, waiting) in &mut batch {
                    waiting.answer(Found::Nothing);
                }
                return;
            }
        };
        let mut answers = names.into_iter().zip(held);
        for (name, waiting) in &mut batch {
            let of_this_name = answers.by_ref().take(name.iter().count());
            // To the last one: the next name's answers come after it.
            let held: Vec<Canonical> = of_this_name
                .filter_map(|(spelling, held)| held.then_some(spelling))
                .collect();
            let is_held = !held.is_empty();
            if let Some(spelling) = held.into_iter().next() {
                recall.taken().remember(sent_at, &waiting.key, spelling);
            }
            waiting.answer(Found::InDatabase(is_held));
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if !self.is_back {
            self.shared.gathering().lanes_out -= 1; // a panic in the store must not lose the lane for good
        }
    }
}

impl Waiting {
    fn answer(&mut self, found: Found) {
        for asker in self.askers.drain(..) {
            let _gone = asker.send(found);
        }
    }
}
