//! A planned filter: how many names, at which rate, in how many blocks, checked against a memory
//! ceiling.

use super::{
    layout::{BLOCK_BITS, BLOCK_BYTES},
    sizing::{SizingError, false_positive_rate, fitting_blocks, real},
};

/// The size of a filter and the promise it was planned for. Planning allocates nothing.
///
/// ```
/// use namegate::filter::Sizing;
/// let sizing = Sizing::plan(100_000_000, 0.001, 1 << 30)?;
/// assert_eq!(sizing.blocks, 3_071_212);
/// assert_eq!(sizing.size_bytes(), 196_557_568);
/// assert!((sizing.bits_per_name() - 15.72).abs() < 0.01);
/// assert!(sizing.rate_at(200_000_000) > 0.03); // twice the planned names: 3.2 % instead of 0.1 %
/// # Ok::<(), namegate::filter::SizingError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizing {
    /// Names the filter is planned for; more may be inserted, at a rising rate.
    pub capacity: u64,
    /// The false-positive rate, a probability, that holds while at most `capacity` names are
    /// inside.
    pub target_fpr: f64,
    /// Number of 64-byte blocks, at least 1.
    pub blocks: u64,
}

impl Sizing {
    /// Plans the smallest filter for `capacity` names at `target_fpr` that fits in `ceiling_bytes`.
    ///
    /// # Errors
    /// [`SizingError::Rate`] for a rate outside the allowed range; [`SizingError::Ceiling`], which
    /// states the bytes needed and the ceiling, when the filter would be larger than allowed.
    pub fn plan(capacity: u64, target_fpr: f64, ceiling_bytes: u64) -> Result<Self, SizingError> {
        let blocks = fitting_blocks(capacity, target_fpr, ceiling_bytes)?;
        Ok(Self {
            capacity,
            target_fpr,
            blocks,
        })
    }

    /// Bytes of the blocks; `u64::MAX` for a hand-made sizing whose product does not fit.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.blocks.saturating_mul(BLOCK_BYTES)
    }

    /// Bits of memory per planned name; a capacity of 0 counts as 1.
    #[must_use]
    pub fn bits_per_name(&self) -> f64 {
        real(u128::from(self.blocks) * u128::from(BLOCK_BITS)) / real(self.capacity.max(1).into())
    }

    /// The false-positive rate by design once `names` names are inside, below or above capacity.
    #[must_use]
    pub fn rate_at(&self, names: u64) -> f64 {
        false_positive_rate(names, self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_over_the_ceiling_states_the_bytes_it_needs() {
        let refusal = Sizing::plan(2_000_000, 0.01, 2_524_863).expect_err("one byte short");
        assert_eq!(
            refusal,
            SizingError::Ceiling {
                names: 2_000_000,
                bytes_needed: 2_524_864,
                ceiling_bytes: 2_524_863
            }
        );
        assert_eq!(
            refusal.to_string(),
            "2000000 names need 2524864 bytes, the ceiling is 2524863 bytes"
        );
        assert!(Sizing::plan(2_000_000, 0.01, 2_524_864).is_ok());
    }

    #[test]
    fn absurd_sets_are_refused_before_any_allocation() {
        for capacity in [10_u64.pow(18), u64::MAX] {
            let refusal = Sizing::plan(capacity, 0.001, 1 << 40).expect_err("exabytes");
            let SizingError::Ceiling { bytes_needed, .. } = refusal else {
                panic!("{refusal}")
            };
            assert!(bytes_needed > 10_u128.pow(18));
        }
    }

    #[test]
    fn an_empty_table_is_planned_as_one_block() {
        let sizing = Sizing::plan(0, 0.001, 64).expect("one block");
        assert_eq!((sizing.blocks, sizing.size_bytes()), (1, 64));
        assert!(Sizing::plan(0, 0.001, 63).is_err());
    }

    #[test]
    fn a_filter_a_quarter_full_is_far_below_its_rate() {
        let sizing = Sizing::plan(400_000_000, 0.001, 1 << 40).expect("fits");
        assert!(sizing.rate_at(100_000_000) < 1e-6);
    }
}
