//! Facts checked for every Unicode scalar value. As the fold looks at one character at a time, they
//! hold for every text.

use std::fmt::Write as _;

use super::super::fold::{fold_ascii, fold_character};
use super::super::{FilterKey, fold_fingerprint};

fn fold(text: &str) -> String {
    let mut folded = String::new();
    text.chars()
        .for_each(|c| fold_character(c, &mut |part| folded.push(part)));
    folded
}

/// Panics with the first few characters whose fold changes when `rule` is applied first.
fn the_fold_is_coarser_than(rule: impl Fn(char) -> String) {
    let mut report = String::new();
    for c in '\0'..=char::MAX {
        let ruled = rule(c);
        if ruled.chars().eq([c]) {
            continue;
        }
        let (plain, ruled) = (fold(c.encode_utf8(&mut [0; 4])), fold(&ruled));
        if plain != ruled && report.len() < 400 {
            write!(report, "U+{:04X} {plain:?} {ruled:?}; ", u32::from(c))
                .expect("strings take any text");
        }
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn folding_twice_is_folding_once() {
    the_fold_is_coarser_than(|c| fold(c.encode_utf8(&mut [0; 4])));
}

#[test]
fn lower_casing_does_not_change_the_key() {
    the_fold_is_coarser_than(|c| c.to_lowercase().collect());
}

#[test]
fn lower_casing_to_a_single_character_as_the_c_library_does_not_change_the_key() {
    the_fold_is_coarser_than(|c| c.to_lowercase().take(1).collect());
}

#[test]
fn turkish_lower_casing_does_not_change_the_key() {
    the_fold_is_coarser_than(|c| match c {
        'I' => "ı".to_owned(),
        'İ' => "i".to_owned(),
        other => other.to_lowercase().collect(),
    });
    assert_eq!(fold("I\u{307}"), fold("i"));
}

#[test]
fn upper_casing_does_not_change_the_key() {
    the_fold_is_coarser_than(|c| c.to_uppercase().collect());
    the_fold_is_coarser_than(|c| match c {
        'i' => "İ".to_owned(),
        other => other.to_uppercase().collect(),
    });
}

#[test]
fn full_case_folding_does_not_change_the_key() {
    the_fold_is_coarser_than(|c| caseless::default_case_fold_str(c.encode_utf8(&mut [0; 4])));
}

#[test]
fn the_ascii_fast_path_agrees_with_the_tables() {
    for byte in 0..=0x7f_u8 {
        let fast: String = fold_ascii(byte).map(char::from).into_iter().collect();
        assert_eq!(fast, fold(&char::from(byte).to_string()), "{byte:#04x}");
    }
}

#[test]
fn a_key_is_the_fold_in_bytes() {
    for c in '\0'..=char::MAX {
        let text = c.encode_utf8(&mut [0; 4]).to_owned();
        assert_eq!(FilterKey::of(&text).as_ref(), fold(&text).as_bytes());
        assert_eq!(FilterKey::of_bytes(text.as_bytes()), FilterKey::of(&text));
    }
}

#[test]
fn every_decimal_digit_has_the_value_of_its_place() {
    for zero in ['0', '\u{660}', '\u{6F0}', '\u{966}', '\u{E50}', '\u{FF10}'] {
        for value in 0..10 {
            let digit = char::from_u32(u32::from(zero) + value).expect("digits come in tens");
            assert_eq!(fold(&digit.to_string()), value.to_string());
        }
    }
}

/// Equal under a collation that ignores accents, or only case, in the root collation.
#[test]
fn texts_that_collations_call_equal_share_a_key() {
    for (left, right) in [
        ("søren", "SOREN"),
        ("łukasz", "lukasz"),
        ("đorđe", "dorde"),
        ("æon", "aeon"),
        ("œuvre", "oeuvre"),
        ("ħal", "hal"),
        ("カタカナ", "かたかな"),
        ("ｶﾀｶﾅ", "かたかな"),
        ("っ", "つ"),
        ("n٣", "n3"),
        ("เก", "กเ"),
        ("ŀa", "la"),
        ("l·la", "lla"),
        ("a\u{363}", "aa"),
        ("ٵ", "ءا"),
        ("⼀", "一"),
        ("מם", "ממ"),
        ("abc\u{640}", "abc"),
        ("🅐lice", "alice"),
        ("ðe", "de"),
    ] {
        assert_eq!(fold(left), fold(right), "{left:?} {right:?}");
    }
    for (left, right) in [
        ("anna", "anne"),
        ("a.b", "ab"),
        ("a-b", "a_b"),
        ("x1", "x01"),
        ("漢", "字"),
        ("ка", "ко"),
    ] {
        assert_ne!(fold(left), fold(right), "{left:?} {right:?}");
    }
}

/// Moves when the compiler or a dependency brings new Unicode tables. Then keys written by an older
/// build are unusable: change the number here, and say so in the change log.
#[test]
fn the_fold_has_not_moved() {
    assert_eq!(format!("{:016x}", fold_fingerprint()), "49163e968a738248");
}
