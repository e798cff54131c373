//! Connections with deadlines: opened in time, and closed hard when they were interrupted.
//!
//! Between us and the server may stand a pooler in transaction mode, which gives every transaction any session it likes.
//! Then nothing may be expected of a session that another transaction has set or prepared there: everything happens in
//! transactions of its own, settings are local to them, and no statement is kept prepared.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgConnection, PgPool, Postgres};
use sqlx::query::{Query, QueryScalar};
use sqlx::{ConnectOptions, Connection, FromRow, SqlSafeStr};
use tokio::time::timeout;

use crate::gate::StoreError;
use crate::store::postgres::errors::classify;

/// A statement that is sent seldom, and not kept prepared.
pub(super) fn query<'q>(sql: impl SqlSafeStr) -> Query<'q, Postgres, PgArguments> {
    sqlx::query(sql).persistent(false)
}

/// As [`query`], for one value.
pub(super) fn query_scalar<'q, O>(sql: impl SqlSafeStr) -> QueryScalar<'q, Postgres, O, PgArguments>
where
    (O,): for<'r> FromRow<'r, <Postgres as sqlx::Database>::Row>,
{
    sqlx::query_scalar(sql).persistent(false)
}

/// Begins a transaction, so that a pooler keeps the session for what follows.
pub(super) async fn begin(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("BEGIN").execute(connection).await?;
    Ok(())
}

/// Ends a transaction.
pub(super) async fn commit(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("COMMIT").execute(connection).await?;
    Ok(())
}

/// Opens a connection of one's own.
pub(super) async fn open(
    options: &PgConnectOptions,
    deadline: Duration,
) -> Result<PgConnection, StoreError> {
    let options = options.clone().disable_statement_logging();
    match timeout(deadline, PgConnection::connect_with(&options)).await {
        Ok(opened) => opened.map_err(classify),
        Err(_elapsed) => Err(StoreError::Overdue(deadline)),
    }
}

/// Waits for an answer; [`StoreError::Overdue`] when it does not come. The caller then drops the connection.
pub(super) async fn within<T>(
    deadline: Duration,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    match timeout(deadline, answer).await {
        Ok(answered) => answered.map_err(classify),
        Err(_elapsed) => Err(StoreError::Overdue(deadline)),
    }
}

/// A pooled connection that goes back to its pool only after [`give_back`](Self::give_back). Dropped before, as by a
/// deadline or a caller who left, its socket is closed: an answer may still be on its way, or none will ever come.
pub(super) struct Borrowed(Option<PoolConnection<Postgres>>);

impl Borrowed {
    pub(super) async fn from(pool: &PgPool) -> Result<Self, StoreError> {
        Ok(Self(Some(pool.acquire().await.map_err(classify)?)))
    }

    pub(super) fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Deref for Borrowed {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.0
            .as_ref()
            .expect("only give_back takes it, and consumes self")
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.0
            .as_mut()
            .expect("only give_back takes it, and consumes self")
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}
