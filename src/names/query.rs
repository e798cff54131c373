//! The question, read strictly from the raw query string.
//!
//! One rule each: the key decides what a parameter is *after* decoding, so `%75sername` is `username`
//! too; empty pieces (`&&`) are skipped; unknown parameters are ignored, but *every* key and value must
//! be well formed. The last is stricter than it need be on purpose: a bad escape beside the name is
//! most likely the rest of a name that the client forgot to encode, and answering about a part of a
//! name is worse than refusing.
//!
//! This module does not judge the name: an empty one, or one full of NULs, is a fine question.

use std::fmt;

use super::percent::{self, PercentError};

/// The longest raw query that is looked at, in bytes.
pub const MAX_QUERY_BYTES: usize = 4096;

/// The most suggestions one question can ask for; a greater number is read as this one.
pub const MAX_SUGGESTIONS: u8 = 10;

/// One well-formed question.
#[derive(Clone, PartialEq, Eq)]
pub struct Question {
    /// The name as asked, decoded, not trimmed: what the answer echoes.
    pub name: String,
    /// How many suggestions are wanted, 0 to [`MAX_SUGGESTIONS`]; `None` when not asked for.
    pub suggest: Option<u8>,
    /// Whether a bare `+` in the name was read as a space, which a client that forgot to encode a
    /// plus sign will want to hear.
    pub plus_decoded: bool,
    /// Whether `scope=operator` was given. The public listener ignores it.
    pub is_operator_scope: bool,
}

/// Hides the name, which must not reach a log.
impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("name_bytes", &self.name.len())
            .field("suggest", &self.suggest)
            .field("plus_decoded", &self.plus_decoded)
            .field("is_operator_scope", &self.is_operator_scope)
            .finish()
    }
}

/// Why a query is not a question. `Display` is a sentence for the person at the other end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// A `%` without two hexadecimal digits after it.
    #[error(
        "The query holds a percent sign that is not followed by two hexadecimal digits. A literal one is written %25."
    )]
    Malformed,
    /// An escape that does not decode to UTF-8.
    #[error("The query is not UTF-8 once decoded. Names are sent as percent-encoded UTF-8.")]
    InvalidUtf8,
    /// There is no `username` parameter; its key is case-sensitive.
    #[error("The query has no username parameter.")]
    MissingUsername,
    /// A known parameter was given twice; neither the first nor the last wins.
    #[error("The parameter {parameter} was given more than once.")]
    Repeated {
        /// Which one.
        parameter: &'static str,
    },
    /// The raw query is longer than [`MAX_QUERY_BYTES`]; answered 414.
    #[error("The query is {found} bytes long; at most {max} are read.")]
    TooLong {
        /// The bound, in bytes.
        max: usize,
        /// The length found, in bytes.
        found: usize,
    },
    /// `suggest` is not a whole number.
    #[error("The parameter suggest must be a whole number from 0 to {max}.")]
    InvalidSuggest {
        /// The greatest number that makes a difference.
        max: u8,
    },
}

impl QueryError {
    /// The stable code that clients branch on.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed => "malformed_query",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::MissingUsername => "missing_username",
            Self::Repeated { .. } => "repeated_parameter",
            Self::TooLong { .. } => "query_too_long",
            Self::InvalidSuggest { .. } => "invalid_suggest",
        }
    }
}

impl From<PercentError> for QueryError {
    fn from(error: PercentError) -> Self {
        match error {
            PercentError::Escape => Self::Malformed,
            PercentError::Utf8 => Self::InvalidUtf8,
        }
    }
}

/// Reads the part of the URL after `?`; `None` when there was no `?`.
///
/// `username` and `username=` both ask about the empty name. `suggest` above [`MAX_SUGGESTIONS`] means
/// [`MAX_SUGGESTIONS`].
///
/// # Errors
/// See [`QueryError`]. Length comes first; then the first fault in reading order; a missing `username` last.
pub fn parse_query(raw: Option<&str>) -> Result<Question, QueryError> {
    let raw = raw.unwrap_or_default();
    if raw.len() > MAX_QUERY_BYTES {
        return Err(QueryError::TooLong {
            max: MAX_QUERY_BYTES,
            found: raw.len(),
        });
    }
    let mut username = None;
    let mut suggest = None;
    let mut scope = None;
    for piece in raw.split('&').filter(|piece| !piece.is_empty()) {
        let (raw_key, raw_value) = piece.split_once('=').unwrap_or((piece, ""));
        let key = percent::decode(raw_key)?;
        let value = percent::decode(raw_value)?;
        match key.as_str() {
            "username" => once("username", &mut username, (value, raw_value.contains('+')))?,
            "suggest" => once("suggest", &mut suggest, suggestions_wanted(&value)?)?,
            "scope" => once("scope", &mut scope, value)?,
            _ => {}
        }
    }
    let (name, plus_decoded) = username.ok_or(QueryError::MissingUsername)?;
    Ok(Question {
        name,
        suggest,
        plus_decoded,
        is_operator_scope: scope.as_deref() == Some("operator"),
    })
}

fn once<T>(parameter: &'static str, slot: &mut Option<T>, value: T) -> Result<(), QueryError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(QueryError::Repeated { parameter }),
    }
}

/// Any run of ASCII digits is a number, however long: `u8::from_str` alone would also take `+5`.
fn suggestions_wanted(value: &str) -> Result<u8, QueryError> {
    if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(QueryError::InvalidSuggest {
            max: MAX_SUGGESTIONS,
        });
    }
    Ok(value
        .parse()
        .map_or(MAX_SUGGESTIONS, |wanted: u8| wanted.min(MAX_SUGGESTIONS)))
}
