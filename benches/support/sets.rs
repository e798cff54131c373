//! The sets that are compared: ours in its four ways of being called, and what others would take.
//!
//! All hash the bytes of the name with SipHash-1-3 under one fixed key, inside the timed section.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    collections::HashSet,
    hash::{BuildHasherDefault, Hasher},
};

use fastbloom::{AtomicBloomFilter, BloomFilter};
use namegate::filter::{BlockedBloom, HashSecret, Hint, Sizing};
use siphasher::sip::SipHasher13;
use xorf::{BinaryFuse8, Filter};

use super::names::{CHUNK, Name, members};

/// Names per call of the batched ways.
pub(crate) const BATCH: usize = 32;

const KEY: [u8; 16] = *b"benchmark secret";

/// A set that can be measured. One call takes a chunk of names, so that it costs nothing to go
/// through a pointer.
pub(crate) trait Set: Sync {
    /// Inserts as the only user.
    fn insert(&mut self, names: &[Name]);
    /// Inserts beside others; `false` if that cannot be.
    fn insert_shared(&self, _names: &[Name]) -> bool {
        false
    }
    /// Fills an empty set to its rate in the fastest way, with at least the first `asked` of `names`
    /// members inside. Sets of gigabytes would take many minutes otherwise.
    fn stuff(&mut self, names: u64, asked: u64) {
        let _ = names;
        insert_members(self, asked);
    }
    /// Asks for each name; returns how many may be inside.
    fn ask(&self, names: &[Name]) -> usize;
    /// Bytes of memory.
    fn size_bytes(&self) -> u64;
}

/// Inserts members in chunks.
pub(crate) fn insert_members<S: Set + ?Sized>(set: &mut S, count: u64) {
    let mut chunk = [Name::default(); CHUNK];
    for first in (0..count).step_by(CHUNK) {
        let left = usize::try_from(count - first).unwrap_or(CHUNK).min(CHUNK);
        members(first, &mut chunk[..left]);
        set.insert(&chunk[..left]);
    }
}

/// How a set is made for a number of names and a false-positive rate.
pub(crate) type Make = fn(u64, f64) -> Box<dyn Set>;

/// A set that takes part.
pub(crate) struct Contender {
    /// What it is called on the command line and in tables.
    pub(crate) label: &'static str,
    pub(crate) make: Make,
    /// Whether names are inserted one after the other, rather than all at birth.
    pub(crate) grows: bool,
    /// Whether its questions are measured; another contender may ask in the same way.
    pub(crate) asks: bool,
}

const fn contender(label: &'static str, make: Make, grows: bool, asks: bool) -> Contender {
    Contender {
        label,
        make,
        grows,
        asks,
    }
}

/// Everything that can take part. The first one is what ratios refer to.
pub(crate) const CONTENDERS: [Contender; 9] = [
    contender("fastbloom atomic", fastbloom_atomic, true, true),
    contender("fastbloom", fastbloom_plain, true, true),
    contender("sbbf-rs", sbbf, true, true),
    contender("xorf BinaryFuse8", binary_fuse, false, true),
    contender("std HashSet of hashes", hash_set, true, true),
    contender(
        "namegate, shared",
        |n, rate| Box::new(Shared(ours(n, rate))),
        true,
        true,
    ),
    contender(
        "namegate, shared, batches of 32",
        |n, rate| Box::new(SharedBatches(ours(n, rate))),
        true,
        true,
    ),
    contender(
        "namegate, exclusive",
        |n, rate| Box::new(Exclusive(ours(n, rate))),
        true,
        false,
    ),
    contender(
        "namegate, exclusive, batches of 32",
        |n, rate| Box::new(ExclusiveBatches(ours(n, rate))),
        true,
        false,
    ),
];

fn ours(names: u64, rate: f64) -> BlockedBloom {
    let sizing = Sizing::plan(names, rate, 1 << 40).expect("a sensible rate");
    BlockedBloom::new(sizing, HashSecret::from_bytes(KEY)).expect("enough memory")
}

/// Every name, in batches and without atomics.
fn stuff_ours(filter: &mut BlockedBloom, names: u64) {
    let mut chunk = [Name::default(); CHUNK];
    for first in (0..names).step_by(CHUNK) {
        members(first, &mut chunk);
        filter.insert_batch_exclusive(&chunk);
    }
}

/// Random words, of whose bits about `share` are set.
fn random_words(share: f64) -> impl Iterator<Item = u64> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    std::iter::repeat_with(move || {
        // One digit of the share, in base two, after the other, the last first.
        [0.0625, 0.125, 0.25, 0.5].iter().fold(0, |word, digit| {
            if share % (2.0 * digit) >= *digit {
                word | random()
            } else {
                word & random()
            }
        })
    })
}

fn count(names: &[Name], is_inside: impl Fn(&Name) -> bool) -> usize {
    names.iter().filter(|name| is_inside(name)).count()
}

struct Shared(BlockedBloom);

impl Set for Shared {
    fn insert(&mut self, names: &[Name]) {
        self.insert_shared(names);
    }
    fn insert_shared(&self, names: &[Name]) -> bool {
        for name in names {
            self.0.insert(name.as_ref());
        }
        true
    }
    fn stuff(&mut self, names: u64, _asked: u64) {
        stuff_ours(&mut self.0, names);
    }
    fn ask(&self, names: &[Name]) -> usize {
        count(names, |name| self.0.probe(name.as_ref()) == Hint::Maybe)
    }
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
}

struct SharedBatches(BlockedBloom);

impl Set for SharedBatches {
    fn insert(&mut self, names: &[Name]) {
        self.insert_shared(names);
    }
    fn insert_shared(&self, names: &[Name]) -> bool {
        for names in names.chunks(BATCH) {
            self.0.insert_batch(names);
        }
        true
    }
    fn stuff(&mut self, names: u64, _asked: u64) {
        stuff_ours(&mut self.0, names);
    }
    fn ask(&self, names: &[Name]) -> usize {
        let maybes = |names: &[Name]| {
            let hints = self.0.probe_batch(names);
            hints.iter().filter(|&&hint| hint == Hint::Maybe).count()
        };
        names.chunks(BATCH).map(maybes).sum()
    }
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
}

struct Exclusive(BlockedBloom);

impl Set for Exclusive {
    fn insert(&mut self, names: &[Name]) {
        for name in names {
            self.0.insert_exclusive(name.as_ref());
        }
    }
    fn ask(&self, names: &[Name]) -> usize {
        count(names, |name| self.0.probe(name.as_ref()) == Hint::Maybe)
    }
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
}

struct ExclusiveBatches(BlockedBloom);

impl Set for ExclusiveBatches {
    fn insert(&mut self, names: &[Name]) {
        for names in names.chunks(BATCH) {
            self.0.insert_batch_exclusive(names);
        }
    }
    fn ask(&self, names: &[Name]) -> usize {
        count(names, |name| self.0.probe(name.as_ref()) == Hint::Maybe)
    }
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
}

fn capacity(names: u64) -> usize {
    usize::try_from(names).expect("fits in memory")
}

/// Its default hasher is SipHash-1-3, seeded here with the same key as ours.
fn fastbloom_atomic(names: u64, rate: f64) -> Box<dyn Set> {
    Box::new(
        AtomicBloomFilter::with_false_pos(rate)
            .seed(&u128::from_be_bytes(KEY))
            .expected_items(capacity(names)),
    )
}

fn fastbloom_plain(names: u64, rate: f64) -> Box<dyn Set> {
    Box::new(
        BloomFilter::with_false_pos(rate)
            .seed(&u128::from_be_bytes(KEY))
            .expected_items(capacity(names)),
    )
}

impl Set for AtomicBloomFilter {
    fn insert(&mut self, names: &[Name]) {
        self.insert_shared(names);
    }
    fn insert_shared(&self, names: &[Name]) -> bool {
        for name in names {
            AtomicBloomFilter::insert(self, name);
        }
        true
    }
    /// Half of all bits are set in a filter of the best size.
    fn stuff(&mut self, _names: u64, asked: u64) {
        let words = random_words(0.5).take(self.num_bits() / 64).collect();
        *self = AtomicBloomFilter::from_vec(words)
            .seed(&u128::from_be_bytes(KEY))
            .hashes(self.num_hashes());
        insert_members(self, asked);
    }
    fn ask(&self, names: &[Name]) -> usize {
        count(names, |name| self.contains(name))
    }
    fn size_bytes(&self) -> u64 {
        self.num_bits() as u64 / 8
    }
}

impl Set for BloomFilter {
    fn insert(&mut self, names: &[Name]) {
        for name in names {
            BloomFilter::insert(self, name);
        }
    }
    fn ask(&self, names: &[Name]) -> usize {
        count(names, |name| self.contains(name))
    }
    fn size_bytes(&self) -> u64 {
        self.num_bits() as u64 / 8
    }
}

fn hashed(name: &Name) -> u64 {
    SipHasher13::new_with_key(&KEY).hash(name.as_ref())
}

/// `sbbf-rs` brings the functions, its user the memory.
struct SplitBlocks {
    functions: sbbf_rs::FilterFn,
    memory: *mut u8,
    buckets: usize,
}

#[allow(
    unsafe_code,
    reason = "the memory is owned and only written through &mut"
)]
// SAFETY: see the reason.
unsafe impl Sync for SplitBlocks {}

/// Sized for the rate it really has, as `sbbf-rs` leaves that to its user.
fn sbbf(names: u64, rate: f64) -> Box<dyn Set> {
    // From a hundred names a bucket on, the rate is near one.
    let (mut too_few, mut enough) = (0, names / 100 + 1);
    while split_block_rate(names, enough) > rate {
        (too_few, enough) = (enough, enough * 2);
    }
    while enough - too_few > 1 {
        let middle = u64::midpoint(too_few, enough);
        if split_block_rate(names, middle) > rate {
            too_few = middle;
        } else {
            enough = middle;
        }
    }
    let buckets = capacity(enough);
    let layout = bucket_layout(buckets);
    #[allow(unsafe_code, reason = "an aligned allocation")]
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    Box::new(SplitBlocks {
        functions: sbbf_rs::FilterFn::new(),
        memory,
        buckets,
    })
}

fn bucket_layout(buckets: usize) -> Layout {
    Layout::from_size_align(buckets * sbbf_rs::BUCKET_SIZE, sbbf_rs::ALIGNMENT).expect("fits")
}

/// The false-positive rate of blocks of 8 words of 32 bits, with one bit per word and name.
#[allow(clippy::cast_precision_loss, reason = "counts below 2^53")]
fn split_block_rate(names: u64, blocks: u64) -> f64 {
    let mean = names as f64 / blocks as f64;
    let (mut share, mut kept, mut rate, mut load) = ((-mean).exp(), 1.0_f64, 0.0, 0.0);
    while load < 10.0 * mean + 100.0 {
        rate += share * (1.0 - kept).powi(8);
        load += 1.0;
        share *= mean / load;
        kept *= 31.0 / 32.0;
    }
    rate
}

impl Set for SplitBlocks {
    fn insert(&mut self, names: &[Name]) {
        for name in names {
            #[allow(unsafe_code, reason = "its interface")]
            // SAFETY: `memory` has `buckets` buckets, aligned as asked for.
            unsafe {
                self.functions
                    .insert(self.memory, self.buckets, hashed(name));
            }
        }
    }
    fn stuff(&mut self, _names: u64, asked: u64) {
        let words = self.buckets * (sbbf_rs::BUCKET_SIZE / size_of::<u64>());
        #[allow(
            unsafe_code,
            clippy::cast_ptr_alignment,
            reason = "the same memory, seen as words"
        )]
        // SAFETY: `memory` has `buckets` buckets, zeroed, and is aligned to more than a word.
        let words = unsafe { std::slice::from_raw_parts_mut(self.memory.cast::<u64>(), words) };
        for (word, random) in words.iter_mut().zip(random_words(0.4)) {
            *word = random;
        }
        insert_members(self, asked);
    }
    fn ask(&self, names: &[Name]) -> usize {
        count(names, |name| {
            #[allow(unsafe_code, reason = "its interface")]
            // SAFETY: as in `insert`.
            unsafe {
                self.functions
                    .contains(self.memory, self.buckets, hashed(name))
            }
        })
    }
    fn size_bytes(&self) -> u64 {
        (self.buckets * sbbf_rs::BUCKET_SIZE) as u64
    }
}

impl Drop for SplitBlocks {
    fn drop(&mut self) {
        #[allow(unsafe_code, reason = "the counterpart of the allocation")]
        // SAFETY: allocated with the same layout.
        unsafe {
            dealloc(self.memory, bucket_layout(self.buckets));
        }
    }
}

/// Made from all names at once, and never changed after.
struct Fuse(BinaryFuse8);

/// Its rate is 1 in 256, whatever is asked for.
fn binary_fuse(names: u64, _rate: f64) -> Box<dyn Set> {
    let mut hashes = Vec::with_capacity(capacity(names));
    let mut chunk = [Name::default(); CHUNK];
    for first in (0..names).step_by(CHUNK) {
        members(first, &mut chunk);
        let missing = capacity(names) - hashes.len();
        hashes.extend(chunk.iter().take(missing).map(hashed));
    }
    Box::new(Fuse(
        BinaryFuse8::try_from(&hashes).expect("hashes are distinct"),
    ))
}

impl Set for Fuse {
    fn insert(&mut self, _names: &[Name]) {}
    fn ask(&self, names: &[Name]) -> usize {
        count(names, |name| self.0.contains(&hashed(name)))
    }
    fn size_bytes(&self) -> u64 {
        self.0.len() as u64
    }
}

/// Passes a hash on as it is.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("only whole hashes are put in");
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

struct Hashes(HashSet<u64, BuildHasherDefault<Hashed>>);

fn hash_set(names: u64, _rate: f64) -> Box<dyn Set> {
    Box::new(Hashes(HashSet::with_capacity_and_hasher(
        capacity(names),
        BuildHasherDefault::default(),
    )))
}

impl Set for Hashes {
    fn insert(&mut self, names: &[Name]) {
        self.0.extend(names.iter().map(hashed));
    }
    fn ask(&self, names: &[Name]) -> usize {
        count(names, |name| self.0.contains(&hashed(name)))
    }
    fn size_bytes(&self) -> u64 {
        // Eight bytes a hash and one of control; a table is at most seven eighths full.
        (self.0.capacity() as u64 * 8 / 7).next_power_of_two() * 9
    }
}
