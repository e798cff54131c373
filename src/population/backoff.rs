//! Trying again: quickly at first, then slower, never in step with others, never giving up.

use std::time::Duration;

use crate::gate::StoreError;

const FIRST: Duration = Duration::from_millis(100);
/// Below the time in which a healed database must be followed again.
const LONGEST: Duration = Duration::from_secs(2);

/// Pauses between tries: doubling, with jitter.
#[derive(Debug)]
pub(super) struct Backoff {
    tries: u32,
}

impl Backoff {
    pub(super) const fn new() -> Self {
        Self { tries: 0 }
    }

    /// Whether something failed since the beginning.
    pub(super) const fn is_on(&self) -> bool {
        self.tries > 0
    }

    /// The pause before the next try: between half and all of a doubling bound.
    pub(super) fn next_pause(&mut self) -> Duration {
        let bound = FIRST.saturating_mul(1 << self.tries.min(10)).min(LONGEST);
        self.tries = self.tries.saturating_add(1);
        // Not a secret: the hasher's random keys are jitter enough, and need no generator.
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), self.tries);
        let share = 500 + u32::try_from(random % 501).unwrap_or(500);
        bound * share / 1000
    }

    /// Logs the first failure of a row, and then each time the count of tries doubles: an outage is one story.
    pub(super) fn log(&self, error: &StoreError, what: &str) {
        if self.tries == 0 || self.tries.is_power_of_two() {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            tracing::warn!(error = %error, cause, tries = self.tries + 1, "{what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_never_vanish() {
        let mut backoff = Backoff::new();
        let mut bound = FIRST;
        for _ in 0..100 {
            let pause = backoff.next_pause();
            assert!(pause >= bound / 2 && pause <= bound, "{pause:?} {bound:?}");
            bound = (bound * 2).min(LONGEST);
        }
    }
}
