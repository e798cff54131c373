//! What a name is: from the bytes of a question to a judged, comparable name.
//!
//! Three things are kept apart here, because mixing them up is how "free" goes wrong:
//!
//! | | made from | used for | may two names share it? |
//! | --- | --- | --- | --- |
//! | [`Canonical`] | the rules of a [`Profile`] | storing, echoing, comparing | no: equal means the same name |
//! | [`FilterKey`] | a coarse fold of any text | the filter, on insert and on lookup | yes: that costs one query |
//! | database equality | the column's unique rule | confirming a *maybe* | it decides |
//!
//! ```text
//!   raw query ──parse_query──▶ Question ──Policy::judge──▶ Canonical ──▶ Suggestions
//!                                              │               │
//!                                              ▼               ▼
//!   a row of the users table ──────────────────┼─FilterKey::of─▶ FilterKey
//!                                              ▼
//!                                   Refusal: invalid, reserved
//! ```
//!
//! Reading order: [`parse_query`], [`Policy`], [`Canonical`], [`FilterKey`], [`Reserved`], [`Suggestions`].
//!
//! Everything here is pure: no clock, no environment, no process locale, no I/O. The same text gives
//! the same answer on every machine. Nothing here knows whether a name is taken. No `Debug` output
//! contains a name, so that none can slip into a log.
//!
//! ```
//! use namegate::names::{FilterKey, Policy, Profile, Reserved, parse_query};
//!
//! let policy = Policy::new(Profile::Ascii, Reserved::built_in());
//! let question = parse_query(Some("username=Alice")).expect("well formed");
//! let canonical = policy.judge(&question.name).expect("allowed");
//! assert_eq!(canonical.as_str(), "alice");
//! assert_eq!(FilterKey::of("Alice"), FilterKey::of(canonical.as_str()));
//! ```

mod ascii;
mod canonical;
mod character;
mod document;
mod fold;
mod key;
mod percent;
mod policy;
mod profile;
mod query;
mod refusal;
mod reserved;
mod shape;
mod suggest;
mod unicode;

#[cfg(test)]
mod tests;

pub use canonical::Canonical;
pub use character::is_unseen;
pub use document::{Explained, PolicyDocument};
pub use fold::{fold_fingerprint, fold_probes};
pub use key::FilterKey;
pub use policy::{Policy, Refusal};
pub use profile::{MAX_CHARACTERS, MIN_CHARACTERS, Profile, UnknownProfile};
pub use query::{MAX_QUERY_BYTES, MAX_SUGGESTIONS, QueryError, Question, parse_query};
pub use refusal::NameError;
pub use reserved::{EntryError, Reserved, ReservedError, ReservedReason};
pub use suggest::Suggestions;
