//! Names that are kept back, and why: the built-in list and the operator's own.
//!
//! The built-in list is grouped by reason, one file each under `reserved/`. Everything is compared by
//! canonical form, so that `ROBOTS.txt` is `robots.txt`. How an operator's list is written says
//! [`Reserved::with_operator_list`].

mod entry;
mod reason;

use std::collections::{BTreeMap, BTreeSet};

pub use entry::EntryError;
pub use reason::ReservedReason;

use entry::Entry;

/// The built-in names, by the reason for which they are kept back.
const GROUPS: [(ReservedReason, &str); 4] = [
    (ReservedReason::Route, include_str!("reserved/route.txt")),
    (
        ReservedReason::Infrastructure,
        include_str!("reserved/infrastructure.txt"),
    ),
    (
        ReservedReason::Sentinel,
        include_str!("reserved/sentinel.txt"),
    ),
    (ReservedReason::Brand, include_str!("reserved/brand.txt")),
];

/// The built-in file name extensions.
const SUFFIXES: &str = include_str!("reserved/route_suffix.txt");

/// Why an operator's list is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}")]
pub struct ReservedError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub source: EntryError,
}

/// The names kept back. Immutable: a reload builds a new one.
#[derive(Debug, Clone)]
pub struct Reserved {
    listed: BTreeMap<String, ReservedReason>,
    suffixes: BTreeSet<String>,
    /// Looked through one by one: operators' lists have tens of these.
    patterns: Vec<Entry>,
}

impl Reserved {
    /// Nothing kept back.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            listed: BTreeMap::new(),
            suffixes: BTreeSet::new(),
            patterns: Vec::new(),
        }
    }

    /// The list that suits any site.
    #[must_use]
    pub fn built_in() -> Self {
        let listed = GROUPS
            .into_iter()
            .flat_map(|(reason, text)| entries(text).map(move |entry| (entry.to_owned(), reason)))
            .collect();
        let suffixes = entries(SUFFIXES).map(str::to_owned).collect();
        Self {
            listed,
            suffixes,
            patterns: Vec::new(),
        }
    }

    /// Adds an operator's list: one entry a line, `#` starts a comment.
    ///
    /// ```text
    /// acme                # exact: this name and no other
    /// exact     acme-*    # * stands for any characters, also none; nothing else is special
    /// token     immo      # as a word of its own: immo, immo-rent, my.immo, immo42; not zimmo42
    /// substring swear     # wherever it stands
    /// ```
    ///
    /// Names caught by exact entries are reserved as `operator`, those caught by a word as `word`.
    /// Entries add to what is there and never take away; a name that is listed already keeps its reason.
    ///
    /// # Errors
    /// [`ReservedError`] for the first line that is not understood; then nothing of the list is used.
    ///
    /// ```
    /// use namegate::names::Reserved;
    /// let error = Reserved::built_in().with_operator_list("acme\nsam)").unwrap_err();
    /// assert_eq!(error.line, 2);
    /// ```
    pub fn with_operator_list(mut self, text: &str) -> Result<Self, ReservedError> {
        // Editors on Windows begin a file with a byte order mark.
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        for (number, line) in text.lines().enumerate() {
            match Entry::parse(line) {
                Ok(None) => {}
                Ok(Some(Entry::Exact(name))) => {
                    self.listed.entry(name).or_insert(ReservedReason::Operator);
                }
                Ok(Some(pattern)) => self.patterns.push(pattern),
                Err(source) => {
                    return Err(ReservedError {
                        line: number + 1,
                        source,
                    });
                }
            }
        }
        Ok(self)
    }

    /// Why a canonical spelling is kept back, if it is.
    pub(super) fn reason(&self, canonical: &str) -> Option<ReservedReason> {
        self.listed(canonical)
            .or_else(|| self.suffix(canonical))
            .or_else(|| self.caught(canonical))
    }

    /// Why a canonical spelling is kept back by an entry that is spelled just so.
    pub(super) fn listed(&self, canonical: &str) -> Option<ReservedReason> {
        self.listed.get(canonical).copied()
    }

    fn suffix(&self, canonical: &str) -> Option<ReservedReason> {
        let dot = canonical.rfind('.')?;
        self.suffixes
            .contains(&canonical[dot..])
            .then_some(ReservedReason::RouteSuffix)
    }

    fn caught(&self, canonical: &str) -> Option<ReservedReason> {
        let pattern = self
            .patterns
            .iter()
            .find(|pattern| pattern.catches(canonical))?;
        Some(match pattern {
            Entry::Exact(_) | Entry::Wildcard(_) => ReservedReason::Operator,
            Entry::Token(_) | Entry::Substring(_) => ReservedReason::Word,
        })
    }
}

/// The entries of a built-in file: one a line, `#` starts a comment.
fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(|line| line.split_once('#').map_or(line, |(entry, _)| entry).trim())
        .filter(|entry| !entry.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::unicode::normalise;

    #[test]
    fn built_in_entries_are_canonical_and_listed_for_one_reason() {
        let mut seen = BTreeSet::new();
        for (_, text) in GROUPS {
            for entry in entries(text) {
                assert_eq!(normalise(entry), entry);
                let parsed = Entry::parse(&format!("exact {entry}"));
                assert_eq!(parsed, Ok(Some(Entry::Exact(entry.to_owned()))));
                assert!(seen.insert(entry), "{entry} is listed twice");
            }
        }
        assert!(seen.len() > 700);
    }

    #[test]
    fn suffixes_begin_at_their_only_dot() {
        for suffix in entries(SUFFIXES) {
            assert_eq!(suffix.rfind('.'), Some(0), "{suffix}");
            assert_eq!(normalise(suffix), suffix);
        }
    }

    #[test]
    fn codes_are_those_that_are_serialised() {
        for reason in ReservedReason::ALL {
            assert_eq!(
                serde_json::to_value(reason).expect("plain data"),
                reason.code()
            );
        }
    }
}
