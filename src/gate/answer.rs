//! What the gate tells the caller: one shape for every outcome, as it goes over the wire.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::names::Canonical;

/// How a question ended. Each outcome has one reason and one source; there are no other combinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The filter does not hold the name.
    FreeInFilter,
    /// The database was asked: no row holds it.
    FreeInDatabase,
    /// The database was asked: a row holds it.
    TakenInDatabase,
    /// The database said so a moment ago.
    TakenInCache,
    /// Allowed by the rules, but kept back.
    Reserved,
    /// Not allowed by the rules.
    Invalid,
    /// It could not be found out.
    Unverified,
    /// Whoever asked may not have the database asked now.
    RateLimited,
}

/// What the caller can branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No committed row holds the name.
    Free,
    /// A committed row holds the name.
    Taken,
    /// The name is kept back.
    Reserved,
    /// The name breaks a rule.
    Invalid,
    /// Not known.
    Unverified,
    /// Not known, for this client asks too much.
    RateLimited,
}

/// Who knew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The Bloom filter, from memory.
    Filter,
    /// The cache of names lately found taken, from memory.
    Cache,
    /// The database.
    Database,
    /// The rules; nothing was asked.
    Policy,
}

impl Outcome {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Self; 8] = [
        Self::FreeInFilter,
        Self::FreeInDatabase,
        Self::TakenInDatabase,
        Self::TakenInCache,
        Self::Reserved,
        Self::Invalid,
        Self::Unverified,
        Self::RateLimited,
    ];

    /// What the caller can branch on.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::FreeInFilter | Self::FreeInDatabase => Reason::Free,
            Self::TakenInDatabase | Self::TakenInCache => Reason::Taken,
            Self::Reserved => Reason::Reserved,
            Self::Invalid => Reason::Invalid,
            Self::Unverified => Reason::Unverified,
            Self::RateLimited => Reason::RateLimited,
        }
    }

    /// Who knew; `None` when nobody did.
    #[must_use]
    pub const fn source(self) -> Option<Source> {
        match self {
            Self::FreeInFilter => Some(Source::Filter),
            Self::FreeInDatabase | Self::TakenInDatabase => Some(Source::Database),
            Self::TakenInCache => Some(Source::Cache),
            Self::Reserved | Self::Invalid => Some(Source::Policy),
            Self::Unverified | Self::RateLimited => None,
        }
    }

    /// The source as a metric label.
    #[must_use]
    pub const fn source_word(self) -> &'static str {
        match self.source() {
            Some(Source::Filter) => "filter",
            Some(Source::Cache) => "cache",
            Some(Source::Database) => "database",
            Some(Source::Policy) => "policy",
            None => "none",
        }
    }

    /// `true`, `false`, or `None` for *not known*.
    #[must_use]
    pub const fn available(self) -> Option<bool> {
        match self.reason() {
            Reason::Free => Some(true),
            Reason::Taken | Reason::Reserved | Reason::Invalid => Some(false),
            Reason::Unverified | Reason::RateLimited => None,
        }
    }
}

impl Reason {
    /// As it goes over the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Taken => "taken",
            Self::Reserved => "reserved",
            Self::Invalid => "invalid",
            Self::Unverified => "unverified",
            Self::RateLimited => "rate_limited",
        }
    }
}

/// The answer to one question.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What was asked, as decoded.
    pub username: String,
    /// How it would be stored; `None` when there is no such spelling.
    pub canonical: Option<Canonical>,
    /// How the question ended.
    pub outcome: Outcome,
    /// Why, where the reason alone does not say enough.
    pub detail: Option<Detail>,
    /// Names like it that are free; `None` when none were asked for.
    pub suggestions: Option<Vec<Canonical>>,
}

/// More about a reason, for a form to branch on and for a person to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Detail {
    /// A stable word.
    #[schema(value_type = String, examples("too_short"))]
    pub code: &'static str,
    /// A sentence for people.
    #[schema(examples("Use at least 3 characters."))]
    pub message: String,
    /// The least number of characters, where that is the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = usize, required = false)]
    pub min: Option<usize>,
    /// The greatest number of characters, where that is the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = usize, required = false)]
    pub max: Option<usize>,
    /// The characters that are allowed, where that is the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub allowed: Option<&'static str>,
    /// What probably went wrong on the way here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, examples("plus_decoded_as_space"))]
    pub hint: Option<&'static str>,
}

impl Detail {
    /// A detail with nothing but its code and its sentence.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            min: None,
            max: None,
            allowed: None,
            hint: None,
        }
    }
}

/// The answer to one question about a name.
#[derive(Serialize, ToSchema)]
struct Wire<'a> {
    /// What was asked, as decoded.
    #[schema(value_type = String, examples("Alice"))]
    username: &'a str,
    /// How it would be stored; null when there is no such spelling.
    #[schema(value_type = Option<String>, required, examples("alice"))]
    canonical: Option<&'a str>,
    /// Null: it could not be found out. Nothing but true means free.
    #[schema(required)]
    available: Option<bool>,
    reason: Reason,
    /// More about the reason, where it alone does not say enough.
    #[schema(value_type = Option<Detail>, required)]
    detail: Option<&'a Detail>,
    /// Who knew.
    #[schema(required)]
    source: Option<Source>,
    /// Free names like it; only when they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<String>, required = false)]
    suggestions: Option<Vec<&'a str>>,
}

impl PartialSchema for Answer {
    fn schema() -> RefOr<Schema> {
        Wire::schema()
    }
}

impl ToSchema for Answer {
    fn name() -> Cow<'static, str> {
        "Answer".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Wire::schemas(schemas);
    }
}

impl Serialize for Answer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Wire {
            username: &self.username,
            canonical: self.canonical.as_ref().map(Canonical::as_str),
            available: self.outcome.available(),
            reason: self.outcome.reason(),
            detail: self.detail.as_ref(),
            source: self.outcome.source(),
            suggestions: self
                .suggestions
                .as_ref()
                .map(|names| names.iter().map(Canonical::as_str).collect()),
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_outcomes_is_in_the_order_of_their_discriminants() {
        for (index, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, index);
        }
    }

    #[test]
    fn only_a_free_outcome_is_available() {
        for outcome in Outcome::ALL {
            assert_eq!(
                outcome.available() == Some(true),
                outcome.reason() == Reason::Free,
                "{outcome:?}"
            );
        }
    }

    #[test]
    fn an_answer_has_every_field_whatever_the_outcome() {
        let answer = Answer {
            username: "Alice".into(),
            canonical: None,
            outcome: Outcome::Unverified,
            detail: None,
            suggestions: None,
        };
        assert_eq!(
            serde_json::to_string(&answer).expect("an answer is plain data"),
            r#"{"username":"Alice","canonical":null,"available":null,"reason":"unverified","detail":null,"source":null}"#
        );
    }
}
