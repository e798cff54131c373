//! How many blocks a set of names needs: the exact false-positive rate of this layout, and its
//! inverse.
//!
//! # The formula
//!
//! `n` names fall on `N` blocks of 8 words of 64 bits; each name sets one bit in each word of its
//! block. A block that got `i` names has a given bit set with probability `f(i) = 1 - (63/64)^i`,
//! so an absent name that lands there meets eight set bits with probability `f(i)^8`. The load `i`
//! is binomial, hence
//!
//! ```text
//!   FPR(n, N) = sum over i of  P[Binomial(n, 1/N) = i] * f(i)^8                      (series)
//!             = sum over j = 0..8 of  (-1)^j C(8,j) (1 - (1 - (63/64)^j) / N)^n     (closed form)
//! ```
//!
//! The second line is the first with the eighth power expanded and the binomial summed. It has nine
//! terms, but they cancel: at a rate of 1e-8 only half of the digits are left. The series has
//! positive terms alone and needs a few hundred at most while a block holds few names, so it is
//! used there, and the closed form where blocks are crowded.
//!
//! Textbook sizing (see [`super::textbook()`]) used on blocks misses its promise by 1.3 to 3.3
//! times, because names spread unevenly over blocks and the crowded ones answer *maybe* far too
//! often.

/// The smallest false-positive rate that can be asked for: one in 10^15 questions.
pub const SMALLEST_RATE: f64 = 1e-15;

/// The largest number of bytes that one mapping can have, whatever the configured ceiling.
pub(super) const MOST_BYTES: u64 = i64::MAX.unsigned_abs();

/// Why a filter of the wished quality cannot be planned.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SizingError {
    /// The rate is NaN or outside `[SMALLEST_RATE, 1)`.
    #[error("false-positive rate {found} is not allowed: at least {SMALLEST_RATE:e}, less than 1")]
    Rate {
        /// The rate that was asked for.
        found: f64,
    },
    /// The filter would need more memory than it may have; nothing was allocated.
    #[error("{names} names need {bytes_needed} bytes, the ceiling is {ceiling_bytes} bytes")]
    Ceiling {
        /// Names that were to be held.
        names: u64,
        /// Bytes the filter would need.
        bytes_needed: u128,
        /// Bytes it may have.
        ceiling_bytes: u64,
    },
}

/// The smallest number of 64-byte blocks that holds `names` names with a false-positive rate of at
/// most `fpr`.
///
/// `names`: distinct keys (0 gives one block). `fpr`: a probability, not a percentage. The answer
/// is at least 1, is never rounded to a power of two, and never falls when `names` grows or `fpr`
/// shrinks.
///
/// ```
/// use namegate::filter::blocks_for;
/// assert_eq!(blocks_for(2_000_000, 0.01)?, 39_451);      // 2,524,864 bytes
/// assert_eq!(blocks_for(100_000_000, 0.001)?, 3_071_212); // 197 MB
/// # Ok::<(), namegate::filter::SizingError>(())
/// ```
///
/// # Errors
/// [`SizingError::Rate`] when `fpr` is NaN or outside `[SMALLEST_RATE, 1)`;
/// [`SizingError::Ceiling`] when the blocks would not fit in any address space.
///
/// Source: bisection on [`false_positive_rate`].
pub fn blocks_for(names: u64, fpr: f64) -> Result<u64, SizingError> {
    fitting_blocks(names, fpr, MOST_BYTES)
}

/// The false-positive rate by design of `blocks` blocks that hold `names` names: a probability in
/// `[0, 1]`.
///
/// `blocks`: 0 counts as 1, as no filter has fewer.
///
/// Source: derived in the documentation of this file; agrees with the published sizing tables of
/// Parquet's split-block filters in kind, and is measured by the tests.
#[must_use]
pub fn false_positive_rate(names: u64, blocks: u64) -> f64 {
    rate(real(names.into()), real(blocks.max(1).into()))
}

/// [`blocks_for`] under a ceiling in bytes.
pub(super) fn fitting_blocks(names: u64, fpr: f64, ceiling_bytes: u64) -> Result<u64, SizingError> {
    let blocks = smallest_blocks(names, check_rate(fpr)?);
    let bytes_needed = blocks * u128::from(super::layout::BLOCK_BYTES);
    match u64::try_from(blocks) {
        Ok(blocks) if bytes_needed <= ceiling_bytes.min(MOST_BYTES).into() => Ok(blocks),
        _ => Err(SizingError::Ceiling {
            names,
            bytes_needed,
            ceiling_bytes,
        }),
    }
}

/// Passes a rate that can be asked for, refuses any other.
pub(super) fn check_rate(fpr: f64) -> Result<f64, SizingError> {
    // Written as a range test so that NaN fails it.
    if (SMALLEST_RATE..1.0).contains(&fpr) {
        Ok(fpr)
    } else {
        Err(SizingError::Rate { found: fpr })
    }
}

/// The nearest float; exact up to 2^53, and beyond that a count of names or blocks needs no more
/// digits.
#[allow(
    clippy::cast_precision_loss,
    reason = "16 significant digits of a count are enough for a probability"
)]
pub(super) const fn real(count: u128) -> f64 {
    count as f64
}

/// The smallest N >= 1 with FPR(names, N) <= fpr; 128 bits wide because 2^64 names at a small rate
/// need that.
fn smallest_blocks(names: u64, fpr: f64) -> u128 {
    let names = real(names.into());
    let is_enough = |blocks: u128| rate(names, real(blocks)) <= fpr;
    let (mut too_few, mut enough) = (0, 1);
    while !is_enough(enough) {
        (too_few, enough) = (enough, enough * 2);
    }
    while enough - too_few > 1 {
        let middle = too_few + (enough - too_few) / 2;
        if is_enough(middle) {
            enough = middle;
        } else {
            too_few = middle;
        }
    }
    enough
}

/// Mean names per block up to which the series is summed: above it the rate is over 0.2, where the
/// closed form loses no digits, and the series would need more terms and start from an ever smaller
/// first one.
const SERIES_LOAD: f64 = 128.0;

/// The part of a word's bits that one more name leaves as they were.
const SPARED: f64 = 63.0 / 64.0;

fn rate(names: f64, blocks: f64) -> f64 {
    if names < 1.0 {
        0.0
    } else if blocks < 2.0 {
        (-(names * SPARED.ln()).exp_m1()).powi(8)
    } else if names / blocks <= SERIES_LOAD {
        series(names, blocks)
    } else {
        closed_form(names, blocks)
    }
}

/// Sum over the loads of a block; all terms are positive, so nothing cancels.
pub(super) fn series(names: f64, blocks: f64) -> f64 {
    let mean = names / blocks;
    let mut load = 0.0;
    let mut share = (names * (-1.0 / blocks).ln_1p()).exp(); // P[load = 0]
    // f(load), by f(i + 1) = f(i) + (1 - f(i)) / 64: computed as 1 - (63/64)^i it would lose its
    // digits.
    let mut fill = 0.0_f64;
    let mut sum = 0.0;
    while load < names {
        share *= (names - load) / ((load + 1.0) * (blocks - 1.0));
        fill += (1.0 - fill) / 64.0;
        load += 1.0;
        let term = share * fill.powi(8);
        sum += term;
        // Well past the mean and past the rise of fill^8, terms fall faster than geometrically.
        if load > mean + 8.0 && term < sum * 1e-18 {
            break;
        }
    }
    sum
}

/// The nine alternating terms; each power is `exp(n log1p(..))` so that large `n` and `N` lose
/// nothing.
pub(super) fn closed_form(names: f64, blocks: f64) -> f64 {
    const CHOOSE: [f64; 9] = [1.0, -8.0, 28.0, -56.0, 70.0, -56.0, 28.0, -8.0, 1.0];
    let mut spared = 1.0;
    let mut sum = 0.0;
    for signed_choose in CHOOSE {
        sum += signed_choose * (names * (-(1.0 - spared) / blocks).ln_1p()).exp();
        spared *= SPARED;
    }
    sum.clamp(0.0, 1.0)
}
