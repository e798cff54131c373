//! Confirms suspects, so that nothing genuine is lost: the last ids exactly, older suspects in an SQLite index.
//!
//! The promise: what is called a duplicate was seen before, for certain (but for two ids with one 128-bit hash). The
//! price, for a disk that only holds suspects: of an id whose first message is further back than the last
//! ids are kept, nothing exact was recorded. Its next message cannot be told from a false positive, so it passes once
//! more; it is recorded then, and all later ones are duplicates.
//!
//! ```text
//!   suspect ──▶ among the last ids? ── yes ──────────────────────────────▶ duplicate
//!                     │ no
//!                     ▼
//!              in the index, within the window? ── yes ──────────────────▶ duplicate
//!                     │ no
//!                     └──▶ recorded in the index ────────────────────────▶ passes
//! ```
//!
//! A record is committed only after its message was written: a record without a message would lose one.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection};
use tokio::runtime::Handle;

use crate::dedup::recent::Recent;
use crate::filter::Digest;

/// The last ids, and the index of older suspects.
pub(super) struct Suspects {
    last: Recent,
    index: Index,
}

impl Suspects {
    pub(super) fn new(last: Recent, index: Index) -> Self {
        Self { last, index }
    }

    /// Notes an id that passes.
    pub(super) fn passed(&mut self, id: Digest, slice: u64) {
        self.last.insert(id, slice);
    }

    /// Whether a suspect passed before, in `oldest` or a later slice. One that cannot be confirmed is recorded as passing
    /// in `slice`.
    pub(super) fn confirm(&mut self, id: Digest, slice: u64, oldest: u64) -> sqlx::Result<bool> {
        if self
            .last
            .slice_of(id)
            .is_some_and(|passed| passed >= oldest)
        {
            return Ok(true);
        }
        self.index.confirm_or_record(id, slice, oldest)
    }

    /// The last ids.
    pub(super) fn last(&self) -> &Recent {
        &self.last
    }

    /// Makes records durable; to be called when the messages they stand for were written.
    pub(super) fn commit(&mut self) -> sqlx::Result<()> {
        self.index.commit()
    }

    /// Forgets what passed before `oldest`.
    pub(super) fn forget_before(&mut self, oldest: u64) -> sqlx::Result<()> {
        self.index.forget_before(oldest)
    }

    /// Closes the index.
    pub(super) fn close(self) -> sqlx::Result<()> {
        self.index.close()
    }
}

/// The index: an embedded database, used from one thread that is not the runtime's.
pub(super) struct Index {
    runtime: Handle,
    connection: SqliteConnection,
    is_open: bool,
}

impl Index {
    /// Opens the index at `path`, and makes it when it is not there. `is_fresh`: what it holds belongs to a memory that is
    /// gone.
    ///
    /// Must not be called, nor anything else here, on a thread that runs futures.
    pub(super) fn open(path: &Path, is_fresh: bool, runtime: Handle) -> sqlx::Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // A power cut may take the last records along: those messages may pass once more, none is lost.
            .synchronous(SqliteSynchronous::Normal)
            .disable_statement_logging();
        let connection = runtime.block_on(async {
            let mut connection = SqliteConnection::connect_with(&options).await?;
            let table = "CREATE TABLE IF NOT EXISTS suspects (digest BLOB NOT NULL PRIMARY KEY, slice INTEGER NOT NULL) WITHOUT ROWID";
            sqlx::query(table).execute(&mut connection).await?;
            if is_fresh {
                sqlx::query("DELETE FROM suspects").execute(&mut connection).await?;
            }
            Ok::<_, sqlx::Error>(connection)
        })?;
        Ok(Self {
            runtime,
            connection,
            is_open: false,
        })
    }

    fn confirm_or_record(&mut self, id: Digest, slice: u64, oldest: u64) -> sqlx::Result<bool> {
        let (digest, slice, oldest) = (
            id.bits().to_le_bytes(),
            as_integer(slice),
            as_integer(oldest),
        );
        let begins = !std::mem::replace(&mut self.is_open, true);
        self.runtime.block_on(async {
            if begins {
                sqlx::query("BEGIN IMMEDIATE")
                    .execute(&mut self.connection)
                    .await?;
            }
            // A record from before the window is as good as none.
            let recorded = sqlx::query(
                "INSERT INTO suspects (digest, slice) VALUES ($1, $2)
                 ON CONFLICT (digest) DO UPDATE SET slice = excluded.slice WHERE slice < $3",
            )
            .bind(&digest[..])
            .bind(slice)
            .bind(oldest)
            .execute(&mut self.connection)
            .await?;
            Ok(recorded.rows_affected() == 0)
        })
    }

    fn commit(&mut self) -> sqlx::Result<()> {
        if std::mem::take(&mut self.is_open) {
            self.runtime
                .block_on(sqlx::query("COMMIT").execute(&mut self.connection))?;
        }
        Ok(())
    }

    fn forget_before(&mut self, oldest: u64) -> sqlx::Result<()> {
        let delete = sqlx::query("DELETE FROM suspects WHERE slice < $1").bind(as_integer(oldest));
        self.runtime
            .block_on(delete.execute(&mut self.connection))?;
        Ok(())
    }

    fn close(self) -> sqlx::Result<()> {
        self.runtime.block_on(self.connection.close())
    }
}

/// Slices are counted in milliseconds or more since 1970: they fit.
fn as_integer(slice: u64) -> i64 {
    i64::try_from(slice).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_passed_within_the_window_is_confirmed() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("suspects.db");
        let open =
            |is_fresh| Index::open(&path, is_fresh, runtime.handle().clone()).expect("an index");
        let id = |bits| Digest::from_bits(bits);
        let mut suspects = Suspects::new(Recent::new(2), open(false));
        suspects.passed(id(1), 10);
        assert!(
            suspects.confirm(id(1), 10, 8).expect("sound"),
            "among the last"
        );
        assert!(
            !suspects.confirm(id(1), 14, 12).expect("sound"),
            "but not within the window"
        );
        assert!(suspects.confirm(id(1), 14, 12).expect("sound"), "recorded");
        assert!(!suspects.confirm(id(2), 14, 12).expect("sound"));
        suspects.commit().expect("sound");
        assert!(
            !suspects.confirm(id(3), 15, 13).expect("sound"),
            "never committed"
        );
        drop(suspects);

        let mut suspects = Suspects::new(Recent::new(2), open(false));
        assert!(
            suspects.confirm(id(2), 15, 13).expect("sound"),
            "as durable as its message"
        );
        assert!(!suspects.confirm(id(3), 15, 13).expect("sound"));
        assert!(
            !suspects.confirm(id(2), 20, 18).expect("sound"),
            "recorded before the window"
        );
        assert!(suspects.confirm(id(2), 20, 18).expect("sound"));
        suspects.commit().expect("sound");
        suspects.forget_before(21).expect("sound");
        assert!(!suspects.confirm(id(2), 20, 0).expect("sound"));
        suspects.commit().expect("sound");
        suspects.close().expect("sound");
        let mut suspects = Suspects::new(Recent::new(2), open(true));
        assert!(
            !suspects.confirm(id(2), 20, 0).expect("sound"),
            "of a memory that is gone"
        );
    }
}
