//! A look at committed rows, to check a filter against.

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use crate::gate::freshness::Moment;
use crate::gate::{Extent, Sink, StoreError, Walk};
use crate::store::sqlite::classify;

const EVERY_ROW: &str = "SELECT CAST(canonical AS BLOB) FROM users WHERE canonical IS NOT NULL";
const SOME_ROWS: &str = "SELECT CAST(canonical AS BLOB) FROM users
    WHERE id >= abs(random() % (SELECT max(id) FROM users)) AND canonical IS NOT NULL ORDER BY id LIMIT 500";

/// A connection with a read transaction open.
pub(super) struct SqliteWalk {
    connection: SqliteConnection,
    extent: Extent,
    taken_at: Moment,
}

impl SqliteWalk {
    pub(super) async fn open(
        options: &SqliteConnectOptions,
        extent: Extent,
    ) -> Result<Self, StoreError> {
        let mut connection = SqliteConnection::connect_with(options)
            .await
            .map_err(classify)?;
        // The first read takes the snapshot.
        sqlx::raw_sql("BEGIN; SELECT one FROM namegate_meta")
            .execute(&mut connection)
            .await
            .map_err(classify)?;
        Ok(Self {
            connection,
            extent,
            taken_at: Moment::now(),
        })
    }
}

#[async_trait]
impl Walk for SqliteWalk {
    fn taken_at(&self) -> Moment {
        self.taken_at
    }

    async fn rows(mut self: Box<Self>, into: &mut dyn Sink) -> Result<u64, StoreError> {
        let select = match self.extent {
            Extent::Whole => EVERY_ROW,
            Extent::Sample => SOME_ROWS,
        };
        let mut names = sqlx::query_scalar::<_, Vec<u8>>(select).fetch(&mut self.connection);
        let mut rows = 0;
        while let Some(name) = names.try_next().await.map_err(classify)? {
            into.held(&name);
            rows += 1;
        }
        drop(names);
        drop(self.connection.close().await);
        Ok(rows)
    }
}
