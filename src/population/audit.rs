//! Checking the filter against the table: no committed row may be called absent.
//!
//! An audit reads rows in one snapshot, waits until a poll that was sent after the snapshot has been applied, and then
//! demands *maybe* for every row. One miss proves that names got past the feed: the filter is distrusted at once, whatever
//! the reason. The whole table is walked when somebody asks; a few hundred rows somewhere are looked at all the time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::filter::Hint;
use crate::gate::freshness::Moment;
use crate::gate::{Extent, Generation, Recall, Sink, Store, StoreError};
use crate::names::FilterKey;
use crate::population::Status;
use crate::telemetry::Metrics;

/// How long an audit waits for the filter to be in step with its snapshot.
const IN_STEP_WITHIN: Duration = Duration::from_mins(1);
/// Keys that are asked together.
const HANDFUL: usize = 32;

/// Runs audits, one at a time, and tells how the last one went. Cheap to clone.
#[derive(Clone)]
pub struct Audits {
    store: Arc<dyn Store>,
    recall: Arc<Recall>,
    status: Arc<Status>,
    metrics: Arc<Metrics>,
    /// Locked while it is read or changed, never over a wait.
    report: Arc<Mutex<AuditReport>>,
}

/// How the last audit of the whole table went, or how far it has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// Counted from 1 since start; 0: there was none.
    pub job: u64,
    /// `none`, `running`, `done` or `failed`.
    pub state: &'static str,
    /// The generation that was asked, as soon as it is known.
    pub generation: Option<u64>,
    /// Rows looked at.
    pub rows: u64,
    /// Rows that the filter called absent. Must be 0.
    pub misses: u64,
    /// Why it failed.
    pub error: Option<String>,
}

/// Why no audit was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("audit {0} is still running")]
pub struct AuditBusy(pub u64);

/// Why an audit came to no result.
#[derive(Debug, thiserror::Error)]
enum AuditError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("the filter was not in step with the database within {IN_STEP_WITHIN:?}")]
    OutOfStep,
}

impl Audits {
    /// Audits of what `recall` asks, against the rows of `store`.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        recall: Arc<Recall>,
        status: Arc<Status>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let report = AuditReport {
            job: 0,
            state: "none",
            generation: None,
            rows: 0,
            misses: 0,
            error: None,
        };
        Self {
            store,
            recall,
            status,
            metrics,
            report: Arc::new(Mutex::new(report)),
        }
    }

    /// How the last audit went, or how far it has come.
    #[must_use]
    pub fn report(&self) -> AuditReport {
        self.lock().clone()
    }

    /// Begins an audit of the whole table. Returns its number.
    ///
    /// # Errors
    /// [`AuditBusy`] while another is running.
    pub fn begin(&self) -> Result<u64, AuditBusy> {
        let mut report = self.lock();
        if report.state == "running" {
            return Err(AuditBusy(report.job));
        }
        let job = report.job + 1;
        *report = AuditReport {
            job,
            state: "running",
            generation: None,
            rows: 0,
            misses: 0,
            error: None,
        };
        drop(report);
        let audits = self.clone();
        tokio::spawn(async move {
            let ended = audits.look(Extent::Whole).await;
            let mut report = audits.lock();
            match ended {
                Ok(()) => report.state = "done",
                Err(error) => {
                    report.state = "failed";
                    report.error = Some(error.to_string());
                }
            }
            tracing::info!(
                job,
                rows = report.rows,
                misses = report.misses,
                error = report.error,
                "an audit {}",
                report.state
            );
        });
        Ok(job)
    }

    /// Looks at a few rows every `interval`, until `stop`. While the database does not answer there is nothing to see.
    pub async fn sample_for_ever(self, interval: Duration, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(interval) => {}
            }
            if !self.recall.is_trusted() {
                continue;
            }
            let looked = tokio::select! {
                () = stop.cancelled() => return,
                looked = self.look(Extent::Sample) => looked,
            };
            if let Err(error) = looked {
                tracing::debug!(error = %error, "no rows were sampled");
            }
        }
    }

    async fn look(&self, extent: Extent) -> Result<(), AuditError> {
        let walk = self.store.open_walk(extent).await?;
        let generation = self.in_step_with(walk.taken_at()).await?;
        if extent == Extent::Whole {
            self.lock().generation = Some(generation.number());
        }
        let mut asking = Asking {
            audits: self,
            generation: &generation,
            extent,
            handful: Vec::with_capacity(HANDFUL),
        };
        let rows = walk.rows(&mut asking).await;
        asking.ask();
        rows?;
        Ok(())
    }

    /// A generation that holds everything which was committed at `moment`. It does for ever: bits are only ever set.
    async fn in_step_with(&self, moment: Moment) -> Result<Arc<Generation>, AuditError> {
        let began = Instant::now();
        while began.elapsed() < IN_STEP_WITHIN {
            let live = self.recall.live();
            if let Some(generation) = live.filter(|live| live.lease().renewed_at() >= moment) {
                return Ok(generation);
            }
            sleep(Duration::from_millis(20)).await;
        }
        Err(AuditError::OutOfStep)
    }

    fn lock(&self) -> MutexGuard<'_, AuditReport> {
        // Numbers and words are whole whenever a panic might have happened.
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the filter for every row, a handful at a time.
struct Asking<'a> {
    audits: &'a Audits,
    generation: &'a Generation,
    extent: Extent,
    handful: Vec<FilterKey>,
}

impl Asking<'_> {
    fn ask(&mut self) {
        let hints = self.generation.filter().probe_batch(&self.handful);
        let rows = hints.len() as u64;
        let misses = hints.iter().filter(|hint| **hint == Hint::Absent).count() as u64;
        self.handful.clear();
        self.audits.metrics.audited_rows.inc_by(rows);
        self.audits.metrics.audit_misses.inc_by(misses);
        if self.extent == Extent::Whole {
            let mut report = self.audits.lock();
            report.rows += rows;
            report.misses += misses;
        }
        if misses > 0 {
            self.audits.status.report_miss(self.generation.number());
        }
    }
}

impl Sink for Asking<'_> {
    fn held(&mut self, raw: &[u8]) {
        self.handful.push(FilterKey::of_bytes(raw));
        if self.handful.len() == HANDFUL {
            self.ask();
        }
    }

    fn released(&mut self, _raw: &[u8]) {}

    fn truncated(&mut self) {}
}
