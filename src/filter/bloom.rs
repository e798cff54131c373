//! The filter: insert and probe, shared by any number of threads.

use std::{fmt, io};

use super::{
    hash::{NameHash, NameHasher},
    layout::{BLOCK_BYTES, Block, block_of, pattern_of, prefetch},
    memory::Blocks,
    plan::Sizing,
    secret::HashSecret,
    sizing::{MOST_BYTES, SizingError, check_rate},
};

/// What memory alone can promise. There is no `Present`: a Bloom filter never knows that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// The key was never inserted.
    Absent,
    /// The key was inserted, or its bits happen to be set by others.
    Maybe,
}

/// Why a filter could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// The number of blocks is none, or more than can be addressed.
    #[error("{found} blocks were asked for, allowed are 1 to {most}")]
    Blocks {
        /// The number that was asked for.
        found: u64,
        /// The largest number there can be.
        most: u64,
    },
    /// A hand-made sizing promises a rate that cannot be.
    #[error(transparent)]
    Sizing(#[from] SizingError),
    /// The system granted no memory.
    #[error("the system granted no mapping of {bytes} bytes")]
    Memory {
        /// Bytes that were asked for.
        bytes: u64,
        /// What the system said.
        source: io::Error,
    },
}

/// A concurrent set of keys that forgets nothing and remembers a little too much.
///
/// Shared by reference between threads without a lock: [`insert`](Self::insert) and
/// [`probe`](Self::probe) take `&self` and never wait. Keys are raw bytes, already folded; every
/// way to spell them as `&[u8]` is the same key.
///
/// Memory: [`size_bytes`](Self::size_bytes), rounded up to whole pages (of 2 MiB from that size on).
/// It is fixed at birth; a filter past its capacity keeps all its names and answers *maybe* more often.
pub struct BlockedBloom {
    pub(super) sizing: Sizing,
    pub(super) secret: HashSecret,
    pub(super) hasher: NameHasher,
    pub(super) blocks: Blocks,
    /// How often the blocks were doubled: a name then occupies 2^expansions neighbouring blocks.
    pub(super) expansions: u32,
    /// Blocks filled up with ones because their stored copy was damaged.
    pub(super) damaged_blocks: u64,
}

impl BlockedBloom {
    /// An empty filter of `sizing.blocks` blocks, hashing under `secret`.
    ///
    /// # Errors
    /// [`FilterError::Blocks`] for a hand-made sizing without blocks or with too many;
    /// [`FilterError::Memory`] when the system grants no memory.
    pub fn new(sizing: Sizing, secret: HashSecret) -> Result<Self, FilterError> {
        let most = MOST_BYTES / BLOCK_BYTES;
        if !(1..=most).contains(&sizing.blocks) {
            return Err(FilterError::Blocks {
                found: sizing.blocks,
                most,
            });
        }
        check_rate(sizing.target_fpr)?;
        let blocks = Blocks::zeroed(sizing.blocks).map_err(|source| FilterError::Memory {
            bytes: sizing.size_bytes(),
            source,
        })?;
        Ok(Self {
            sizing,
            hasher: NameHasher::new(&secret),
            secret,
            blocks,
            expansions: 0,
            damaged_blocks: 0,
        })
    }

    /// Adds a key while others insert and probe.
    ///
    /// Returns whether it was new, which is advice only: `false` for a new key whose bits were all
    /// set by others (as often as a false positive), and `true` for both of two threads that insert
    /// the same key at once. Uniqueness is the database's business.
    #[allow(
        clippy::must_use_candidate,
        reason = "called for its effect; the answer is advice"
    )]
    #[inline]
    pub fn insert(&self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        self.block(hash.place).set(&pattern_of(hash.pattern))
    }

    /// Adds a key to a filter that is not shared yet, without atomic instructions.
    /// In batches, see [`insert_batch_exclusive`](Self::insert_batch_exclusive), it is faster still. Returns whether it was new; only a false positive
    /// makes that wrong.
    #[inline]
    pub fn insert_exclusive(&mut self, key: &[u8]) -> bool {
        let hash = self.hash(key);
        let index = self.index(hash.place);
        self.blocks[index].set_exclusive(&pattern_of(hash.pattern))
    }

    /// Asks for a key. [`Hint::Absent`] is certain; [`Hint::Maybe`] is wrong at the false-positive
    /// rate.
    #[must_use]
    #[inline]
    pub fn probe(&self, key: &[u8]) -> Hint {
        self.hint(self.hash(key))
    }

    /// What the filter was planned for.
    #[must_use]
    pub const fn sizing(&self) -> &Sizing {
        &self.sizing
    }

    /// Bytes of all blocks.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.sizing.size_bytes()
    }

    /// Number of 64-byte blocks.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.sizing.blocks
    }

    /// How often the blocks were doubled since the filter was built.
    #[must_use]
    pub const fn expansions(&self) -> u32 {
        self.expansions
    }

    /// Blocks that answer *maybe* to everything because their stored copy was damaged; above zero
    /// means that a new filter should be built. Kept when this filter is stored again.
    #[must_use]
    pub const fn damaged_blocks(&self) -> u64 {
        self.damaged_blocks
    }

    /// The key this filter hashes under, for the file that stores it.
    #[must_use]
    pub const fn secret(&self) -> &HashSecret {
        &self.secret
    }

    /// Hashes a key and sends for its block while hashing. Measured in a filter larger than the
    /// caches: single questions wait a third less.
    #[inline]
    pub(super) fn hash(&self, key: &[u8]) -> NameHash {
        self.hasher
            .hash_and(key, |place| prefetch(self.block(place)))
    }

    #[inline]
    pub(super) fn hint(&self, hash: NameHash) -> Hint {
        if self.block(hash.place).holds(hash.pattern) {
            Hint::Maybe
        } else {
            Hint::Absent
        }
    }

    #[inline]
    pub(super) fn block(&self, place: u64) -> &Block {
        &self.blocks[self.index(place)]
    }

    #[inline]
    pub(super) fn index(&self, place: u64) -> usize {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "less than the number of mapped blocks, which is a usize"
        )]
        let index = block_of(place, self.sizing.blocks) as usize;
        index
    }
}

impl fmt::Debug for BlockedBloom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockedBloom")
            .field("sizing", &self.sizing)
            .field("secret", &self.secret)
            .field("expansions", &self.expansions)
            .field("damaged_blocks", &self.damaged_blocks)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(capacity: u64) -> BlockedBloom {
        let sizing = Sizing::plan(capacity, 0.001, 1 << 30).expect("small");
        BlockedBloom::new(sizing, HashSecret::from_bytes(*b"a key for tests!")).expect("small")
    }

    #[test]
    fn a_filter_is_shared_between_threads() {
        fn is_shared<T: Send + Sync>() {}
        is_shared::<BlockedBloom>();
    }

    #[test]
    fn an_empty_table_has_a_valid_filter() {
        let filter = filter(0);
        assert_eq!((filter.blocks(), filter.size_bytes()), (1, 64));
        assert_eq!(filter.probe(b"alice"), Hint::Absent);
        assert!(filter.insert(b"alice"));
        assert_eq!(filter.probe(b"alice"), Hint::Maybe);
        assert!(!filter.insert(b"alice"));
    }

    #[test]
    fn all_spellings_of_the_same_bytes_are_one_key() {
        let filter = filter(10);
        filter.insert("alice".as_bytes());
        filter.insert(b"");
        let owned = String::from("alice");
        for key in [
            b"alice".as_slice(),
            owned.as_bytes(),
            &owned.clone().into_bytes(),
            "alice".to_owned().as_ref(),
            &[],
        ] {
            assert_eq!(filter.probe(key), Hint::Maybe);
        }
    }

    #[test]
    fn a_filter_without_blocks_is_refused() {
        for blocks in [0, u64::MAX, u64::MAX / 64] {
            let sizing = Sizing {
                capacity: 1,
                target_fpr: 0.01,
                blocks,
            };
            let refusal = BlockedBloom::new(sizing, HashSecret::from_bytes([0; 16]))
                .expect_err("no such filter");
            assert!(matches!(refusal, FilterError::Blocks { .. }), "{refusal}");
        }
    }

    #[test]
    fn debug_shows_the_size_and_hides_the_key() {
        let shown = format!("{:?}", filter(1_000));
        assert!(
            shown.contains("blocks: 31") && shown.contains("HashSecret(..)"),
            "{shown}"
        );
        assert!(
            !shown.contains("a key") && !shown.contains("97, 32"),
            "{shown}"
        );
    }
}
