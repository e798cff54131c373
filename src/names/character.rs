//! Classes of single characters that no name may hold, and why they are refused.
//!
//! Facts about Unicode that the standard library does not carry, as short range tables. Whether a
//! *visible* character is welcome is the business of the profiles, not of this module.

use super::refusal::NameError;

/// The first character of `text` that is white space, a control, invisible, or turns the writing
/// direction, as a refusal.
///
/// Looked for before the profile's own alphabet: "there is an invisible character in it" helps a
/// person who pasted a name, "only letters, please" does not.
pub(super) fn refuse_unseen(text: &str) -> Result<(), NameError> {
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(());
    }
    text.chars().find_map(unseen).map_or(Ok(()), Err)
}

/// Whether `c` leaves nothing to see where it stands, or turns what stands beside it.
///
/// ```
/// use namegate::names::is_unseen;
/// assert!(is_unseen('\u{202E}') && is_unseen('\0') && is_unseen(' '));
/// assert!(!is_unseen('é'));
/// ```
#[must_use]
pub fn is_unseen(c: char) -> bool {
    unseen(c).is_some()
}

/// White space comes before control, so that a tab means the same inside a name as around it, where
/// it is trimmed; direction comes before invisible, whose part it is.
fn unseen(c: char) -> Option<NameError> {
    if c.is_whitespace() {
        Some(NameError::Whitespace)
    } else if c.is_control() {
        Some(NameError::Control)
    } else if is_bidi_control(c) {
        Some(NameError::BidiControl)
    } else if is_default_ignorable(c) || is_blank(c) {
        Some(NameError::Invisible)
    } else {
        None
    }
}

/// Source: the Unicode property `Bidi_Control`.
pub(super) fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Characters that are not drawn: joiners, fillers, variation selectors, tags, the soft hyphen.
///
/// Source: the Unicode property `Default_Ignorable_Code_Point`, which reserves whole ranges ahead of
/// time and so does not move when characters are added.
pub(super) fn is_default_ignorable(c: char) -> bool {
    matches!(c,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFF8}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}')
}

/// Drawn as nothing although Unicode does not call them ignorable: the interlinear annotation marks,
/// the empty Braille cell and the empty note head.
pub(super) fn is_blank(c: char) -> bool {
    matches!(c, '\u{2800}' | '\u{FFF9}'..='\u{FFFB}' | '\u{1D159}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_unseen_character_gives_the_reason() {
        assert_eq!(refuse_unseen("a\0b c"), Err(NameError::Control));
        assert_eq!(refuse_unseen("a b\0c"), Err(NameError::Whitespace));
        assert_eq!(refuse_unseen("é\u{200B}"), Err(NameError::Invisible));
        assert_eq!(refuse_unseen("é\u{200F}"), Err(NameError::BidiControl));
        assert_eq!(refuse_unseen("né@!"), Ok(()));
    }

    #[test]
    fn every_white_space_control_and_direction_character_is_unseen() {
        for c in ('\0'..=char::MAX)
            .filter(|c| c.is_whitespace() || c.is_control() || is_bidi_control(*c))
        {
            assert!(unseen(c).is_some(), "U+{:04X}", u32::from(c));
        }
    }
}
