//! The policy as data, so that a form needs no rules of its own.
//!
//! A summary for people and forms: only [`Policy::judge`](super::Policy::judge) decides. It does not
//! hold the reserved names, only the reasons for which names are reserved.

use serde::Serialize;
use utoipa::ToSchema;

use super::profile::{MAX_CHARACTERS, MIN_CHARACTERS, Profile};
use super::refusal::NameError;
use super::reserved::ReservedReason;
use super::shape::SEPARATORS;

/// What `GET /username/policy` publishes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
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
    #[schema(value_type = String)]
    pub allowed: &'static str,
    /// Characters that may stand one at a time between others.
    #[schema(value_type = Vec<String>)]
    pub separators: [char; 3],
    /// A regular expression, in the syntax of HTML's `pattern`, that every allowed name matches once
    /// trimmed; not every match is allowed.
    #[schema(value_type = String)]
    pub pattern: &'static str,
    /// Whether capitals make a different name.
    pub is_case_sensitive: bool,
    /// Every code that can come with an invalid name.
    pub invalid: Vec<Explained>,
    /// Every code that can come with a reserved name.
    pub reserved: Vec<Explained>,
}

/// A code and what it means, as a sentence to show beside the field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Explained {
    /// The stable code.
    #[schema(value_type = String)]
    pub code: &'static str,
    /// The sentence.
    pub message: String,
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
                // Normalisation can make a separator of another character, so this asks for less.
                Profile::Unicode => r"[^\s._\-]+(?:[._\-][^\s._\-]+)*",
            },
            is_case_sensitive: false,
            invalid: refusals(profile)
                .map(|refusal| Explained {
                    code: refusal.code(),
                    message: refusal.to_string(),
                })
                .collect(),
            reserved: ReservedReason::ALL
                .map(|reason| Explained {
                    code: reason.code(),
                    message: reason.to_string(),
                })
                .to_vec(),
        }
    }
}

/// The refusals that a profile can come to.
fn refusals(profile: Profile) -> impl Iterator<Item = NameError> {
    let both = [
        NameError::Empty,
        NameError::TooShort {
            min: MIN_CHARACTERS,
        },
        NameError::TooLong {
            max: MAX_CHARACTERS,
        },
        NameError::Charset {
            allowed: profile.allowed(),
        },
        NameError::Separator,
        NameError::Whitespace,
        NameError::Control,
        NameError::Invisible,
        NameError::BidiControl,
    ];
    let unicode: &[_] = match profile {
        Profile::Ascii => &[],
        Profile::Unicode => &[NameError::MixedScript, NameError::TooManyMarks],
    };
    both.into_iter().chain(unicode.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_finds_the_rules_in_the_document() {
        let json = serde_json::to_value(PolicyDocument::of(Profile::Ascii)).expect("plain data");
        assert_eq!(json["profile"], "ascii");
        assert_eq!(
            (&json["min_length"], &json["max_length"]),
            (&3.into(), &30.into())
        );
        assert_eq!(json["separators"], serde_json::json!([".", "_", "-"]));
        assert_eq!(json["is_case_sensitive"], false);
        assert_eq!(
            json["invalid"][0],
            serde_json::json!({"code": "empty", "message": "Type a name."})
        );
        assert_eq!(json["reserved"][0]["code"], "route");
    }

    #[test]
    fn a_code_is_listed_for_the_profile_that_can_give_it() {
        let codes = |profile| {
            PolicyDocument::of(profile)
                .invalid
                .iter()
                .map(|it| it.code)
                .collect::<Vec<_>>()
        };
        assert!(!codes(Profile::Ascii).contains(&"mixed_script"));
        assert!(codes(Profile::Unicode).contains(&"mixed_script"));
        assert!(codes(Profile::Unicode).starts_with(&codes(Profile::Ascii)));
    }
}
