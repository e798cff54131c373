//! The filter's knowledge of itself, read from its bits now and then: a pass over all memory, so not on every question.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::gate::Generation;
use crate::population::status::Status;

/// A pass over 200 MB takes about a tenth of a second of one core.
const EVERY: Duration = Duration::from_secs(15);

/// What one pass found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Survey {
    pub(super) generation: u64,
    /// Names in the filter, estimated.
    pub(super) names: u64,
    /// Share of bits set.
    pub(super) fill: f64,
    /// The false-positive rate as the bits stand.
    pub(super) live_fpr: f64,
}

/// Surveys `generation` at once and then again and again, until aborted. Asks for a rebuild, once, when the filter has
/// outgrown its capacity.
pub(super) fn spawn(generation: Arc<Generation>, status: Arc<Status>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut has_asked = false;
        loop {
            let surveyed = Arc::clone(&generation);
            let Ok(survey) = tokio::task::spawn_blocking(move || of(&surveyed)).await else {
                return;
            };
            let capacity = generation.filter().sizing().capacity;
            if survey.names > capacity && !has_asked {
                has_asked = true;
                tracing::warn!(
                    generation = survey.generation,
                    names = survey.names,
                    capacity,
                    live_fpr = survey.live_fpr,
                    "the filter holds more names than it was sized for; a larger one is built beside it"
                );
                status.want_replaced(survey.generation);
            }
            status.publish_survey(survey);
            sleep(EVERY).await;
        }
    })
}

fn of(generation: &Generation) -> Survey {
    let census = generation.filter().census();
    Survey {
        generation: generation.number(),
        names: census.estimated_count().names(),
        fill: census.fill(),
        live_fpr: census.live_fpr(),
    }
}
