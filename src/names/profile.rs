//! The two alphabets a policy can be built on, and the bounds they share.

use std::fmt;
use std::str::FromStr;

/// The least number of characters in a name, counted in the canonical form.
pub const MIN_CHARACTERS: usize = 3;

/// The greatest number of characters in a name, counted in the canonical form.
pub const MAX_CHARACTERS: usize = 30;

/// Which alphabet new names are written in.
///
/// ```
/// use namegate::names::Profile;
/// assert_eq!("unicode".parse(), Ok(Profile::Unicode));
/// assert_eq!(Profile::default().to_string(), "ascii");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// `a-z`, `0-9` and single inner `.`, `_`, `-`; capitals are lowered.
    #[default]
    Ascii,
    /// Letters, marks and digits of one script, in compatibility-normalised, case-folded form.
    Unicode,
}

impl Profile {
    /// The greatest number of bytes in a canonical name: what a column must hold.
    ///
    /// Implied by [`MAX_CHARACTERS`], because UTF-8 spends at most four bytes on a character.
    #[must_use]
    pub fn max_bytes(self) -> usize {
        match self {
            Self::Ascii => MAX_CHARACTERS,
            Self::Unicode => MAX_CHARACTERS * char::MAX.len_utf8(),
        }
    }

    /// The alphabet in words that continue "use only ...".
    #[must_use]
    pub fn allowed(self) -> &'static str {
        match self {
            Self::Ascii => {
                "the letters a to z, the digits 0 to 9, and single dots, underscores and hyphens between them"
            }
            Self::Unicode => {
                "letters and digits in everyday use, and single dots, underscores and hyphens between them"
            }
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Ascii => "ascii",
            Self::Unicode => "unicode",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text names no profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown profile {found:?}, expected ascii or unicode")]
pub struct UnknownProfile {
    /// What was given.
    pub found: String,
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "ascii" => Ok(Self::Ascii),
            "unicode" => Ok(Self::Unicode),
            other => Err(UnknownProfile {
                found: other.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_read_back_as_they_are_written() {
        for profile in [Profile::Ascii, Profile::Unicode] {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        assert_eq!(
            "ASCII".parse::<Profile>(),
            Err(UnknownProfile {
                found: "ASCII".into()
            })
        );
    }
}
