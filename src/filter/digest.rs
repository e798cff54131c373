//! A key hashed once for several filters: what generations of one memory have in common.
//!
//! Filters that hash under the same secret agree on a key's 128 bits, whatever their sizes. Who asks many of them about
//! the same key hashes it once, sends for a block in each, and looks later. The 128 bits are also a name for the key
//! that nobody without the secret can forge or collide with.

use super::{
    bloom::{BlockedBloom, Hint},
    hash::{NameHash, NameHasher},
    layout::{pattern_of, prefetch},
    secret::HashSecret,
};

/// The 128 bits of a key under one secret. They mean something to filters of that secret alone: no type can tell
/// secrets apart, so whoever keeps digests keeps them beside their filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Digest(u128);

impl Digest {
    /// The bits themselves, for who keeps digests.
    pub(crate) const fn bits(self) -> u128 {
        self.0
    }

    /// Bits that were kept.
    pub(crate) const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    #[allow(
        clippy::cast_possible_truncation,
        reason = "the two halves of 128 bits"
    )]
    const fn hash(self) -> NameHash {
        NameHash {
            place: self.0 as u64,
            pattern: (self.0 >> 64) as u64,
        }
    }
}

/// Makes digests under one secret.
pub(crate) struct Digester(NameHasher);

impl Digester {
    pub(crate) fn new(secret: &HashSecret) -> Self {
        Self(NameHasher::new(secret))
    }

    /// Hashes a key.
    #[inline]
    pub(crate) fn digest(&self, key: &[u8]) -> Digest {
        let NameHash { place, pattern } = self.0.hash_and(key, |_| ());
        Digest(u128::from(place) | u128::from(pattern) << 64)
    }
}

impl BlockedBloom {
    /// Sends for the block that `digest` falls on, so that a question a little later does not wait for it.
    #[inline]
    pub(crate) fn fetch_digest(&self, digest: Digest) {
        prefetch(self.block(digest.hash().place));
    }

    /// [`probe`](Self::probe) for a key that was hashed under this filter's secret.
    #[inline]
    pub(crate) fn probe_digest(&self, digest: Digest) -> Hint {
        self.hint(digest.hash())
    }

    /// [`insert`](Self::insert) for a key that was hashed under this filter's secret.
    #[inline]
    pub(crate) fn insert_digest(&self, digest: Digest) -> bool {
        let NameHash { place, pattern } = digest.hash();
        self.block(place).set(&pattern_of(pattern))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Sizing;

    #[test]
    fn a_digest_asks_and_inserts_as_its_key_does_in_filters_of_every_size() {
        let secret = HashSecret::from_bytes(*b"a key for tests!");
        let digester = Digester::new(&secret);
        for capacity in [10, 1_000, 70_000] {
            let sizing = Sizing::plan(capacity, 0.001, 1 << 30).expect("small");
            let filter = BlockedBloom::new(sizing, secret.clone()).expect("small");
            let keys: Vec<String> = (0..capacity).map(|i| format!("key {i}")).collect();
            for (index, key) in keys.iter().enumerate() {
                let digest = digester.digest(key.as_bytes());
                filter.fetch_digest(digest);
                assert_eq!(filter.probe_digest(digest), filter.probe(key.as_bytes()));
                if index % 2 == 0 {
                    let was_absent = filter.probe(key.as_bytes()) == Hint::Absent;
                    assert_eq!(filter.insert_digest(digest), was_absent);
                } else {
                    filter.insert(key.as_bytes());
                }
                assert_eq!(filter.probe_digest(digest), Hint::Maybe);
                assert_eq!(filter.probe(key.as_bytes()), Hint::Maybe);
                assert_eq!(Digest::from_bits(digest.bits()), digest);
            }
        }
    }
}
