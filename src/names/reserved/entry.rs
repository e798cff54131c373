//! One line of an operator's list: how it is written, and which names it catches.
//!
//! ```text
//! # a comment, also after an entry
//! acme                 exact: this name
//! exact     acme-*     exact, where * stands for any characters, also none
//! token     immo       immo, immo-rent, my.immo, immo42; not zimmo42
//! substring swear      wherever it stands
//! ```
//!
//! Nothing but `*` is special, and only in exact entries; a dot is a dot. Entries are brought into
//! canonical form, so that their case and width do not matter. A line that is not understood is an
//! error, never a guess: a list that protects less than its author believes is worse than none.

use unicode_normalization::char::is_combining_mark;

use crate::names::shape::SEPARATORS;
use crate::names::unicode::normalise;

/// What is wrong with one line of an operator's list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// A character that no name can hold, so that the entry would never catch anything.
    #[error("no name can hold the character {found:?}")]
    Character {
        /// The first one.
        found: char,
    },
    /// The first of two words is not a match mode.
    #[error("unknown match mode {found:?}, expected exact, token or substring")]
    Mode {
        /// What stood there, its first twenty characters.
        found: String,
    },
    /// More than a mode and an entry.
    #[error("expected one entry, or a match mode and one entry, found {found} words")]
    Words {
        /// How many words stood there.
        found: usize,
    },
    /// A mode without an entry. The word itself is reserved with `exact token`.
    #[error("expected an entry after the match mode")]
    Empty,
    /// `*` outside exact entries.
    #[error("only exact entries take the wildcard *")]
    Wildcard,
    /// An entry of wildcards alone.
    #[error("the entry would reserve every name")]
    Everything,
}

/// An entry, in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// This name.
    Exact(String),
    /// A name that begins with the first piece, ends with the last, and holds the others in between.
    Wildcard(Vec<String>),
    /// A name in which this stands between separators, ends, or changes from letters to digits.
    Token(String),
    /// A name in which this stands anywhere.
    Substring(String),
}

impl Entry {
    /// Reads one line; `None` when it is blank or a comment.
    pub(super) fn parse(line: &str) -> Result<Option<Self>, EntryError> {
        let content = line.split_once('#').map_or(line, |(content, _)| content);
        let words: Vec<&str> = content.split_whitespace().collect();
        let (mode, entry) = match words[..] {
            [] => return Ok(None),
            ["exact" | "token" | "substring"] => return Err(EntryError::Empty),
            [entry] => ("exact", entry),
            [mode, entry] => (mode, entry),
            _ => return Err(EntryError::Words { found: words.len() }),
        };
        let entry = normalise(entry);
        if let Some(found) = entry.chars().find(|&c| !may_stand_in_an_entry(c)) {
            return Err(EntryError::Character { found });
        }
        match mode {
            "exact" if !entry.contains('*') => Ok(Some(Self::Exact(entry))),
            "exact" if entry.chars().all(|c| c == '*') => Err(EntryError::Everything),
            "exact" => Ok(Some(Self::Wildcard(
                entry.split('*').map(str::to_owned).collect(),
            ))),
            "token" | "substring" if entry.contains('*') => Err(EntryError::Wildcard),
            "token" => Ok(Some(Self::Token(entry))),
            "substring" => Ok(Some(Self::Substring(entry))),
            // Cut, so that the error stays a line whatever the file is.
            unknown => Err(EntryError::Mode {
                found: unknown.chars().take(20).collect(),
            }),
        }
    }

    /// Whether the entry catches a canonical spelling.
    pub(super) fn catches(&self, canonical: &str) -> bool {
        match self {
            Self::Exact(name) => canonical == name,
            Self::Wildcard(pieces) => matches_pieces(canonical, pieces),
            Self::Token(token) => canonical.match_indices(token.as_str()).any(|(at, _)| {
                is_boundary(canonical, at) && is_boundary(canonical, at + token.len())
            }),
            Self::Substring(part) => canonical.contains(part.as_str()),
        }
    }
}

fn may_stand_in_an_entry(c: char) -> bool {
    c == '*' || SEPARATORS.contains(&c) || c.is_alphanumeric() || is_combining_mark(c)
}

/// Takes the leftmost place for each inner piece, which never loses a match: no backtracking.
fn matches_pieces(text: &str, pieces: &[String]) -> bool {
    let [first, inner @ .., last] = pieces else {
        return false;
    };
    let middle = text
        .strip_prefix(first.as_str())
        .and_then(|rest| rest.strip_suffix(last.as_str()));
    let Some(mut rest) = middle else { return false };
    inner
        .iter()
        .all(|piece| match rest.split_once(piece.as_str()) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
}

/// Whether a token may begin or end at the byte `at`.
fn is_boundary(text: &str, at: usize) -> bool {
    let (before, after) = text.split_at(at);
    match (before.chars().next_back(), after.chars().next()) {
        (Some(a), Some(b)) => {
            [a, b].iter().any(|c| SEPARATORS.contains(c)) || a.is_numeric() != b.is_numeric()
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catches(line: &str, name: &str) -> bool {
        Entry::parse(line)
            .expect(line)
            .expect("an entry")
            .catches(name)
    }

    #[test]
    fn nothing_but_the_asterisk_is_special() {
        assert!(catches("sam.saffron", "sam.saffron"));
        assert!(!catches("sam.saffron", "sam9saffron"));
        assert!(catches("*admin*", "superadmin1"));
        assert!(catches("*admin*", "admin"));
        assert!(catches("exact i42-*", "i42-test"));
        assert!(!catches("i42-*", "xi42-test"));
        assert!(catches("a*b*c", "abbc"));
        assert!(!catches("a*b*c", "acb"));
        assert!(!catches("ab*ba", "aba"));
        assert!(catches("*b*b*", "abab"));
        assert!(!catches("*b*b*", "aba"));
    }

    #[test]
    fn the_match_mode_decides_how_a_word_is_found() {
        for (name, exact, token, substring) in [
            ("immo", true, true, true),
            ("my-immo", false, true, true),
            ("immo.rent", false, true, true),
            ("immo42", false, true, true),
            ("7immo_x", false, true, true),
            ("zimmo42", false, false, true),
            ("immobile", false, false, true),
            ("simmons", false, false, true),
            ("imm0", false, false, false),
        ] {
            assert_eq!(catches("exact immo", name), exact, "{name}");
            assert_eq!(catches("immo", name), exact, "{name}");
            assert_eq!(catches("token immo", name), token, "{name}");
            assert_eq!(catches("substring immo", name), substring, "{name}");
        }
    }

    #[test]
    fn entries_are_compared_in_canonical_form() {
        assert!(catches("ACME", "acme"));
        assert!(catches("ＡＣＭＥ # full width", "acme"));
        assert!(catches("token Straße", "my-strasse"));
    }

    #[test]
    fn blank_lines_and_comments_are_skipped() {
        for line in ["", "   ", "# comment", "\t# token x y z", "#"] {
            assert_eq!(Entry::parse(line), Ok(None), "{line:?}");
        }
    }

    #[test]
    fn malformed_lines_are_refused() {
        for (line, error) in [
            ("sam)", EntryError::Character { found: ')' }),
            ("sam+", EntryError::Character { found: '+' }),
            ("^sam$", EntryError::Character { found: '^' }),
            ("sa\u{200B}m", EntryError::Character { found: '\u{200B}' }),
            ("a/b", EntryError::Character { found: '/' }),
            ("token:immo", EntryError::Character { found: ':' }),
            (
                "regex sam",
                EntryError::Mode {
                    found: "regex".into(),
                },
            ),
            (
                "TOKEN sam",
                EntryError::Mode {
                    found: "TOKEN".into(),
                },
            ),
            (
                "sam-saffron-and-many-others jones",
                EntryError::Mode {
                    found: "sam-saffron-and-many".into(),
                },
            ),
            ("exact sam saffron", EntryError::Words { found: 3 }),
            ("token", EntryError::Empty),
            ("exact", EntryError::Empty),
            ("substring # nothing", EntryError::Empty),
            ("token im*", EntryError::Wildcard),
            ("substring *", EntryError::Wildcard),
            ("*", EntryError::Everything),
            ("exact **", EntryError::Everything),
        ] {
            assert_eq!(Entry::parse(line), Err(error), "{line:?}");
        }
    }
}
