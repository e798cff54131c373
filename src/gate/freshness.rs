//! How fresh the filter is: a lease on trust, read from a clock that does not stop while the machine sleeps.
//!
//! No database clock is involved. The population reads the clock *before* it asks for changes, and renews the lease to
//! that reading *after* the changes are in the filter. A question reads the lease, probes the filter, and only *then*
//! reads the clock: in the other order, a process that was stopped in between would answer from the past.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A reading of the monotonic clock, in nanoseconds since boot, sleep included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// Before anything was ever read from a database.
    pub const LONG_AGO: Self = Self(0);

    /// Reads the clock. `CLOCK_BOOTTIME` where there is one: `Instant` stands still while a Linux machine sleeps, and
    /// a filter that slept is not fresh.
    #[must_use]
    pub fn now() -> Self {
        #[cfg(target_os = "linux")]
        const CLOCK: ClockId = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        const CLOCK: ClockId = ClockId::Monotonic;
        let time = clock_gettime(CLOCK);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
        Self(seconds * 1_000_000_000 + nanos)
    }

    /// Time from `earlier` to this; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Until when a filter is known to be in step with the database: the moment of its last fully applied poll.
#[derive(Debug)]
pub struct Lease(AtomicU64);

impl Lease {
    /// A lease that begins at `at`.
    #[must_use]
    pub const fn beginning(at: Moment) -> Self {
        Self(AtomicU64::new(at.0))
    }

    /// Renews the lease to `at`; an older moment changes nothing.
    pub fn renew(&self, at: Moment) {
        // Release: pairs with the Acquire in `renewed_at`, so that whoever sees this lease sees the bits set before it.
        self.0.fetch_max(at.0, Ordering::Release);
    }

    /// The moment of the last renewal. Read it before probing the filter.
    #[must_use]
    pub fn renewed_at(&self) -> Moment {
        // Acquire: pairs with the Release in `renew`.
        Moment(self.0.load(Ordering::Acquire))
    }

    /// Time since the last renewal.
    #[must_use]
    pub fn age(&self) -> Duration {
        let renewed = self.renewed_at();
        Moment::now().since(renewed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_moment_never_shortens_a_lease() {
        let (old, new) = (Moment(5), Moment(9));
        let lease = Lease::beginning(old);
        lease.renew(new);
        lease.renew(old);
        assert_eq!(lease.renewed_at(), new);
    }

    #[test]
    fn time_never_runs_backwards_into_a_huge_age() {
        assert_eq!(Moment(5).since(Moment(9)), Duration::ZERO);
        assert_eq!(Moment(9).since(Moment(5)), Duration::from_nanos(4));
    }

    #[test]
    fn the_clock_moves_forward() {
        let before = Moment::now();
        assert!(Moment::now() >= before);
    }
}
