//! What collations call equal beyond decomposition and letter case.
//!
//! A column may be unique under a collation that ignores accents. To such a column `ø` is `o`, `æ` is
//! `ae`, `カ` is `か` and `٣` is `3`, which no normalisation form and no case mapping says. The list is a
//! text file; this module reads it and looks characters up. It covers the root collation at its first
//! level, the coarsest; not the tailorings of single languages (`ä` as `ae`), not collations that ignore
//! punctuation or compare numbers by value.

use std::sync::LazyLock;

/// Sorted by character.
static EQUAL: LazyLock<Vec<(char, &'static str)>> =
    LazyLock::new(|| read(include_str!("root_collation.txt")));

/// The text that `c` equals under the root collation, itself a fold; `None` when `c` stands for itself.
pub(super) fn root_equal(c: char) -> Option<&'static str> {
    let at = EQUAL
        .binary_search_by_key(&c, |&(character, _)| character)
        .ok()?;
    Some(EQUAL[at].1)
}

/// Vowels that are written before the consonant they follow, which collations compare in spoken order.
///
/// Source: the Unicode property `Logical_Order_Exception`.
pub(super) fn is_written_before_spoken(c: char) -> bool {
    matches!(c,
        '\u{0E40}'..='\u{0E44}' | '\u{0EC0}'..='\u{0EC4}' | '\u{19B5}'..='\u{19B7}' | '\u{19BA}'
        | '\u{AAB5}'..='\u{AAB6}' | '\u{AAB9}' | '\u{AABB}'..='\u{AABC}')
}

/// Reads `TEXT = CODE POINTS` lines; `0-9` stands for ten texts in ten consecutive characters.
fn read(file: &'static str) -> Vec<(char, &'static str)> {
    const DIGITS: &str = "0123456789";
    let mut equal = Vec::new();
    for line in file.lines().filter(|line| !line.starts_with('#')) {
        let Some((text, code_points)) = line.split_once('=') else {
            continue;
        };
        let text = text.trim();
        for scalar in code_points
            .split_whitespace()
            .filter_map(|hex| u32::from_str_radix(hex, 16).ok())
        {
            if text == "0-9" {
                let run = (scalar..).zip(0..DIGITS.len());
                equal.extend(
                    run.filter_map(|(digit, i)| Some((char::from_u32(digit)?, &DIGITS[i..=i]))),
                );
            } else {
                equal.extend(char::from_u32(scalar).map(|c| (c, text)));
            }
        }
    }
    equal.sort_unstable();
    equal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_to_the_last_line() {
        let file = include_str!("root_collation.txt");
        for line in file
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (text, code_points) = line.split_once('=').expect("TEXT = CODE POINTS");
            for hex in code_points.split_whitespace() {
                let c = u32::from_str_radix(hex, 16)
                    .ok()
                    .and_then(char::from_u32)
                    .expect(hex);
                let expected = if text.trim() == "0-9" {
                    "0"
                } else {
                    text.trim()
                };
                assert_eq!(root_equal(c), Some(expected), "{hex}");
            }
        }
    }

    #[test]
    fn no_character_is_listed_twice() {
        assert!(EQUAL.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn strokes_ligatures_kana_and_digits_are_covered() {
        for (c, text) in [
            ('ø', "o"),
            ('ł', "l"),
            ('đ', "d"),
            ('æ', "ae"),
            ('œ', "oe"),
            ('٣', "3"),
            ('๙', "9"),
            ('\u{640}', ""),
        ] {
            assert_eq!(root_equal(c), Some(text));
        }
        assert_eq!(root_equal('カ'), Some("か"));
        assert_eq!(root_equal('a'), None);
    }
}
