//! Making the sample table and its outbox, and checking that they are there.

use std::path::Path;

use sqlx::Connection;
use sqlx::migrate::MigrateError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePool};

use crate::gate::StoreError;
use crate::store::sqlite::classify;

pub(super) async fn migrate(options: SqliteConnectOptions) -> Result<(), StoreError> {
    // The only connection that may make the file: whoever only asks shall not leave an empty one behind.
    let options = options.create_if_missing(true);
    let mut connection = SqliteConnection::connect_with(&options)
        .await
        .map_err(classify)?;
    let mut migrator = sqlx::migrate!("migrations/sqlite");
    // The application may use sqlx migrations in the same file.
    migrator.dangerous_set_table_name("namegate_migrations");
    let migrated = migrator.run_direct(None, &mut connection, false).await;
    drop(connection.close().await); // what is committed stays, whatever closing says
    migrated.map_err(|error| match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            if error.as_database_error().is_some_and(|error| error.message().contains("already exists")) {
                StoreError::Unfit(
                    "a table `users` exists already and was not made by namegate; it is left as it is".into(),
                )
            } else {
                classify(error)
            }
        }
        MigrateError::VersionMismatch(version) | MigrateError::VersionMissing(version) => StoreError::Unfit(format!(
            "the file was migrated by another version of namegate (step {version} differs): use that version"
        )),
        other => StoreError::Failed(sqlx::Error::Migrate(Box::new(other))),
    })
}

pub(super) async fn probe(pool: &SqlitePool, path: &Path) -> Result<(), StoreError> {
    if !path.exists() {
        return Err(StoreError::Unfit(format!(
            "there is no file {}: run `namegate migrate` to make the sample table",
            path.display()
        )));
    }
    // Four tables and three triggers, by name: whoever dropped one has cut the feed.
    let parts: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM sqlite_schema
          WHERE (type = 'table' AND name IN ('users', 'namegate_outbox', 'namegate_meta', 'namegate_consumer'))
             OR (type = 'trigger' AND tbl_name = 'users'
                 AND name IN ('namegate_insert', 'namegate_update', 'namegate_delete'))",
    )
    .fetch_one(pool)
    .await
    .map_err(classify)?;
    if parts == 7 {
        return Ok(());
    }
    Err(StoreError::Unfit(format!(
        "{} has no users table with a change feed: run `namegate migrate` to make the sample table",
        path.display()
    )))
}
