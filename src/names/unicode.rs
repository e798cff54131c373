//! Profile `unicode`: letters, marks and digits of one script, in everyday use.
//!
//! A name is normalised first and judged afterwards, because normalisation creates slashes, dots,
//! percent signs and spaces that the raw text did not have. What is welcome is a list of what is, not
//! of what is not: the characters that UTS 39 recommends for identifiers, which leaves out the letters
//! that exist only to imitate others (`ᴀᴅᴍɪɴ`), symbols, and scripts nobody writes today.
//!
//! Names that look alike although each is written in one script (Latin `cao`, Cyrillic `сао`) are not
//! caught here.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, is_combining_mark};
use unicode_security::{GeneralSecurityProfile, MixedScript};

use super::character::refuse_unseen;
use super::fold::decimal_value;
use super::profile::Profile;
use super::refusal::NameError;
use super::shape::SEPARATORS;

/// The most marks that may follow one letter once normalised: more than living spellings stack there.
const MAX_MARKS_IN_A_ROW: usize = 3;

/// The canonical spelling of `text`, which is trimmed and holds no unseen character.
pub(super) fn spell(text: &str) -> Result<String, NameError> {
    let canonical = normalise(text);
    refuse_unseen(&canonical)?;
    refuse_foreign(&canonical)?;
    refuse_marks(&canonical)?;
    refuse_mixture(&canonical)?;
    Ok(canonical)
}

/// NFKC, full case folding and NFKC again, until nothing changes; then `i̇` becomes `i`.
///
/// The last because full case folding makes `i̇`, with a second dot that nobody sees, of the Turkish
/// capital `İ`.
pub(super) fn normalise(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut spelling: String = text.nfkc().collect();
    loop {
        let next: String = caseless::default_case_fold_str(&spelling).nfkc().collect();
        if next == spelling {
            return spelling.replace("i\u{307}", "i").nfkc().collect();
        }
        spelling = next;
    }
}

/// Separators, and the letters, marks and digits among the recommended characters. A mark needs a
/// letter to stand on.
fn refuse_foreign(canonical: &str) -> Result<(), NameError> {
    let mut may_take_mark = false;
    for c in canonical.chars() {
        let is_welcome = if is_combining_mark(c) {
            may_take_mark && c.identifier_allowed()
        } else {
            may_take_mark = c.is_alphabetic();
            SEPARATORS.contains(&c) || (c.is_alphanumeric() && c.identifier_allowed())
        };
        if !is_welcome {
            return Err(NameError::Charset {
                allowed: Profile::Unicode.allowed(),
            });
        }
    }
    Ok(())
}

/// Neither long stacks of marks, nor the same mark twice, nor a dot that hides in the dot of an `i`.
fn refuse_marks(canonical: &str) -> Result<(), NameError> {
    let mut marks = Vec::new();
    for c in canonical.chars() {
        if !is_combining_mark(c) {
            marks.clear();
        } else if marks.len() == MAX_MARKS_IN_A_ROW || marks.last() == Some(&c) {
            return Err(NameError::TooManyMarks);
        } else {
            marks.push(c);
        }
    }
    let mut has_dot_already = false;
    for c in canonical.nfd() {
        match canonical_combining_class(c) {
            // The dotless i counts too: with a dot it looks like the other.
            0 => has_dot_already = matches!(c, 'i' | 'ı' | 'j' | 'ȷ' | 'і' | 'ј'),
            230 if c == '\u{307}' && has_dot_already => return Err(NameError::Invisible),
            230 => has_dot_already = false,
            _ => {}
        }
    }
    Ok(())
}

/// One script (Japanese, Korean and Chinese write with several and count as one), one set of digits.
///
/// Source: UTS 39, restriction level "single script" and mixed-number detection.
fn refuse_mixture(canonical: &str) -> Result<(), NameError> {
    let mut zeros = canonical
        .chars()
        .filter_map(|c| Some(u32::from(c) - decimal_value(c)?));
    let first = zeros.next();
    if canonical.is_single_script() && zeros.all(|zero| Some(zero) == first) {
        Ok(())
    } else {
        Err(NameError::MixedScript)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalising_creates_what_is_then_refused() {
        assert_eq!(normalise("a\u{2100}b"), "aa/cb");
        assert_eq!(normalise("\u{2025}"), "..");
        assert_eq!(normalise("a\u{FF05}b"), "a%b");
        assert_eq!(normalise("x\u{B4}y"), "x \u{301}y");
    }

    #[test]
    fn one_spelling_is_left_of_many() {
        for (text, spelling) in [
            ("STRASSE", "strasse"),
            ("straße", "strasse"),
            ("STRAẞE", "strasse"),
            ("ΣΑΣ", "σασ"),
            ("σας", "σασ"),
            ("İnfo", "info"),
            ("I\u{307}nfo", "info"),
            ("i\u{307}nfo", "info"),
            ("ınfo", "ınfo"),
            ("\u{212A}im", "kim"),
            ("Zoe\u{308}", "zoë"),
            ("ＡＬＩＣＥ", "alice"),
            ("ﬁona", "fiona"),
            ("ᾳβγ", "αιβγ"),
            ("q\u{307}\u{323}", "q\u{323}\u{307}"),
        ] {
            assert_eq!(normalise(text), spelling, "{text}");
        }
    }
}
