//! How filters are sized and how often the feed is read.

use std::time::Duration;

use crate::filter::Sizing;

/// The population's share of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct PopulationSettings {
    /// Pause between two polls of the change feed.
    pub poll_interval: Duration,
    /// The false-positive rate a filter is sized for, at capacity: a probability in (0, 1).
    pub target_fpr: f64,
    /// A filter is sized for at least this many names.
    pub least_capacity: u64,
    /// Filters may take at most this much memory together, in bytes; while one replaces another there are two.
    pub ceiling_bytes: u64,
    /// Pause between two copies of the filter to disk.
    pub save_interval: Duration,
}

impl PopulationSettings {
    /// Names to size for when the table holds `rows`: half as many again, so that growth does not spoil the rate at once.
    #[must_use]
    pub const fn capacity_for(&self, rows: u64) -> u64 {
        let with_headroom = rows.saturating_add(rows / 2);
        if with_headroom > self.least_capacity {
            with_headroom
        } else {
            self.least_capacity
        }
    }

    /// Whether a filter of this sizing is one that would be built with these settings, for some number of rows.
    #[must_use]
    #[allow(
        clippy::float_cmp,
        reason = "both are the number that was configured, written and read without rounding"
    )]
    pub fn would_build(&self, sizing: &Sizing) -> bool {
        sizing.target_fpr == self.target_fpr && sizing.capacity >= self.least_capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_leaves_room_and_never_falls_below_the_least() {
        let settings = PopulationSettings {
            poll_interval: Duration::from_millis(100),
            target_fpr: 0.001,
            least_capacity: 1000,
            ceiling_bytes: u64::MAX,
            save_interval: Duration::from_secs(1),
        };
        assert_eq!(settings.capacity_for(0), 1000);
        assert_eq!(settings.capacity_for(1_000_000), 1_500_000);
        assert_eq!(settings.capacity_for(u64::MAX), u64::MAX);
    }
}
