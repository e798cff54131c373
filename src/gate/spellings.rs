//! Under which spellings a row may hold one name.
//!
//! The sample table holds canonical forms, and is asked about those. A table of somebody else's holds names as people
//! typed them, under an equality of its own: `Alice` there is not `alice` where the column compares byte for byte, and
//! `INFO` is not `info` where it lower-cases as in Turkish. Who asks for `Alice` will insert `Alice`; so the database is
//! asked about the name as typed, too, in the same statement, and the name is free when no row holds either.
//!
//! All spellings of a name have one filter key, so the filter needs no second question.

use crate::names::Canonical;

/// The spellings of one name that the database is asked about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Spellings {
    canonical: Canonical,
    /// As typed, and as typed without outer white space; where these differ.
    others: Vec<Canonical>,
}

impl Spellings {
    /// The canonical form, and the text as it was typed.
    #[must_use]
    pub fn typed(canonical: Canonical, raw: &str) -> Self {
        let mut others = Vec::new();
        for spelling in [raw.trim(), raw] {
            let is_new = spelling != canonical.as_str()
                && others
                    .iter()
                    .all(|other: &Canonical| other.as_str() != spelling);
            if is_new {
                others.push(Canonical::stored(spelling));
            }
        }
        Self { canonical, others }
    }

    /// The form that the filter and the cache are asked about.
    #[must_use]
    pub const fn canonical(&self) -> &Canonical {
        &self.canonical
    }

    /// The canonical form first.
    pub fn iter(&self) -> impl Iterator<Item = &Canonical> {
        std::iter::once(&self.canonical).chain(&self.others)
    }
}

/// Asked about in its canonical form only.
impl From<Canonical> for Spellings {
    fn from(canonical: Canonical) -> Self {
        Self {
            canonical,
            others: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spellings(canonical: &str, raw: &str) -> Vec<String> {
        let spellings = Spellings::typed(Canonical::stored(canonical), raw);
        spellings
            .iter()
            .map(|name| name.as_str().to_owned())
            .collect()
    }

    #[test]
    fn each_spelling_is_asked_once_and_the_canonical_one_first() {
        assert_eq!(spellings("alice", "alice"), ["alice"]);
        assert_eq!(spellings("alice", "Alice"), ["alice", "Alice"]);
        assert_eq!(spellings("alice", " alice "), ["alice", " alice "]);
        assert_eq!(
            spellings("alice", "\tAlice "),
            ["alice", "Alice", "\tAlice "]
        );
    }
}
