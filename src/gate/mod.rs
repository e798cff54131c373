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

use arc_swap::ArcSwap;

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
    /// Swapped as a whole when the operator's list is read anew; readers never lock.
    policy: ArcSwap<Policy>,
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
            policy: ArcSwap::from_pointee(policy),
            recall,
            lookups,
            store,
            metrics,
            switch,
        }
    }

    /// Is this name free? `raw`: the text as asked.
    pub async fn ask(&self, raw: &str) -> Answer {
        self.ask_within(raw, || true).await
    }

    /// As [`ask`](Self::ask), for one who may not always have the database asked: `may_look_up` is asked when it would
    /// be. What memory knows is answered in any case.
    pub async fn ask_within(&self, raw: &str, may_look_up: impl FnOnce() -> bool) -> Answer {
        let judgement = self.policy.load().judge(raw);
        self.answer(raw, judgement, may_look_up).await
    }

    /// As [`ask`](Self::ask), past the reserved names.
    pub async fn ask_as_operator(&self, raw: &str) -> Answer {
        let judgement = self.policy.load().judge_as_operator(raw);
        self.answer(raw, judgement.map_err(Refusal::Invalid), || true)
            .await
    }

    /// Up to `most` names like a taken one that the filter calls absent: they cost no query, and there are none while
    /// the filter is not trusted. `seed`: random for people, fixed for tests.
    #[must_use]
    pub fn suggest(&self, taken: &str, most: usize, seed: u64) -> Vec<Canonical> {
        let policy = self.policy.load();
        Suggestions::new(&policy, taken, seed)
            .filter(|name| self.recall.of(&FilterKey::of(name.as_str()), name) == Memory::Absent)
            .take(most)
            .collect()
    }

    /// Inserts a user, judged by the same rules as [`ask`](Self::ask). The unique index has the last word.
    pub async fn sign_up(&self, raw: &str) -> SignUp {
        let judgement = self.policy.load().judge(raw);
        let canonical = match judgement {
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

    /// The rules, as they are now.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    /// Judges by other rules from now on. Questions under way end by the rules they began with.
    pub fn replace_policy(&self, policy: Policy) {
        self.policy.store(Arc::new(policy));
    }

    /// Whether the filter is asked at all.
    #[must_use]
    pub const fn switch(&self) -> FilterSwitch {
        self.switch
    }

    /// The answer to a judged name, counted.
    async fn answer(
        &self,
        raw: &str,
        judgement: Result<Canonical, Refusal>,
        may_look_up: impl FnOnce() -> bool,
    ) -> Answer {
        let answer = match judgement {
            Ok(canonical) => self.find_answer(raw, canonical, may_look_up).await,
            Err(refusal) => refused(raw, refusal),
        };
        self.metrics.count(answer.outcome);
        answer
    }

    async fn find_answer(
        &self,
        raw: &str,
        canonical: Canonical,
        may_look_up: impl FnOnce() -> bool,
    ) -> Answer {
        let outcome = match self.switch {
            FilterSwitch::On => self.with_filter(&canonical, raw, may_look_up).await,
            FilterSwitch::Off => self.without_filter(&canonical, raw, may_look_up).await,
        };
        found_out(raw, canonical, outcome)
    }

    async fn with_filter(
        &self,
        canonical: &Canonical,
        raw: &str,
        may_look_up: impl FnOnce() -> bool,
    ) -> Outcome {
        let key = FilterKey::of(canonical.as_str());
        let memory = self.recall.of(&key, canonical);
        let found = if !memory.needs_the_database() {
            None
        } else if may_look_up() {
            Some(self.lookups.find(key, self.spellings(canonical, raw)).await)
        } else {
            return Outcome::RateLimited;
        };
        self.conclude(memory, found)
    }

    async fn without_filter(
        &self,
        canonical: &Canonical,
        raw: &str,
        may_look_up: impl FnOnce() -> bool,
    ) -> Outcome {
        if !may_look_up() {
            return Outcome::RateLimited;
        }
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
