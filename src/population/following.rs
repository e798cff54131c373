//! Following one generation: poll by poll, with what is done beside it.
//!
//! Beside the polls, and never in their way, one of each may be under way: a rebuild (the next generation, with a feed
//! of its own), an expansion (the same generation with more room), and a copy to disk. A rebuild and an expansion exclude
//! each other: there is one place for a generation that is announced.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::filter::snapshot::SaveError;
use crate::gate::{Apply, Bookmark, Distrust, Generation, StoreError};
use crate::population::backoff::Backoff;
use crate::population::growth::{NoRoom, with_more_room};
use crate::population::keeper::Keeper;
use crate::population::{Followed, Population, Wish};

/// What made a rebuild fail, a lack of memory perhaps, is not gone at once.
const REBUILD_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// A filter that took a scan is worth a copy soon.
const FIRST_SAVE_AFTER: Duration = Duration::from_secs(2);
/// What is not given up by then expires by itself.
const FORGET_WITHIN: Duration = Duration::from_secs(2);

/// Why following a generation ended. Its feed is closed, or closes by itself.
pub(super) enum End {
    Stopped,
    Distrusted,
    Replaced(Followed),
}

type Task<T> = Option<JoinHandle<T>>;
type Saved = Result<(u64, Vec<Bookmark>), SaveError>;

/// One generation and everything that goes on around it.
pub(super) struct Following<'a> {
    population: &'a Population,
    live: Followed,
    backoff: Backoff,
    next_poll: Instant,
    rebuild: Task<Result<Option<Followed>, StoreError>>,
    rebuild_stop: CancellationToken,
    next_rebuild: Instant,
    expansion: Task<Result<Arc<Generation>, NoRoom>>,
    /// Until there was no room: there will be none later, as a filter never shrinks.
    may_grow: bool,
    save: Task<(Bookmark, Saved)>,
    next_save: Instant,
    /// Bookmarks being given up.
    forgetting: JoinSet<()>,
}

impl<'a> Following<'a> {
    pub(super) fn new(population: &'a Population, live: Followed) -> Self {
        let now = Instant::now();
        let settings = &population.settings;
        let next_save = if live.is_from_disk {
            now + settings.save_interval
        } else {
            now + FIRST_SAVE_AFTER.min(settings.save_interval)
        };
        Self {
            population,
            live,
            backoff: Backoff::new(),
            next_poll: now + settings.poll_interval,
            rebuild: None,
            rebuild_stop: CancellationToken::new(),
            next_rebuild: now,
            expansion: None,
            may_grow: true,
            save: None,
            next_save,
            forgetting: JoinSet::new(),
        }
    }

    pub(super) async fn run(mut self, stop: &CancellationToken) -> End {
        let status = Arc::clone(&self.population.status);
        let number = self.live.generation.number();
        loop {
            let is_alone = self.rebuild.is_none() && self.expansion.is_none();
            let may_save = self.population.keeper.is_some() && self.save.is_none();
            tokio::select! {
                biased;
                () = stop.cancelled() => return self.stop().await,
                () = status.missed(number) => return self.distrust(Distrust::Miss).await,
                built = finished(&mut self.rebuild) => match built {
                    Ok(Ok(Some(next))) => {
                        self.live.retire();
                        self.forgetting.detach_all();
                        return End::Replaced(next);
                    }
                    Ok(Ok(None)) => {}
                    Ok(Err(error)) => self.put_off_the_rebuild(&error),
                    Err(panic) => self.put_off_the_rebuild(&panic),
                },
                expanded = finished(&mut self.expansion) => self.take_room(expanded),
                saved = finished(&mut self.save) => self.note_saved(saved),
                // Room before a successor: it is there at once, and the successor takes a scan.
                () = status.wants_room(&self.live.generation), if is_alone && self.may_grow => self.begin_expansion(),
                wish = wants_replaced(&status, number, self.next_rebuild), if is_alone => self.begin_rebuild(wish),
                () = wants_saved(&status, self.next_save), if may_save => self.begin_save().await,
                () = sleep_until(self.next_poll) => match self.poll().await {
                    Ok(pause) => self.next_poll = Instant::now() + pause,
                    Err(cause) => return self.distrust(cause).await,
                },
            }
        }
    }

    async fn stop(mut self) -> End {
        self.end_rebuild().await;
        if let Some(saving) = self.save.take() {
            let saved = saving.await;
            self.note_saved(saved);
        }
        if self.population.keeper.is_some() {
            self.begin_save().await;
            let saved = finished(&mut self.save);
            // Without a task there is nothing to wait for: the bookmark could not be placed.
            if let Ok(saved) = tokio::time::timeout(Duration::from_secs(20), saved).await {
                self.note_saved(saved);
            }
        }
        self.live.feed.close().await;
        let forgotten = async { while self.forgetting.join_next().await.is_some() {} };
        drop(tokio::time::timeout(FORGET_WITHIN, forgotten).await);
        End::Stopped
    }

    async fn distrust(mut self, cause: Distrust) -> End {
        let population = self.population;
        population.recall.distrust();
        population.recall.taken().forget_all();
        population.metrics.count_distrust(cause);
        let generation = self.live.generation.number();
        tracing::warn!(
            generation,
            cause = cause.label(),
            "{cause}; every question goes to the database until a new filter is built"
        );
        self.end_rebuild().await;
        if let Some(keeper) = &population.keeper {
            // Not while a copy is on its way: it would come to lie where this removes.
            if let Some(saving) = self.save.take() {
                drop(saving.await);
            }
            let keeper = Arc::clone(keeper);
            match spawn_blocking(move || keeper.clear()).await {
                Ok(Ok(bookmarks)) => self.forget(bookmarks),
                Ok(Err(error)) => {
                    tracing::error!(error = %error, "a filter on disk that lacks names could not be removed");
                }
                Err(panic) => tracing::error!(error = %panic, "removing filters ended abnormally"),
            }
        }
        self.live.retire();
        self.forgetting.detach_all();
        End::Distrusted
    }

    /// One poll; returns how long to wait for the next.
    async fn poll(&mut self) -> Result<Duration, Distrust> {
        let population = self.population;
        let metrics = &population.metrics;
        let generation = Arc::clone(&self.live.generation);
        let mut changes = Apply::to(&population.recall, &generation);
        let began = Instant::now();
        match self.live.feed.poll(&mut changes).await {
            Ok(poll) => {
                // Only now: the bits are set. See `gate::freshness`.
                generation.lease().renew(poll.asked_at);
                metrics.polls.inc();
                metrics.poll_rows.inc_by(poll.rows);
                metrics.poll_seconds.observe(began.elapsed().as_secs_f64());
                if poll.is_certified {
                    // Otherwise the same ones are read again.
                    generation.count_released(changes.released_names());
                }
                if changes.saw_truncation() && !self.live.has_seen_truncation {
                    self.live.has_seen_truncation = true;
                    population
                        .status
                        .want_replaced(generation.number(), Wish::Truncated);
                }
                if self.backoff.is_on() {
                    tracing::info!(
                        generation = generation.number(),
                        "the change feed answers again"
                    );
                    self.backoff = Backoff::new();
                }
                Ok(population.settings.poll_interval)
            }
            Err(StoreError::Distrusted(cause)) => Err(cause),
            Err(error) => {
                metrics.poll_failures.inc();
                self.backoff.log(&error, "the change feed does not answer");
                Ok(self.backoff.next_pause())
            }
        }
    }

    fn begin_rebuild(&mut self, wish: Wish) {
        let generation = self.live.generation.number();
        tracing::info!(
            generation,
            cause = wish.label(),
            "the next generation is built beside the live one"
        );
        self.population.metrics.count_rebuild(wish);
        self.rebuild_stop = CancellationToken::new();
        let number = self.population.status.next_generation();
        let build = self.population.build(number);
        self.rebuild = Some(tokio::spawn(build.scan_table(self.rebuild_stop.clone())));
    }

    fn put_off_the_rebuild(&mut self, error: &dyn std::error::Error) {
        tracing::warn!(error = %error, "a rebuild failed; the live filter stays, another will be tried");
        self.next_rebuild = Instant::now() + REBUILD_AGAIN_AFTER;
    }

    /// Waits until it has given up its place in the outbox.
    async fn end_rebuild(&mut self) {
        self.rebuild_stop.cancel();
        if let Some(rebuild) = self.rebuild.take()
            && let Ok(Ok(Some(next))) = rebuild.await
        {
            next.retire();
        }
    }

    fn begin_expansion(&mut self) {
        let recall = Arc::clone(&self.population.recall);
        let live = Arc::clone(&self.live.generation);
        let ceiling = self.population.settings.ceiling_bytes;
        self.expansion = Some(spawn_blocking(move || {
            with_more_room(&recall, &live, ceiling)
        }));
    }

    /// Between two polls: everything that was applied to the live one is in the roomy one too.
    fn take_room(
        &mut self,
        expanded: Result<Result<Arc<Generation>, NoRoom>, tokio::task::JoinError>,
    ) {
        let roomy = match expanded {
            Ok(Ok(roomy)) => roomy,
            Ok(Err(error)) => {
                self.may_grow = false;
                tracing::warn!(error = %error, "the filter holds more names than it was sized for, and cannot be given more room");
                return;
            }
            Err(panic) => {
                self.may_grow = false;
                tracing::error!(error = %panic, "giving the filter more room ended abnormally");
                return;
            }
        };
        roomy
            .lease()
            .renew(self.live.generation.lease().renewed_at());
        self.population.recall.publish(Arc::clone(&roomy));
        tracing::warn!(
            generation = roomy.number(),
            size_bytes = roomy.filter().size_bytes(),
            "the filter holds more names than it was sized for and was given twice the room"
        );
        self.population.metrics.expansions.inc();
        self.live.generation = roomy;
    }

    async fn begin_save(&mut self) {
        let Some(keeper) = &self.population.keeper else {
            return;
        };
        self.next_save = Instant::now() + self.population.settings.save_interval;
        // The bookmark first: everything after it is read again, so it may or may not be in the copy.
        match self.live.feed.bookmark().await {
            Ok(bookmark) => {
                let keeper = Arc::clone(keeper);
                let generation = Arc::clone(&self.live.generation);
                self.save = Some(spawn_blocking(move || save(&keeper, &generation, bookmark)));
            }
            Err(error) => {
                self.population.metrics.save_failures.inc();
                tracing::warn!(error = %error, "the filter was not copied to disk: its position could not be marked");
            }
        }
    }

    fn note_saved(&mut self, saved: Result<(Bookmark, Saved), tokio::task::JoinError>) {
        let metrics = &self.population.metrics;
        match saved {
            Ok((_, Ok((bytes, gone)))) => {
                metrics.saves.inc();
                let generation = self.live.generation.number();
                tracing::debug!(generation, bytes, "the filter was copied to disk");
                self.forget(gone);
            }
            Ok((bookmark, Err(error))) => {
                metrics.save_failures.inc();
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::warn!(error = %error, cause, "the filter could not be copied to disk; an earlier copy stays");
                self.forget(vec![bookmark]);
            }
            Err(panic) => {
                metrics.save_failures.inc();
                tracing::error!(error = %panic, "copying the filter to disk ended abnormally");
            }
        }
    }

    /// Gives up the places in the outbox that no file needs. On a task of its own; what fails expires by itself.
    fn forget(&mut self, bookmarks: Vec<Bookmark>) {
        while self.forgetting.try_join_next().is_some() {}
        let store = Arc::clone(&self.population.store);
        self.forgetting.spawn(async move {
            for bookmark in bookmarks {
                if let Err(error) = store.forget(&bookmark).await {
                    tracing::debug!(error = %error, "a bookmark was not given up; it expires by itself");
                }
            }
        });
    }
}

fn save(keeper: &Keeper, generation: &Generation, bookmark: Bookmark) -> (Bookmark, Saved) {
    let saved = keeper.save(generation, bookmark.clone());
    (bookmark, saved)
}

async fn wants_replaced(
    status: &crate::population::Status,
    generation: u64,
    not_before: Instant,
) -> Wish {
    let wish = status.wants_replaced(generation).await;
    sleep_until(not_before).await;
    wish
}

async fn wants_saved(status: &crate::population::Status, at: Instant) {
    tokio::select! {
        () = status.wants_saved() => {}
        () = sleep_until(at) => {}
    }
}

/// Waits for a task that is under way; for ever when there is none.
async fn finished<T>(task: &mut Task<T>) -> Result<T, tokio::task::JoinError> {
    let Some(running) = task.as_mut() else {
        return std::future::pending().await;
    };
    let ended = running.await;
    *task = None;
    ended
}
