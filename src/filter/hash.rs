//! A key's bytes become 128 bits: SipHash-1-3 with 128-bit output, over the bytes and nothing else.
//!
//! Why a keyed hash: names come from strangers, who must not be able to choose ones that collide.
//! Why 128 bits: a filter of 10^9 names uses 25 bits for the block and 48 inside it; one 64-bit
//! hash is not enough. Why not `std::hash::Hash`: it adds prefixes and suffixes that differ between
//! `str`, `[u8]` and `Vec`, and is no stored format.

use super::secret::HashSecret;

/// The hash function of one filter, with the key already mixed in. Not `Debug`: it holds the key.
///
/// Written out here instead of called from a library because a question takes little longer than
/// its hash: no state is copied, the end of the key is read without a branch per byte, and all of
/// it is compiled into the loop that asks. The tests hold it against a library and a reference.
///
/// Source: Aumasson and Bernstein, "`SipHash`: a fast short-input PRF", 2012; the variant with one
/// round per word, three at the end, and 128 bits of output.
pub(super) struct NameHasher {
    start: State,
}

/// Two independent halves: the block comes from one, the bits inside it from the other.
///
/// Bits that chose the block must never choose bits in it: measured, that costs seven times the
/// promised rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NameHash {
    /// Chooses the block: the first eight bytes of the output, little-endian.
    pub(super) place: u64,
    /// Chooses one bit per word: the last eight bytes.
    pub(super) pattern: u64,
}

impl NameHasher {
    pub(super) fn new(secret: &HashSecret) -> Self {
        let key = u128::from_le_bytes(secret.to_bytes());
        #[allow(clippy::cast_possible_truncation, reason = "the two halves of the key")]
        let (k0, k1) = (key as u64, (key >> 64) as u64);
        Self {
            start: State([
                k0 ^ 0x736f_6d65_7073_6575,
                k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee, // 0xee: 128 bits of output
                k0 ^ 0x6c79_6765_6e65_7261,
                k1 ^ 0x7465_6462_7974_6573,
            ]),
        }
    }

    #[cfg(test)]
    pub(super) fn hash(&self, key: &[u8]) -> NameHash {
        self.hash_and(key, |_| ())
    }

    /// Hashes a key, and calls `on_place` as soon as its place is known: the last third of the work
    /// is for the pattern alone, and meanwhile the block can be on its way.
    #[inline]
    pub(super) fn hash_and(&self, key: &[u8], on_place: impl FnOnce(u64)) -> NameHash {
        let mut state = self.start;
        for &word in key.as_chunks().0 {
            state.absorb(u64::from_le_bytes(word));
        }
        state.absorb(last_word(key));
        state.0[2] ^= 0xee;
        let place = state.squeeze();
        on_place(place);
        state.0[1] ^= 0xdd;
        let pattern = state.squeeze();
        NameHash { place, pattern }
    }
}

#[derive(Clone, Copy)]
struct State([u64; 4]);

impl State {
    #[inline]
    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    #[inline]
    fn squeeze(&mut self) -> u64 {
        for _ in 0..3 {
            self.round();
        }
        self.0[0] ^ self.0[1] ^ self.0[2] ^ self.0[3]
    }

    #[inline]
    fn round(&mut self) {
        let [v0, v1, v2, v3] = &mut self.0;
        *v0 = v0.wrapping_add(*v1);
        *v2 = v2.wrapping_add(*v3);
        *v1 = v1.rotate_left(13) ^ *v0;
        *v3 = v3.rotate_left(16) ^ *v2;
        *v0 = v0.rotate_left(32);
        *v2 = v2.wrapping_add(*v1);
        *v0 = v0.wrapping_add(*v3);
        *v1 = v1.rotate_left(17) ^ *v2;
        *v3 = v3.rotate_left(21) ^ *v0;
        *v2 = v2.rotate_left(32);
    }
}

/// The bytes that are left after all whole words, and above them the key's length.
///
/// Lengths of names follow no pattern that a processor could predict, so there is no branch per
/// length: the bytes are read with others around them, and those are shifted out.
#[inline]
fn last_word(key: &[u8]) -> u64 {
    let length = (key.len() as u64) << 56;
    let surplus = 8 * (key.len() as u64 % 8);
    if let Some(&end) = key.last_chunk() {
        // Two steps, as nothing may be left, and shifting by 64 is not allowed.
        return length | u64::from_le_bytes(end) >> 1 >> (63 - surplus);
    }
    if let (Some(&start), Some(&end)) = (key.first_chunk(), key.last_chunk()) {
        let (start, end) = (u32::from_le_bytes(start), u32::from_le_bytes(end));
        return length | u64::from(start) | u64::from(end) << (surplus - 32);
    }
    let byte = |at: usize| u64::from(key[at]) << (8 * at);
    match key.len() {
        0 => length,
        few => length | byte(0) | byte(few / 2) | byte(few - 1),
    }
}

#[cfg(test)]
mod tests {
    use siphasher::sip128::{SipHasher13, SipHasher24};

    use super::*;

    /// SipHash-c-d with 128-bit output, written from the paper and its reference description, as a
    /// second opinion.
    fn reference(c: u32, d: u32, key: [u8; 16], message: &[u8]) -> [u8; 16] {
        fn rounds(v: &mut [u64; 4], count: u32) {
            for _ in 0..count {
                v[0] = v[0].wrapping_add(v[1]);
                v[2] = v[2].wrapping_add(v[3]);
                v[1] = v[1].rotate_left(13) ^ v[0];
                v[3] = v[3].rotate_left(16) ^ v[2];
                v[0] = v[0].rotate_left(32);
                v[2] = v[2].wrapping_add(v[1]);
                v[0] = v[0].wrapping_add(v[3]);
                v[1] = v[1].rotate_left(17) ^ v[2];
                v[3] = v[3].rotate_left(21) ^ v[0];
                v[2] = v[2].rotate_left(32);
            }
        }
        let half =
            |from: usize| u64::from_le_bytes(key[from..from + 8].try_into().expect("eight bytes"));
        let mut v = [
            half(0) ^ 0x736f_6d65_7073_6575,
            half(8) ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            half(0) ^ 0x6c79_6765_6e65_7261,
            half(8) ^ 0x7465_6462_7974_6573,
        ];
        let mut padded = message.to_vec();
        padded.resize(message.len() / 8 * 8 + 7, 0);
        padded.push(u8::try_from(message.len() % 256).expect("below 256"));
        for word in padded.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            v[3] ^= word;
            rounds(&mut v, c);
            v[0] ^= word;
        }
        v[2] ^= 0xee;
        rounds(&mut v, d);
        let first = v[0] ^ v[1] ^ v[2] ^ v[3];
        v[1] ^= 0xdd;
        rounds(&mut v, d);
        let second = v[0] ^ v[1] ^ v[2] ^ v[3];
        (u128::from(first) | u128::from(second) << 64).to_le_bytes()
    }

    /// Key 00 01 .. 0f and messages "", 00, 00 01, .. as in every published table.
    fn published_inputs() -> ([u8; 16], impl Iterator<Item = Vec<u8>>) {
        (
            std::array::from_fn(|i| u8::try_from(i).expect("small")),
            (0..64_u8).map(|length| (0..length).collect()),
        )
    }

    #[test]
    fn the_128_bit_variant_equals_its_published_vectors() {
        // SipHash-2-4-128, first nine rows of the table published with the reference
        // implementation.
        let published = [
            0xa381_7f04_ba25_a8e6_6df6_7214_c755_0293_u128,
            0xda87_c1d8_6b99_af44_3476_5911_9b22_fc45,
            0x8177_228d_a4a4_5dc7_fca3_8bde_f60a_ffe4,
            0x9c70_b60c_5267_a94e_5f33_b6b0_2985_ed51,
            0xf881_64c1_2d9c_8faf_7d0f_6e7c_7bcd_5579,
            0x1368_8759_8077_6f88_5452_7a07_690e_9627,
            0x14ee_ca33_8b20_8613_485e_a030_8fd7_a15e,
            0xa1f1_ebbe_d8db_c153_c0b8_4aa6_1ff0_8239,
            0x3b62_a9ba_6258_f561_0f83_e264_f314_97b4,
        ];
        let (key, messages) = published_inputs();
        for (message, want) in messages.zip(published) {
            assert_eq!(
                reference(2, 4, key, &message),
                want.to_be_bytes(),
                "{message:?}"
            );
            assert_eq!(
                SipHasher24::new_with_key(&key).hash(&message).as_bytes(),
                want.to_be_bytes(),
                "{message:?}"
            );
        }
    }

    #[test]
    fn names_are_hashed_by_siphash_1_3_over_their_bytes_alone() {
        let (key, messages) = published_inputs();
        for message in messages {
            let want = reference(1, 3, key, &message);
            let found = NameHasher::new(&HashSecret::from_bytes(key)).hash(&message);
            assert_eq!(
                [found.place.to_le_bytes(), found.pattern.to_le_bytes()].concat(),
                want,
                "{message:?}"
            );
            assert_eq!(
                SipHasher13::new_with_key(&key).hash(&message).as_bytes(),
                want,
                "{message:?}"
            );
        }
        // The one published row of SipHash-1-3-128: the empty message.
        let empty = reference(1, 3, key, &[]);
        assert_eq!(
            empty,
            [
                231, 126, 188, 178, 39, 136, 165, 190, 253, 98, 219, 106, 221, 48, 48, 1
            ]
        );
    }
}
