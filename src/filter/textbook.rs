//! The arithmetic of an ordinary Bloom filter, to be shown beside ours. Nothing is built from it.

use super::{
    layout::BLOCK_BITS,
    sizing::{SizingError, check_rate, false_positive_rate, real},
};

/// An ordinary Bloom filter: one array of bits, `hashes` bits anywhere in it per name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Textbook {
    /// Names it is sized for; at least 1.
    pub names: u64,
    /// Size of the array in bits, often called m.
    pub bits: u64,
    /// Bits set per name, often called k; at least 1.
    pub hashes: u32,
}

/// Sizes an ordinary Bloom filter: `m = -n ln p / (ln 2)^2` rounded up, `k = m/n ln 2` rounded to
/// the nearest.
///
/// `names`: 0 counts as 1. `fpr`: a probability, not a percentage.
///
/// ```
/// use namegate::filter::textbook;
/// let filter = textbook(1_000_000, 0.01)?;
/// assert_eq!((filter.bits, filter.hashes), (9_585_059, 7));
/// # Ok::<(), namegate::filter::SizingError>(())
/// ```
///
/// # Errors
/// [`SizingError::Rate`] for a rate outside the allowed range; [`SizingError::Ceiling`] when the
/// bits cannot be counted in 64 bits.
///
/// Source: Bloom 1970; Broder and Mitzenmacher, Network Applications of Bloom Filters, 2004.
pub fn textbook(names: u64, fpr: f64) -> Result<Textbook, SizingError> {
    let names = names.max(1);
    let ln_2 = std::f64::consts::LN_2;
    let bits = (-real(names.into()) * check_rate(fpr)?.ln() / (ln_2 * ln_2)).ceil();
    let hashes = (bits / real(names.into()) * ln_2).round();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and checked before it is used"
    )]
    let (wide, hashes) = (bits as u128, hashes as u32); // at most 50 hashes, at the smallest rate
    let bits = u64::try_from(wide).map_err(|_| SizingError::Ceiling {
        names,
        bytes_needed: wide.div_ceil(8),
        ceiling_bytes: u64::MAX / 8,
    })?;
    Ok(Textbook {
        names,
        bits: bits.max(1),
        hashes: hashes.max(1),
    })
}

impl Textbook {
    /// Bytes of the array, rounded up.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.bits.div_ceil(8)
    }

    /// The false-positive rate of this ordinary filter with `names` names inside, `(1 -
    /// e^(-kn/m))^k`.
    #[must_use]
    pub fn rate_at(&self, names: u64) -> f64 {
        let hashes = f64::from(self.hashes);
        (-(-hashes * real(names.into()) / real(self.bits.into())).exp_m1()).powf(hashes)
    }

    /// What would come of it if the same bits were cut into our blocks: always worse than promised.
    #[must_use]
    pub fn rate_on_blocks(&self) -> f64 {
        false_positive_rate(self.names, self.bits.div_ceil(BLOCK_BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_filter_keeps_its_own_promise() {
        for fpr in [0.01, 0.001, 0.0001] {
            let rate = textbook(1_000_000, fpr).expect("plain").rate_at(1_000_000);
            assert!((rate / fpr - 1.0).abs() < 0.02, "{fpr}: {rate}");
        }
    }

    #[test]
    fn textbook_sizing_on_blocks_misses_its_promise() {
        let misses = [0.01, 0.001, 0.0001]
            .map(|fpr| textbook(1_000_000, fpr).expect("plain").rate_on_blocks() / fpr);
        assert!((1.25..1.4).contains(&misses[0]), "{misses:?}");
        assert!((3.0..3.6).contains(&misses[2]), "{misses:?}");
    }

    #[test]
    fn the_memory_price_of_blocks_is_the_one_we_state() {
        for (fpr, percent) in [(0.01, 5.4), (0.001, 9.4), (0.0001, 23.0)] {
            let ours = super::super::blocks_for(100_000_000, fpr).expect("plain") * BLOCK_BITS;
            let theirs = textbook(100_000_000, fpr).expect("plain").bits;
            let price = (real(ours.into()) / real(theirs.into()) - 1.0) * 100.0;
            assert!((price - percent).abs() < 0.5, "{fpr}: {price:.1} % more");
        }
    }

    #[test]
    fn edges_are_answered_or_refused() {
        assert_eq!(textbook(0, 0.99).expect("one name").hashes, 1);
        assert!(matches!(
            textbook(u64::MAX, 0.01),
            Err(SizingError::Ceiling { .. })
        ));
        assert!(matches!(
            textbook(1, f64::NAN),
            Err(SizingError::Rate { .. })
        ));
    }
}
