//! Texts to try a database's equality on, before it is trusted to be finer than the fold.
//!
//! The fold covers every lower-casing rule and the root collation. A column may still have a rule that
//! it does not cover: a collation tailored to one language (`å` as `aa`), or one that ignores punctuation
//! or compares numbers by value. These texts bring such rules to light; the asking is the store's part.

use unicode_normalization::char::is_combining_mark;

/// Texts of which no two with different [filter keys](crate::names::FilterKey) may be equal to the
/// database, and whose key no mapping of the column's rule may change.
///
/// Every letter, mark and digit, save those that come in whole blocks without case or marks (Han,
/// Hangul syllables, Tangut); every pair of ASCII letters; some longer texts. About 30,000, each at most
/// four characters long, all different.
pub fn fold_probes() -> impl Iterator<Item = String> {
    let characters = ('\0'..=char::MAX)
        .filter(|&c| !is_in_a_plain_block(c) && (c.is_alphanumeric() || is_combining_mark(c)))
        .map(String::from);
    let letters = || 'a'..='z';
    let pairs =
        letters().flat_map(move |first| letters().map(move |second| format!("{first}{second}")));
    // Punctuation that is ignored, numbers that are compared by value, a vowel that is drawn longer,
    // two spellings that only Turkish or Greek lower-casing brings together.
    let longer = [
        "a-b", "a.b", "a_b", "a b", "n01", "n1", "かあ", "かー", "I\u{307}", "ΑΣ", "ας",
    ];
    characters.chain(pairs).chain(longer.map(str::to_owned))
}

fn is_in_a_plain_block(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}'
        | '\u{17000}'..='\u{18DFF}' | '\u{20000}'..)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn probes_hold_what_has_case_and_no_probe_comes_twice() {
        let probes: Vec<String> = fold_probes().collect();
        let distinct: BTreeSet<&str> = probes.iter().map(String::as_str).collect();
        assert_eq!(distinct.len(), probes.len());
        assert!((20_000..40_000).contains(&probes.len()), "{}", probes.len());
        for c in ('\0'..=char::MAX)
            .filter(|c| c.is_lowercase() || c.is_uppercase() || is_combining_mark(*c))
        {
            let is_probed = distinct.contains(c.encode_utf8(&mut [0; 4]) as &str);
            assert!(is_probed || c >= '\u{20000}', "U+{:04X}", u32::from(c));
        }
    }
}
