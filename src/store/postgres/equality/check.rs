//! The live check: whether the filter's fold is coarser than what the database calls equal.
//!
//! A name that the database calls equal to a stored one must never look absent, so the two must have one
//! [filter key](FilterKey). PostgreSQL's lower-casing is not Rust's: it depends on the collation, on the library behind
//! it and on that library's version. Hence the server itself is asked, about texts that bring to light what rules
//! there are, in three questions a rule:
//!
//! 1. what does it make of each text? The key of the outcome must be the key of the text;
//! 2. and of those that it changes at all, beside other letters? Rules look at neighbours, as at the end of a word;
//! 3. which of the texts does it call equal, by the operator that is asked later? They must have one key.
//!
//! The first is a proof as far as the rule goes letter by letter, since the fold does too. It takes well
//! under a second, and is left out where there is nothing to try, for texts are compared byte for byte.

use std::time::Duration;

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row};

use crate::gate::StoreError;
use crate::names::{FilterKey, fold_probes};
use crate::store::postgres::connection::query;
use crate::store::postgres::connection::within;
use crate::store::postgres::equality::expression::Step;
use crate::store::postgres::equality::{Equality, Kind, Rule, apply};
use crate::store::postgres::errors::classify;

/// For each question: a server that is slow to lower-case a megabyte is broken.
const DEADLINE: Duration = Duration::from_secs(10);

/// Pairs shown in a refusal.
const SHOWN: usize = 3;

/// Asks the server, and compares.
///
/// `table`: for the message. Needs no rights on it.
///
/// # Errors
/// [`StoreError::Unfit`] names the rule, its collation, the first texts that the fold keeps apart, and the way out.
pub(in crate::store::postgres) async fn verify(
    connection: &mut PgConnection,
    table: &str,
    equality: &Equality,
) -> Result<(), StoreError> {
    for rule in &equality.rules {
        if equality.is_bytewise(rule) {
            continue;
        }
        let mut texts: Vec<String> = fold_probes().chain(padded()).collect();
        if let Some(mapping) = equality.mapping(rule) {
            let changed = changed_by(connection, &mapping, &texts).await?;
            let neighbours: Vec<String> = changed
                .iter()
                .flat_map(|(text, _)| beside_letters(text))
                .collect();
            let changed_beside = changed_by(connection, &mapping, &neighbours).await?;
            let apart = changed.iter().chain(&changed_beside);
            refuse(
                table,
                equality,
                rule,
                apart.filter(|(left, right)| are_apart(left, right)),
            )?;
            texts.extend(neighbours);
        }
        let equal = called_equal(connection, &equality.asked(rule, "asked.name"), &texts).await?;
        refuse(
            table,
            equality,
            rule,
            equal.iter().filter(|(left, right)| are_apart(left, right)),
        )?;
    }
    Ok(())
}

impl Equality {
    /// Whether only texts that are the same bytes are equal.
    fn is_bytewise(&self, rule: &Rule) -> bool {
        rule.steps.is_empty() && self.column.kind == Kind::Text
    }

    /// What the rule makes of `asked.name`, as SQL; `None` when it compares by other means.
    fn mapping(&self, rule: &Rule) -> Option<String> {
        match (&self.column.kind, rule.steps.as_slice()) {
            // What citext does inside, whatever the collation of its column.
            (Kind::Citext(_), []) => Some(apply(
                &[Step::Collate("pg_catalog.\"default\"".into()), Step::Lower],
                "asked.name".into(),
            )),
            (_, []) => None,
            _ => Some(self.asked(rule, "asked.name")),
        }
    }
}

/// Blanks at the end, which char(n) does not count, and `btrim` takes away.
fn padded() -> impl Iterator<Item = String> {
    ["ab", "ab ", "ab   ", " ab"].into_iter().map(str::to_owned)
}

/// Within a word, at its beginning, at its end, and before an accent.
fn beside_letters(text: &str) -> [String; 4] {
    [
        format!("a{text}b"),
        format!("{text}b"),
        format!("a{text}"),
        format!("a{text}\u{301}"),
    ]
}

/// Those of `texts` that the mapping changes, each with what it becomes.
async fn changed_by(
    connection: &mut PgConnection,
    mapping: &str,
    texts: &[String],
) -> Result<Vec<(String, String)>, StoreError> {
    let question = format!(
        "SELECT asked.at::int4, mapped.name
           FROM unnest($1::text[]) WITH ORDINALITY AS asked(name, at)
          CROSS JOIN LATERAL (SELECT ({mapping})::pg_catalog.text AS name) AS mapped
          WHERE mapped.name COLLATE \"C\" <> asked.name COLLATE \"C\""
    );
    let asked = query(AssertSqlSafe(question)).bind(texts);
    let rows = within(DEADLINE, asked.fetch_all(connection)).await?;
    let pair = |row: &PgRow| {
        let text = text_at(texts, row.try_get(0).map_err(classify)?)?;
        Ok((text.to_owned(), row.try_get(1).map_err(classify)?))
    };
    rows.iter().map(pair).collect()
}

/// Pairs of `texts` that the database calls equal: of each group, its first with all others.
async fn called_equal(
    connection: &mut PgConnection,
    compared: &str,
    texts: &[String],
) -> Result<Vec<(String, String)>, StoreError> {
    let question = format!(
        "SELECT array_agg(asked.at::int4)
           FROM unnest($1::text[]) WITH ORDINALITY AS asked(name, at)
          GROUP BY {compared} HAVING count(*) > 1"
    );
    let asked = query(AssertSqlSafe(question)).bind(texts);
    let mut pairs = Vec::new();
    for row in within(DEADLINE, asked.fetch_all(connection)).await? {
        let group: Vec<i32> = row.try_get(0).map_err(classify)?;
        let (first, others) = group
            .split_first()
            .ok_or(StoreError::Garbled("an empty group of equal texts"))?;
        let first = text_at(texts, *first)?;
        for other in others {
            pairs.push((first.to_owned(), text_at(texts, *other)?.to_owned()));
        }
    }
    Ok(pairs)
}

fn text_at(texts: &[String], position: i32) -> Result<&str, StoreError> {
    usize::try_from(position)
        .ok()
        .and_then(|position| texts.get(position.checked_sub(1)?))
        .map(String::as_str)
        .ok_or(StoreError::Garbled(
            "an answer about a text that was not asked",
        ))
}

fn are_apart(left: &str, right: &str) -> bool {
    FilterKey::of(left) != FilterKey::of(right)
}

fn refuse<'a>(
    table: &str,
    equality: &Equality,
    rule: &Rule,
    apart: impl Iterator<Item = &'a (String, String)>,
) -> Result<(), StoreError> {
    let pairs: Vec<String> = apart
        .take(SHOWN)
        .map(|(left, right)| format!("{} as {}", code_points(left), code_points(right)))
        .collect();
    if pairs.is_empty() {
        return Ok(());
    }
    let collations: Vec<&str> = rule
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Collate(collation) => Some(collation.as_str()),
            _ => None,
        })
        .chain([equality.column.collation.as_str(), rule.collation.as_str()])
        .collect();
    // The one nearest to the function is the one it works by.
    let collation = collations.first().copied().unwrap_or_default();
    let name = &equality.column.name;
    Err(StoreError::Unfit(format!(
        "the unique index {} of {table} compares by {} under the collation {collation}, which takes {}; namegate's \
         filter keeps these apart, and a name that is held could look free. A unique index under another collation is \
         the way out: CREATE UNIQUE INDEX CONCURRENTLY ON {table} (lower({name} COLLATE \"C\")), then drop {}",
        rule.index,
        equality.word(rule),
        pairs.join(", "),
        rule.index
    )))
}

/// `U+0041 U+0301`: safe to print, and to search for.
fn code_points(text: &str) -> String {
    text.chars()
        .map(|c| format!("U+{:04X}", u32::from(c)))
        .collect::<Vec<_>>()
        .join(" ")
}
