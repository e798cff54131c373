//! The filter's knowledge of itself, read from its bits now and then: a pass over all memory, so not on every question.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::gate::{Generation, Recall};
use crate::population::Wish;
use crate::population::status::Status;

/// A pass over 200 MB takes about a tenth of a second of one core.
const EVERY: Duration = Duration::from_secs(15);
/// Released names are worth a rebuild when they are a quarter of all, and enough to matter.
const RELEASED_SHARE: u64 = 4;
const RELEASED_LEAST: u64 = 10_000;

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

/// Surveys the live generation at once and then again and again, until aborted. Asks for room when it has outgrown its
/// capacity, and for the next generation when this one is no longer what was promised.
pub(super) fn spawn(recall: Arc<Recall>, status: Arc<Status>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut has_asked = None;
        loop {
            if let Some(generation) = recall.live() {
                let surveyed = Arc::clone(&generation);
                let Ok(survey) = tokio::task::spawn_blocking(move || of(&surveyed)).await else {
                    return;
                };
                status.publish_survey(survey);
                if needs_room(&generation, survey) {
                    status.want_room(&generation);
                }
                if let Some(wish) = wish(&generation, survey)
                    && has_asked != Some(survey.generation)
                {
                    has_asked = Some(survey.generation);
                    status.want_replaced(survey.generation, wish);
                }
            }
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

/// Whether even what was added to the filter's room is used up.
fn needs_room(generation: &Generation, survey: Survey) -> bool {
    let filter = generation.filter();
    let room = filter.sizing().capacity.checked_shl(filter.expansions());
    survey.names > room.unwrap_or(u64::MAX)
}

fn wish(generation: &Generation, survey: Survey) -> Option<Wish> {
    let sizing = generation.filter().sizing();
    let released = generation.released();
    if survey.names > sizing.capacity {
        Some(Wish::Capacity)
    } else if survey.live_fpr > 2.0 * sizing.target_fpr {
        Some(Wish::Rate)
    } else if released >= RELEASED_LEAST && released >= survey.names / RELEASED_SHARE {
        Some(Wish::Released)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{BlockedBloom, HashSecret, Sizing};
    use crate::gate::freshness::Moment;
    use crate::names::FilterKey;

    fn generation(capacity: u64, names: u64) -> Generation {
        let sizing = Sizing::plan(capacity, 0.001, u64::MAX).expect("a small filter");
        let filter = BlockedBloom::new(sizing, HashSecret::from_bytes([7; 16])).expect("memory");
        let generation = Generation::new(1, filter, Moment::now());
        for name in 0..names {
            generation.insert(&FilterKey::of(&format!("name{name}")));
        }
        generation
    }

    #[test]
    fn a_filter_within_its_promise_wants_nothing() {
        let generation = generation(10_000, 9_000);
        let survey = of(&generation);
        assert_eq!(wish(&generation, survey), None);
        assert!(!needs_room(&generation, survey));
    }

    #[test]
    fn a_filter_past_its_capacity_wants_room_and_to_be_replaced() {
        let generation = generation(10_000, 11_000);
        let survey = of(&generation);
        assert_eq!(wish(&generation, survey), Some(Wish::Capacity));
        assert!(needs_room(&generation, survey));

        let expanded = generation.filter().expand().expect("memory");
        let expanded = generation.with_room(expanded);
        let survey = of(&expanded);
        assert_eq!(wish(&expanded, survey), Some(Wish::Capacity));
        assert!(!needs_room(&expanded, survey), "it was just given some");
    }

    #[test]
    fn many_released_names_are_worth_a_rebuild() {
        let generation = generation(100_000, 40_000);
        let survey = of(&generation);
        generation.count_released(9_999);
        assert_eq!(wish(&generation, survey), None);
        generation.count_released(1);
        assert_eq!(wish(&generation, survey), Some(Wish::Released));
    }

    #[test]
    fn a_spoilt_rate_is_worth_a_rebuild() {
        let generation = generation(10_000, 9_000);
        let mut survey = of(&generation);
        survey.live_fpr = 0.0021;
        assert_eq!(wish(&generation, survey), Some(Wish::Rate));
    }
}
