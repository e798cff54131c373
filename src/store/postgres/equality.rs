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
//! [`check`].

pub(super) mod check;
mod expression;

use std::fmt;
use std::str::FromStr;

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Connection, Row};

use crate::gate::StoreError;
use crate::names::MAX_CHARACTERS;
use crate::store::postgres::connection::query;
use crate::store::postgres::equality::expression::Step;
use crate::store::postgres::errors::classify;
use crate::store::postgres::ident::Identifier;

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

/// Reads the equality of `column` from the unique indexes of `table`, which is quoted and has its schema.
///
/// # Errors
/// [`StoreError::Unfit`] says what does not fit and what to do.
pub(super) async fn detect(
    connection: &mut PgConnection,
    table: &str,
    column: &Identifier,
    demand: Demand,
) -> Result<Equality, StoreError> {
    // In a transaction for the search path alone: with it, PostgreSQL prints every name that is not its own with its
    // schema, and what is printed plain cannot be somebody else's function.
    let mut transaction = connection.begin().await.map_err(classify)?;
    sqlx::raw_sql("SET LOCAL search_path = pg_catalog")
        .execute(&mut *transaction)
        .await
        .map_err(classify)?;
    let described = describe_column(&mut transaction, table, column).await?;
    let indexes = query(
        "SELECT quote_ident(x.relname),
                i.indisvalid AND i.indisready AND i.indislive,
                i.indpred IS NOT NULL,
                i.indnkeyatts = 1,
                a.attnum = ANY (i.indkey),
                pg_get_indexdef(i.indexrelid, 1, false),
                quote_ident(oper.nspname),
                o.oprname = '='
                    AND (o.oprcode = ANY ('{texteq,bpchareq,nameeq}'::regproc[]) OR coalesce(e.extname = 'citext', false)),
                quote_ident(kn.nspname) || '.' || quote_ident(k.collname), coalesce(k.collisdeterministic, true)
           FROM pg_attribute a
           JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisunique
           JOIN pg_class x ON x.oid = i.indexrelid
           JOIN pg_opclass oc ON oc.oid = i.indclass[0]
           JOIN pg_amop am ON am.amopfamily = oc.opcfamily AND am.amopstrategy = 3
                          AND am.amoplefttype = oc.opcintype AND am.amoprighttype = oc.opcintype
           JOIN pg_operator o ON o.oid = am.amopopr
           JOIN pg_namespace oper ON oper.oid = o.oprnamespace
           LEFT JOIN pg_depend d ON d.classid = 'pg_operator'::regclass AND d.objid = o.oid AND d.deptype = 'e'
           LEFT JOIN pg_extension e ON e.oid = d.refobjid
           LEFT JOIN pg_collation k ON k.oid = i.indcollation[0]
           LEFT JOIN pg_namespace kn ON kn.oid = k.collnamespace
          WHERE a.attrelid = $1::text::regclass AND a.attname = $2
          ORDER BY i.indexrelid",
    )
    .bind(table)
    .bind(column.name())
    .fetch_all(&mut *transaction)
    .await
    .map_err(classify)?;
    transaction.commit().await.map_err(classify)?;

    let mut reading = Reading::default();
    for index in &indexes {
        reading.take(index, column)?;
    }
    let rules = reading.rules_on(table, &described)?;
    let equality = Equality {
        column: described,
        rules,
    };
    if equality.meets(demand) {
        Ok(equality)
    } else {
        Err(StoreError::Unfit(format!(
            "--equality {demand} does not fit {table}.{column}: it compares names by {}; leave --equality out",
            equality.describe()
        )))
    }
}

async fn describe_column(
    connection: &mut PgConnection,
    table: &str,
    column: &Identifier,
) -> Result<Column, StoreError> {
    let row = query(
        "WITH RECURSIVE base (oid, under, modifier) AS (
             SELECT t.oid, t.typbasetype, CASE WHEN t.typbasetype = 0 THEN a.atttypmod ELSE t.typtypmod END
               FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
              WHERE a.attrelid = $1::text::regclass AND a.attname = $2 AND a.attnum > 0 AND NOT a.attisdropped
             UNION ALL
             SELECT t.oid, t.typbasetype, CASE WHEN t.typbasetype = 0 THEN base.modifier ELSE t.typtypmod END
               FROM base JOIN pg_type t ON t.oid = base.under
         )
         SELECT CASE WHEN t.oid = ANY ('{text,varchar,name}'::regtype[]) THEN 'text'
                     WHEN t.oid = 'bpchar'::regtype THEN 'char'
                     WHEN e.extname = 'citext' THEN 'citext' END,
                format('%I.%I', n.nspname, t.typname),
                format_type(t.oid, base.modifier),
                quote_ident(kn.nspname) || '.' || quote_ident(k.collname),
                CASE WHEN t.oid = ANY ('{varchar,bpchar}'::regtype[]) AND base.modifier > 4 THEN base.modifier - 4 END,
                t.oid = 'name'::regtype
           FROM base
           JOIN pg_type t ON t.oid = base.oid
           JOIN pg_namespace n ON n.oid = t.typnamespace
           JOIN pg_attribute a ON a.attrelid = $1::text::regclass AND a.attname = $2
           LEFT JOIN pg_collation k ON k.oid = a.attcollation
           LEFT JOIN pg_namespace kn ON kn.oid = k.collnamespace
           LEFT JOIN pg_depend d ON d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype = 'e'
           LEFT JOIN pg_extension e ON e.oid = d.refobjid
          WHERE base.under = 0",
    )
    .bind(table)
    .bind(column.name())
    .fetch_one(connection)
    .await
    .map_err(classify)?;
    let text = |at| row.try_get::<Option<String>, _>(at).map_err(classify);
    let full_name = text(1)?.unwrap_or_default();
    let kind = match text(0)?.as_deref() {
        Some("text") => Kind::Text,
        Some("char") => Kind::Padded,
        Some("citext") => Kind::Citext(full_name),
        _ => {
            return Err(StoreError::Unfit(format!(
                "{table}.{column} is of type {}: namegate watches names that are text, varchar, char, name or citext",
                text(2)?.unwrap_or_default()
            )));
        }
    };
    Ok(Column {
        name: column.clone(),
        kind,
        collation: text(3)?.ok_or(StoreError::Garbled("a text column without a collation"))?,
        max_characters: row.try_get(4).map_err(classify)?,
        is_cut: row.try_get(5).map_err(classify)?,
    })
}

/// What the unique indexes of a table say, one after the other.
#[derive(Default)]
struct Reading {
    rules: Vec<Rule>,
    nondeterministic: Option<Rule>,
    /// Why indexes that have to do with the column do not count, for people.
    passed_over: Vec<String>,
}

impl Reading {
    fn take(&mut self, row: &PgRow, column: &Identifier) -> Result<(), StoreError> {
        let fact = |at| row.try_get::<bool, _>(at).map_err(classify);
        let text = |at| {
            let text = row.try_get::<Option<String>, _>(at).map_err(classify);
            text.map(Option::unwrap_or_default)
        };
        let (index, definition) = (text(0)?, text(5)?);
        let steps = expression::read(&definition, column);
        let concerns_us = steps.is_some() || fact(4)?;
        let obstacle = if !fact(1)? {
            Some("is not valid")
        } else if fact(2)? {
            Some("covers only a part of the rows")
        } else if !fact(3)? {
            Some("has other columns too")
        } else if !fact(7)? {
            Some("compares with an operator of its own")
        } else {
            None
        };
        match (obstacle, steps) {
            (Some(obstacle), _) if concerns_us => {
                self.passed_over.push(format!("{index} {obstacle}"));
            }
            (None, Some(steps)) => {
                let rule = Rule {
                    index,
                    steps,
                    operator_schema: text(6)?,
                    collation: text(8)?,
                };
                if fact(9)? {
                    self.rules.push(rule);
                } else {
                    self.nondeterministic = Some(rule);
                }
            }
            (None, None) if definition.contains(column.name()) => {
                self.passed_over.push(format!(
                    "{index} is on {definition}, and namegate knows lower, upper and btrim only"
                ));
            }
            _ => {}
        }
        Ok(())
    }

    fn rules_on(self, table: &str, column: &Column) -> Result<Vec<Rule>, StoreError> {
        let name = &column.name;
        if let Some(rule) = self.nondeterministic {
            return Err(StoreError::Unfit(format!(
                "the unique index {} of {table} compares under the nondeterministic collation {}, which calls names \
                 equal that namegate's filter may keep apart: drop it and make one under a deterministic collation, \
                 CREATE UNIQUE INDEX CONCURRENTLY ON {table} (lower({name} COLLATE \"C\") COLLATE \"C\")",
                rule.index, rule.collation
            )));
        }
        let mut rules = self.rules;
        // Whatever is equal byte for byte, or but for blanks, is equal after any function.
        if !matches!(column.kind, Kind::Citext(_))
            && rules.iter().any(|rule| !rule.steps.is_empty())
        {
            rules.retain(|rule| !rule.steps.is_empty());
        }
        rules.dedup_by(|later, first| {
            later.steps == first.steps
                && (first.steps.is_empty() || later.collation == first.collation)
        });
        if rules.is_empty() {
            let but = if self.passed_over.is_empty() {
                String::new()
            } else {
                format!(" ({})", self.passed_over.join("; "))
            };
            return Err(StoreError::Unfit(format!(
                "the table {table} has no unique index on {name} alone{but}: two accounts could share a name; create \
                 one with CREATE UNIQUE INDEX CONCURRENTLY ON {table} ({name}), or on (lower({name})) where capitals \
                 make no difference"
            )));
        }
        Ok(rules)
    }
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
