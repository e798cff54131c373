//! Making one generation: from the table (begin, size, scan, catch up), or from disk (resume, catch up).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::filter::snapshot::{Slot, SnapshotError};
use crate::filter::{BlockedBloom, HashSecret, Sizing};
use crate::gate::freshness::Moment;
use crate::gate::{Apply, Feed, Generation, Recall, Sink, Store, StoreError};
use crate::names::FilterKey;
use crate::population::keeper::{Keeper, Kept};
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
    /// Returns a complete filter with a fresh lease and the feed that keeps it so; `None` when told to stop. Any error
    /// throws the filter away. However it ends, the place in the outbox is given up unless it is returned.
    pub(super) async fn scan_table(
        self,
        stop: CancellationToken,
    ) -> Result<Option<Followed>, StoreError> {
        let rows_done = self.status.builds.begin(self.number);
        let built = self.build(rows_done, stop).await;
        match &built {
            Ok(Some(_)) => {}
            Ok(None) => self.status.builds.stopped(self.number),
            Err(_) => self.status.builds.failed(self.number),
        }
        built
    }

    async fn build(
        &self,
        rows_done: Arc<AtomicU64>,
        stop: CancellationToken,
    ) -> Result<Option<Followed>, StoreError> {
        let mut feed = self.store.open_feed().await?;
        let filled = tokio::select! {
            biased;
            () = stop.cancelled() => Ok(None),
            filled = self.fill(&mut *feed, rows_done) => filled.map(Some),
        };
        match filled {
            Ok(Some(generation)) => Ok(Some(Followed::new(generation, feed))),
            Ok(None) => {
                feed.close().await;
                Ok(None)
            }
            Err(error) => {
                feed.close().await;
                Err(error)
            }
        }
    }

    /// The newest filter on disk that can be used, caught up. `None`: there is none, and the table must be read.
    pub(super) async fn read_disk(self, keeper: &Arc<Keeper>) -> Option<Followed> {
        for slot in [Slot::Current, Slot::Previous] {
            let began = Instant::now();
            let (reader, settings) = (Arc::clone(keeper), self.settings);
            let restored =
                tokio::task::spawn_blocking(move || reader.restore(slot, &settings)).await;
            let kept = match restored.ok()? {
                Ok(kept) => kept,
                Err(SnapshotError::Missing) => continue,
                Err(error) => {
                    tracing::warn!(?slot, error = %error, "a filter on disk cannot be used");
                    continue;
                }
            };
            if !self.settings.would_build(kept.filter.sizing()) {
                tracing::info!(
                    ?slot,
                    "a filter on disk was sized for other settings and is not used"
                );
                continue;
            }
            match self.resume(kept, began).await {
                Ok(followed) => return Some(followed),
                Err(error) => {
                    tracing::warn!(?slot, error = %error, "the past of a filter on disk cannot be vouched for");
                }
            }
        }
        None
    }

    async fn resume(&self, kept: Kept, began: Instant) -> Result<Followed, StoreError> {
        let mut feed = self.store.open_feed().await?;
        let generation = Arc::new(Generation::new(self.number, kept.filter, Moment::LONG_AGO));
        self.recall.announce(&generation);
        let resumed = async {
            feed.resume(&kept.bookmark).await?;
            self.catch_up(&mut *feed, &generation).await
        };
        match resumed.await {
            Ok(caught_up) => {
                tracing::info!(
                    generation = self.number,
                    caught_up,
                    size_bytes = generation.filter().size_bytes(),
                    elapsed_ms = elapsed_ms(began),
                    "the filter was read from disk and is complete"
                );
                let mut followed = Followed::new(generation, feed);
                followed.needs_rebuild = kept.needs_rebuild;
                followed.is_from_disk = true;
                Ok(followed)
            }
            Err(error) => {
                feed.close().await;
                Err(error)
            }
        }
    }

    async fn fill(
        &self,
        feed: &mut dyn Feed,
        rows_done: Arc<AtomicU64>,
    ) -> Result<Arc<Generation>, StoreError> {
        let began = Instant::now();
        let rows = feed.begin().await?;
        self.status.builds.counted(self.number, rows);
        let filter = self.empty_filter(rows)?;
        let mut filling = Filling::new(filter, rows, rows_done);
        let scanned = feed.scan(&mut filling).await?;
        let filter = filling.finish();

        // The lease begins in the past: only the poll that catches up makes it fresh.
        let generation = Arc::new(Generation::new(self.number, filter, Moment::LONG_AGO));
        self.recall.announce(&generation);
        let caught_up = self.catch_up(feed, &generation).await?;
        tracing::info!(
            generation = self.number,
            rows = scanned,
            caught_up,
            size_bytes = generation.filter().size_bytes(),
            elapsed_ms = elapsed_ms(began),
            "the filter is complete"
        );
        Ok(generation)
    }

    fn empty_filter(&self, rows: u64) -> Result<BlockedBloom, StoreError> {
        let unfit = |error: &dyn std::error::Error| StoreError::Unfit(error.to_string());
        let ceiling = self.settings.ceiling_bytes;
        let capacity = self.settings.capacity_for(rows);
        let sizing = Sizing::plan(capacity, self.settings.target_fpr, ceiling)
            .map_err(|error| unfit(&error))?;
        let live = self.recall.live();
        let live_bytes = live.map_or(0, |live| live.filter().size_bytes());
        if sizing.size_bytes().saturating_add(live_bytes) > ceiling {
            return Err(StoreError::Unfit(format!(
                "a filter for {capacity} names takes {} bytes, and the one in use {live_bytes}: \
                 together more than the {ceiling} that --filter-memory allows",
                sizing.size_bytes()
            )));
        }
        let secret = HashSecret::random().map_err(|error| unfit(&error))?;
        BlockedBloom::new(sizing, secret).map_err(|error| unfit(&error))
    }

    async fn catch_up(
        &self,
        feed: &mut dyn Feed,
        generation: &Arc<Generation>,
    ) -> Result<u64, StoreError> {
        let poll = feed.poll(&mut Apply::to(&self.recall, generation)).await?;
        generation.lease().renew(poll.asked_at);
        Ok(poll.rows)
    }
}

fn elapsed_ms(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Keys that are inserted together, so that their blocks come from memory together.
const HANDFUL: usize = 32;

/// Fills a filter that nobody shares yet, so without atomic instructions.
struct Filling {
    filter: BlockedBloom,
    handful: Vec<FilterKey>,
    progress: Progress,
    rows: u64,
    /// For those who look from outside.
    rows_done: Arc<AtomicU64>,
}

impl Filling {
    fn new(filter: BlockedBloom, expected_rows: u64, rows_done: Arc<AtomicU64>) -> Self {
        Self {
            filter,
            handful: Vec::with_capacity(HANDFUL),
            progress: Progress::new("warming up", "names", Some(expected_rows)),
            rows: 0,
            rows_done,
        }
    }

    fn insert_handful(&mut self) {
        self.filter.insert_batch_exclusive(&self.handful);
        self.handful.clear();
    }

    fn finish(mut self) -> BlockedBloom {
        self.insert_handful();
        self.progress.finish();
        self.rows_done.store(self.rows, Ordering::Relaxed); // as in `held`
        self.filter
    }
}

impl Sink for Filling {
    fn held(&mut self, raw: &[u8]) {
        self.handful.push(FilterKey::of_bytes(raw));
        if self.handful.len() == HANDFUL {
            self.insert_handful();
        }
        self.rows += 1;
        if self.rows.is_multiple_of(4096) {
            self.progress.reached(self.rows);
            self.rows_done.store(self.rows, Ordering::Relaxed); // a number to look at, it publishes nothing
        }
    }

    fn released(&mut self, _raw: &[u8]) {}

    fn truncated(&mut self) {}
}
