//! Whether a database can be served from. Refuses in words that say what to do.

use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgConnection;
use tokio::time::timeout;

use crate::gate::StoreError;
use crate::store::postgres::Watched;
use crate::store::postgres::errors::classify;

/// PostgreSQL 14: the oldest with every function the feed stands on, and still maintained.
const OLDEST: i32 = 140_000;

/// Looks at everything, and returns the table's name with its schema, quoted: what the feed watches, whatever the
/// search path may find under that name later. [`StoreError::Overdue`] when that takes longer than `deadline`. The caller then drops the
/// connection.
pub(super) async fn probe_within(
    deadline: Duration,
    connection: &mut PgConnection,
    watched: &Watched,
) -> Result<String, StoreError> {
    match timeout(deadline, probe(connection, watched)).await {
        Ok(probed) => probed,
        Err(_elapsed) => Err(StoreError::Overdue(deadline)),
    }
}

async fn probe(connection: &mut PgConnection, watched: &Watched) -> Result<String, StoreError> {
    server(connection).await?;
    table(connection, watched).await?;
    feed(connection, watched).await
}

/// Version, role and encoding of the server.
pub(super) async fn server(connection: &mut PgConnection) -> Result<(), StoreError> {
    let row = sqlx::query(
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

/// Table, column, the right to read them, and a unique index on exactly that column.
async fn table(connection: &mut PgConnection, watched: &Watched) -> Result<(), StoreError> {
    let Watched { table, column } = watched;
    let row = sqlx::query(
        "SELECT found.oid IS NOT NULL,
                a.attnum IS NOT NULL,
                coalesce(has_column_privilege(found.oid, a.attnum, 'SELECT'), false),
                coalesce(row_security_active(found.oid), false),
                EXISTS (SELECT 1 FROM pg_index i
                         WHERE i.indrelid = found.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
                           AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum)
           FROM (SELECT to_regclass($1)::oid AS oid) AS found
           LEFT JOIN pg_attribute a
             ON a.attrelid = found.oid AND a.attname = $2 AND a.attnum > 0 AND NOT a.attisdropped",
    )
    .bind(table.to_string())
    .bind(column.name())
    .fetch_one(connection)
    .await
    .map_err(classify)?;
    let fact = |at| row.try_get::<bool, _>(at).map_err(classify);
    if !fact(0)? {
        return unfit(format!(
            "there is no table {table}: run `namegate migrate` to make the sample table, or name yours with --table"
        ));
    }
    if !fact(1)? {
        return unfit(format!(
            "the table {table} has no column {column}: name the right one with --column"
        ));
    }
    if !fact(2)? {
        return unfit(format!(
            "the role may not read {table}: GRANT SELECT ON {table} to it"
        ));
    }
    if fact(3)? {
        return unfit(format!(
            "row-level security hides rows of {table} from this role: use a role with BYPASSRLS, or the table's owner"
        ));
    }
    if !fact(4)? {
        return unfit(format!(
            "the table {table} has no unique index on {column} alone: two accounts could share a name; \
             create one with CREATE UNIQUE INDEX CONCURRENTLY ON {table} ({column})"
        ));
    }
    Ok(())
}

/// The outbox, its functions, and all four triggers on the table.
async fn feed(connection: &mut PgConnection, watched: &Watched) -> Result<String, StoreError> {
    let Watched { table, column } = watched;
    let installed: bool = sqlx::query_scalar("SELECT to_regclass('namegate.meta') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await
        .map_err(classify)?;
    if !installed {
        return unfit(format!(
            "{table} has no change feed: run `namegate migrate` to make the sample table with its feed"
        ));
    }
    let row = sqlx::query(
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
    let is_logged: bool = sqlx::query_scalar(
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
