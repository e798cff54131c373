//! The decision table: from what memory and the database say to what the caller is told.
//!
//! | memory | database | verdict |
//! | --- | --- | --- |
//! | absent | not asked | free |
//! | known taken | not asked | taken |
//! | maybe, or not trusted | a row holds it | taken |
//! | maybe, or not trusted | no row holds it | free |
//! | maybe, or not trusted | no answer | unverified |
//!
//! There is no other way to *free*, and never a guess.

/// What memory alone can promise about a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// The filter is complete and fresh, and does not hold the name.
    Absent,
    /// The database lately said *taken*, and the feed has not reported the name released.
    KnownTaken,
    /// The filter is complete and fresh, and may hold the name.
    Maybe,
    /// The filter is missing, still warming up, or not fresh enough.
    Untrusted,
}

impl Memory {
    /// Whether memory alone cannot tell, so that a row has to be looked for.
    #[must_use]
    pub const fn needs_the_database(self) -> bool {
        matches!(self, Self::Maybe | Self::Untrusted)
    }
}

/// What the database said, when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// A committed row holds the name.
    Held,
    /// No committed row does.
    NotHeld,
    /// No answer could be had.
    Unknown,
}

/// What the caller is told. `Free` is advice, not a reservation: only the unique index decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No committed row holds the name.
    Free,
    /// A committed row holds the name.
    Taken,
    /// It could not be found out.
    Unverified,
}

/// Reads the table above. `row` is `None` when the database was not asked.
#[must_use]
#[allow(
    clippy::match_same_arms,
    reason = "one arm per line of the table above"
)]
pub const fn decide(memory: Memory, row: Option<Row>) -> Verdict {
    match (memory, row) {
        (Memory::Absent, _) => Verdict::Free,
        (Memory::KnownTaken, _) => Verdict::Taken,
        (Memory::Maybe | Memory::Untrusted, Some(Row::Held)) => Verdict::Taken,
        (Memory::Maybe | Memory::Untrusted, Some(Row::NotHeld)) => Verdict::Free,
        (Memory::Maybe | Memory::Untrusted, Some(Row::Unknown) | None) => Verdict::Unverified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_of_the_table() {
        use Memory::{Absent, KnownTaken, Maybe, Untrusted};
        let cells = [
            (Absent, None, Verdict::Free),
            (KnownTaken, None, Verdict::Taken),
            (Maybe, Some(Row::Held), Verdict::Taken),
            (Maybe, Some(Row::NotHeld), Verdict::Free),
            (Maybe, Some(Row::Unknown), Verdict::Unverified),
            (Maybe, None, Verdict::Unverified),
            (Untrusted, Some(Row::Held), Verdict::Taken),
            (Untrusted, Some(Row::NotHeld), Verdict::Free),
            (Untrusted, Some(Row::Unknown), Verdict::Unverified),
            (Untrusted, None, Verdict::Unverified),
        ];
        for (memory, row, verdict) in cells {
            assert_eq!(decide(memory, row), verdict, "{memory:?} {row:?}");
        }
    }

    #[test]
    fn memory_that_settles_a_name_needs_no_row_and_any_other_does() {
        for memory in [
            Memory::Absent,
            Memory::KnownTaken,
            Memory::Maybe,
            Memory::Untrusted,
        ] {
            let is_settled = decide(memory, None) != Verdict::Unverified;
            assert_eq!(memory.needs_the_database(), !is_settled, "{memory:?}");
        }
    }

    #[test]
    fn an_untrusted_filter_alone_never_says_free() {
        for row in [None, Some(Row::Held), Some(Row::Unknown)] {
            assert_ne!(decide(Memory::Untrusted, row), Verdict::Free);
        }
    }
}
