//! How far the generation that is being built has come, and which wish for one is still open.
//!
//! ```text
//!            wish                 build begins              published
//!   idle ──────────▶ waiting ──────────────────▶ running ─────────────▶ idle, and the wish is granted
//!     │                 ▲                          │ │
//!     │                 └───────── failed ─────────┘ │
//!     └────────────────── without a wish ────────────┘ (the first one, an outgrown one, a distrusted one)
//! ```
//!
//! A wish is numbered, so that whoever made it can wait for it. While one is open, another wish is the same wish.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::Serialize;

/// Written by the population and by those who wish for a rebuild; read by whoever waits.
#[derive(Debug, Default)]
pub(super) struct Builds(Mutex<Book>);

/// Guarded for as long as it takes to read or change a few numbers.
#[derive(Debug, Default)]
struct Book {
    /// The generation that is followed now; 0: none.
    live: u64,
    /// Wishes so far.
    jobs: u64,
    /// The wish that is not granted yet.
    open: Option<u64>,
    failures: u64,
    running: Option<Running>,
    last: Option<Last>,
}

#[derive(Debug)]
struct Running {
    generation: u64,
    began: Instant,
    rows_total: Option<u64>,
    /// Shared with the scan, which has better things to do than to lock.
    rows_done: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Last {
    generation: u64,
    rows: u64,
    job: Option<u64>,
    took_seconds: f64,
    ended: Instant,
}

/// Why a rebuild cannot be wished for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no filter is followed yet; the next one is being built already")]
pub struct NothingToReplace;

/// Where rebuilds stand. `GET /rebuild` shows it as it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RebuildReport {
    /// The number of the last rebuild that was asked for, counted from 1; null: none was.
    pub job: Option<u64>,
    /// `idle`; `waiting`: asked for and not begun; `running`: a generation is being built, whoever asked for it.
    pub state: &'static str,
    /// The generation that is being built.
    pub running: Option<RunningReport>,
    /// The generation that was built last.
    pub last: Option<LastReport>,
    /// Builds that failed since start. A rebuild that failed is tried again by itself.
    pub failures: u64,
}

/// A generation that is being built.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunningReport {
    /// Its number.
    pub generation: u64,
    /// Rows that are in it.
    pub rows_done: u64,
    /// Rows that it will hold, roughly: counted before the scan; null: not counted yet.
    pub rows_total: Option<u64>,
    /// Since the build began, in seconds.
    pub elapsed_seconds: f64,
}

/// A generation that was built and published.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LastReport {
    /// Its number.
    pub generation: u64,
    /// Rows that were read into it.
    pub rows: u64,
    /// The rebuild that it was asked for with; null: nobody asked.
    pub job: Option<u64>,
    /// From its beginning to its publication, in seconds.
    pub took_seconds: f64,
    /// Since its publication, in seconds.
    pub ended_seconds_ago: f64,
}

impl Builds {
    /// Opens a wish, or returns the one that is open, and calls `grant` with the generation that shall be replaced.
    pub(super) fn wish(&self, grant: impl FnOnce(u64)) -> Result<u64, NothingToReplace> {
        let mut book = self.lock();
        if book.live == 0 {
            return Err(NothingToReplace);
        }
        let job = book.open.unwrap_or(book.jobs + 1);
        book.jobs = job;
        book.open = Some(job);
        // Under the lock: otherwise this generation may be replaced in between, and the wish is never granted.
        grant(book.live);
        Ok(job)
    }

    /// A build begins. Returns where it counts its rows.
    pub(super) fn begin(&self, generation: u64) -> Arc<AtomicU64> {
        let rows_done = Arc::<AtomicU64>::default();
        self.lock().running = Some(Running {
            generation,
            began: Instant::now(),
            rows_total: None,
            rows_done: Arc::clone(&rows_done),
        });
        rows_done
    }

    /// The rows of the build that runs have been counted.
    pub(super) fn counted(&self, generation: u64, rows: u64) {
        if let Some(running) = self.lock().running_as(generation) {
            running.rows_total = Some(rows);
        }
    }

    /// A build ended without a generation.
    pub(super) fn failed(&self, generation: u64) {
        self.stopped(generation);
        self.lock().failures += 1;
    }

    /// A build was told to stop.
    pub(super) fn stopped(&self, generation: u64) {
        let mut book = self.lock();
        if book.running_as(generation).is_some() {
            book.running = None;
        }
    }

    /// The generation is followed from now on; an open wish is granted by it.
    pub(super) fn published(&self, generation: u64) {
        let mut book = self.lock();
        book.live = generation;
        let job = book.open.take();
        if let Some(built) = book.running.take() {
            book.last = Some(Last {
                generation: built.generation,
                rows: built.rows_done(),
                job,
                took_seconds: built.began.elapsed().as_secs_f64(),
                ended: Instant::now(),
            });
        }
    }

    /// No generation is followed any more.
    pub(super) fn given_up(&self) {
        self.lock().live = 0;
    }

    pub(super) fn report(&self) -> RebuildReport {
        let book = self.lock();
        RebuildReport {
            job: (book.jobs > 0).then_some(book.jobs),
            state: match (&book.running, book.open) {
                (Some(_), _) => "running",
                (None, Some(_)) => "waiting",
                (None, None) => "idle",
            },
            running: book.running.as_ref().map(|running| RunningReport {
                generation: running.generation,
                rows_done: running.rows_done(),
                rows_total: running.rows_total,
                elapsed_seconds: running.began.elapsed().as_secs_f64(),
            }),
            last: book.last.as_ref().map(|last| LastReport {
                generation: last.generation,
                rows: last.rows,
                job: last.job,
                took_seconds: last.took_seconds,
                ended_seconds_ago: last.ended.elapsed().as_secs_f64(),
            }),
            failures: book.failures,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        // A few numbers, whole whenever a panic might have happened.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// The build that runs, when it is this one: a build that was given up may still have something to say.
    fn running_as(&mut self, generation: u64) -> Option<&mut Running> {
        self.running
            .as_mut()
            .filter(|running| running.generation == generation)
    }
}

impl Running {
    fn rows_done(&self) -> u64 {
        // Relaxed: a number to look at, nothing is published by it.
        self.rows_done.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(builds: &Builds) -> Result<u64, NothingToReplace> {
        builds.wish(|_| {})
    }

    #[test]
    fn a_wish_is_one_wish_until_it_is_granted() {
        let builds = Builds::default();
        builds.begin(1);
        builds.published(1);
        assert_eq!((wish(&builds), wish(&builds)), (Ok(1), Ok(1)));
        assert_eq!(builds.report().state, "waiting");
        let rows = builds.begin(2);
        builds.counted(2, 10);
        rows.store(4, Ordering::Relaxed);
        assert_eq!(wish(&builds), Ok(1));
        let running = builds.report().running.expect("a build runs");
        assert_eq!(
            (running.generation, running.rows_done, running.rows_total),
            (2, 4, Some(10))
        );
        builds.published(2);
        let report = builds.report();
        assert_eq!((report.state, report.job), ("idle", Some(1)));
        assert_eq!(report.last.and_then(|last| last.job), Some(1));
        assert_eq!(wish(&builds), Ok(2));
    }

    #[test]
    fn a_wish_outlives_the_failure_of_its_build() {
        let builds = Builds::default();
        builds.published(1);
        assert_eq!(wish(&builds), Ok(1));
        builds.begin(2);
        builds.failed(2);
        let report = builds.report();
        assert_eq!((report.state, report.failures), ("waiting", 1));
        builds.begin(3);
        builds.published(3);
        assert_eq!(builds.report().last.and_then(|last| last.job), Some(1));
    }

    #[test]
    fn nothing_is_replaced_that_is_not_there() {
        let builds = Builds::default();
        assert_eq!(wish(&builds), Err(NothingToReplace));
        builds.published(1);
        builds.given_up();
        assert_eq!(wish(&builds), Err(NothingToReplace));
    }

    #[test]
    fn the_generation_that_is_live_is_the_one_that_is_replaced() {
        let builds = Builds::default();
        builds.published(7);
        let mut replaced = 0;
        let job = builds.wish(|generation| replaced = generation);
        assert_eq!((job, replaced), (Ok(1), 7));
    }

    #[test]
    fn a_build_that_was_given_up_does_not_speak_for_the_next_one() {
        let builds = Builds::default();
        builds.begin(1);
        builds.begin(2);
        builds.counted(1, 99);
        builds.failed(1);
        let running = builds.report().running.expect("the second one runs");
        assert_eq!((running.generation, running.rows_total), (2, None));
    }
}
