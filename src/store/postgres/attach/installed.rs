//! Whether the database has a change feed already, and what it watches.

use sqlx::Row;
use sqlx::postgres::PgConnection;

use crate::gate::StoreError;
use crate::store::postgres::attach::unfit;
use crate::store::postgres::errors::classify;
use crate::store::postgres::ident::Identifier;

/// What `namegate.meta` says when every step of the feed has been taken.
const VERSION: i32 = 5;

/// What of ours is in the database.
pub(super) enum Feed {
    Absent,
    /// It watches this very column, and all triggers are in place.
    InPlace,
    /// It watches this column, and not every change reaches it: a trigger is gone or disabled, the table was replaced by
    /// another one, or has a child that is not watched.
    Disarmed,
}

impl Feed {
    /// `table`: quoted, with its schema.
    pub(super) async fn find(
        connection: &mut PgConnection,
        table: &str,
        column: &Identifier,
    ) -> Result<Self, StoreError> {
        let (has_objects, has_meta, is_readable): (bool, bool, bool) = sqlx::query_as(
            "SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = n.oid)
                    OR EXISTS (SELECT FROM pg_proc WHERE pronamespace = n.oid),
                    EXISTS (SELECT FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
                             WHERE c.relnamespace = n.oid AND c.relname = 'meta' AND a.attname = 'source_table'),
                    n.oid IS NULL OR pg_has_role(n.nspowner, 'USAGE')
               FROM (SELECT 1) AS always LEFT JOIN pg_namespace n ON n.nspname = 'namegate'",
        )
        .fetch_one(&mut *connection)
        .await
        .map_err(classify)?;
        if !has_objects {
            return Ok(Self::Absent);
        }
        if !has_meta {
            return unfit(
                "a schema `namegate` exists already and was not made by namegate; it is left as it is",
            );
        }
        if !is_readable {
            return unfit(
                "the change feed of this database is owned by another role: attach as that one",
            );
        }
        let row = sqlx::query(
            "SELECT source_table, source_column::text, (to_jsonb(m) ->> 'version')::int,
                    to_regclass(source_table) IS NOT DISTINCT FROM to_regclass($1) AND source_column = $2,
                    namegate.armed_triggers() = 4
               FROM namegate.meta m",
        )
        .bind(table)
        .bind(column.name())
        .fetch_one(connection)
        .await
        .map_err(classify)?;
        let text = |at| row.try_get::<Option<String>, _>(at).map_err(classify);
        let fact = |at| row.try_get::<Option<bool>, _>(at).map_err(classify);
        let version = row.try_get::<Option<i32>, _>(2).map_err(classify)?;
        let (watched_table, watched_column) = match (text(0)?, text(1)?, version) {
            (_, _, None) => {
                return unfit(
                    "the change feed was installed by an older version of namegate: run `namegate migrate` to bring it \
                     up to date",
                );
            }
            (_, _, Some(found)) if found != VERSION => {
                return unfit(format!(
                    "the change feed was installed by another version of namegate (feed {found}, this one knows \
                     {VERSION}): use that version, or detach with it first"
                ));
            }
            (Some(table), Some(column), _) => (table, column),
            _ => {
                return unfit(
                    "the change feed of this database watches nothing: run `namegate detach` first",
                );
            }
        };
        if fact(3)? != Some(true) {
            return unfit(format!(
                "the change feed of this database watches {watched_table}, column {watched_column:?}, and there is one \
                 feed a database: run `namegate detach` first to watch {table}.{column} instead"
            ));
        }
        Ok(if fact(4)? == Some(true) {
            Self::InPlace
        } else {
            Self::Disarmed
        })
    }
}
