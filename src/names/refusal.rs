//! Why a name is refused: a code for programs, a sentence for people.
//!
//! Codes are part of the HTTP contract and never change their meaning. No variant carries the name.

/// Why a name cannot be registered. `Display` is a sentence to show beside the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Nothing is left once outer white space is trimmed.
    #[error("Type a name.")]
    Empty,
    /// Fewer characters than the profile wants, counted in the canonical form.
    #[error("Use at least {min} characters.")]
    TooShort {
        /// The least number of characters.
        min: usize,
    },
    /// More characters than the profile wants, counted in the canonical form.
    #[error("Use at most {max} characters.")]
    TooLong {
        /// The greatest number of characters.
        max: usize,
    },
    /// A character outside the profile's alphabet.
    #[error("Use only {allowed}.")]
    Charset {
        /// The alphabet, in words.
        allowed: &'static str,
    },
    /// A separator at an end, or two in a row.
    #[error("Dots, underscores and hyphens go between other characters, one at a time.")]
    Separator,
    /// White space inside the name.
    #[error("Leave out spaces.")]
    Whitespace,
    /// A control character, NUL among them.
    #[error("The name holds a control character. Type it anew instead of pasting it.")]
    Control,
    /// A character that draws nothing.
    #[error("The name holds an invisible character. Type it anew instead of pasting it.")]
    Invisible,
    /// A character that turns the writing direction.
    #[error(
        "The name holds a character that changes the writing direction. Type it anew instead of pasting it."
    )]
    BidiControl,
    /// Letters of several scripts, which can imitate another name.
    #[error("Use letters of one script only.")]
    MixedScript,
    /// More combining marks in a row than any language needs.
    #[error("Use fewer accents and marks on one letter.")]
    TooManyMarks,
}

impl NameError {
    /// The stable code that forms branch on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooShort { .. } => "too_short",
            Self::TooLong { .. } => "too_long",
            Self::Charset { .. } => "charset",
            Self::Separator => "separator",
            Self::Whitespace => "whitespace",
            Self::Control => "control",
            Self::Invisible => "invisible",
            Self::BidiControl => "bidi_control",
            Self::MixedScript => "mixed_script",
            Self::TooManyMarks => "too_many_marks",
        }
    }
}
