//! Reading an equality from the catalog.

use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::gate::StoreError;
use crate::store::postgres::connection::{query, query_scalar};
use crate::store::postgres::equality::{Column, Demand, Equality, Kind, Rule, expression};
use crate::store::postgres::errors::classify;
use crate::store::postgres::ident::Identifier;

/// Reads the equality of `column` from the unique indexes of `table`, which is quoted and has its schema.
///
/// # Errors
/// [`StoreError::Unfit`] says what does not fit and what to do.
pub(in crate::store::postgres) async fn detect(
    connection: &mut PgConnection,
    table: &str,
    column: &Identifier,
    demand: Demand,
) -> Result<Equality, StoreError> {
    let described = describe_column(connection, table, column).await?;
    let path: String = query_scalar("SELECT current_setting('search_path')")
        .fetch_one(&mut *connection)
        .await
        .map_err(classify)?;
    // With this search path PostgreSQL prints every name that is not its own with its schema, and what is printed plain
    // cannot be somebody else's function. Set by the statement itself, so that it holds whether or not this is a
    // transaction.
    let indexes = query(
        "WITH path AS MATERIALIZED (SELECT set_config('search_path', 'pg_catalog', true))
         SELECT quote_ident(x.relname),
                i.indisvalid AND i.indisready AND i.indislive,
                i.indpred IS NOT NULL,
                i.indnkeyatts = 1,
                a.attnum = ANY (i.indkey),
                pg_get_indexdef(i.indexrelid, 1, false),
                quote_ident(oper.nspname),
                o.oprname = '='
                    AND (o.oprcode = ANY ('{texteq,bpchareq,nameeq}'::regproc[]) OR coalesce(e.extname = 'citext', false)),
                quote_ident(kn.nspname) || '.' || quote_ident(k.collname), coalesce(k.collisdeterministic, true)
           FROM path
          CROSS JOIN pg_attribute a
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
    .fetch_all(&mut *connection)
    .await
    .map_err(classify)?;
    query("SELECT set_config('search_path', $1, true)")
        .bind(path)
        .execute(connection)
        .await
        .map_err(classify)?;

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
