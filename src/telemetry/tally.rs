//! What became of all questions so far, in one line for people.

use std::fmt;

use crate::gate::Outcome;
use crate::telemetry::Metrics;

/// The counts behind "how many questions needed the database".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Questions answered or refused.
    pub questions: u64,
    /// Answered *free* by the filter alone.
    pub free_from_memory: u64,
    /// Answered *taken* by the cache alone.
    pub taken_from_cache: u64,
    /// Settled by the rules: reserved or invalid.
    pub by_policy: u64,
    /// Answered by the database.
    pub from_database: u64,
    /// Not answered: the database could not be asked.
    pub unverified: u64,
    /// Statements sent to the database for all of them.
    pub statements: u64,
    /// Names the filter took for maybe and no row held.
    pub false_positives: u64,
}

impl Tally {
    /// Reads the counters.
    #[must_use]
    pub fn of(metrics: &Metrics) -> Self {
        let n = |outcome| metrics.answered(outcome);
        Self {
            questions: Outcome::ALL.into_iter().map(n).sum(),
            free_from_memory: n(Outcome::FreeInFilter),
            taken_from_cache: n(Outcome::TakenInCache),
            by_policy: n(Outcome::Reserved) + n(Outcome::Invalid),
            from_database: n(Outcome::FreeInDatabase) + n(Outcome::TakenInDatabase),
            unverified: n(Outcome::Unverified),
            statements: metrics.lookup_statements.get(),
            false_positives: metrics.false_positives.get(),
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} questions, {} needed the database ({} statements, {} false positives): \
             {} free from memory, {} taken from cache, {} settled by the rules, {} unverified",
            self.questions,
            self.from_database,
            self.statements,
            self.false_positives,
            self.free_from_memory,
            self.taken_from_cache,
            self.by_policy,
            self.unverified,
        )
    }
}
