//! Made-up names: distinct by construction, 7 to 23 letters, half of them of 11 or fewer.
//!
//! A name is computed from its number, so 10^8 of them need no memory. They are made in small
//! chunks before each timed section: 512 names take 12 KiB, lie in the nearest cache, and reading
//! them costs nothing that could be taken for the filter's cost.

use std::hash::{Hash, Hasher};

/// Names made at once and then measured at once.
pub(crate) const CHUNK: usize = 512;

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz_.1290";
const HEAD: usize = 7;
const HEAD_BITS: u32 = 35;
/// Numbers below are members, numbers from here on are strangers.
const FIRST_STRANGER: u64 = 1 << (HEAD_BITS - 1);

/// A name, stored in place so that no pointer has to be followed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Name {
    length: u8,
    letters: [u8; 23],
}

impl AsRef<[u8]> for Name {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.letters[..usize::from(self.length)]
    }
}

/// As `str` does it, for peers that take anything with `Hash`.
impl Hash for Name {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.as_ref());
        state.write_u8(0xFF);
    }
}

/// Which names a measurement asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Absent,
    Present,
    /// Half of each, in random order.
    Mixed,
}

/// The `i`-th member.
pub(crate) fn member(i: u64) -> Name {
    named(i)
}

/// The `i`-th name that is never inserted.
pub(crate) fn stranger(i: u64) -> Name {
    named(FIRST_STRANGER + i % FIRST_STRANGER)
}

/// Members `first` and following.
pub(crate) fn members(first: u64, names: &mut [Name]) {
    for (i, name) in (first..).zip(names) {
        *name = member(i);
    }
}

/// Names for questions `first` and following, to a set of `size` members. Members are drawn at
/// random; strangers are all different.
pub(crate) fn questions(ask: Ask, size: u64, first: u64, names: &mut [Name]) {
    for (i, name) in (first..).zip(names) {
        let draw = mixed(!i);
        let is_member = match ask {
            Ask::Absent => false,
            Ask::Present => true,
            Ask::Mixed => draw & 1 == 0,
        };
        *name = if is_member {
            member(scaled(mixed(draw), size))
        } else {
            stranger(i)
        };
    }
}

/// Seven letters that no other number has, and up to sixteen more.
fn named(number: u64) -> Name {
    let mut head = permuted(number);
    let draw = mixed(number);
    let ones = |byte: u64| u8::try_from((byte & 0xFF).count_ones()).expect("at most 8");
    // Around four more for all, and around four more again for one name in eight.
    let more = ones(draw) + if draw >> 61 == 0 { ones(draw >> 8) } else { 0 };
    let mut tail = mixed(draw);
    let mut letters = [0; 23];
    for letter in &mut letters[..HEAD] {
        *letter = ALPHABET[low(head)];
        head >>= 5;
    }
    for letter in &mut letters[HEAD..] {
        *letter = ALPHABET[low(tail)];
        tail = tail.rotate_right(5);
    }
    Name {
        length: u8::try_from(HEAD).expect("7") + more,
        letters,
    }
}

fn low(bits: u64) -> usize {
    usize::try_from(bits & 31).expect("below 32")
}

/// A permutation of the numbers of 35 bits.
fn permuted(number: u64) -> u64 {
    const MASK: u64 = (1 << HEAD_BITS) - 1;
    let mut x = number & MASK;
    for _ in 0..2 {
        x = x.wrapping_mul(0x9E37_79B9_7F4A_7C15) & MASK;
        x ^= x >> 18;
    }
    x
}

/// The finishing step of `SplitMix64`.
fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

fn scaled(draw: u64, size: u64) -> u64 {
    u64::try_from((u128::from(draw) * u128::from(size)) >> 64).expect("below size")
}
