//! The one object that judges names: for the check, the sign-up and the import alike.
//!
//! ```text
//!   raw ─trim─▶ text ─unseen characters?─▶ spell (profile) ─▶ canonical ─shape?─▶ reserved? ─▶ Allowed
//!                          │                   │                           │           │
//!                          ▼                   ▼                           ▼           ▼
//!                       Invalid             Invalid              Invalid, or        Reserved
//!                                                          Reserved when listed
//! ```
//!
//! A listed name is *reserved* even where it is also misshapen: `me` is told "reserved" and not "use at
//! least 3 characters".
//!
//! Rules are for new names. Rows that already exist are keyed whatever they hold, and whether a name is
//! taken is not known here.

use std::sync::Arc;

use super::canonical::Canonical;
use super::character::refuse_unseen;
use super::document::PolicyDocument;
use super::profile::{MAX_CHARACTERS, Profile};
use super::refusal::NameError;
use super::reserved::{Reserved, ReservedReason};
use super::shape::refuse_misshapen;
use super::{ascii, unicode};

/// Longer texts are refused before any of them is normalised, in bytes.
///
/// No character of a canonical form is made from more than sixteen bytes of text, so nothing that
/// could be allowed comes near.
const MAX_TEXT_BYTES: usize = 1024;

/// Why the policy does not allow a name. `Display` is a sentence to show beside the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not a name.
    #[error(transparent)]
    Invalid(#[from] NameError),
    /// A well-spelled name that is kept back.
    #[error("{reason}")]
    Reserved {
        /// How it would be stored.
        canonical: Canonical,
        /// Why it is kept back.
        reason: ReservedReason,
    },
}

/// The rules for new names. Cloning shares the reserved list.
#[derive(Debug, Clone)]
pub struct Policy {
    profile: Profile,
    reserved: Arc<Reserved>,
}

impl Policy {
    /// Builds a policy from an alphabet and a list of names to keep back.
    #[must_use]
    pub fn new(profile: Profile, reserved: Reserved) -> Self {
        Self {
            profile,
            reserved: Arc::new(reserved),
        }
    }

    /// The alphabet.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Judges a name as typed: how it would be stored, if it may be registered and is not taken. Outer
    /// white space is trimmed first.
    ///
    /// # Errors
    /// [`Refusal`] says which rule is in the way.
    pub fn judge(&self, raw: &str) -> Result<Canonical, Refusal> {
        let spelling = self.spell(raw)?;
        let shape = refuse_misshapen(&spelling);
        let reserved = match shape {
            Ok(()) => self.reserved.reason(&spelling),
            Err(_) => self.reserved.listed(&spelling),
        };
        let canonical = Canonical::stored(&spelling);
        match (reserved, shape) {
            (Some(reason), _) => Err(Refusal::Reserved { canonical, reason }),
            (None, Ok(())) => Ok(canonical),
            (None, Err(error)) => Err(error.into()),
        }
    }

    /// Judges as [`judge`](Self::judge) does, but past the reserved list: an operator may use any name
    /// that is well formed.
    ///
    /// # Errors
    /// [`NameError`] when it is not.
    pub fn judge_as_operator(&self, raw: &str) -> Result<Canonical, NameError> {
        let spelling = self.spell(raw)?;
        refuse_misshapen(&spelling)?;
        Ok(Canonical::stored(&spelling))
    }

    /// How the name would be stored; `None` when it is invalid.
    #[must_use]
    pub fn canonical_of(&self, raw: &str) -> Option<Canonical> {
        match self.judge(raw) {
            Ok(canonical) | Err(Refusal::Reserved { canonical, .. }) => Some(canonical),
            Err(Refusal::Invalid(_)) => None,
        }
    }

    /// The rules as data, for forms and documentation.
    #[must_use]
    pub fn document(&self) -> PolicyDocument {
        PolicyDocument::of(self.profile)
    }

    /// The spelling under which the name is compared, its characters judged but not its shape.
    fn spell(&self, raw: &str) -> Result<String, NameError> {
        let text = raw.trim();
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > MAX_TEXT_BYTES {
            return Err(NameError::TooLong {
                max: MAX_CHARACTERS,
            });
        }
        refuse_unseen(text)?;
        match self.profile {
            Profile::Ascii => ascii::spell(text),
            Profile::Unicode => unicode::spell(text),
        }
    }
}
