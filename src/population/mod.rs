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
//! One generation, one [`Feed`]: a rebuild runs the whole way on its own, beside the live generation,
//! so that from its snapshot on every change goes into both.

mod backoff;
mod build;
mod progress;
mod settings;
mod status;
mod survey;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::gate::{Apply, Distrust, Feed, Generation, Recall, Store, StoreError};
use crate::population::backoff::Backoff;
use crate::population::build::Build;
use crate::telemetry::Metrics;

pub use progress::{LastReport, NothingToReplace, RebuildReport, RunningReport};
pub use settings::PopulationSettings;
pub use status::{State, Status};

/// Fills filters and keeps them in step. One per process; [`run`](Self::run) is its life.
#[derive(Clone)]
pub struct Population {
    store: Arc<dyn Store>,
    recall: Arc<Recall>,
    metrics: Arc<Metrics>,
    status: Arc<Status>,
    settings: PopulationSettings,
}

/// A generation together with the feed that keeps it in step.
struct Followed {
    generation: Arc<Generation>,
    feed: Box<dyn Feed>,
    /// The same truncation is read again and again until it is certified; it is one reason for one rebuild.
    has_seen_truncation: bool,
}

/// Why following a generation ended.
enum End {
    Stopped,
    Distrusted(Distrust),
    Replaced(Followed),
}

/// What made a rebuild fail, a lack of memory perhaps, is not gone at once.
const REBUILD_AGAIN_AFTER: Duration = Duration::from_secs(30);

type Rebuild = JoinHandle<Result<Followed, StoreError>>;

impl Population {
    /// A population that publishes to `recall` and reports to `status` and `metrics`.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        recall: Arc<Recall>,
        metrics: Arc<Metrics>,
        status: Arc<Status>,
        settings: PopulationSettings,
    ) -> Self {
        Self {
            store,
            recall,
            metrics,
            status,
            settings,
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
        let mut live = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            followed = self.build_until_done(State::WarmingUp) => followed,
        };
        self.publish(&live.generation);
        loop {
            match self.follow(&mut live, &stop).await {
                End::Stopped => {
                    live.feed.close().await;
                    return Ok(());
                }
                End::Replaced(next) => {
                    self.publish(&next.generation);
                    retire(std::mem::replace(&mut live, next));
                }
                End::Distrusted(cause) => {
                    self.recall.distrust();
                    self.recall.taken().forget_all();
                    self.metrics.count_rebuild(cause);
                    tracing::warn!(
                        generation = live.generation.number(),
                        cause = cause.label(),
                        "{cause}; every question goes to the database until a new filter is built"
                    );
                    let next = tokio::select! {
                        biased;
                        () = stop.cancelled() => return Ok(()),
                        followed = self.build_until_done(State::Distrusted) => followed,
                    };
                    self.publish(&next.generation);
                    retire(std::mem::replace(&mut live, next));
                }
            }
        }
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

    async fn build_until_done(&self, state: State) -> Followed {
        self.status.enter(state);
        let mut backoff = Backoff::new();
        loop {
            match self.build().run().await {
                Ok(followed) => return followed,
                Err(error) => {
                    backoff.log(&error, "warming up failed; what was read is thrown away");
                    sleep(backoff.next_pause()).await;
                }
            }
        }
    }

    fn build(&self) -> Build {
        Build {
            store: Arc::clone(&self.store),
            recall: Arc::clone(&self.recall),
            number: self.status.next_generation(),
            status: Arc::clone(&self.status),
            settings: self.settings,
        }
    }

    fn publish(&self, generation: &Arc<Generation>) {
        // This filter's feed began with its scan. What was released before that, it does not report.
        self.recall.taken().forget_all();
        self.recall.publish(Arc::clone(generation));
        self.status.follow(generation.number());
        tracing::info!(
            generation = generation.number(),
            "following: free names are answered from memory"
        );
    }

    async fn follow(&self, live: &mut Followed, stop: &CancellationToken) -> End {
        let survey = survey::spawn(Arc::clone(&live.generation), Arc::clone(&self.status));
        let end = self.poll_until_it_ends(live, stop).await;
        survey.abort();
        end
    }

    async fn poll_until_it_ends(&self, live: &mut Followed, stop: &CancellationToken) -> End {
        let mut backoff = Backoff::new();
        let number = live.generation.number();
        let mut rebuild: Option<Rebuild> = None;
        let mut next_rebuild = Instant::now();
        let mut next_poll = Instant::now() + self.settings.poll_interval;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => {
                    if let Some(rebuild) = rebuild { rebuild.abort(); }
                    return End::Stopped;
                }
                built = finished(&mut rebuild) => match built {
                    Ok(next) => return End::Replaced(next),
                    Err(error) => {
                        tracing::warn!(error = %error, "a rebuild failed; the live filter stays, another will be tried");
                        next_rebuild = Instant::now() + REBUILD_AGAIN_AFTER;
                    }
                },
                () = self.rebuild_is_due(number, next_rebuild), if rebuild.is_none() => {
                    rebuild = Some(tokio::spawn(self.build().run()));
                }
                () = sleep_until(next_poll) => {
                    next_poll = Instant::now() + match self.poll(live, &mut backoff).await {
                        Ok(pause) => pause,
                        Err(cause) => {
                            if let Some(rebuild) = rebuild { rebuild.abort(); }
                            return End::Distrusted(cause);
                        }
                    };
                }
            }
        }
    }

    async fn rebuild_is_due(&self, generation: u64, not_before: Instant) {
        self.status.wants_replaced(generation).await;
        sleep_until(not_before).await;
    }

    /// One poll; returns how long to wait for the next.
    async fn poll(&self, live: &mut Followed, backoff: &mut Backoff) -> Result<Duration, Distrust> {
        let mut changes = Apply::to(&self.recall, &live.generation);
        let began = Instant::now();
        match live.feed.poll(&mut changes).await {
            Ok(poll) => {
                // Only now: the bits are set. See `gate::freshness`.
                live.generation.lease().renew(poll.asked_at);
                self.metrics.polls.inc();
                self.metrics.poll_rows.inc_by(poll.rows);
                self.metrics
                    .poll_seconds
                    .observe(began.elapsed().as_secs_f64());
                if changes.saw_truncation() && !live.has_seen_truncation {
                    live.has_seen_truncation = true;
                    self.status.want_replaced(live.generation.number());
                }
                if backoff.is_on() {
                    tracing::info!(
                        generation = live.generation.number(),
                        "the change feed answers again"
                    );
                    *backoff = Backoff::new();
                }
                Ok(self.settings.poll_interval)
            }
            Err(StoreError::Distrusted(cause)) => Err(cause),
            Err(error) => {
                self.metrics.poll_failures.inc();
                backoff.log(&error, "the change feed does not answer");
                Ok(backoff.next_pause())
            }
        }
    }
}

/// Gives up a feed's place in the outbox, which would hold up pruning. On a task of its own: the feed that follows now
/// must not wait for what may be a broken connection. The task ends by the feed's own deadlines; when the process ends
/// before, the place expires by itself.
fn retire(mut followed: Followed) {
    tokio::spawn(async move { followed.feed.close().await });
}

/// Waits for a rebuild that is under way; for ever when there is none.
async fn finished(rebuild: &mut Option<Rebuild>) -> Result<Followed, StoreError> {
    let Some(task) = rebuild.as_mut() else {
        return std::future::pending().await;
    };
    let ended = task.await;
    *rebuild = None;
    ended.unwrap_or(Err(StoreError::Garbled("the rebuild ended abnormally")))
}
