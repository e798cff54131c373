//! Making the sample table, the outbox and its trigger.
//!
//! The feed alone, for a table that is there already, is made by [`attach`](super::attach) from the same files.

use std::time::Duration;

use sqlx::migrate::MigrateError;
use sqlx::postgres::{PgConnectOptions, PgConnection};

use crate::gate::StoreError;
use crate::store::postgres::connection;
use crate::store::postgres::errors::{classify, state};
use crate::store::postgres::fitness;

pub(super) async fn migrate(
    options: &PgConnectOptions,
    deadline: Duration,
) -> Result<(), StoreError> {
    let mut connection = connection::open(options, deadline).await?;
    fitness::server(&mut connection).await?;
    refuse_an_attached_database(&mut connection).await?;
    refuse_a_foreign_table(&mut connection).await?;
    let mut migrator = sqlx::migrate!("migrations/postgres");
    // Our own bookkeeping in our own schema: the application may use sqlx migrations in the same database.
    migrator.create_schema("namegate");
    migrator.dangerous_set_table_name("namegate.migrations");
    migrator
        .run_direct(None, &mut connection, false)
        .await
        .map_err(explain)
}

/// There is one feed in a database, and here it watches somebody's own table.
async fn refuse_an_attached_database(connection: &mut PgConnection) -> Result<(), StoreError> {
    // From the catalog: whoever may not look into the schema shall be told the same.
    let is_attached: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                         WHERE n.nspname = 'namegate' AND c.relname = 'meta')
            AND NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                             WHERE n.nspname = 'namegate' AND c.relname = 'migrations')",
    )
    .fetch_one(connection)
    .await
    .map_err(classify)?;
    if is_attached {
        return Err(StoreError::Unfit(
            "the change feed of this database is attached to another table, and needs no sample table: run `namegate \
             detach` first to have that instead"
                .into(),
        ));
    }
    Ok(())
}

/// Looks before the first step is taken: steps are transactions of their own, and the feed would be left behind alone.
async fn refuse_a_foreign_table(connection: &mut PgConnection) -> Result<(), StoreError> {
    let is_foreign: bool = sqlx::query_scalar(
        "SELECT to_regclass('users') IS NOT NULL AND to_regclass('namegate.migrations') IS NULL",
    )
    .fetch_one(connection)
    .await
    .map_err(classify)?;
    if is_foreign {
        Err(foreign_table())
    } else {
        Ok(())
    }
}

fn foreign_table() -> StoreError {
    StoreError::Unfit(
        "a table `users` exists already and was not made by namegate; it is left as it is".into(),
    )
}

fn explain(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            let code = error.as_database_error().map(state).unwrap_or_default();
            match code.as_str() {
                "42P07" => foreign_table(),
                "42501" => StoreError::Unfit(
                    "the role may not create tables here: run migrate as the owner".into(),
                ),
                _ => classify(error),
            }
        }
        MigrateError::VersionMismatch(version) | MigrateError::VersionMissing(version) => {
            StoreError::Unfit(format!(
                "the database was migrated by another version of namegate (step {version} differs): use that version"
            ))
        }
        other => StoreError::Failed(sqlx::Error::Migrate(Box::new(other))),
    }
}
