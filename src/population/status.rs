//! What the population is doing, for those who look: readiness, metrics, the terminal.

use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, watch};

use crate::gate::{Generation, Recall};
use crate::population::Wish;
use crate::population::progress::{Builds, NothingToReplace, RebuildReport};
use crate::population::survey::Survey;
use crate::telemetry::{FilterReading, Observation};

/// Where the population is in its life. See the picture in [`crate::population`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The database has not been reached yet.
    Starting,
    /// The first filter is being filled.
    WarmingUp,
    /// A filter is kept in step; it is asked while its lease is fresh.
    Following,
    /// The filter was given up; the next one is being filled.
    Distrusted,
}

/// Written by the population, read by everybody.
#[derive(Debug)]
pub struct Status {
    state: watch::Sender<State>,
    generations: AtomicU64,
    survey: ArcSwapOption<Survey>,
    /// The generation that shall be replaced, and why. With its number, so that a wish is not granted twice.
    wished: watch::Sender<Option<(u64, Wish)>>,
    /// The generation that needs more room at once, and how often it was given some.
    cramped: watch::Sender<Option<(u64, u32)>>,
    /// The generation that called a committed row absent; 0: none.
    missed: watch::Sender<u64>,
    /// Somebody wants the filter written to disk.
    save: Notify,
    pub(super) builds: Builds,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            state: watch::Sender::new(State::Starting),
            generations: AtomicU64::new(0),
            survey: ArcSwapOption::empty(),
            wished: watch::Sender::new(None),
            cramped: watch::Sender::new(None),
            missed: watch::Sender::new(0),
            save: Notify::new(),
            builds: Builds::default(),
        }
    }
}

impl Status {
    /// Where the population is now.
    #[must_use]
    pub fn state(&self) -> State {
        *self.state.borrow()
    }

    /// Waits until the population is in `state`.
    pub async fn reaches(&self, state: State) {
        // The sender is ours, so it cannot be gone.
        drop(self.state.subscribe().wait_for(|now| *now == state).await);
    }

    /// Asks for a new generation to be built beside this one. Asking twice is asking once.
    pub fn want_replaced(&self, generation: u64, wish: Wish) {
        self.wished.send_if_modified(|wished| {
            let is_new = wished.is_none_or(|(number, _)| number != generation);
            if is_new {
                *wished = Some((generation, wish));
            }
            is_new
        });
    }

    /// Asks for the filter to be written to disk.
    pub fn want_saved(&self) {
        self.save.notify_one();
    }

    /// Reports that this generation called a committed row absent: it must not be asked again.
    pub fn report_miss(&self, generation: u64) {
        self.missed.send_replace(generation);
    }

    /// As [`want_replaced`](Self::want_replaced), whichever generation is live, and with a number to wait for.
    ///
    /// # Errors
    /// [`NothingToReplace`] while no generation is followed.
    pub fn wish_rebuilt(&self) -> Result<u64, NothingToReplace> {
        self.builds
            .wish(|live| self.want_replaced(live, Wish::Command))
    }

    /// Where rebuilds stand.
    #[must_use]
    pub fn rebuilds(&self) -> RebuildReport {
        self.builds.report()
    }

    /// All of it, as the metrics show it.
    #[must_use]
    pub fn observe(&self, recall: &Recall) -> Observation {
        let is_trusted = recall.is_trusted();
        let state = match self.state() {
            State::Starting => "starting",
            State::WarmingUp => "warming_up",
            State::Following if is_trusted => "following",
            State::Following => "stale",
            State::Distrusted => "distrusted",
        };
        let filter = recall.live().map(|generation| {
            let filter = generation.filter();
            let survey = self.survey.load();
            let survey = survey
                .as_deref()
                .filter(|survey| survey.generation == generation.number());
            FilterReading {
                generation: generation.number(),
                lag_seconds: generation.lease().age().as_secs_f64(),
                size_bytes: filter.size_bytes(),
                capacity: filter.sizing().capacity,
                is_surveyed: survey.is_some(),
                names: survey.map_or(0, |survey| survey.names),
                fill: survey.map_or(0.0, |survey| survey.fill),
                fpr_designed: filter.sizing().target_fpr,
                fpr_live: survey.map_or(0.0, |survey| survey.live_fpr),
            }
        });
        Observation {
            state,
            is_trusted,
            max_staleness_seconds: recall.max_staleness().as_secs_f64(),
            filter,
        }
    }

    pub(super) fn follow(&self, generation: u64) {
        self.builds.published(generation);
        self.enter(State::Following);
    }

    pub(super) fn enter(&self, state: State) {
        if state == State::Distrusted {
            self.builds.given_up();
        }
        self.state.send_replace(state);
    }

    /// What [`next_generation`](Self::next_generation) will return.
    pub(super) fn upcoming_generation(&self) -> u64 {
        // Relaxed: see below.
        self.generations.load(Ordering::Relaxed) + 1
    }

    pub(super) fn next_generation(&self) -> u64 {
        // Relaxed: the number only has to be new; it publishes nothing.
        self.generations.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Asks for more room in this generation, at once.
    pub(super) fn want_room(&self, generation: &Generation) {
        let cramped = (generation.number(), generation.filter().expansions());
        self.cramped.send_replace(Some(cramped));
    }

    // The senders below are ours, so they cannot be gone.

    pub(super) async fn wants_replaced(&self, generation: u64) -> Wish {
        let mut wished = self.wished.subscribe();
        let is_this =
            |wished: &Option<(u64, Wish)>| wished.is_some_and(|(number, _)| number == generation);
        let wish = wished
            .wait_for(is_this)
            .await
            .ok()
            .and_then(|wished| *wished);
        wish.map_or(Wish::Command, |(_, wish)| wish)
    }

    pub(super) async fn wants_room(&self, generation: &Generation) {
        let now = Some((generation.number(), generation.filter().expansions()));
        drop(
            self.cramped
                .subscribe()
                .wait_for(|cramped| *cramped == now)
                .await,
        );
    }

    pub(super) async fn missed(&self, generation: u64) {
        drop(
            self.missed
                .subscribe()
                .wait_for(|number| *number == generation)
                .await,
        );
    }

    pub(super) async fn wants_saved(&self) {
        self.save.notified().await;
    }

    pub(super) fn publish_survey(&self, survey: Survey) {
        self.survey.store(Some(survey.into()));
    }
}
