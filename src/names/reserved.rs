//! Names that are kept back, and why: the built-in list and the operator's own.
//!
//! The built-in list is grouped by reason, one file each under `reserved/`. Everything is compared by
//! canonical form, so that `ROBOTS.txt` is `robots.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

/// Why a name is kept back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReservedReason {
    /// The first segment of a page or interface: `/login` belongs to the site.
    Route,
    /// A file name extension that a router or proxy would act on, such as `.json`.
    RouteSuffix,
    /// A mailbox, DNS label or device name that protocols give a meaning to.
    Infrastructure,
    /// A word that programs use for "nobody" or "the system itself".
    Sentinel,
    /// A name that people would take for the voice of the site.
    Brand,
    /// Listed by the operator.
    Operator,
    /// Holds a word that the operator has barred.
    Word,
}

impl ReservedReason {
    /// The stable code that forms branch on.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::RouteSuffix => "route_suffix",
            Self::Infrastructure => "infrastructure",
            Self::Sentinel => "sentinel",
            Self::Brand => "brand",
            Self::Operator => "operator",
            Self::Word => "word",
        }
    }
}

/// A sentence to show beside the field.
impl fmt::Display for ReservedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Route => "This name is the address of a page of this site.",
            Self::RouteSuffix => "This name ends like a file name.",
            Self::Infrastructure => {
                "This name has a meaning for mail, the network or operating systems."
            }
            Self::Sentinel => "Programs use this name for something else.",
            Self::Brand => "This name could be taken for the site's own.",
            Self::Operator => "This name is reserved.",
            Self::Word => "This name holds a word that is not allowed here.",
        })
    }
}

/// Why an operator's list is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}")]
pub struct ReservedError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub source: EntryError,
}

/// What is wrong with one line of an operator's list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// A character that no name can hold.
    #[error("no name can hold {found:?}")]
    Character {
        /// The first one.
        found: char,
    },
}

/// The names kept back. Immutable: a reload builds a new one.
#[derive(Debug, Clone)]
pub struct Reserved {
    listed: BTreeMap<String, ReservedReason>,
    suffixes: BTreeSet<String>,
}

impl Reserved {
    /// Nothing kept back.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            listed: BTreeMap::new(),
            suffixes: BTreeSet::new(),
        }
    }

    /// The list that suits any site.
    #[must_use]
    pub fn built_in() -> Self {
        let groups = [
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
        let listed = groups
            .into_iter()
            .flat_map(|(reason, text)| entries(text).map(move |entry| (entry.to_owned(), reason)))
            .collect();
        let suffixes = entries(include_str!("reserved/route_suffix.txt"))
            .map(str::to_owned)
            .collect();
        Self { listed, suffixes }
    }

    /// Why a canonical spelling is kept back, if it is.
    pub(super) fn reason(&self, canonical: &str) -> Option<ReservedReason> {
        self.listed(canonical).or_else(|| {
            let dot = canonical.rfind('.')?;
            self.suffixes
                .contains(&canonical[dot..])
                .then_some(ReservedReason::RouteSuffix)
        })
    }

    /// Why a canonical spelling is kept back by an entry that is spelled just so.
    pub(super) fn listed(&self, canonical: &str) -> Option<ReservedReason> {
        self.listed.get(canonical).copied()
    }
}

/// The entries of a built-in file: one a line, `#` starts a comment.
fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(|line| line.split_once('#').map_or(line, |(entry, _)| entry).trim())
        .filter(|entry| !entry.is_empty())
}
