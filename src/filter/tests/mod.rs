//! Measurements of the whole filter: rates, balance, counts, golden positions, threads.
//!
//! Keys and secrets are fixed, so a run repeats exactly; every bound is a stated number of standard
//! deviations. The faults that each test exists to catch (double hashing, shared hash bits, ..)
//! were put in once to see it fail.

mod balance;
mod batches;
mod golden;
mod growth;
mod keys;
#[cfg(all(target_os = "linux", not(miri), not(feature = "loom")))]
mod memory;
#[cfg(feature = "loom")]
mod model;
mod rates;
mod sizing;
mod threads;

use super::{BlockedBloom, HashSecret, Hint, Sizing, layout::Block, sizing::real};

/// An empty filter for `names` names at `fpr`, under a secret that belongs to `seed`.
fn empty_filter(names: u64, fpr: f64, seed: u8) -> BlockedBloom {
    let sizing = Sizing::plan(names, fpr, 1 << 30).expect("fits in a gibibyte");
    BlockedBloom::new(sizing, HashSecret::from_bytes([seed; 16])).expect("fits in memory")
}

/// A filter that holds [`keys::member`] 0 to `names`.
fn filled_filter(names: u64, fpr: f64, seed: u8) -> BlockedBloom {
    let mut filter = empty_filter(names, fpr, seed);
    for i in 0..names {
        filter.insert_exclusive(&keys::member(i));
    }
    filter
}

/// Members among the first `names` that `filter` denies: the unforgivable error.
fn false_negatives(filter: &BlockedBloom, names: u64) -> usize {
    (0..names)
        .filter(|&i| filter.probe(&keys::member(i)) == Hint::Absent)
        .count()
}

/// Share of *maybe* answers for `questions` keys that are not inside.
fn measured_rate(filter: &BlockedBloom, questions: u64) -> f64 {
    let maybes = (0..questions)
        .filter(|&i| filter.probe(&keys::stranger(i)) == Hint::Maybe)
        .count();
    real(maybes as u128) / real(questions.into())
}

/// All bits of a filter, to compare filters by.
fn words(filter: &BlockedBloom) -> impl Iterator<Item = [u64; 8]> {
    filter.blocks.iter().map(Block::words)
}
