//! The change feed of the embedded store: a position is an outbox id.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{Connection, Row};
use uuid::Uuid;

use crate::gate::freshness::Moment;
use crate::gate::{Bookmark, Distrust, Feed, Poll, Sink, StoreError};
use crate::store::sqlite::classify;
use crate::store::sqlite::mark::Mark;

const KEEP_PLACE_EVERY: Duration = Duration::from_secs(30);
/// A consumer unseen for this long is forgotten; it will notice, and scan again.
const EXPIRY_SECONDS: i64 = 3600;

pub(super) struct SqliteFeed {
    options: SqliteConnectOptions,
    consumer: String,
    connection: Option<SqliteConnection>,
    past: Option<Past>,
}

/// What the filter was filled from, and how far it has come.
struct Past {
    identity: String,
    /// Every change up to this outbox id is in the filter.
    position: i64,
    /// `PRAGMA data_version` when the position was read: as long as it stands, nobody else has committed anything.
    data_version: i64,
    placed_at: Moment,
}

impl SqliteFeed {
    pub(super) fn new(options: SqliteConnectOptions) -> Self {
        Self {
            options,
            consumer: Uuid::new_v4().to_string(),
            connection: None,
            past: None,
        }
    }

    /// Takes the connection out: only what ended well puts it back.
    async fn connection(&mut self) -> Result<SqliteConnection, StoreError> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => SqliteConnection::connect_with(&self.options)
                .await
                .map_err(classify),
        }
    }
}

#[async_trait]
impl Feed for SqliteFeed {
    async fn begin(&mut self) -> Result<u64, StoreError> {
        let mut connection = self.connection().await?;
        sqlx::query(
            "INSERT INTO namegate_consumer (id, watermark)
             SELECT $1, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'namegate_outbox'), 0)",
        )
        .bind(&self.consumer)
        .execute(&mut connection)
        .await
        .map_err(classify)?;
        let data_version = data_version(&mut connection).await?;
        // A read transaction that stays open to the end of the scan: its first read takes the snapshot.
        sqlx::query("BEGIN")
            .execute(&mut connection)
            .await
            .map_err(classify)?;
        let (identity, position, rows): (String, i64, i64) = sqlx::query_as(
            "SELECT identity,
                    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'namegate_outbox'), 0),
                    (SELECT count(*) FROM users)
               FROM namegate_meta",
        )
        .fetch_one(&mut connection)
        .await
        .map_err(classify)?;
        self.past = Some(Past {
            identity,
            position,
            data_version,
            placed_at: Moment::now(),
        });
        self.connection = Some(connection);
        Ok(u64::try_from(rows).unwrap_or(0))
    }

    async fn scan(&mut self, into: &mut dyn Sink) -> Result<u64, StoreError> {
        let mut connection = self.connection().await?;
        let mut rows = 0;
        let names = "SELECT CAST(canonical AS BLOB) FROM users WHERE canonical IS NOT NULL";
        let mut names = sqlx::query_scalar::<_, Vec<u8>>(names).fetch(&mut connection);
        while let Some(name) = names.try_next().await.map_err(classify)? {
            into.held(&name);
            rows += 1;
        }
        drop(names);
        sqlx::query("COMMIT")
            .execute(&mut connection)
            .await
            .map_err(classify)?;
        self.connection = Some(connection);
        Ok(rows)
    }

    async fn poll(&mut self, into: &mut dyn Sink) -> Result<Poll, StoreError> {
        let mut connection = self.connection().await?;
        let past = self
            .past
            .as_mut()
            .ok_or(StoreError::Garbled("a poll before its scan"))?;
        let asked_at = Moment::now();
        let version = data_version(&mut connection).await?;
        let mut rows = 0;
        if version != past.data_version {
            rows = changes(&mut connection, &self.consumer, past, into).await?;
            past.data_version = version;
        }
        if asked_at.since(past.placed_at) >= KEEP_PLACE_EVERY {
            past.placed_at = asked_at;
            keep_place(&mut connection, &self.consumer, past.position).await?;
        }
        self.connection = Some(connection);
        Ok(Poll {
            asked_at,
            rows,
            is_certified: true, // a position here is an id, and moves with every poll
        })
    }

    async fn bookmark(&mut self) -> Result<Bookmark, StoreError> {
        let mut connection = self.connection().await?;
        let past = self
            .past
            .as_ref()
            .ok_or(StoreError::Garbled("a bookmark before its scan"))?;
        let mark = Mark {
            consumer: Uuid::new_v4().to_string(),
            position: past.position,
            identity: past.identity.clone(),
        };
        // This commit is on disk when it returns, and so is every change before it: an id up to the position is never
        // given out a second time.
        sqlx::query("INSERT INTO namegate_consumer (id, watermark) VALUES ($1, $2)")
            .bind(&mark.consumer)
            .bind(mark.position)
            .execute(&mut connection)
            .await
            .map_err(classify)?;
        self.connection = Some(connection);
        Ok(mark.into())
    }

    async fn resume(&mut self, bookmark: &Bookmark) -> Result<(), StoreError> {
        let mark = Mark::try_from(bookmark)?;
        let mut connection = self.connection().await?;
        let resumed = sqlx::query(
            "INSERT INTO namegate_consumer (id, watermark)
             SELECT $1, c.watermark FROM namegate_consumer c, namegate_meta m
              WHERE c.id = $2 AND c.watermark = $3 AND m.identity = $4",
        )
        .bind(&self.consumer)
        .bind(&mark.consumer)
        .bind(mark.position)
        .bind(&mark.identity)
        .execute(&mut connection)
        .await
        .map_err(classify)?;
        if resumed.rows_affected() == 0 {
            return Err(StoreError::Distrusted(Distrust::Certificate));
        }
        // Pruning is looked at by the first poll, as by every other; no data_version is -1, so it does read.
        self.past = Some(Past {
            identity: mark.identity,
            position: mark.position,
            data_version: -1,
            placed_at: Moment::now(),
        });
        self.connection = Some(connection);
        Ok(())
    }

    async fn close(&mut self) {
        let Ok(mut connection) = self.connection().await else {
            return;
        };
        let leave = sqlx::query("DELETE FROM namegate_consumer WHERE id = $1").bind(&self.consumer);
        if let Err(error) = leave.execute(&mut connection).await {
            tracing::debug!(error = %error, "the place in the outbox was not given up; it expires by itself");
        }
        drop(connection.close().await);
    }
}

async fn data_version(connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    sqlx::query_scalar("PRAGMA data_version")
        .fetch_one(connection)
        .await
        .map_err(classify)
}

/// Reads, in one statement and so in one snapshot, whether the position still holds and what came after it.
async fn changes(
    connection: &mut SqliteConnection,
    consumer: &str,
    past: &mut Past,
    into: &mut dyn Sink,
) -> Result<u64, StoreError> {
    let mut answer = sqlx::query(
        "SELECT m.identity, m.pruned_to, c.id IS NOT NULL, o.id, CAST(o.name AS BLOB), o.released
           FROM namegate_meta m
           LEFT JOIN namegate_consumer c ON c.id = $1
           LEFT JOIN namegate_outbox o ON o.id > $2
          ORDER BY o.id",
    )
    .bind(consumer)
    .bind(past.position)
    .fetch(connection);
    let mut rows = 0;
    let mut position = past.position;
    let mut is_checked = false;
    while let Some(row) = answer.try_next().await.map_err(classify)? {
        if !is_checked {
            check(&row, past)?;
            is_checked = true;
        }
        let Some(id) = row.try_get::<Option<i64>, _>(3).map_err(classify)? else {
            break;
        };
        let name: Option<Vec<u8>> = row.try_get(4).map_err(classify)?;
        let released: bool = row.try_get(5).map_err(classify)?;
        match (name, released) {
            (Some(name), false) => into.held(&name),
            (Some(name), true) => into.released(&name),
            (None, _) => {}
        }
        position = id;
        rows += 1;
    }
    if !is_checked {
        return Err(StoreError::Distrusted(Distrust::Identity)); // no namegate_meta row: not our file any more
    }
    past.position = position;
    Ok(rows)
}

fn check(row: &SqliteRow, past: &Past) -> Result<(), StoreError> {
    if row.try_get::<String, _>(0).map_err(classify)? != past.identity {
        return Err(StoreError::Distrusted(Distrust::Identity));
    }
    if row.try_get::<i64, _>(1).map_err(classify)? > past.position {
        return Err(StoreError::Distrusted(Distrust::Pruned));
    }
    if !row.try_get::<bool, _>(2).map_err(classify)? {
        return Err(StoreError::Distrusted(Distrust::Certificate));
    }
    Ok(())
}

/// Says how far this filter has come, and empties the outbox of what every filter has.
async fn keep_place(
    connection: &mut SqliteConnection,
    consumer: &str,
    position: i64,
) -> Result<(), StoreError> {
    let mut transaction = connection
        .begin_with("BEGIN IMMEDIATE")
        .await
        .map_err(classify)?;
    let placed = sqlx::query(
        "UPDATE namegate_consumer SET watermark = $1, seen = unixepoch() WHERE id = $2",
    )
    .bind(position)
    .bind(consumer)
    .execute(&mut *transaction)
    .await
    .map_err(classify)?;
    if placed.rows_affected() == 0 {
        return Err(StoreError::Distrusted(Distrust::Certificate));
    }
    sqlx::query("DELETE FROM namegate_consumer WHERE seen < unixepoch() - $1")
        .bind(EXPIRY_SECONDS)
        .execute(&mut *transaction)
        .await
        .map_err(classify)?;
    let everyone: i64 = sqlx::query_scalar("SELECT min(watermark) FROM namegate_consumer")
        .fetch_one(&mut *transaction)
        .await
        .map_err(classify)?;
    let deleted = sqlx::query("DELETE FROM namegate_outbox WHERE id <= $1")
        .bind(everyone)
        .execute(&mut *transaction)
        .await
        .map_err(classify)?;
    if deleted.rows_affected() > 0 {
        sqlx::query("UPDATE namegate_meta SET pruned_to = $1")
            .bind(everyone)
            .execute(&mut *transaction)
            .await
            .map_err(classify)?;
    }
    transaction.commit().await.map_err(classify)
}
