//! The bytes that stand for a name in the filter.
//!
//! A key is the [fold](super::fold) of a text, so that every spelling the database could call equal has
//! one key. It is for the filter only: two different names may share a key, and one query then tells
//! them apart.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::fold::{fold_ascii, fold_character};

/// Keys up to this many bytes live inside the value; longer ones are allocated.
const INLINE_BYTES: usize = 64;

/// A folded name. Never shown: `Debug` prints its length only.
///
/// Up to 64 bytes it needs no allocation, which holds for any allowed ASCII name.
///
/// ```
/// use namegate::names::FilterKey;
/// assert_eq!(FilterKey::of("Straße"), FilterKey::of(" STRASSE "));
/// assert_ne!(FilterKey::of("anna"), FilterKey::of("anne"));
/// assert_eq!(format!("{:?}", FilterKey::of("Alice")), "FilterKey(5 bytes)");
/// ```
#[derive(Clone)]
pub struct FilterKey(Bytes);

#[derive(Clone)]
enum Bytes {
    Inline {
        bytes: [u8; INLINE_BYTES],
        len: usize,
    },
    Heap(Vec<u8>),
}

impl FilterKey {
    /// The key of any text, allowed or not.
    #[must_use]
    pub fn of(text: &str) -> Self {
        if text.len() <= INLINE_BYTES && text.is_ascii() {
            return Self(Bytes::of_short_ascii(text.as_bytes()));
        }
        let mut key = Bytes::of_short_ascii(b"");
        for c in text.chars() {
            fold_character(c, &mut |part| {
                key.push(part.encode_utf8(&mut [0; 4]).as_bytes());
            });
        }
        Self(key)
    }

    /// The key of a row that may not be UTF-8: each maximal invalid sequence counts as U+FFFD.
    ///
    /// Agrees with [`FilterKey::of`] on valid UTF-8. Rows that differ only in their invalid bytes share
    /// a key, which is the safe direction.
    #[must_use]
    pub fn of_bytes(raw: &[u8]) -> Self {
        Self::of(&String::from_utf8_lossy(raw))
    }
}

impl Bytes {
    /// The fast path, for what nearly every name is: no tables, no allocation.
    fn of_short_ascii(text: &[u8]) -> Self {
        let mut bytes = [0; INLINE_BYTES];
        let mut len = 0;
        for folded in text.iter().filter_map(|&byte| fold_ascii(byte)) {
            bytes[len] = folded;
            len += 1;
        }
        Self::Inline { bytes, len }
    }

    fn push(&mut self, more: &[u8]) {
        match self {
            Self::Inline { bytes, len } => {
                if let Some(room) = bytes.get_mut(*len..*len + more.len()) {
                    room.copy_from_slice(more);
                    *len += more.len();
                } else {
                    *self = Self::Heap([&bytes[..*len], more].concat());
                }
            }
            Self::Heap(bytes) => bytes.extend_from_slice(more),
        }
    }
}

impl AsRef<[u8]> for FilterKey {
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Inline { bytes, len } => &bytes[..*len],
            Bytes::Heap(bytes) => bytes,
        }
    }
}

impl PartialEq for FilterKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_ref() == other.as_ref()
    }
}

impl Eq for FilterKey {}

impl Hash for FilterKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

impl fmt::Debug for FilterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FilterKey({} bytes)", self.as_ref().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inline_bound_is_not_a_seam() {
        for len in 60..=70 {
            let ascii = "A".repeat(len);
            assert_eq!(FilterKey::of(&ascii).as_ref(), "a".repeat(len).as_bytes());
            let wide = format!("{}{}", "a".repeat(len), "漢字");
            assert_eq!(FilterKey::of(&wide).as_ref(), wide.as_bytes());
        }
    }

    #[test]
    fn rows_that_are_not_utf8_still_have_a_key() {
        assert_eq!(
            FilterKey::of_bytes(b"Andr\xE9"),
            FilterKey::of("andr\u{FFFD}")
        );
        assert_eq!(
            FilterKey::of_bytes("Stra\u{DF}e".as_bytes()),
            FilterKey::of("strasse")
        );
    }
}
