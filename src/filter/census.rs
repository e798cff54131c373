//! What the bits tell about themselves: how many names, which rate, how full, how even.
//!
//! No counter is kept while inserting: it would be one contended cache line for all threads, wrong
//! after duplicates, and a lie after a damaged load. A census reads the blocks instead. It may be
//! taken in pieces ([`BlockedBloom::census_of`]) by a background task that rests in between, and
//! the pieces [`merge`](Census::merge).
//!
//! # The count
//!
//! In each word position ("lane"), `n` names throw `n` bits at `M = 64 N` places. From the share
//! `z` of places still empty, `n = ln z / ln(1 - 1/M)`. The eight lanes are averaged; they are not
//! quite independent, as they share the load of their block. With `t = n/M`:
//!
//! ```text
//!   variance of the empty places of one lane   v = M e^-2t (e^t - 1 - t)
//!   covariance between two lanes               c = M e^-2t 64 (e^(t/64) - 1 - t/64)
//!   standard error of n                        sqrt((8 v + 56 c)) e^t / 8
//! ```
//!
//! At 15.73 bits a name that is 0.064 % of 10^5 names and 0.020 % of 10^6. Source: Whang,
//! Vander-Zanden and Taylor, "A linear-time probabilistic counting algorithm", 1990, for one lane;
//! the covariance is derived the same way.
//!
//! After an expansion each older name has bits in several neighbouring blocks ("a family"); count
//! and balance are read from the family's union, where each name counts once.

use std::ops::Range;

use super::{
    bloom::{BlockedBloom, Hint},
    count::CountEstimate,
    layout::{BLOCK_BITS, LANES},
    sizing::real,
};

/// Just above the 99.9 % point (24.3) of chi-square with 7 degrees of freedom: a
/// [`Census::lane_balance`] above it means that the hash or the memory is at fault.
pub const LANE_BALANCE_ALARM: f64 = 24.5;

/// Sums over some blocks of a filter, from which all figures follow. `Default` is the census of no
/// blocks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Census {
    blocks: u64,
    families: u64,
    set_bits: u64,
    /// Set bits per lane in the union of each family.
    lane_bits: [u64; LANES],
    /// Sum over blocks of the probability that an absent name landing there meets eight set bits.
    rates: f64,
}

impl Census {
    /// Adds the figures of other blocks of the same filter.
    pub fn merge(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.families += other.families;
        self.set_bits += other.set_bits;
        for (sum, more) in self.lane_bits.iter_mut().zip(other.lane_bits) {
            *sum += more;
        }
        self.rates += other.rates;
    }

    /// Share of set bits, in `[0, 1]`.
    #[must_use]
    pub fn fill(&self) -> f64 {
        real(self.set_bits.into()) / real((self.blocks.max(1) * BLOCK_BITS).into())
    }

    /// The false-positive rate at this moment: the mean over blocks of the product over words of
    /// their filled share.
    ///
    /// The eighth power of the overall fill would read 26 to 36 % too low, as it knows nothing of
    /// crowded blocks.
    #[must_use]
    pub fn live_fpr(&self) -> f64 {
        self.rates / real(self.blocks.max(1).into())
    }

    /// How many names are inside. Blocks that were damaged and filled up with ones count as very
    /// many.
    #[must_use]
    pub fn estimated_count(&self) -> CountEstimate {
        let places = self.places();
        let clear = self.clear_bits();
        let count = |clear: f64| (clear / (8.0 * places)).ln() / (-1.0 / places).ln_1p();
        if self.families > 0 && clear < 1.0 {
            return CountEstimate::AtLeast {
                names: whole(count(1.0)),
            };
        }
        let names = if self.families == 0 {
            0.0
        } else {
            count(clear)
        };
        let (variance, covariance) = self.lane_variance();
        // The variances are those of empty places; dividing by their number e^-t M turns them into
        // names.
        let standard_error = (8.0 * variance + 56.0 * covariance).sqrt() * places / clear.max(1.0);
        CountEstimate::About {
            names: whole(names),
            standard_error,
        }
    }

    /// Chi-square, 7 degrees of freedom, of the set bits per word position; above
    /// [`LANE_BALANCE_ALARM`] something is wrong with the hash or the memory.
    ///
    /// `None` while too few names (or too few clear bits) are there to judge.
    #[must_use]
    pub fn lane_balance(&self) -> Option<f64> {
        let (variance, covariance) = self.lane_variance();
        // `variance` is close to the expected number of names that met a set bit, or in a full
        // filter of clear bits; below ten the normal approximation fails.
        if variance < 10.0 {
            return None;
        }
        let lanes = self.lane_bits.map(|bits| real(bits.into()));
        let mean = lanes.iter().sum::<f64>() / real(LANES as u128);
        let squares: f64 = lanes.iter().map(|bits| (bits - mean).powi(2)).sum();
        Some(squares / (variance - covariance))
    }

    /// Places of one lane, M.
    fn places(&self) -> f64 {
        real((self.families.max(1) * 64).into())
    }

    /// Clear bits in all lanes, seen through the families.
    fn clear_bits(&self) -> f64 {
        real((self.families * BLOCK_BITS - self.lane_bits.iter().sum::<u64>()).into())
    }

    /// Variance of the empty places of one lane, and covariance between two.
    fn lane_variance(&self) -> (f64, f64) {
        let places = self.places();
        let empty_share = self.clear_bits().max(1.0) / (8.0 * places);
        let load = if self.families == 0 {
            0.0
        } else {
            -empty_share.ln()
        };
        let scale = places * empty_share * empty_share;
        // e^x - 1 - x without losing the digits of a small x.
        let excess = |x: f64| (x.exp_m1() - x).max(0.0);
        (scale * excess(load), scale * 64.0 * excess(load / 64.0))
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count: never negative, far below 2^64"
)]
fn whole(count: f64) -> u64 {
    count.round() as u64
}

impl BlockedBloom {
    /// Number of families: blocks, or groups of neighbouring blocks after an expansion.
    #[must_use]
    pub const fn families(&self) -> u64 {
        self.sizing.blocks >> self.expansions
    }

    /// A census of everything: one pass over the whole memory, about a second for 2 GB. See
    /// [`census_of`](Self::census_of) to spread it out.
    #[must_use]
    pub fn census(&self) -> Census {
        self.census_of(0..self.families())
    }

    /// A census of some families, clamped to `0..self.families()`; pieces can be merged.
    #[must_use]
    pub fn census_of(&self, families: Range<u64>) -> Census {
        let mut census = Census::default();
        for family in families.start..families.end.min(self.families()) {
            let mut union = [0; LANES];
            #[allow(
                clippy::cast_possible_truncation,
                reason = "less than the number of mapped blocks, which is a usize"
            )]
            let (first, size) = ((family << self.expansions) as usize, 1 << self.expansions);
            for block in &self.blocks[first..first + size] {
                let words = block.words();
                let mut rate = 1.0;
                for (sum, word) in union.iter_mut().zip(words) {
                    *sum |= word;
                    census.set_bits += u64::from(word.count_ones());
                    rate *= f64::from(word.count_ones()) / 64.0;
                }
                census.blocks += 1;
                census.rates += rate;
            }
            census.families += 1;
            for (sum, word) in census.lane_bits.iter_mut().zip(union) {
                *sum += u64::from(word.count_ones());
            }
        }
        census
    }

    /// [`Census::estimated_count`] of the whole filter.
    #[must_use]
    pub fn estimated_count(&self) -> CountEstimate {
        self.census().estimated_count()
    }

    /// [`Census::live_fpr`] of the whole filter.
    #[must_use]
    pub fn live_fpr(&self) -> f64 {
        self.census().live_fpr()
    }

    /// [`Census::fill`] of the whole filter.
    #[must_use]
    pub fn fill(&self) -> f64 {
        self.census().fill()
    }

    /// The false-positive rate found by asking `questions` questions for keys that cannot be
    /// inside.
    ///
    /// The keys start with the byte FF, which no UTF-8 text contains. With a rate of `p` the
    /// standard error is `sqrt(p / questions)`.
    #[must_use]
    pub fn measured_fpr(&self, questions: u32) -> f64 {
        let is_maybe = |question: &u32| {
            let mut key = [0xFF; 5];
            key[1..].copy_from_slice(&question.to_le_bytes());
            self.probe(&key) == Hint::Maybe
        };
        let maybes = (0..questions).filter(is_maybe).count();
        real(maybes as u128) / f64::from(questions.max(1))
    }
}
