//! Larger, smaller, joined: filters made from filters, without asking for the names again.
//!
//! A hash keeps its order when it is mapped to blocks, so with twice the blocks a name of block
//! `i` falls on `2i` or `2i + 1`. Doubling copies block `i` to both:
//!
//! ```text
//!     N blocks       │    A    │    B    │    C    │
//!     2N blocks      │ A  │ A  │ B  │ B  │ C  │ C  │      no name is lost, the rate is the same;
//!                                                       new names meet half as many others
//! ```
//!
//! Doubling buys time, not quality: it keeps the rate of that moment and slows its rise, until a
//! filter of the right size has been built from the table. Folding is its inverse. There is no
//! chain of filters (each link would add its rate and its cache miss) and no deletion.
//!
//! # Doubling while others insert
//!
//! 1. Make an empty double with [`BlockedBloom::doubled`].
//! 2. Let every insert go to both filters from now on, and wait for those that began before.
//! 3. Copy with [`BlockedBloom::absorb_half`], which may run beside these inserts.
//! 4. Publish the double in place of the old filter.
//!
//! A name inserted before 2 is in the old filter when 3 reads it; a later one is in both.

use super::bloom::{BlockedBloom, FilterError};

/// Why two filters cannot be combined, or one cannot be folded. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CombineError {
    /// They hash under different keys, so their bits mean different names.
    #[error("the filters hash under different keys, {ours:016x} and {theirs:016x}")]
    Key {
        /// Fingerprint of the key of the filter that was called.
        ours: u64,
        /// Fingerprint of the key of the other one.
        theirs: u64,
    },
    /// The other filter has the wrong number of blocks.
    #[error("the other filter must have {wanted} blocks, it has {found}")]
    Blocks {
        /// The number that fits.
        wanted: u64,
        /// The number it has.
        found: u64,
    },
    /// An odd number of blocks has no neighbours to join.
    #[error("{blocks} blocks cannot be folded in pairs")]
    Odd {
        /// Blocks of the filter.
        blocks: u64,
    },
    /// The result could not be made.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

impl BlockedBloom {
    /// An empty filter under the same key with twice the blocks, to be filled by
    /// [`absorb_half`](Self::absorb_half).
    ///
    /// Its sizing keeps capacity and rate: what the double can promise depends on how full this
    /// filter was, and [`live_fpr`](Self::live_fpr) tells.
    ///
    /// # Errors
    /// [`FilterError`] when so many blocks cannot be had.
    pub fn doubled(&self) -> Result<Self, FilterError> {
        let sizing = super::Sizing {
            blocks: self.blocks().saturating_mul(2),
            ..self.sizing
        };
        let mut double = Self::new(sizing, self.secret.clone())?;
        double.expansions = self.expansions + 1;
        double.damaged_blocks = self.damaged_blocks * 2;
        Ok(double)
    }

    /// Adds all names of a filter with half the blocks, while others insert into both.
    ///
    /// # Errors
    /// [`CombineError::Key`] and [`CombineError::Blocks`] for a filter this is not the double of.
    pub fn absorb_half(&self, half: &Self) -> Result<(), CombineError> {
        self.check_key(half)?;
        if half.blocks().checked_mul(2) != Some(self.blocks()) {
            return Err(CombineError::Blocks {
                wanted: self.blocks() / 2,
                found: half.blocks(),
            });
        }
        for (pair, block) in self.blocks.chunks_exact(2).zip(half.blocks.iter()) {
            let words = block.words();
            pair[0].absorb(&words);
            pair[1].absorb(&words);
        }
        Ok(())
    }

    /// A filter with twice the blocks that holds the same names at the same rate.
    ///
    /// Names inserted into this one while it is copied may be missing in the new one; see the
    /// module's four steps for a filter that is in use.
    ///
    /// # Errors
    /// [`FilterError`] when so many blocks cannot be had.
    pub fn expand(&self) -> Result<Self, FilterError> {
        let mut double = self.doubled()?;
        for (pair, block) in double.blocks.chunks_exact_mut(2).zip(self.blocks.iter()) {
            let words = block.words();
            pair[0].absorb_exclusive(&words);
            pair[1].absorb_exclusive(&words);
        }
        Ok(double)
    }

    /// A filter with half the blocks that holds the same names, at a higher rate unless this one
    /// was just expanded.
    ///
    /// # Errors
    /// [`CombineError::Odd`] for an odd number of blocks.
    pub fn fold(&self) -> Result<Self, CombineError> {
        if !self.blocks().is_multiple_of(2) {
            return Err(CombineError::Odd {
                blocks: self.blocks(),
            });
        }
        let sizing = super::Sizing {
            blocks: self.blocks() / 2,
            ..self.sizing
        };
        let mut folded = Self::new(sizing, self.secret.clone())?;
        folded.expansions = self.expansions.saturating_sub(1);
        folded.damaged_blocks = self.damaged_blocks.min(folded.blocks());
        for (block, pair) in folded.blocks.iter_mut().zip(self.blocks.chunks_exact(2)) {
            block.absorb_exclusive(&pair[0].words());
            block.absorb_exclusive(&pair[1].words());
        }
        Ok(folded)
    }

    /// A filter that holds the names of both, at the rate of a filter into which all were inserted.
    ///
    /// # Errors
    /// [`CombineError::Key`] or [`CombineError::Blocks`] for filters that are not alike. A filter
    /// of another layout cannot be met here: it would have been refused when it was read.
    pub fn union(&self, other: &Self) -> Result<Self, CombineError> {
        self.check_key(other)?;
        if other.blocks() != self.blocks() {
            return Err(CombineError::Blocks {
                wanted: self.blocks(),
                found: other.blocks(),
            });
        }
        let mut union = Self::new(self.sizing, self.secret.clone())?;
        union.sizing.capacity = self.sizing.capacity.max(other.sizing.capacity);
        // Seen through the larger families, a name of either filter still counts once.
        union.expansions = self.expansions.max(other.expansions);
        union.damaged_blocks = (self.damaged_blocks + other.damaged_blocks).min(self.blocks());
        let both = self.blocks.iter().zip(other.blocks.iter());
        for (block, (one, two)) in union.blocks.iter_mut().zip(both) {
            block.absorb_exclusive(&one.words());
            block.absorb_exclusive(&two.words());
        }
        Ok(union)
    }

    fn check_key(&self, other: &Self) -> Result<(), CombineError> {
        if self.secret == other.secret {
            Ok(())
        } else {
            Err(CombineError::Key {
                ours: self.secret.fingerprint(),
                theirs: other.secret.fingerprint(),
            })
        }
    }
}
