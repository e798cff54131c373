//! Profile `unicode`: letters, marks and digits of one script.
//!
//! A name is normalised first and judged afterwards, because normalisation creates slashes, dots,
//! percent signs and spaces that the raw text did not have.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_security::{GeneralSecurityProfile, MixedScript};

use super::character::refuse_unseen;
use super::profile::Profile;
use super::refusal::NameError;
use super::shape::SEPARATORS;

/// The most marks that may follow one letter.
const MAX_MARKS_IN_A_ROW: usize = 3;

/// The canonical spelling of `text`, which is trimmed and holds no unseen character.
pub(super) fn spell(text: &str) -> Result<String, NameError> {
    let canonical = normalise(text);
    refuse_unseen(&canonical)?;
    refuse_foreign(&canonical)?;
    refuse_marks(&canonical)?;
    if !canonical.as_str().is_single_script() {
        return Err(NameError::MixedScript);
    }
    Ok(canonical)
}

/// NFKC, full case folding and NFKC again, until nothing changes.
pub(super) fn normalise(text: &str) -> String {
    let mut spelling: String = text.nfkc().collect();
    loop {
        let next: String = caseless::default_case_fold_str(&spelling).nfkc().collect();
        if next == spelling {
            return spelling;
        }
        spelling = next;
    }
}

fn refuse_foreign(canonical: &str) -> Result<(), NameError> {
    let is_allowed = |c: char| {
        SEPARATORS.contains(&c)
            || (c.identifier_allowed() && (c.is_alphanumeric() || is_combining_mark(c)))
    };
    if canonical.chars().all(is_allowed) {
        Ok(())
    } else {
        Err(NameError::Charset {
            allowed: Profile::Unicode.allowed(),
        })
    }
}

fn refuse_marks(canonical: &str) -> Result<(), NameError> {
    let mut in_a_row = 0;
    for c in canonical.chars() {
        in_a_row = if is_combining_mark(c) {
            in_a_row + 1
        } else {
            0
        };
        if in_a_row > MAX_MARKS_IN_A_ROW {
            return Err(NameError::TooManyMarks);
        }
    }
    Ok(())
}
