//! Building one generation: begin, size, scan, catch up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

use crate::filter::{BlockedBloom, HashSecret, Sizing};
use crate::gate::freshness::Moment;
use crate::gate::{Apply, Generation, Recall, Sink, Store, StoreError};
use crate::names::FilterKey;
use crate::population::{Followed, PopulationSettings, Status};
use crate::telemetry::Progress;

/// What it takes to build a generation. Owns everything, so that it can run as a task beside the live one.
pub(super) struct Build {
    pub(super) store: Arc<dyn Store>,
    pub(super) recall: Arc<Recall>,
    pub(super) number: u64,
    pub(super) status: Arc<Status>,
    pub(super) settings: PopulationSettings,
}

impl Build {
    /// Returns a complete filter with a fresh lease and the feed that keeps it so. Any error throws the filter away.
    pub(super) async fn run(self) -> Result<Followed, StoreError> {
        let rows_done = self.status.builds.begin(self.number);
        let built = self.build(rows_done).await;
        if built.is_err() {
            self.status.builds.failed(self.number);
        }
        built
    }

    async fn build(&self, rows_done: Arc<AtomicU64>) -> Result<Followed, StoreError> {
        let mut feed = self.store.open_feed().await?;
        match self.fill(&mut *feed, rows_done).await {
            Ok(generation) => Ok(Followed {
                generation,
                feed,
                has_seen_truncation: false,
            }),
            Err(error) => {
                feed.close().await;
                Err(error)
            }
        }
    }

    async fn fill(
        &self,
        feed: &mut dyn crate::gate::Feed,
        rows_done: Arc<AtomicU64>,
    ) -> Result<Arc<Generation>, StoreError> {
        let began = Instant::now();
        let began_at = Moment::now();
        let rows = feed.begin().await?;
        self.status.builds.counted(self.number, rows);
        let capacity = self.settings.capacity_for(rows);
        let sizing = Sizing::plan(
            capacity,
            self.settings.target_fpr,
            self.settings.ceiling_bytes,
        )
        .map_err(|error| StoreError::Unfit(error.to_string()))?;
        let secret = HashSecret::random().map_err(|error| StoreError::Unfit(error.to_string()))?;
        let filter = BlockedBloom::new(sizing, secret)
            .map_err(|error| StoreError::Unfit(error.to_string()))?;

        let mut filling = Filling {
            filter,
            progress: Progress::new("warming up", "names", Some(rows)),
            rows: 0,
            rows_done,
        };
        let scanned = feed.scan(&mut filling).await?;
        let Filling {
            filter,
            progress,
            rows_done,
            ..
        } = filling;
        progress.finish();
        rows_done.store(scanned, Ordering::Relaxed); // as in `held`

        // The lease begins in the past: only the poll that catches up makes it fresh.
        let generation = Arc::new(Generation::new(self.number, filter, began_at));
        self.recall.announce(&generation);
        let poll = feed.poll(&mut Apply::to(&self.recall, &generation)).await?;
        generation.lease().renew(poll.asked_at);
        tracing::info!(
            generation = self.number,
            rows = scanned,
            caught_up = poll.rows,
            size_bytes = generation.filter().size_bytes(),
            elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            "the filter is complete"
        );
        Ok(generation)
    }
}

/// Fills a filter that nobody shares yet, so without atomic instructions.
struct Filling {
    filter: BlockedBloom,
    progress: Progress,
    rows: u64,
    /// For those who look from outside.
    rows_done: Arc<AtomicU64>,
}

impl Sink for Filling {
    fn held(&mut self, raw: &[u8]) {
        self.filter
            .insert_exclusive(FilterKey::of_bytes(raw).as_ref());
        self.rows += 1;
        if self.rows.is_multiple_of(4096) {
            self.progress.reached(self.rows);
            self.rows_done.store(self.rows, Ordering::Relaxed); // a number to look at, it publishes nothing
        }
    }

    fn released(&mut self, _raw: &[u8]) {}

    fn truncated(&mut self) {}
}
