//! Many names in one question: the answers that single questions would get, for at most one statement.
//!
//! Spellings of one name are one lookup. A name that could not be looked up is *unverified*; the others, which the rules
//! or memory settled, are answered all the same.

use std::collections::HashMap;

use crate::gate::decision::Memory;
use crate::gate::{Answer, FilterSwitch, Gate, Outcome, Spellings, found_out, outcome, refused};
use crate::names::{Canonical, FilterKey, Refusal};

impl Gate {
    /// Is each of these names free? `raws`: the texts as asked; the answers come in their order.
    pub async fn ask_many(&self, raws: &[String]) -> Vec<Answer> {
        let judged: Vec<Result<Spellings, Refusal>> = {
            let policy = self.policy.load();
            let judge = |raw: &String| Ok(self.spellings(&policy.judge(raw)?, raw));
            raws.iter().map(judge).collect()
        };
        let mut places = HashMap::new();
        let mut names: Vec<Spellings> = Vec::new();
        for name in judged.iter().flatten() {
            places.entry(name.clone()).or_insert_with(|| {
                names.push(name.clone());
                names.len() - 1
            });
        }
        let outcomes = match self.switch {
            FilterSwitch::On => self.many_with_filter(&names).await,
            FilterSwitch::Off => self.many_without_filter(&names).await,
        };
        let answer = |(raw, judged): (&String, Result<Spellings, _>)| match judged {
            Ok(name) => {
                let outcome = outcomes[places[&name]];
                found_out(raw, name.canonical().clone(), outcome)
            }
            Err(refusal) => refused(raw, refusal),
        };
        let answers: Vec<Answer> = raws.iter().zip(judged).map(answer).collect();
        for answer in &answers {
            self.metrics.count(answer.outcome);
        }
        answers
    }

    async fn many_with_filter(&self, names: &[Spellings]) -> Vec<Outcome> {
        let keys: Vec<FilterKey> = names
            .iter()
            .map(|name| FilterKey::of(name.canonical().as_str()))
            .collect();
        let canonicals: Vec<Canonical> =
            names.iter().map(|name| name.canonical().clone()).collect();
        let memories = self.recall.of_many(&keys, &canonicals);
        let asked = keys
            .into_iter()
            .zip(names)
            .zip(&memories)
            .filter(|(_, memory)| memory.needs_the_database())
            .map(|((key, name), _)| (key, name.clone()))
            .collect();
        // What memory said counts from here on, as with a single question: the bound is about rows older than the question.
        let mut found = self.lookups.find_many(asked).await.into_iter();
        memories
            .into_iter()
            .map(|memory| {
                let found = memory.needs_the_database().then(|| found.next()).flatten();
                self.conclude(memory, found)
            })
            .collect()
    }

    async fn many_without_filter(&self, names: &[Spellings]) -> Vec<Outcome> {
        let found = self.lookups.find_apart(names).await;
        found
            .into_iter()
            .map(|found| outcome(Memory::Untrusted, Some(found)))
            .collect()
    }
}
