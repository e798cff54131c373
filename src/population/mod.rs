//! Keeping a filter in step with the database: warm up, follow, replace.
//!
//! ```text
//!                 fits                    scanned, caught up
//!   Starting ───────────▶ WarmingUp ─────────────────────────▶ Following ──▶ Following (the next generation)
//!      ▲ │ not there yet     │  ▲ │ failed: again, later          │   ▲          a rebuild beside the live one
//!      └─┘                   │  └─┘                               │   │
//!                            │                         distrusted │   │ scanned, caught up
//!                            │                                    ▼   │
//!                            └─────────────────────────────── Distrusted
//! ```
//!
//! *Stale* is not a state of its own: it is *Following* with a lease older than the freshness bound, and the next good
//! poll ends it. Only *Following* with a fresh lease answers from memory; in every other state each question goes to the
//! database. An error of the database never ends the population: it backs off and tries again, for ever. Only one thing
//! ends it: a database that, at the first look, does not fit.
//!
//! The first filter is read from disk where one is kept there and its past can be vouched for; then `WarmingUp` takes as
//! long as reading the file and what it missed. A filter that was distrusted never comes back from there.
//!
//! One generation, one [`Feed`]: a rebuild runs the whole way on its own, beside the live generation,
//! so that from its snapshot on every change goes into both.

mod audit;
mod backoff;
mod build;
mod following;
mod growth;
mod keeper;
mod progress;
mod settings;
mod status;
mod survey;
mod wish;

use std::sync::Arc;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::gate::{Feed, Generation, Recall, Store, StoreError};
use crate::population::backoff::Backoff;
use crate::population::build::Build;
use crate::population::following::{End, Following};
use crate::telemetry::Metrics;

pub use audit::{AuditBusy, AuditReport, Audits};
pub use keeper::{Keeper, KeeperError};
pub use progress::{LastReport, NothingToReplace, RebuildReport, RunningReport};
pub use settings::PopulationSettings;
pub use status::{State, Status};
pub use wish::Wish;

/// Fills filters and keeps them in step. One per process; [`run`](Self::run) is its life.
#[derive(Clone)]
pub struct Population {
    store: Arc<dyn Store>,
    recall: Arc<Recall>,
    metrics: Arc<Metrics>,
    status: Arc<Status>,
    settings: PopulationSettings,
    keeper: Option<Arc<Keeper>>,
}

/// A generation together with the feed that keeps it in step.
struct Followed {
    generation: Arc<Generation>,
    feed: Box<dyn Feed>,
    /// The same truncation is read again and again until it is certified; it is one reason for one rebuild.
    has_seen_truncation: bool,
    /// It was damaged on disk.
    needs_rebuild: bool,
    is_from_disk: bool,
}

impl Followed {
    fn new(generation: Arc<Generation>, feed: Box<dyn Feed>) -> Self {
        Self {
            generation,
            feed,
            has_seen_truncation: false,
            needs_rebuild: false,
            is_from_disk: false,
        }
    }

    /// Gives up the feed's place in the outbox, which would hold up pruning, and the filter's memory. On a task of its
    /// own: the feed that follows now must not wait for what may be a broken connection. The task ends by the feed's own
    /// deadlines; when the process ends before, the place expires by itself.
    fn retire(mut self) {
        tokio::spawn(async move { self.feed.close().await });
    }
}

impl Population {
    /// A population that publishes to `recall` and reports to `status` and `metrics`. `keeper`: where filters are kept for
    /// the next start, if anywhere.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        recall: Arc<Recall>,
        metrics: Arc<Metrics>,
        status: Arc<Status>,
        settings: PopulationSettings,
        keeper: Option<Arc<Keeper>>,
    ) -> Self {
        Self {
            store,
            recall,
            metrics,
            status,
            settings,
            keeper,
        }
    }

    /// Runs until `stop`.
    ///
    /// # Errors
    /// [`StoreError::Unfit`] or [`StoreError::Refused`], when the database is reached for the first time and cannot be
    /// served from. Later the same is only logged: the database was fit once, and may be again.
    pub async fn run(self, stop: CancellationToken) -> Result<(), StoreError> {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            fit = self.wait_for_a_fit_database() => fit?,
        }
        self.status.enter(State::WarmingUp);
        let mut next = self.first(&stop).await;
        while let Some(live) = next {
            self.publish(&live);
            let survey = survey::spawn(Arc::clone(&self.recall), Arc::clone(&self.status));
            let end = Following::new(&self, live).run(&stop).await;
            survey.abort();
            next = match end {
                End::Stopped => None,
                End::Replaced(next) => Some(next),
                End::Distrusted => {
                    self.status.enter(State::Distrusted);
                    self.build_until_done(&stop).await
                }
            };
        }
        Ok(())
    }

    async fn wait_for_a_fit_database(&self) -> Result<(), StoreError> {
        let mut backoff = Backoff::new();
        loop {
            match self.store.probe().await {
                Ok(()) => return Ok(()),
                Err(error @ (StoreError::Unfit(_) | StoreError::Refused(_))) => return Err(error),
                Err(error) => {
                    backoff.log(&error, "waiting for the database");
                    sleep(backoff.next_pause()).await;
                }
            }
        }
    }

    async fn first(&self, stop: &CancellationToken) -> Option<Followed> {
        if let Some(keeper) = &self.keeper {
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                kept = self.build(self.status.upcoming_generation()).read_disk(keeper) => {
                    if kept.is_some() {
                        self.status.next_generation();
                        return kept;
                    }
                }
            }
        }
        self.build_until_done(stop).await
    }

    /// `None` when told to stop.
    async fn build_until_done(&self, stop: &CancellationToken) -> Option<Followed> {
        let mut backoff = Backoff::new();
        loop {
            let build = self.build(self.status.next_generation());
            match build.scan_table(stop.clone()).await {
                Ok(followed) => return followed,
                Err(error) => {
                    backoff.log(&error, "warming up failed; what was read is thrown away");
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => return None,
                        () = sleep(backoff.next_pause()) => {}
                    }
                }
            }
        }
    }

    fn build(&self, number: u64) -> Build {
        Build {
            store: Arc::clone(&self.store),
            recall: Arc::clone(&self.recall),
            number,
            status: Arc::clone(&self.status),
            settings: self.settings,
        }
    }

    fn publish(&self, live: &Followed) {
        // This filter's feed began with its scan. What was released before that, it does not report.
        self.recall.taken().forget_all();
        self.recall.publish(Arc::clone(&live.generation));
        let generation = live.generation.number();
        self.status.follow(generation);
        if live.needs_rebuild {
            self.status.want_replaced(generation, Wish::Damaged);
        }
        tracing::info!(generation, "following: free names are answered from memory");
    }
}
