//! The last ids, exactly: a bounded map from digest to the slice in which the id passed.
//!
//! Two halves: when the young one is full it becomes the old one, and the old one is forgotten. So at least the last
//! `most` ids are there, and at most twice as many.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::filter::Digest;

type Half = HashMap<u128, u64, BuildHasherDefault<Digested>>;

/// A bounded memory of ids, without false positives.
#[derive(Debug)]
pub(super) struct Recent {
    most: usize,
    young: Half,
    old: Half,
}

impl Recent {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            young: Half::default(),
            old: Half::default(),
        }
    }

    /// Bytes that both halves take when they are full. Tables are powers of two, at most seven eighths full, and have a
    /// byte beside each entry.
    pub(super) fn most_bytes(most: usize) -> u64 {
        let places = (most as u64)
            .saturating_mul(8)
            .div_ceil(7)
            .next_power_of_two();
        places.saturating_mul(2 * (size_of::<(u128, u64)>() as u64 + 1))
    }

    pub(super) fn insert(&mut self, id: Digest, slice: u64) {
        if self.young.len() >= self.most {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(id.bits(), slice);
    }

    /// In which slice the id passed last, as far back as this goes.
    pub(super) fn slice_of(&self, id: Digest) -> Option<u64> {
        let found = self
            .young
            .get(&id.bits())
            .or_else(|| self.old.get(&id.bits()));
        found.copied()
    }

    /// Everything, older ids first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Digest, u64)> {
        let both = self.old.iter().chain(&self.young);
        both.map(|(&bits, &slice)| (Digest::from_bits(bits), slice))
    }

    pub(super) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

/// Takes a digest, which is a keyed hash already, as its own hash.
#[derive(Debug, Default)]
struct Digested(u64);

impl Hasher for Digested {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "both halves count")]
    fn write_u128(&mut self, bits: u128) {
        self.0 = bits as u64 ^ (bits >> 64) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ids_are_there_and_the_others_go() {
        let mut recent = Recent::new(100);
        let digest = |id: u32| Digest::from_bits(u128::from(id) << 60);
        for id in 0..1000 {
            recent.insert(digest(id), u64::from(id));
            for known in id.saturating_sub(99)..=id {
                assert_eq!(recent.slice_of(digest(known)), Some(u64::from(known)));
            }
            assert!(recent.iter().count() <= 200);
        }
        assert_eq!(recent.slice_of(digest(700)), None);
        recent.clear();
        assert_eq!(recent.iter().count(), 0);
    }
}
