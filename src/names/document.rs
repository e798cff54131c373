//! The policy as data, so that a form needs no rules of its own.
//!
//! A summary for people and forms: only [`Policy::judge`](super::Policy::judge) decides.

use serde::Serialize;

use super::profile::{MAX_CHARACTERS, MIN_CHARACTERS, Profile};
use super::shape::SEPARATORS;

/// What `GET /username/policy` publishes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PolicyDocument {
    /// `ascii` or `unicode`.
    pub profile: String,
    /// The least number of characters of the canonical form.
    pub min_length: usize,
    /// The greatest number of characters of the canonical form.
    pub max_length: usize,
    /// The greatest number of bytes of the canonical form in UTF-8: the size of a column.
    pub max_bytes: usize,
    /// The alphabet, in words.
    pub allowed: &'static str,
    /// Characters that may stand one at a time between others.
    pub separators: [char; 3],
    /// A regular expression in the syntax of HTML's `pattern` that every allowed name matches once
    /// trimmed; not every match is allowed.
    pub pattern: &'static str,
    /// Whether capitals make a different name.
    pub is_case_sensitive: bool,
}

impl PolicyDocument {
    pub(super) fn of(profile: Profile) -> Self {
        Self {
            profile: profile.to_string(),
            min_length: MIN_CHARACTERS,
            max_length: MAX_CHARACTERS,
            max_bytes: profile.max_bytes(),
            allowed: profile.allowed(),
            separators: SEPARATORS,
            pattern: match profile {
                Profile::Ascii => r"[A-Za-z0-9]+(?:[._\-][A-Za-z0-9]+)*",
                Profile::Unicode => r"[^\s._\-]+(?:[._\-][^\s._\-]+)*",
            },
            is_case_sensitive: false,
        }
    }
}
