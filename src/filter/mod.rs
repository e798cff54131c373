//! The in-memory set of names: a concurrent, blocked Bloom filter that says *absent* or *maybe*.
//!
//! The promise: a key that was inserted is never reported [`Hint::Absent`]. Everything else is a
//! matter of probability, and the probability is known: [`blocks_for`] sizes the filter for a
//! false-positive rate, [`BlockedBloom::live_fpr`] reads the present rate from the bits, and tests
//! measure both.
//!
//! What this module does not do: it folds no names (callers pass bytes that are folded already), it
//! knows no database, no clock and no runtime, and it cannot delete. A removed name stays *maybe*
//! until a new filter is built.
//!
//! # One question, one cache line
//!
//! ```text
//!   key bytes ── SipHash-1-3, 128 bits, ──┬── h1 ── h1 x N / 2^64 ───────> the block, 0..N
//!                secret key               └── h2 ── 8 slices of 6 bits ──> a bit in each word
//!
//!             ┌────────┬────────┬────────┬────────┬────────┬────────┬────────┬────────┐
//!     block   │ word 0 │ word 1 │ word 2 │ word 3 │ word 4 │ word 5 │ word 6 │ word 7 │
//!             └──────1─┴─1──────┴───1────┴─────1──┴1───────┴────1───┴──1─────┴───────1┘
//!              8 words of 64 bits, one bit set in each = 64 bytes = one cache line
//! ```
//!
//! A textbook Bloom filter of the same quality touches about two cache lines for an absent key and
//! one per hash function for a present one; this layout always touches one. The price is memory:
//! 5.4 % more at a rate of 1 %, 9.4 % at 0.1 %, 23 % at 0.01 %. [`textbook()`] does the other
//! arithmetic, to be shown beside ours.
//!
//! # Reading order
//!
//! `sizing` (how many blocks), `plan` and `textbook` (what that means in bytes), `secret` and
//! `hash` (a key becomes 128 bits), `layout` (128 bits become a block and eight bits in it; why
//! relaxed atomics are enough), `sync` and `memory` (what blocks are made of and where they live),
//! `bloom` (the filter itself), `batch` (many keys at once), `digest` (one key, many filters), `census` and `count` (what the bits
//! tell about themselves), `growth` (filters from filters), [`snapshot`] (filters on disk).
//!
//! # Example
//!
//! ```
//! use namegate::filter::{BlockedBloom, HashSecret, Hint, Sizing};
//!
//! let one_gibibyte = 1 << 30;
//! let sizing = Sizing::plan(1_000_000, 0.001, one_gibibyte)?;
//! let filter = BlockedBloom::new(sizing, HashSecret::random()?)?;
//! filter.insert(b"alice");
//! assert_eq!(filter.probe(b"alice"), Hint::Maybe);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod bloom;
mod census;
mod count;
mod digest;
mod growth;
mod hash;
mod layout;
mod memory;
mod plan;
mod secret;
mod sizing;
pub mod snapshot;
mod sync;
mod textbook;

#[cfg(test)]
mod tests;

pub use bloom::{BlockedBloom, FilterError, Hint};
pub use census::{Census, LANE_BALANCE_ALARM};
pub use count::CountEstimate;
pub(crate) use digest::{Digest, Digester};
pub use growth::CombineError;
pub use plan::Sizing;
pub use secret::{HashSecret, SecretError};
pub use sizing::{SMALLEST_RATE, SizingError, blocks_for, false_positive_rate};
pub use textbook::{Textbook, textbook};
