//! The ids of a window: one filter for each slice of it, the oldest forgotten as a whole.
//!
//! ```text
//!   oldest                          newest
//!   ┌─────────┐  ┌─────────┐  ┌─────────┐
//!   │ slice 4 │  │ slice 5 │  │ slice 6 │ ◀── new ids go here
//!   └────▲────┘  └────▲────┘  └────▲────┘
//!        └────────────┴────────────┴──── all are asked
//! ```
//!
//! The promise: an id that was admitted is a suspect until its slice is forgotten. What it costs: an id that never was
//! admitted is a suspect too, with a probability that is the sum of the filters' rates. The plan gives each filter its
//! share, so that the sum stays within what was asked for while each slice brings as many ids as planned.
//!
//! All filters hash under one secret, so an id is hashed once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::dedup::clock::Window;
use crate::filter::{
    BlockedBloom, Digest, Digester, FilterError, HashSecret, Hint, Sizing, SizingError,
};

/// How often to look whether a copy is done.
const COPYING: Duration = Duration::from_millis(1);

/// What a memory is built for. Planning allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Each filter.
    pub sizing: Sizing,
    /// How many filters exist at once.
    pub filters: u32,
    /// How long ids are remembered; `None`: for ever, in one filter.
    pub window: Option<Window>,
    /// Ids expected in a window, or at all.
    pub expected: u64,
    /// The probability that a genuine message is taken for a duplicate, when all filters are full.
    pub target_fpr: f64,
}

impl Plan {
    /// The smallest memory for `expected` ids a window that loses at most a share `fpr` of genuine messages.
    ///
    /// # Errors
    /// [`SizingError`] for a rate that cannot be, and when all filters together need more than `ceiling_bytes`; the
    /// bytes in it are those of all filters.
    pub fn new(
        expected: u64,
        fpr: f64,
        window: Option<Window>,
        ceiling_bytes: u64,
    ) -> Result<Self, SizingError> {
        let slices = window.map_or(1, |window| window.slices());
        let filters = window.map_or(1, |window| window.slices() + 1);
        let names = expected.div_ceil(slices.into());
        // With one filter its rate is the asked one to the last digit.
        let share = if filters == 1 {
            fpr
        } else {
            fpr / f64::from(filters)
        };
        let ceiling_each = ceiling_bytes / u64::from(filters);
        let sizing = Sizing::plan(names, share, ceiling_each).map_err(|refusal| match refusal {
            SizingError::Ceiling { bytes_needed, .. } => SizingError::Ceiling {
                names: expected,
                bytes_needed: bytes_needed * u128::from(filters),
                ceiling_bytes,
            },
            SizingError::Rate { .. } => SizingError::Rate { found: fpr },
        })?;
        Ok(Self {
            sizing,
            filters,
            window,
            expected,
            target_fpr: fpr,
        })
    }

    /// Bytes of all filters.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.sizing.size_bytes().saturating_mul(self.filters as u64)
    }

    /// The share of genuine messages that is lost on average, while ids come as planned: with all older slices full
    /// (without a window: from the first id on), over one slice.
    #[must_use]
    pub fn mean_loss(&self) -> f64 {
        const STEPS: u32 = 64;
        let full = self.sizing.rate_at(self.sizing.capacity) * f64::from(self.filters - 1);
        let filling: f64 = (0..STEPS)
            .map(|step| {
                let names = u128::from(self.sizing.capacity) * u128::from(2 * step + 1)
                    / u128::from(2 * STEPS);
                self.sizing
                    .rate_at(u64::try_from(names).unwrap_or(u64::MAX))
            })
            .sum();
        full + filling / f64::from(STEPS)
    }
}

/// What a memory says of an id that is brought to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It was certainly not there, and is now.
    New,
    /// It was there, or its bits happen to be set by others.
    Suspect,
}

/// The ids of one slice.
#[derive(Debug, Clone)]
pub struct Generation {
    /// Counted from 1970; 0 where there is no window.
    pub slice: u64,
    /// Shared with whoever writes it to disk.
    pub filter: Arc<BlockedBloom>,
    /// Ids admitted.
    pub ids: u64,
}

/// The ids of a window.
pub struct Memory {
    plan: Plan,
    secret: HashSecret,
    digester: Digester,
    /// The oldest first; never empty.
    generations: VecDeque<Generation>,
    loss: Loss,
}

impl Memory {
    /// An empty memory.
    ///
    /// # Errors
    /// [`FilterError`] when the system grants no memory.
    pub fn new(plan: Plan, secret: HashSecret) -> Result<Self, FilterError> {
        let first = Generation {
            slice: 0,
            filter: Arc::new(BlockedBloom::new(plan.sizing, secret.clone())?),
            ids: 0,
        };
        Ok(Self::restored(plan, secret, VecDeque::from([first])))
    }

    /// A memory of generations that were stored, the oldest first, at least one, all under `secret`.
    #[must_use]
    pub fn restored(plan: Plan, secret: HashSecret, generations: VecDeque<Generation>) -> Self {
        let mut memory = Self {
            plan,
            digester: Digester::new(&secret),
            secret,
            generations,
            loss: Loss::default(),
        };
        memory.update_rate();
        memory
    }

    /// What it is built for.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// All generations, the oldest first.
    #[must_use]
    pub fn generations(&self) -> impl DoubleEndedIterator<Item = &Generation> {
        self.generations.iter()
    }

    /// The generation that new ids go to.
    fn newest(&self) -> &Generation {
        self.generations.back().expect("never empty")
    }

    /// The present slice.
    #[must_use]
    pub fn slice(&self) -> u64 {
        self.newest().slice
    }

    /// Hashes an id, and sends for what will be asked about it.
    pub(super) fn digest(&self, id: &[u8]) -> Digest {
        let digest = self.digester.digest(id);
        for generation in &self.generations {
            generation.filter.fetch_digest(digest);
        }
        digest
    }

    /// Asks for an id, and admits it when it is new.
    pub(super) fn admit(&mut self, id: Digest) -> Admission {
        let newest = self.generations.len() - 1;
        let is_known = self
            .generations
            .range(..newest)
            .any(|generation| generation.filter.probe_digest(id) == Hint::Maybe);
        if is_known {
            return Admission::Suspect;
        }
        let newest = &mut self.generations[newest];
        if !newest.filter.insert_digest(id) {
            return Admission::Suspect;
        }
        newest.ids += 1;
        self.loss.genuine_since += 1;
        if newest.ids >= self.loss.update_at {
            self.update_rate();
        }
        Admission::New
    }

    /// Admits a suspect that turned out to be new, so that it is remembered for a window from now on.
    pub(super) fn admit_suspect(&mut self, id: Digest) {
        let newest = self.generations.back_mut().expect("never empty");
        newest.filter.insert_digest(id);
        newest.ids += 1;
        self.loss.genuine_since += 1;
    }

    /// Whether an id may have been admitted in `oldest` or a later slice.
    pub(super) fn may_hold(&self, id: Digest, oldest: u64) -> bool {
        let mut recent = self
            .generations
            .iter()
            .rev()
            .take_while(|generation| generation.slice >= oldest);
        recent.any(|generation| generation.filter.probe_digest(id) == Hint::Maybe)
    }

    /// Says in which slice a memory begins that holds nothing, or only messages without a time.
    pub(super) fn begin(&mut self, slice: u64) {
        if self.plan.window.is_some() && self.generations.len() == 1 {
            self.generations[0].slice = slice;
        }
    }

    /// Makes `slice` the present one, and forgets those that are too old then. Earlier slices than the present one
    /// change nothing. Returns whether a generation began.
    ///
    /// # Errors
    /// [`FilterError`] when the system grants no memory.
    pub(super) fn advance(&mut self, slice: u64) -> Result<bool, FilterError> {
        let Some(window) = self.plan.window else {
            return Ok(false);
        };
        if slice <= self.slice() {
            return Ok(false);
        }
        // An empty one need not be kept, nor another allocated.
        if self.newest().ids == 0 {
            self.generations.back_mut().expect("never empty").slice = slice;
        }
        let oldest = window.oldest(slice);
        // Forgotten first: there are never more filters than planned.
        while let Some(forgotten) = self.generations.pop_front_if(|old| old.slice < oldest) {
            // Whoever is copying it to disk lets go when that is done; until then its memory is not free.
            while Arc::strong_count(&forgotten.filter) > 1 {
                thread::sleep(COPYING);
            }
        }
        let begins = self
            .generations
            .back()
            .is_none_or(|newest| newest.slice < slice);
        if begins {
            let filter = BlockedBloom::new(self.plan.sizing, self.secret.clone())?;
            self.generations.push_back(Generation {
                slice,
                filter: Arc::new(filter),
                ids: 0,
            });
        }
        self.update_rate();
        Ok(begins)
    }

    /// The probability, now, that a genuine message is taken for a duplicate.
    #[must_use]
    pub fn loss_rate(&self) -> f64 {
        let sum: f64 = self
            .generations
            .iter()
            .map(|generation| generation.filter.sizing().rate_at(generation.ids))
            .sum();
        sum.min(1.0)
    }

    /// How many genuine messages were taken for duplicates so far, by expectation. The true number is a count of rare and
    /// independent events: its standard deviation is about the square root of this.
    #[must_use]
    pub fn expected_lost(&self) -> f64 {
        self.loss.expected_by(self.loss_rate())
    }

    /// Whether the newest generation holds more ids than planned.
    #[must_use]
    pub fn is_over_capacity(&self) -> bool {
        let newest = self.newest();
        newest.ids > newest.filter.sizing().capacity
    }

    fn update_rate(&mut self) {
        let rate = self.loss_rate();
        self.loss.expected = self.loss.expected_by(rate);
        let newest = self.newest();
        let update_at = newest.ids + (newest.filter.sizing().capacity / 1000).max(1);
        self.loss.genuine_since = 0;
        self.loss.rate = rate;
        self.loss.update_at = update_at;
    }
}

/// Expected loss, integrated in steps of a thousandth of a filter: the rate hardly changes within one.
#[derive(Debug, Default)]
struct Loss {
    expected: f64,
    rate: f64,
    /// Ids admitted since the rate was computed.
    genuine_since: u64,
    /// Ids in the newest generation at which it is computed again.
    update_at: u64,
}

impl Loss {
    /// The expectation by the time the rate has become `rate`. Only admitted ids are known to be genuine; for each of
    /// them, `p / (1 - p)` others were not.
    fn expected_by(&self, rate: f64) -> f64 {
        let odds = |rate: f64| rate / (1.0 - rate).max(f64::EPSILON);
        self.expected + real(self.genuine_since) * f64::midpoint(odds(self.rate), odds(rate))
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "16 digits of a count are enough for an expectation"
)]
const fn real(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const SECRET: HashSecret = HashSecret::from_bytes(*b"a key for tests!");

    fn memory(expected: u64, fpr: f64, slices: Option<u32>) -> Memory {
        let window =
            slices.map(|slices| Window::new(Duration::from_secs(u64::from(slices)), slices));
        let plan = Plan::new(expected, fpr, window, 1 << 30).expect("small");
        Memory::new(plan, SECRET).expect("small")
    }

    fn admit(memory: &mut Memory, id: u64) -> Admission {
        let digest = memory.digest(&id.to_le_bytes());
        memory.admit(digest)
    }

    #[test]
    fn a_day_of_clicks_takes_what_the_sizing_says() {
        let one = Plan::new(864_000_000, 0.0001, None, u64::MAX).expect("fits");
        assert_eq!((one.filters, one.size_bytes()), (1, 2_549_533_952));
        let window = Window::new(Duration::from_hours(24), 2);
        let plan = Plan::new(864_000_000, 0.0001, Some(window), u64::MAX).expect("fits");
        assert_eq!((plan.filters, plan.size_bytes()), (3, 4_616_904_576));
        assert!(plan.sizing.rate_at(432_000_000) * 3.0 <= 0.0001);
        assert!(plan.mean_loss() < 0.0001 && plan.mean_loss() > 0.00005);
        let refusal =
            Plan::new(864_000_000, 0.0001, Some(window), 4_000_000_000).expect_err("too large");
        assert_eq!(
            refusal.to_string(),
            "864000000 names need 4616904576 bytes, the ceiling is 4000000000 bytes"
        );
    }

    /// Ids that all differ are all genuine: every suspect is a loss. Four standard deviations, seeded.
    #[test]
    fn the_measured_loss_is_the_expected_one() {
        for (expected, fpr, slices, ids) in [
            (100_000, 0.01, None, 150_000),
            (60_000, 0.01, Some(2), 200_000),
            (60_000, 0.03, Some(1), 150_000),
            (64_000, 0.02, Some(8), 200_000),
        ] {
            let mut memory = memory(expected, fpr, slices);
            let per_slice = expected / u64::from(slices.unwrap_or(1));
            let mut lost = 0_u32;
            for id in 0..ids {
                if slices.is_some() {
                    memory.advance(id / per_slice).expect("small");
                }
                lost += u32::from(admit(&mut memory, id) == Admission::Suspect);
            }
            let wanted = memory.expected_lost();
            assert!(
                (f64::from(lost) - wanted).abs() <= 4.0 * wanted.sqrt(),
                "{lost} lost, {wanted} expected"
            );
            assert!(wanted > 100.0, "enough to judge by");
            if slices.is_some() {
                assert!(
                    memory.loss_rate() <= fpr * 1.001,
                    "as planned: {}",
                    memory.loss_rate()
                );
            } else {
                assert!(memory.is_over_capacity() && memory.loss_rate() > 3.0 * fpr);
            }
        }
    }

    #[test]
    fn no_more_filters_than_planned_exist_at_any_time() {
        let mut memory = memory(300, 0.01, Some(3));
        for slice in [0, 1, 1, 2, 3, 4, 5, 5, 7, 100, 101, 99, 104, 103, 105] {
            memory.advance(slice).expect("small");
            admit(&mut memory, slice);
            assert!(memory.generations().count() <= 4);
            let slices: Vec<u64> = memory
                .generations()
                .map(|generation| generation.slice)
                .collect();
            assert!(
                slices.is_sorted() && slices.iter().all(|&old| old + 3 >= memory.slice()),
                "{slices:?}"
            );
        }
    }

    proptest! {
        /// Against an exact model: what the model remembers is never new; what it forgot is new, but for false positives.
        #[test]
        fn an_admitted_id_is_a_suspect_for_exactly_its_window(
            slices in 1..4_u32,
            steps in prop::collection::vec((0..40_u64, prop::sample::select(vec![0, 0, 0, 0, 1, 1, 2, 5])), 1..300),
        ) {
            let mut memory = memory(100_000, 1e-9, Some(slices));
            let (mut now, mut model) = (0, HashSet::new());
            for (id, pause) in steps {
                now += pause;
                memory.advance(now).expect("small");
                model.retain(|&(slice, _)| slice + u64::from(slices) >= now);
                let is_known = model.iter().any(|&(_, known)| known == id);
                let want = if is_known { Admission::Suspect } else { Admission::New };
                prop_assert_eq!(admit(&mut memory, id), want);
                if !is_known {
                    model.insert((now, id));
                }
            }
        }
    }
}
