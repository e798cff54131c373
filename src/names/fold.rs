//! The fold behind the filter key: coarser than any equality a database may use.
//!
//! The promise: if the database calls two texts equal, they fold to the same text. A stored name can
//! then never look absent, whatever lower-casing, locale or collation the database was made with. It is
//! enough that `fold(rule(x)) == fold(x)` for the column's rule and every text `x`.
//!
//! The fold works on one character at a time and looks at no neighbour. Hence
//! `fold(a + b) == fold(a) + fold(b)`, and what a test shows for every character holds for every text.
//! Each character is replaced by its compatibility decomposition; of that, marks, characters that are
//! not drawn, controls and white space are dropped, and the rest is upper-cased and then lower-cased,
//! until nothing changes. Upper-casing first merges what lower-casing alone keeps apart: `ς` and `σ`,
//! `ß` and `ss`, `ı` and `i`.
//!
//! Too coarse costs one query; too fine costs a wrong "free". This is not how names are compared:
//! `résumé` and `resume` share a fold and are different names.

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use super::character::is_default_ignorable;

/// Calls `emit` with each character that `c` folds to; not at all when `c` is dropped.
pub(super) fn fold_character(c: char, emit: &mut dyn FnMut(char)) {
    decompose_compatible(c, |part| {
        if is_dropped(part) {
            return;
        }
        let cased = part.to_uppercase().flat_map(char::to_lowercase);
        if cased.clone().eq([part]) {
            emit(part);
        } else {
            cased.for_each(|next| fold_character(next, emit));
        }
    });
}

/// What one byte of ASCII text folds to: the same as [`fold_character`], without its tables.
pub(super) fn fold_ascii(byte: u8) -> Option<u8> {
    byte.is_ascii_graphic().then(|| byte.to_ascii_lowercase())
}

/// The Greek iota is dropped because under `ᾳ` it is a mark to one rule and a letter to the next.
fn is_dropped(c: char) -> bool {
    matches!(c, 'ι' | 'Ι')
        || c.is_whitespace()
        || c.is_control()
        || is_combining_mark(c)
        || is_default_ignorable(c)
}

/// A fingerprint of the fold over every character.
///
/// The tables move with a dependency or a compiler; keys written under one fingerprint must not be
/// looked up under another. Costs a few hundred milliseconds: compute it once.
///
/// FNV-1a (64 bit) over `(character, fold, 0xFF)` of every character that the fold changes, in order.
#[must_use]
pub fn fold_fingerprint() -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    let mut folded = String::new();
    for c in '\0'..=char::MAX {
        folded.clear();
        fold_character(c, &mut |part| folded.push(part));
        if !folded.chars().eq([c]) {
            mix(&u32::from(c).to_le_bytes());
            mix(folded.as_bytes());
            mix(&[0xff]);
        }
    }
    hash
}
