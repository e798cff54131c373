//! What the population is doing, for those who look: readiness, metrics, the terminal.

use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use tokio::sync::watch;

use crate::gate::Recall;
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
    /// The number of the generation that shall be replaced; 0: none. A number, so that a wish is not granted twice.
    outgrown: watch::Sender<u64>,
    pub(super) builds: Builds,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            state: watch::Sender::new(State::Starting),
            generations: AtomicU64::new(0),
            survey: ArcSwapOption::empty(),
            outgrown: watch::Sender::new(0),
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
    pub fn want_replaced(&self, generation: u64) {
        self.outgrown.send_replace(generation);
    }

    /// As [`want_replaced`](Self::want_replaced), whichever generation is live, and with a number to wait for.
    ///
    /// # Errors
    /// [`NothingToReplace`] while no generation is followed.
    pub fn wish_rebuilt(&self) -> Result<u64, NothingToReplace> {
        self.builds.wish(|live| self.want_replaced(live))
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

    pub(super) fn next_generation(&self) -> u64 {
        // Relaxed: the number only has to be new; it publishes nothing.
        self.generations.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) async fn wants_replaced(&self, generation: u64) {
        // The sender is ours, so it cannot be gone.
        let mut outgrown = self.outgrown.subscribe();
        drop(outgrown.wait_for(|number| *number == generation).await);
    }

    pub(super) fn publish_survey(&self, survey: Survey) {
        self.survey.store(Some(survey.into()));
    }
}
