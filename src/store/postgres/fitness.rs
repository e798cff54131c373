//! Whether a database can be served from. Refuses in words that say what to do.

use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};
use tokio::time::timeout;

use crate::gate::StoreError;
use crate::store::postgres::Watched;
use crate::store::postgres::connection::{query, query_scalar};
use crate::store::postgres::equality::{self, Equality};
use crate::store::postgres::errors::classify;

/// PostgreSQL 14: the oldest with every function the feed stands on, and still maintained.
const OLDEST: i32 = 140_000;

/// A table that can be served from, and how to ask it.
#[derive(Debug)]
pub(super) struct Fit {
    /// Quoted, with its schema: what the feed watches, whatever the search path may find under its name later.
    pub(super) table: String,
    pub(super) equality: Equality,
    /// Whether rows may hold names as they were typed. In the sample table a trigger sees to it that they do not.
    pub(super) holds_raw_names: bool,
    /// Whether triggers of the feed are on it. Without them it may be another table of that name.
    pub(super) has_triggers: bool,
}

/// Looks at everything. [`StoreError::Overdue`] when that takes longer than `deadline`. The caller then drops the
/// connection.
pub(super) async fn probe_within(
    deadline: Duration,
    connection: &mut PgConnection,
    watched: &Watched,
) -> Result<Fit, StoreError> {
    match timeout(deadline, probe(connection, watched)).await {
        Ok(probed) => probed,
        Err(_elapsed) => Err(StoreError::Overdue(deadline)),
    }
}

async fn probe(connection: &mut PgConnection, watched: &Watched) -> Result<Fit, StoreError> {
    server(connection).await?;
    let fit = how_to_ask(connection, watched).await?;
    let table = feed(connection, watched).await?;
    Ok(Fit { table, ..fit })
}

/// The part of the look that a lookup needs: table, column, rights, equality. Waits for no lock.
pub(super) async fn how_to_ask(
    connection: &mut PgConnection,
    watched: &Watched,
) -> Result<Fit, StoreError> {
    let row = table(connection, watched).await?;
    let table: String = row.try_get(4).map_err(classify)?;
    let equality = equality::detect(connection, &table, &watched.column, watched.equality).await?;
    Ok(Fit {
        table,
        equality,
        holds_raw_names: row.try_get(5).map_err(classify)?,
        has_triggers: row.try_get(6).map_err(classify)?,
    })
}

/// Version, role and encoding of the server.
pub(super) async fn server(connection: &mut PgConnection) -> Result<(), StoreError> {
    let row = query(
        "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
                pg_catalog.pg_is_in_recovery(), current_setting('server_encoding')",
    )
    .fetch_one(connection)
    .await
    .map_err(classify)?;
    let column = |at| row.try_get::<String, _>(at).map_err(classify);
    refuse_an_old_server(row.try_get(0).map_err(classify)?, &column(1)?)?;
    if row.try_get::<bool, _>(2).map_err(classify)? {
        return unfit("the database is a standby: point namegate at the primary");
    }
    let encoding = column(3)?;
    if encoding != "UTF8" {
        return unfit(format!(
            "the database's encoding is {encoding}, and namegate needs UTF8"
        ));
    }
    Ok(())
}

/// `number` and `name`: the server's version, as `server_version_num` and `server_version` give it.
fn refuse_an_old_server(number: i32, name: &str) -> Result<(), StoreError> {
    if number < OLDEST {
        return unfit(format!(
            "PostgreSQL 14 or newer is needed, this server is {name}"
        ));
    }
    Ok(())
}

/// Table, column, and the right to read them. Returns, from the fourth column on, the table's name with its schema,
/// quoted; whether it holds names as they were typed; and whether triggers of the feed are on it.
async fn table(connection: &mut PgConnection, watched: &Watched) -> Result<PgRow, StoreError> {
    let Watched { table, column, .. } = watched;
    let row = query(
        "SELECT found.oid IS NOT NULL,
                a.attnum IS NOT NULL,
                coalesce(has_column_privilege(found.oid, a.attnum, 'SELECT'), false),
                coalesce(row_security_active(found.oid), false),
                (SELECT format('%I.%I', n.nspname, c.relname)
                   FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = found.oid),
                NOT 'fill_canonical' = ANY (ours.triggers),
                'capture' = ANY (ours.triggers)
           FROM (SELECT to_regclass($1)::oid AS oid) AS found
           LEFT JOIN pg_attribute a
             ON a.attrelid = found.oid AND a.attname = $2 AND a.attnum > 0 AND NOT a.attisdropped
          CROSS JOIN LATERAL (
                SELECT ARRAY(SELECT p.proname::text FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
                               JOIN pg_namespace n ON n.oid = p.pronamespace
                              WHERE t.tgrelid = found.oid AND n.nspname = 'namegate') AS triggers
               ) AS ours",
    )
    .bind(table.to_string())
    .bind(column.name())
    .fetch_one(connection)
    .await
    .map_err(classify)?;
    let fact = |at| row.try_get::<bool, _>(at).map_err(classify);
    if !fact(0)? {
        return unfit(format!(
            "there is no table {table}: name yours with --table and run `namegate attach` on it, or run `namegate \
             migrate` to make the sample table"
        ));
    }
    if !fact(1)? {
        return unfit(format!(
            "the table {table} has no column {column}: name the right one with --column"
        ));
    }
    if !fact(2)? {
        return unfit(format!(
            "the role may not read {table}: GRANT SELECT ({column}) ON {table} to it"
        ));
    }
    if fact(3)? {
        return unfit(format!(
            "row-level security hides rows of {table} from this role: use a role with BYPASSRLS, or the table's owner"
        ));
    }
    Ok(row)
}

/// The outbox, its functions, and all four triggers on the table.
async fn feed(connection: &mut PgConnection, watched: &Watched) -> Result<String, StoreError> {
    let Watched { table, column, .. } = watched;
    let installed: bool = query_scalar("SELECT to_regclass('namegate.meta') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await
        .map_err(classify)?;
    if !installed {
        return unfit(format!(
            "{table} has no change feed: run `namegate attach` to install one on your table, or `namegate migrate` to \
             make the sample table with its feed"
        ));
    }
    let row = query(
        "SELECT namegate.armed_triggers(), to_regclass(source_table) = to_regclass($1), source_column = $2,
                source_table
           FROM namegate.watched()",
    )
    .bind(table.to_string())
    .bind(column.name())
    .fetch_one(&mut *connection)
    .await
    .map_err(classify)?;
    let same = |at| {
        Ok::<_, StoreError>(row.try_get::<Option<bool>, _>(at).map_err(classify)? == Some(true))
    };
    if !same(1)? || !same(2)? {
        return unfit(format!(
            "the change feed of this database watches another table or column than {table}.{column}"
        ));
    }
    if row.try_get::<i32, _>(0).map_err(classify)? != 4 {
        return unfit(format!(
            "the triggers of the change feed on {table} are missing or disabled: names would be lost"
        ));
    }
    let is_logged: bool = query_scalar(
        "SELECT relpersistence = 'p' FROM pg_class WHERE oid = to_regclass('namegate.outbox')",
    )
    .fetch_optional(connection)
    .await
    .map_err(classify)?
    .unwrap_or(false);
    if !is_logged {
        return unfit(
            "namegate.outbox is missing, or a crash would empty it and lose names: ALTER TABLE namegate.outbox SET LOGGED",
        );
    }
    row.try_get(3).map_err(classify)
}

fn unfit<T>(why: impl Into<String>) -> Result<T, StoreError> {
    Err(StoreError::Unfit(why.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_before_14_are_refused_by_their_name() {
        for (number, name) in [(90_624, "9.6.24"), (130_022, "13.22 (Debian)")] {
            let refused = refuse_an_old_server(number, name).map_err(|error| error.to_string());
            let expected = format!("PostgreSQL 14 or newer is needed, this server is {name}");
            assert_eq!(refused, Err(expected));
        }
        for number in [140_000, 150_018, 180_004] {
            assert!(refuse_an_old_server(number, "new").is_ok());
        }
    }
}
