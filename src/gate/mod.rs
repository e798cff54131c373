//! The decision: is this name free? Rules first, then memory, then the database, never a guess.
//!
//! ```text
//!            policy              recall                    lookups
//!  name ──▶ allowed? ──▶ filter fresh and absent? ──▶ one statement for many names
//!              │no            │yes     │known taken        │row  │no row │no answer
//!              ▼              ▼        ▼                   ▼     ▼       ▼
//!        invalid/reserved   free     taken              taken  free   unverified
//! ```
//!
//! The table itself is in [`decision`]. The gate knows a [`Store`], not a database, and nothing of HTTP.

mod answer;
pub mod decision;
pub mod freshness;
mod generation;
mod lookups;
mod many;
mod recall;
mod spellings;
pub mod store;
mod taken;

use std::sync::Arc;

pub use answer::{Answer, Detail, Outcome, Reason, Source};
pub use generation::Generation;
pub use lookups::{Found, LookupLimits, Lookups};
pub use recall::{Apply, Recall};
pub use spellings::Spellings;
pub use store::{Bookmark, Claim, Distrust, Extent, Feed, Poll, Sink, Store, StoreError, Walk};
pub use taken::TakenCache;

use crate::gate::decision::{Memory, Row, Verdict, decide};
use crate::names::{Canonical, FilterKey, NameError, Policy, Refusal, Suggestions};
use crate::telemetry::Metrics;

/// Whether the filter is asked at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterSwitch {
    /// Filter, then cache, then gathered lookups.
    On,
    /// Every question is one statement: no filter, no cache, no gathering. The escape hatch, and the baseline.
    Off,
}

/// Answers questions about names. One per process, shared by all listeners.
pub struct Gate {
    policy: Policy,
    recall: Arc<Recall>,
    lookups: Lookups,
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    switch: FilterSwitch,
}

/// How a sign-up ended.
#[derive(Debug)]
pub enum SignUp {
    /// The row is committed.
    Created(Canonical),
    /// The unique index refused the name.
    Taken(Canonical),
    /// The rules refuse the name; the answer says why.
    Refused(Answer),
    /// The database could not be asked, or did not say how it ended.
    Unverified,
}

impl Gate {
    /// A gate in front of `store`. `recall` is what the population keeps in step.
    #[must_use]
    pub fn new(
        policy: Policy,
        store: Arc<dyn Store>,
        recall: Arc<Recall>,
        metrics: Arc<Metrics>,
        switch: FilterSwitch,
        limits: LookupLimits,
    ) -> Self {
        let lookups = Lookups::new(
            Arc::clone(&store),
            Arc::clone(&recall),
            Arc::clone(&metrics),
            limits,
        );
        Self {
            policy,
            recall,
            lookups,
            store,
            metrics,
            switch,
        }
    }

    /// Is this name free? `raw`: the text as asked.
    pub async fn ask(&self, raw: &str) -> Answer {
        let answer = self.find_answer(raw).await;
        self.metrics.count(answer.outcome);
        answer
    }

    /// Up to `most` names like a taken one that the filter calls absent: they cost no query, and there are none while
    /// the filter is not trusted. `seed`: random for people, fixed for tests.
    #[must_use]
    pub fn suggest(&self, taken: &str, most: usize, seed: u64) -> Vec<Canonical> {
        Suggestions::new(&self.policy, taken, seed)
            .filter(|name| self.recall.of(&FilterKey::of(name.as_str()), name) == Memory::Absent)
            .take(most)
            .collect()
    }

    /// Inserts a user, judged by the same rules as [`ask`](Self::ask). The unique index has the last word.
    pub async fn sign_up(&self, raw: &str) -> SignUp {
        let canonical = match self.policy.judge(raw) {
            Ok(canonical) => canonical,
            Err(refusal) => return SignUp::Refused(refused(raw, refusal)),
        };
        let key = FilterKey::of(canonical.as_str());
        let claim = self
            .store
            .claim(raw.trim(), &canonical, &|| self.recall.note(&key))
            .await;
        match claim {
            Ok(Claim::Claimed) => {
                // Once more: the filter may have been replaced between the first time and the commit.
                self.recall.note(&key);
                self.metrics.signups.inc();
                SignUp::Created(canonical)
            }
            Ok(Claim::Taken) => SignUp::Taken(canonical),
            Ok(Claim::NotStorable) => SignUp::Refused(Answer {
                username: raw.to_owned(),
                canonical: Some(canonical),
                outcome: Outcome::Invalid,
                detail: Some(Detail::new(
                    "not_storable",
                    "The database cannot store this name.",
                )),
                suggestions: None,
            }),
            Err(error) => {
                tracing::warn!(error = %error, "a sign-up could not be carried out");
                SignUp::Unverified
            }
        }
    }

    /// What the gate remembers, for status and metrics.
    #[must_use]
    pub fn recall(&self) -> &Recall {
        &self.recall
    }

    /// The rules.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether the filter is asked at all.
    #[must_use]
    pub const fn switch(&self) -> FilterSwitch {
        self.switch
    }

    async fn find_answer(&self, raw: &str) -> Answer {
        let canonical = match self.policy.judge(raw) {
            Ok(canonical) => canonical,
            Err(refusal) => return refused(raw, refusal),
        };
        let outcome = match self.switch {
            FilterSwitch::On => self.with_filter(&canonical, raw).await,
            FilterSwitch::Off => self.without_filter(&canonical, raw).await,
        };
        found_out(raw, canonical, outcome)
    }

    async fn with_filter(&self, canonical: &Canonical, raw: &str) -> Outcome {
        let key = FilterKey::of(canonical.as_str());
        let memory = self.recall.of(&key, canonical);
        let found = if memory.needs_the_database() {
            Some(self.lookups.find(key, self.spellings(canonical, raw)).await)
        } else {
            None
        };
        self.conclude(memory, found)
    }

    async fn without_filter(&self, canonical: &Canonical, raw: &str) -> Outcome {
        let asked = self.spellings(canonical, raw);
        let found = self.lookups.find_apart(std::slice::from_ref(&asked)).await;
        outcome(Memory::Untrusted, found.first().copied())
    }

    /// What memory and, where it was asked, the database say together.
    fn conclude(&self, memory: Memory, found: Option<Found>) -> Outcome {
        if memory == Memory::Maybe && found == Some(Found::InDatabase(false)) {
            self.metrics.false_positives.inc();
        }
        outcome(memory, found)
    }

    fn spellings(&self, canonical: &Canonical, raw: &str) -> Spellings {
        if self.store.holds_raw_names() {
            Spellings::typed(canonical.clone(), raw)
        } else {
            canonical.clone().into()
        }
    }
}

/// Names the verdict together with who knew it.
fn outcome(memory: Memory, found: Option<Found>) -> Outcome {
    let row = found.map(|found| match found {
        Found::InDatabase(true) | Found::TakenInCache => Row::Held,
        Found::InDatabase(false) => Row::NotHeld,
        Found::Nothing => Row::Unknown,
    });
    match (decide(memory, row), found) {
        (Verdict::Free, None) => Outcome::FreeInFilter,
        (Verdict::Free, Some(_)) => Outcome::FreeInDatabase,
        (Verdict::Taken, None | Some(Found::TakenInCache)) => Outcome::TakenInCache,
        (Verdict::Taken, Some(_)) => Outcome::TakenInDatabase,
        (Verdict::Unverified, _) => Outcome::Unverified,
    }
}

/// The answer to a name that the rules settle.
fn refused(raw: &str, refusal: Refusal) -> Answer {
    let (canonical, outcome, detail) = match refusal {
        Refusal::Invalid(error) => (None, Outcome::Invalid, error.into()),
        Refusal::Reserved { canonical, reason } => {
            let detail = Detail::new(reason.code(), reason.to_string());
            (Some(canonical), Outcome::Reserved, detail)
        }
    };
    Answer {
        username: raw.to_owned(),
        canonical,
        outcome,
        detail: Some(detail),
        suggestions: None,
    }
}

/// The answer to a name that the rules allow.
fn found_out(raw: &str, canonical: Canonical, outcome: Outcome) -> Answer {
    let detail = (outcome == Outcome::Unverified).then(|| {
        Detail::new(
            "unverified",
            "It could not be found out whether this name is free. Try again in a moment.",
        )
    });
    Answer {
        username: raw.to_owned(),
        canonical: Some(canonical),
        outcome,
        detail,
        suggestions: None,
    }
}

impl From<NameError> for Detail {
    fn from(error: NameError) -> Self {
        let mut detail = Self::new(error.code(), error.to_string());
        match error {
            NameError::TooShort { min } => detail.min = Some(min),
            NameError::TooLong { max } => detail.max = Some(max),
            NameError::Charset { allowed } => detail.allowed = Some(allowed),
            _ => {}
        }
        detail
    }
}
