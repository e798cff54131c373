//! Embedded SQLite: the default when no database is named, for trying out and for small single-host applications.
//!
//! One writer at a time, so the order of commits is the order of outbox ids and a position is an id. Other processes
//! may write the same file. WAL mode: readers and the writer do not wait for each other.

mod feed;
mod mark;
mod schema;
mod walk;

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection};

use crate::gate::{Bookmark, Claim, Extent, Feed, Store, StoreError, Walk};
use crate::names::Canonical;
use crate::store::sqlite::feed::SqliteFeed;
use crate::store::sqlite::mark::Mark;
use crate::store::sqlite::walk::SqliteWalk;

/// A users table in one file.
pub struct SqliteStore {
    path: PathBuf,
    options: SqliteConnectOptions,
    readers: SqlitePool,
    writer: SqlitePool,
}

impl SqliteStore {
    /// A store in the file at `path`, which [`migrate`](Store::migrate) makes when it is missing. Opened when first asked.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full) // a committed sign-up survives a power cut
            .busy_timeout(Duration::from_secs(5))
            .disable_statement_logging();
        let pool = |connections, options: &SqliteConnectOptions| {
            SqlitePoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(Duration::from_secs(5))
                .test_before_acquire(false)
                .connect_lazy_with(options.clone())
        };
        Self {
            path: path.to_owned(),
            readers: pool(4, &options),
            writer: pool(1, &options),
            options,
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn held(&self, names: &[Canonical]) -> Result<Vec<bool>, StoreError> {
        let asked: Vec<&str> = names.iter().map(Canonical::as_str).collect();
        let asked = serde_json::to_string(&asked).expect("strings are valid JSON");
        let found: Vec<i64> = sqlx::query_scalar(
            "SELECT asked.key FROM json_each($1) AS asked
              WHERE EXISTS (SELECT 1 FROM users WHERE users.canonical = asked.value)",
        )
        .bind(asked)
        .fetch_all(&self.readers)
        .await
        .map_err(classify)?;
        let mut held = vec![false; names.len()];
        for index in found {
            match usize::try_from(index)
                .ok()
                .and_then(|index| held.get_mut(index))
            {
                Some(held) => *held = true,
                None => {
                    return Err(StoreError::Garbled(
                        "a lookup named a position that was not asked",
                    ));
                }
            }
        }
        Ok(held)
    }

    async fn claim(
        &self,
        username: &str,
        canonical: &Canonical,
        before_commit: &(dyn Fn() + Send + Sync),
    ) -> Result<Claim, StoreError> {
        let mut writer = self.writer.acquire().await.map_err(classify)?;
        let mut transaction = writer
            .begin_with("BEGIN IMMEDIATE")
            .await
            .map_err(classify)?;
        let inserted = sqlx::query("INSERT INTO users (username, canonical) VALUES ($1, $2)")
            .bind(username)
            .bind(canonical.as_str())
            .execute(&mut *transaction)
            .await;
        match inserted {
            Ok(_) => {
                before_commit();
                transaction.commit().await.map_err(classify)?;
                Ok(Claim::Claimed)
            }
            Err(sqlx::Error::Database(error))
                if error.is_unique_violation() && error.message().contains("users.canonical") =>
            {
                Ok(Claim::Taken)
            }
            Err(error) => Err(classify(error)),
        }
    }

    async fn import(&self, rows: &[(String, String)]) -> Result<u64, StoreError> {
        let rows = serde_json::to_string(rows).expect("strings are valid JSON");
        let mut writer = self.writer.acquire().await.map_err(classify)?;
        let mut transaction = writer
            .begin_with("BEGIN IMMEDIATE")
            .await
            .map_err(classify)?;
        let inserted = sqlx::query(
            "INSERT INTO users (username, canonical)
             SELECT value ->> 0, value ->> 1 FROM json_each($1) WHERE true
             ON CONFLICT (canonical) DO NOTHING",
        )
        .bind(rows)
        .execute(&mut *transaction)
        .await
        .map_err(classify)?
        .rows_affected();
        transaction.commit().await.map_err(classify)?;
        Ok(inserted)
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        schema::migrate(self.options.clone()).await
    }

    async fn probe(&self) -> Result<(), StoreError> {
        schema::probe(&self.readers, &self.path).await
    }

    async fn open_feed(&self) -> Result<Box<dyn Feed>, StoreError> {
        Ok(Box::new(SqliteFeed::new(self.options.clone())))
    }

    async fn open_walk(&self, extent: Extent) -> Result<Box<dyn Walk>, StoreError> {
        Ok(Box::new(SqliteWalk::open(&self.options, extent).await?))
    }

    fn source(&self) -> String {
        "sqlite users canonical".to_owned()
    }

    async fn forget(&self, bookmark: &Bookmark) -> Result<(), StoreError> {
        let mark = Mark::try_from(bookmark)?;
        sqlx::query("DELETE FROM namegate_consumer WHERE id = $1")
            .bind(mark.consumer)
            .execute(&self.writer)
            .await
            .map_err(classify)?;
        Ok(())
    }

    fn describe(&self) -> String {
        format!("SQLite file {}", self.path.display())
    }

    async fn close(&self) {
        tokio::join!(self.readers.close(), self.writer.close());
    }
}

/// Sorts a driver's error by what can be done about it. Result codes: <https://sqlite.org/rescode.html>, the low byte.
fn classify(error: sqlx::Error) -> StoreError {
    let sqlx::Error::Database(database) = &error else {
        return match error {
            sqlx::Error::Io(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => StoreError::Unreachable(error),
            other => StoreError::Failed(other),
        };
    };
    let code: u32 = database
        .code()
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    match code & 0xff {
        5 | 6 | 10 => StoreError::Unreachable(error), // busy, locked, I/O error
        8 => StoreError::Unfit("the database file is read-only".into()),
        11 | 26 => StoreError::Unfit(format!(
            "the file is not a sound SQLite database ({})",
            database.message()
        )),
        13 => StoreError::Unfit("the disk is full".into()),
        14 => StoreError::Refused(error), // cannot open
        _ if database.message().starts_with("no such") => StoreError::Unfit(format!(
            "the database does not have what namegate needs ({}): run `namegate migrate`",
            database.message()
        )),
        _ => StoreError::Failed(error),
    }
}
