//! The time of a stream: slices of a window, and when the next one begins.
//!
//! ```text
//!   window 24h in 2 slices, an id that passed in slice 4:
//!
//!      slice 4    │   slice 5    │   slice 6    │   slice 7
//!        ▲ passed │              │ remembered   │ forgotten
//!        └────────┴── at least the window ─────▶│
//! ```
//!
//! Time never goes back. It is that of arrival, or that of the messages: the latest timestamp so far. Then a late
//! message takes part in the present, and two kinds of timestamps would do harm if they were believed:
//!
//! - one *ahead* of the clock on the wall by more than [`LENIENCE_MS`]: the present stays as it is;
//! - a *leap* over a whole slice in which nothing happened, as after a quiet night, or by a broken clock in old data. One
//!   such message proves nothing, so the present stays until [`LEAPS_BELIEVED`] messages in a row say so. Meanwhile each is
//!   judged by its own time.

use std::time::Duration;

/// How far clocks of machines may be apart.
const LENIENCE_MS: u64 = 5 * 60 * 1000;
/// How many messages in a row must leap before time does.
const LEAPS_BELIEVED: u32 = 16;

/// How long ids are remembered: a window, cut into slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    slice_ms: u64,
    slices: u32,
}

impl Window {
    /// `slices`: 0 counts as 1. A window is at least a millisecond a slice.
    #[must_use]
    pub fn new(window: Duration, slices: u32) -> Self {
        let slices = slices.max(1);
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        Self {
            slice_ms: window_ms.div_ceil(slices.into()).max(1),
            slices,
        }
    }

    /// Slices in a window. So many, and the present one, are remembered.
    #[must_use]
    pub const fn slices(&self) -> u32 {
        self.slices
    }

    /// How long a slice is.
    #[must_use]
    pub const fn slice_ms(&self) -> u64 {
        self.slice_ms
    }

    /// The slice of a moment, counted from 1970.
    #[must_use]
    pub const fn slice_of(&self, ms: u64) -> u64 {
        ms / self.slice_ms
    }

    /// The oldest slice that is remembered in `slice`.
    #[must_use]
    pub const fn oldest(&self, slice: u64) -> u64 {
        slice.saturating_sub(self.slices as u64)
    }
}

/// What a message's timestamp means for the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// The present, which it may just have begun.
    Present,
    /// So far ahead that it must be wrong; it is taken for the present.
    Ahead,
    /// In this slice, if it is to be believed.
    Leap(u64),
    /// Enough messages have leapt: this slice is the present now, and the message is in it.
    Arrived(u64),
}

/// The present slice of a stream whose messages say when they happened.
#[derive(Debug, Clone)]
pub(super) struct StreamClock {
    window: Window,
    present: Option<u64>,
    leaps: u32,
}

impl StreamClock {
    /// `present`: where an earlier run was.
    pub(super) const fn new(window: Window, present: Option<u64>) -> Self {
        Self {
            window,
            present,
            leaps: 0,
        }
    }

    pub(super) const fn present(&self) -> Option<u64> {
        self.present
    }

    /// Reads a timestamp. `wall_ms`: what the clock on the wall shows.
    pub(super) fn read(&mut self, ms: u64, wall_ms: u64) -> Reading {
        if ms > wall_ms.saturating_add(LENIENCE_MS) {
            return Reading::Ahead;
        }
        let slice = self.window.slice_of(ms);
        match self.present {
            Some(present) if slice > present + 1 => {
                self.leaps += 1;
                if self.leaps < LEAPS_BELIEVED {
                    return Reading::Leap(slice);
                }
                self.leaps = 0;
                self.present = Some(slice);
                Reading::Arrived(slice)
            }
            Some(present) => {
                self.leaps = 0;
                self.present = Some(present.max(slice));
                Reading::Present
            }
            None => {
                self.present = Some(slice);
                Reading::Present
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn clock() -> StreamClock {
        StreamClock::new(Window::new(Duration::from_secs(20), 2), None)
    }

    #[test]
    fn a_window_is_remembered_and_twice_the_window_forgotten() {
        for slices in 1..=7 {
            for window_ms in [1, 7, 1000, 86_400_000] {
                let window = Window::new(Duration::from_millis(window_ms), slices);
                for passed in (0..3 * window_ms)
                    .step_by(usize::try_from(window_ms / 7).expect("small").max(1))
                {
                    let is_remembered =
                        |at: u64| window.oldest(window.slice_of(at)) <= window.slice_of(passed);
                    assert!(is_remembered(passed + window_ms), "{window:?} {passed}");
                    if window_ms >= u64::from(slices) * 7 {
                        assert!(
                            !is_remembered(passed + 2 * window_ms + u64::from(slices) * 2),
                            "{window:?} {passed}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn time_goes_on_with_the_latest_timestamp_and_never_back() {
        let mut clock = clock();
        for (ms, present) in [
            (100_000, 10),
            (95_000, 10),
            (111_000, 11),
            (109_999, 11),
            (0, 11),
            (120_000, 12),
        ] {
            assert_eq!(clock.read(ms, NOW), Reading::Present);
            assert_eq!(clock.present(), Some(present));
        }
    }

    #[test]
    fn a_timestamp_ahead_of_the_wall_changes_nothing() {
        let mut clock = clock();
        assert_eq!(clock.read(u64::MAX, NOW), Reading::Ahead);
        assert_eq!(clock.present(), None);
        clock.read(NOW - 1000, NOW);
        let present = clock.present();
        for _ in 0..1000 {
            assert_eq!(clock.read(NOW + LENIENCE_MS + 1, NOW), Reading::Ahead);
        }
        assert_eq!(clock.present(), present);
        assert_eq!(
            clock.read(NOW + 4_000, NOW),
            Reading::Present,
            "clocks may be apart a little"
        );
    }

    #[test]
    fn a_leap_is_believed_when_many_in_a_row_make_it() {
        let mut clock = clock();
        clock.read(100_000, NOW);
        for _ in 0..100 {
            assert_eq!(clock.read(9_000_000, NOW), Reading::Leap(900));
            assert_eq!(clock.read(100_000, NOW), Reading::Present);
        }
        for _ in 1..LEAPS_BELIEVED {
            assert_eq!(clock.read(9_000_000, NOW), Reading::Leap(900));
        }
        assert_eq!(clock.read(9_005_000, NOW), Reading::Arrived(900));
        assert_eq!(clock.read(9_000_000, NOW), Reading::Present);
        assert_eq!(clock.present(), Some(900));
    }
}
