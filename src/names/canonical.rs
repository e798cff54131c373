//! The one spelling a name is stored and compared under.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use super::unicode::normalise;

/// A canonical name. Equal canonical names *are* the same name.
///
/// Made by a [`Policy`](super::Policy) from what a person typed, or read back from where a policy once
/// put it with [`Canonical::stored`]. Cloning shares the text. `Debug` prints a length only, so that a
/// name cannot slip into a log; ask for the text with [`as_str`](Self::as_str).
///
/// ```
/// use namegate::names::Canonical;
/// let name = Canonical::stored("alice");
/// assert_eq!(name.as_str(), "alice");
/// assert_eq!(format!("{name:?}"), "Canonical(5 bytes)");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Canonical(Arc<str>);

impl Canonical {
    /// Takes `text` as it is, without judging it: for rows that are already stored, whose spelling is
    /// the database's business and may predate every rule.
    #[must_use]
    pub fn stored(text: &str) -> Self {
        Self(text.into())
    }

    /// The spelling under which a row of the sample table holds `username`, whatever the rules say of it: for
    /// rows that nobody judges.
    ///
    /// One for both profiles, and for any name that a policy allows the spelling that the policy gives it.
    ///
    /// ```
    /// use namegate::names::Canonical;
    /// assert_eq!(Canonical::unjudged(" STRAẞE ").as_str(), "strasse");
    /// ```
    #[must_use]
    pub fn unjudged(username: &str) -> Self {
        // Normalising makes a space of some characters, and the table's own trigger trims as well.
        Self(normalise(username.trim()).trim().into())
    }

    /// The spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Canonical {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Maps keyed by canonical names can be asked with a plain `&str`.
impl Borrow<str> for Canonical {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Canonical({} bytes)", self.0.len())
    }
}
