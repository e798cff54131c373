//! One test's database in a cluster.

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, PgPool};

/// Options of `CREATE DATABASE` under which `I` and `i` are different letters: the ICU locale `tr`.
/// PostgreSQL 15 or newer.
pub(crate) const TURKISH: &str = "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'tr'";

/// A database that nobody else uses. It goes with its cluster.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    pub(crate) name: String,
    /// Through TCP, as the superuser.
    pub(crate) url: String,
}

impl Database {
    pub(super) fn new(port: u16, name: String) -> Self {
        Self {
            url: super::url(port, &name),
            name,
        }
    }

    /// The same database through whatever listens on `port` of 127.0.0.1 in front of its server.
    pub(crate) fn url_through(&self, port: u16) -> String {
        super::url(port, &self.name)
    }

    /// A small pool of connections.
    pub(crate) async fn connect(&self) -> PgPool {
        let pool = PgPoolOptions::new()
            .max_connections(5)
            .connect(&self.url)
            .await;
        pool.expect("the server accepts connections")
    }

    /// One session, whose transactions and settings the test holds in its hand.
    pub(crate) async fn session(&self) -> PgConnection {
        let options: PgConnectOptions = self.url.parse().expect("the url is well formed");
        options
            .connect()
            .await
            .expect("the server accepts connections")
    }

    /// Runs any number of statements on a connection of their own.
    /// # Panics
    /// When the server refuses one or cannot be reached.
    pub(crate) async fn execute(&self, sql: &str) {
        let outcome = self
            .session()
            .await
            .execute(sqlx::raw_sql(AssertSqlSafe(sql)))
            .await;
        outcome.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}
