//! Profile `ascii`: lower-cased `a-z 0-9 . _ -`, and nothing else.
//!
//! Nothing is normalised first: a full-width `ａ` is not an `a` here, it is outside the alphabet.

use super::profile::Profile;
use super::refusal::NameError;
use super::shape::SEPARATORS;

/// The canonical spelling of `text`, which is trimmed and holds no unseen character.
pub(super) fn spell(text: &str) -> Result<String, NameError> {
    if text
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || SEPARATORS.contains(&c))
    {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(NameError::Charset {
            allowed: Profile::Ascii.allowed(),
        })
    }
}
