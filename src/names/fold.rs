//! The fold behind the filter key: coarser than the equality of the database.
//!
//! The promise: if the database calls two texts equal, they fold to the same text. A stored name can
//! then never look absent. It holds for a column that is unique
//!
//! - on the exact text, also when padded with blanks;
//! - on its `lower`, `upper` or full case folding, and so on `citext`, under any locale: Turkish,
//!   Azeri, Lithuanian and Greek included;
//! - under a collation that ignores case, width, kana type or accents, as long as it takes letters for
//!   the same as the root collation does (English, French, Spanish, German, Polish, Turkish, ...).
//!
//! It does *not* hold under collations with equalities of their own (`å` = `aa` in Danish, `ä` = `ae` in
//! German phone books, `かー` = `かあ` in Japanese, some in Arabic and Korean), that ignore punctuation, or
//! that compare numbers by value. No fold could follow them all and still tell names apart;
//! [`fold_probes`] are texts by which such a column is recognised, so that it can be refused.
//!
//! The fold works on one character at a time and looks at no neighbour. Hence
//! `fold(a + b) == fold(a) + fold(b)`, and what a test shows for every character holds for every text.
//! Each character goes through, until nothing changes:
//!
//! | step | merges |
//! | --- | --- |
//! | compatibility decomposition | `ﬁ` and `fi`, `Ａ` and `A`, `é` and `e` + accent |
//! | the root collation's first level ([`collation`]) | `ø` and `o`, `æ` and `ae`, `カ` and `か`, `٣` and `3` |
//! | drop marks, controls, white space and what is not drawn | `é` and `e`, `" bob"` and `bob` |
//! | upper-case, then lower-case | `Σ`, `σ` and `ς`; `ß` and `SS`; `ı`, `I`, `İ` and `i` |
//!
//! Too coarse costs one query; too fine costs a wrong "free". This is not how names are compared:
//! `résumé` and `resume` share a fold and are different names.

mod collation;
mod probes;

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

pub use probes::fold_probes;

use super::character::is_default_ignorable;

/// Calls `emit` with each character that `c` folds to; not at all when `c` is dropped.
pub(super) fn fold_character(c: char, emit: &mut dyn FnMut(char)) {
    decompose_compatible(c, |part| {
        if let Some(equal) = collation::root_equal(part) {
            equal.chars().for_each(&mut *emit);
            return;
        }
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

/// The Greek iota is dropped because under `ᾳ` it is a mark to one rule and a letter to the next.
fn is_dropped(c: char) -> bool {
    matches!(c, 'ι' | 'Ι')
        || c.is_whitespace()
        || c.is_control()
        || is_combining_mark(c)
        || is_default_ignorable(c)
        || collation::is_written_before_spoken(c)
}

/// What one byte of ASCII text folds to: the same as [`fold_character`], without its tables.
pub(super) fn fold_ascii(byte: u8) -> Option<u8> {
    byte.is_ascii_graphic().then(|| byte.to_ascii_lowercase())
}

/// The value of a decimal digit of any script; `None` for other characters.
pub(super) fn decimal_value(c: char) -> Option<u32> {
    if c.is_ascii() || !c.is_numeric() {
        return c.to_digit(10);
    }
    collation::root_equal(c)?
        .parse()
        .ok()
        .filter(|value| *value < 10)
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
