//! Where a hash lands: which block, which eight bits of it, and how they are set and tested.
//!
//! This file and `hash` are the stored format: a change here needs a new layout number in the
//! snapshot file.
//!
//! # Why relaxed atomics are enough
//!
//! Bits only go from 0 to 1. A question that overlaps an insert may see some of its bits and not
//! others, and then it answers *absent*: the insert had not finished, so that answer was right a
//! moment ago. Once an insert happens-before a question (the same thread, a lock, a channel, a
//! pointer published with release and read with acquire), coherence of each single word forbids the
//! question to read an older value than the insert left there. No order *between* words is needed,
//! as a question needs all eight bits anyway. So every access is `Relaxed`.

use std::array;

use super::sync::{AtomicU64, Ordering, with_mut};

/// Words of a block, and bits set per name.
pub(super) const LANES: usize = 8;
/// Bytes of a block: one cache line.
pub(super) const BLOCK_BYTES: u64 = 64;
/// Bits of a block.
pub(super) const BLOCK_BITS: u64 = 512;

/// One bit in each word of a block.
pub(super) type Pattern<const L: usize = LANES> = [u64; L];

/// Maps the first half of a hash to a block: the high half of a 128-bit product, so any number of
/// blocks is served evenly (to one part in 2^64 / N) without a division.
///
/// It keeps order, which is what lets a filter double: with 2N blocks the same hash falls on 2i or
/// 2i + 1.
#[inline]
pub(super) const fn block_of(place: u64, blocks: u64) -> u64 {
    // `as` because `From` is not const; widening and the shift lose nothing.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the product of two 64-bit numbers has 64 bits above the shift"
    )]
    let block = ((place as u128 * blocks as u128) >> 64) as u64;
    block
}

/// Maps the second half of a hash to one bit per word: word `i` gets the `i`-th slice of 6 bits of
/// the low 48.
///
/// Each slice has bits of its own. Steps of an arithmetic sequence (double hashing) would be
/// cheaper and were measured to answer *maybe* 1.39 % of the time where 0.39 % was promised.
#[inline]
pub(super) fn pattern_of(hash: u64) -> Pattern {
    array::from_fn(|lane| 1 << ((hash >> (6 * lane)) & 63))
}

/// One cache line of the filter. (`L` is 8; the model checker uses 2 to keep its search small.)
#[repr(C, align(64))]
pub(super) struct Block<const L: usize = LANES> {
    words: [AtomicU64; L],
}

impl<const L: usize> Block<L> {
    /// The words of a block that answers *maybe* to everything.
    pub(super) const FULL: [u64; L] = [u64::MAX; L];

    /// A block without names. (Mapped memory needs none of these: it starts as zeros.)
    #[cfg(any(test, miri))]
    pub(super) fn empty() -> Self {
        Self {
            words: array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Whether all bits of [`pattern_of`]`(hash)` are set.
    ///
    /// All words are read and one comparison is made at the end: leaving at the first clear bit
    /// saves loads from a line that is already here and pays with a mispredicted branch on most
    /// absent names.
    ///
    /// The pattern itself is not made; each word is moved until its bit lies at the bottom. That
    /// takes two thirds of the instructions, and a processor that waits for memory looks only so
    /// many instructions ahead for the next question's load.
    #[inline]
    pub(super) fn holds(&self, hash: u64) -> bool {
        let mut all = 1;
        for (lane, word) in self.words.iter().enumerate() {
            // Relaxed: see the module documentation.
            all &= word.load(Ordering::Relaxed) >> ((hash >> (6 * lane)) & 63);
        }
        all == 1
    }

    /// Sets the bits of `pattern`, shared with other threads; returns whether any of them was
    /// clear.
    ///
    /// Two threads that insert the same name may both be told that it was new, as each may set some
    /// of its bits first.
    #[inline]
    pub(super) fn set(&self, pattern: &Pattern<L>) -> bool {
        let mut was_new = false;
        for (word, &bit) in self.words.iter().zip(pattern) {
            // Read first: a name that is already there leaves the cache line shared instead of
            // pulling it over. Relaxed: a stale 0 only costs the `fetch_or` below; a stale 1 cannot
            // be, bits never go back.
            if word.load(Ordering::Relaxed) & bit == 0 {
                // Relaxed: the read-modify-write loses no concurrent bit of this word; see the
                // module documentation.
                was_new |= word.fetch_or(bit, Ordering::Relaxed) & bit == 0;
            }
        }
        was_new
    }

    /// Sets the bits of `pattern` with plain stores, as nobody else can see the block; returns
    /// whether any was clear.
    #[inline]
    pub(super) fn set_exclusive(&mut self, pattern: &Pattern<L>) -> bool {
        let mut missing = 0;
        for (word, &bit) in self.words.iter_mut().zip(pattern) {
            missing |= with_mut(word, |word| {
                let was_clear = bit & !*word;
                *word |= bit;
                was_clear
            });
        }
        missing != 0
    }

    /// Adds all names of another block, shared with other threads.
    pub(super) fn absorb(&self, words: &[u64; L]) {
        for (word, &bits) in self.words.iter().zip(words) {
            // Relaxed, and read first: as in `set`.
            if bits & !word.load(Ordering::Relaxed) != 0 {
                word.fetch_or(bits, Ordering::Relaxed); // Relaxed: as in `set`
            }
        }
    }

    /// Adds all names of another block with plain stores, as nobody else can see this one.
    pub(super) fn absorb_exclusive(&mut self, words: &[u64; L]) {
        for (word, &bits) in self.words.iter_mut().zip(words) {
            with_mut(word, |word| *word |= bits);
        }
    }

    /// Replaces all words with stored ones, as nobody else can see the block.
    pub(super) fn fill_exclusive(&mut self, words: [u64; L]) {
        for (word, bits) in self.words.iter_mut().zip(words) {
            with_mut(word, |word| *word = bits);
        }
    }

    /// A copy of the words; bits set meanwhile may or may not be in it.
    #[inline]
    pub(super) fn words(&self) -> [u64; L] {
        // Relaxed: a copy made while others insert misses at most inserts that had not finished.
        array::from_fn(|lane| self.words[lane].load(Ordering::Relaxed))
    }
}

/// Asks the processor to bring a block near, without waiting for it.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
pub(super) fn prefetch(block: &Block) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    #[allow(unsafe_code, reason = "the instruction has no safe form")]
    // SAFETY: part of every x86-64 processor; a hint that reads nothing into the program, writes
    // nothing and cannot fault, here with the address of a live block.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(block).cast());
    }
}

/// No hint on this processor: hashing a batch ahead lets it overlap the loads by itself.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
pub(super) fn prefetch(_block: &Block) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_one_cache_line() {
        assert_eq!((size_of::<Block>(), align_of::<Block>()), (64, 64));
        assert_eq!((BLOCK_BYTES, BLOCK_BITS), (64, 8 * 64));
    }

    #[test]
    fn every_hash_value_gives_one_bit_per_word() {
        for hash in [
            0,
            u64::MAX,
            1,
            1 << 47,
            1 << 48,
            0x0123_4567_89ab_cdef,
            !0 << 48,
        ] {
            let pattern = pattern_of(hash);
            assert!(
                pattern.iter().all(|word| word.is_power_of_two()),
                "{hash:#x}: {pattern:?}"
            );
        }
    }

    #[test]
    fn slices_are_taken_from_the_low_end() {
        let hash = 0xFFFF_0000_0000_0000
            | 1
            | 2 << 6
            | 3 << 12
            | 63 << 18
            | 5 << 24
            | 6 << 30
            | 7 << 36
            | 62 << 42;
        assert_eq!(
            pattern_of(hash).map(u64::trailing_zeros),
            [1, 2, 3, 63, 5, 6, 7, 62]
        );
    }

    #[test]
    fn blocks_cover_the_range_and_keep_order() {
        for blocks in [1, 2, 3, 30_713, 3 * (1 << 20) + 1, (1 << 33) + 7, u64::MAX] {
            assert_eq!(block_of(0, blocks), 0);
            assert_eq!(block_of(u64::MAX, blocks), blocks - 1);
        }
        // Half way, beyond what 32 bits can count.
        assert_eq!(block_of(1 << 63, 1 << 40), 1 << 39);
        assert_eq!(block_of((1 << 63) + (1 << 24), 1 << 40), (1 << 39) + 1);
    }

    #[test]
    fn doubling_the_blocks_keeps_a_name_in_its_family() {
        for blocks in [1, 7, 30_713, (1 << 40) + 3] {
            for step in 0..10_000_u64 {
                let place = step.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                assert_eq!(block_of(place, 2 * blocks) / 2, block_of(place, blocks));
            }
        }
    }

    #[test]
    fn both_ways_of_inserting_set_the_same_bits() {
        let (shared, mut owned) = (Block::empty(), Block::empty());
        for hash in (0..50_u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)) {
            let pattern = pattern_of(hash);
            assert_eq!(shared.holds(hash), owned.holds(hash));
            assert_eq!(shared.set(&pattern), owned.set_exclusive(&pattern));
            assert!(shared.holds(hash) && !shared.set(&pattern) && !owned.set_exclusive(&pattern));
        }
        assert_eq!(shared.words(), owned.words());
    }
}
