//! When two texts are the same name to the watched column: read from its unique index, and asked in its own terms.
//!
//! The index decides what can be inserted, so the lookup compares with the index's own operator, expression and
//! collation. That is right, and it is fast: only then can the index answer it.
//!
//! ```text
//!   unique index on          asked as
//!   handle                   held.handle = asked                     (text, varchar, name: byte for byte)
//!   handle, a char(n)        held.handle = asked::bpchar             (blanks at the end do not count)
//!   handle, a citext         held.handle = asked::citext             (with the operator of citext, not that of text)
//!   lower(handle)            lower(held.handle) = lower(asked)       (with the collations of column and index)
//! ```
//!
//! Several unique indexes may stand on one column; an insert must please all of them, so all are asked.
//!
//! Not done here: whether the filter's fold is coarser than the equality. That is tried on the live database by
//! `check.rs`.

pub(super) mod check;
mod expression;
mod read;

use std::fmt;
use std::str::FromStr;

use crate::names::MAX_CHARACTERS;
use crate::store::postgres::equality::expression::Step;
use crate::store::postgres::ident::Identifier;

pub(super) use read::detect;

/// Which equality the operator demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Demand {
    /// Whatever the unique index says.
    #[default]
    Auto,
    /// A unique index on the column as it is; of type text, varchar, name or char(n).
    Exact,
    /// A unique index on `lower(column)`.
    Lower,
    /// A unique index on `upper(column)`.
    Upper,
    /// A unique index on a column of type citext.
    Citext,
}

/// The text names no equality.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown equality {found:?}, expected auto, exact, lower, upper or citext")]
pub struct UnknownEquality {
    /// What was given.
    pub found: String,
}

impl FromStr for Demand {
    type Err = UnknownEquality;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "exact" => Ok(Self::Exact),
            "lower" => Ok(Self::Lower),
            "upper" => Ok(Self::Upper),
            "citext" => Ok(Self::Citext),
            other => Err(UnknownEquality {
                found: other.to_owned(),
            }),
        }
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Exact => "exact",
            Self::Lower => "lower",
            Self::Upper => "upper",
            Self::Citext => "citext",
        })
    }
}

/// What makes two texts the same name to one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Equality {
    column: Column,
    /// One for each unique index that says something of its own. Never empty.
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    name: Identifier,
    kind: Kind,
    /// Quoted, with its schema.
    collation: String,
    max_characters: Option<i32>,
    /// Of type name, which cuts longer texts off without a word.
    is_cut: bool,
}

/// How values of the column's type compare.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// text, varchar and name, and domains over them.
    Text,
    /// char(n).
    Padded,
    /// citext; holds the type's name, quoted, with its schema.
    Citext(String),
}

/// One unique index.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    /// The index, as people call it.
    index: String,
    /// From the column's value to what is compared.
    steps: Vec<Step>,
    /// The schema of the operator `=`, quoted.
    operator_schema: String,
    /// The collation that is compared under: quoted, with its schema.
    collation: String,
}

impl Equality {
    /// The condition, for each rule, that the row `held` has the name that the SQL expression `asked` stands for.
    pub(super) fn conditions(&self, held: &str, asked: &str) -> impl Iterator<Item = String> {
        let held = format!("{held}.{}", self.column.name);
        self.rules.iter().map(move |rule| {
            format!(
                "{} OPERATOR({}.=) {}",
                apply(&rule.steps, held.clone()),
                rule.operator_schema,
                self.asked(rule, asked)
            )
        })
    }

    /// What the rule makes of a text, ready to be compared.
    fn asked(&self, rule: &Rule, text: &str) -> String {
        let Column {
            kind, collation, ..
        } = &self.column;
        let value = match kind {
            Kind::Text => format!("({text} COLLATE {collation})"),
            Kind::Padded => format!("({text}::pg_catalog.bpchar COLLATE {collation})"),
            Kind::Citext(of_type) => format!("({text}::{of_type} COLLATE {collation})"),
        };
        format!("({} COLLATE {})", apply(&rule.steps, value), rule.collation)
    }

    /// The rules by which people know it, for a sentence: `lower() (unique index accounts_lower_idx)`.
    pub(super) fn describe(&self) -> String {
        let rules = self
            .rules
            .iter()
            .map(|rule| format!("{} (unique index {})", self.word(rule), rule.index));
        rules.collect::<Vec<_>>().join(" and ")
    }

    /// A warning, where the column cannot hold every name that the rules allow.
    pub(super) fn note_on_length(&self) -> Option<String> {
        if self.column.is_cut {
            return Some(format!(
                "the column {} is of type name, which cuts texts off after 63 bytes: of two names that begin with the \
                 same 63 bytes the second is called free, and the table refuses it; use profile ascii, or type text",
                self.column.name
            ));
        }
        let holds = self.column.max_characters?;
        let is_short = usize::try_from(holds).is_ok_and(|holds| holds < MAX_CHARACTERS);
        is_short.then(|| {
            format!(
                "the column {} holds at most {holds} characters, and the rules allow {MAX_CHARACTERS}: a longer name is \
                 called free, and the table refuses it",
                self.column.name
            )
        })
    }

    fn word(&self, rule: &Rule) -> String {
        let functions: Vec<&str> = rule
            .steps
            .iter()
            .rev()
            .filter_map(|step| match step {
                Step::Lower => Some("lower()"),
                Step::Upper => Some("upper()"),
                Step::Trim => Some("btrim()"),
                Step::ToText | Step::Collate(_) => None,
            })
            .collect();
        match (&self.column.kind, functions.as_slice()) {
            (Kind::Text, []) => "exact".to_owned(),
            (Kind::Padded, []) => "exact, padded with blanks".to_owned(),
            (Kind::Citext(_), []) => "citext".to_owned(),
            (_, functions) => functions.join(" of "),
        }
    }

    fn meets(&self, demand: Demand) -> bool {
        let is_citext = matches!(self.column.kind, Kind::Citext(_));
        self.rules.iter().all(|rule| match demand {
            Demand::Auto => true,
            Demand::Exact => rule.steps.is_empty() && !is_citext,
            Demand::Lower => rule.steps.contains(&Step::Lower),
            Demand::Upper => rule.steps.contains(&Step::Upper),
            Demand::Citext => rule.steps.is_empty() && is_citext,
        })
    }
}

fn apply(steps: &[Step], to: String) -> String {
    steps.iter().fold(to, |value, step| step.apply(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equality(kind: Kind, rules: &[&[Step]]) -> Equality {
        let rule = |steps: &&[Step]| Rule {
            index: "an_index".into(),
            steps: steps.to_vec(),
            operator_schema: "pg_catalog".into(),
            collation: "pg_catalog.\"default\"".into(),
        };
        Equality {
            column: Column {
                name: Identifier::new("Handle").expect("a name"),
                kind,
                collation: "pg_catalog.\"C\"".into(),
                max_characters: None,
                is_cut: false,
            },
            rules: rules.iter().map(rule).collect(),
        }
    }

    #[test]
    fn each_rule_is_asked_in_the_terms_of_its_index() {
        let lowered: &[Step] = &[Step::ToText, Step::Lower];
        let asked: Vec<String> = equality(Kind::Text, &[&[], lowered])
            .conditions("held", "asked.name")
            .collect();
        assert_eq!(
            asked,
            [
                "held.\"Handle\" OPERATOR(pg_catalog.=) \
                 ((asked.name COLLATE pg_catalog.\"C\") COLLATE pg_catalog.\"default\")",
                "pg_catalog.lower((held.\"Handle\")::pg_catalog.text) OPERATOR(pg_catalog.=) \
                 (pg_catalog.lower(((asked.name COLLATE pg_catalog.\"C\"))::pg_catalog.text) \
                 COLLATE pg_catalog.\"default\")",
            ]
        );
    }

    #[test]
    fn a_demand_is_met_by_every_rule_or_not_at_all() {
        let lower: &[Step] = &[Step::Lower];
        let upper: &[Step] = &[Step::Upper];
        let citext = || Kind::Citext("public.citext".into());
        for (equality, met) in [
            (equality(Kind::Text, &[&[]]), vec![Demand::Exact]),
            (equality(Kind::Padded, &[&[]]), vec![Demand::Exact]),
            (equality(citext(), &[&[]]), vec![Demand::Citext]),
            (equality(Kind::Text, &[lower]), vec![Demand::Lower]),
            (equality(Kind::Text, &[lower, upper]), vec![]),
            (equality(citext(), &[&[], lower]), vec![]),
        ] {
            assert!(equality.meets(Demand::Auto));
            for demand in [Demand::Exact, Demand::Lower, Demand::Upper, Demand::Citext] {
                assert_eq!(
                    equality.meets(demand),
                    met.contains(&demand),
                    "{demand}: {equality:?}"
                );
            }
        }
    }

    #[test]
    fn demands_read_back_as_they_are_written() {
        for text in ["auto", "exact", "lower", "upper", "citext"] {
            assert_eq!(
                text.parse::<Demand>().map(|demand| demand.to_string()),
                Ok(text.into())
            );
        }
        assert!("LOWER".parse::<Demand>().is_err());
    }
}
