//! More room for a filter that has outgrown its capacity, at once and without asking the database.
//!
//! Twice the blocks, each block copied to two: no name is lost, and new names meet half as many others. It keeps the
//! false-positive rate of that moment until a filter of the right size has been built from the table. The four steps are
//! those of [`crate::filter`]'s `growth`: an empty double, every insert to both, the copy, the swap.

use std::sync::Arc;

use crate::gate::{Generation, Recall};

/// Why a filter was given no room.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoRoom {
    /// Both at once would be too large.
    #[error(
        "the filter and one of twice its size need {needed_bytes} bytes, --filter-memory allows {ceiling_bytes}"
    )]
    Ceiling {
        needed_bytes: u64,
        ceiling_bytes: u64,
    },
    /// The system has not so much memory.
    #[error(transparent)]
    Filter(#[from] crate::filter::FilterError),
}

/// A copy of the live generation with twice the blocks, complete from now on: what is noted or applied goes into both,
/// until the copy is published or dropped. Blocks the thread for as long as the copy takes.
pub(super) fn with_more_room(
    recall: &Recall,
    live: &Generation,
    ceiling_bytes: u64,
) -> Result<Arc<Generation>, NoRoom> {
    let needed_bytes = live.filter().size_bytes().saturating_mul(3);
    if needed_bytes > ceiling_bytes {
        return Err(NoRoom::Ceiling {
            needed_bytes,
            ceiling_bytes,
        });
    }
    let roomy = Arc::new(live.with_room(live.filter().doubled()?));
    recall.announce(&roomy);
    roomy
        .filter()
        .absorb_half(live.filter())
        .expect("it was made as the double of this filter");
    Ok(roomy)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::filter::{BlockedBloom, HashSecret, Hint, Sizing};
    use crate::gate::freshness::Moment;
    use crate::gate::{Apply, Sink, TakenCache};
    use crate::names::FilterKey;

    #[test]
    fn names_from_before_during_and_after_the_copy_are_in_it() {
        let recall = Recall::new(
            Duration::from_secs(2),
            TakenCache::new(10, Duration::from_secs(1)),
        );
        let sizing = Sizing::plan(1_000, 0.001, u64::MAX).expect("a small filter");
        let filter = BlockedBloom::new(sizing, HashSecret::from_bytes([7; 16])).expect("memory");
        let live = Arc::new(Generation::new(3, filter, Moment::now()));
        recall.publish(Arc::clone(&live));
        recall.note(&FilterKey::of("before"));
        let roomy = with_more_room(&recall, &live, u64::MAX).expect("room");
        recall.note(&FilterKey::of("noted"));
        Apply::to(&recall, &live).held(b"applied");
        assert_eq!(roomy.number(), 3);
        assert_eq!(roomy.filter().size_bytes(), 2 * live.filter().size_bytes());
        for name in ["before", "noted", "applied"] {
            assert_eq!(
                roomy.filter().probe(FilterKey::of(name).as_ref()),
                Hint::Maybe,
                "{name}"
            );
        }
        assert_eq!(
            roomy.probe(&FilterKey::of("absent"), Duration::from_hours(1)),
            None,
            "it is nobody's business until its lease is renewed"
        );
    }

    #[test]
    fn the_ceiling_is_for_both_filters_together() {
        let recall = Recall::new(
            Duration::from_secs(2),
            TakenCache::new(10, Duration::from_secs(1)),
        );
        let sizing = Sizing::plan(1_000, 0.001, u64::MAX).expect("a small filter");
        let filter = BlockedBloom::new(sizing, HashSecret::from_bytes([7; 16])).expect("memory");
        let bytes = filter.size_bytes();
        let live = Generation::new(1, filter, Moment::now());
        assert!(with_more_room(&recall, &live, 3 * bytes).is_ok());
        let refused = with_more_room(&recall, &live, 3 * bytes - 1).expect_err("no room");
        assert!(refused.to_string().contains("--filter-memory"), "{refused}");
    }
}
