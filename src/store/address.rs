//! The database URL: which store, and how to reach it. Never shown whole: it may hold a password.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use sqlx::postgres::PgConnectOptions;

use crate::gate::Store;
use crate::store::postgres::{Connections, Deadlines, PostgresStore, Watched};
use crate::store::sqlite::SqliteStore;

/// A parsed database URL.
#[derive(Clone)]
pub enum Address {
    /// `postgres://user:password@host:port/database?options`.
    Postgres(Box<PgConnectOptions>),
    /// `sqlite:path/to/file`.
    Sqlite(PathBuf),
}

/// Why a text is not a database URL. Never repeats the text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Neither of the two.
    #[error("a database URL begins with postgres:// or sqlite:")]
    Scheme,
    /// `sqlite:` and nothing.
    #[error("sqlite: needs the path of a file")]
    NoPath,
    /// An in-memory database is another one on every connection.
    #[error("an in-memory SQLite database cannot be shared by several connections: name a file")]
    InMemory,
    /// A PostgreSQL URL that cannot be read.
    #[error("the PostgreSQL URL cannot be read: {0}")]
    Postgres(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            let path = path.split('?').next().unwrap_or_default();
            return match path {
                "" => Err(AddressError::NoPath),
                ":memory:" => Err(AddressError::InMemory),
                path => Ok(Self::Sqlite(path.into())),
            };
        }
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(AddressError::Scheme);
        }
        let parsed =
            url::Url::parse(url).map_err(|error| AddressError::Postgres(error.to_string()))?;
        if parsed.port() == Some(0) {
            return Err(AddressError::Postgres(
                "port 0 cannot be connected to".into(),
            ));
        }
        let options: PgConnectOptions = url.parse().map_err(|error: sqlx::Error| match error {
            sqlx::Error::Configuration(reason) => AddressError::Postgres(reason.to_string()),
            _ => AddressError::Postgres("it is not complete".into()),
        })?;
        Ok(Self::Postgres(Box::new(options)))
    }
}

impl Address {
    /// The store at this address. Nothing is connected yet.
    #[must_use]
    pub fn open(
        self,
        watched: Watched,
        deadlines: Deadlines,
        connections: Connections,
    ) -> Arc<dyn Store> {
        match self {
            Self::Postgres(options) => Arc::new(PostgresStore::new(
                *options,
                watched,
                deadlines,
                connections,
            )),
            Self::Sqlite(path) => Arc::new(SqliteStore::new(&path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        url.parse::<Address>().err().expect("a bad URL").to_string()
    }

    #[test]
    fn both_kinds_are_read() {
        assert!(
            matches!("sqlite:data/names.db".parse(), Ok(Address::Sqlite(path)) if path == *"data/names.db")
        );
        assert!(
            matches!("sqlite:///var/names.db".parse(), Ok(Address::Sqlite(path)) if path == *"/var/names.db")
        );
        assert!(matches!(
            "postgres://app:secret@db.example:6432/app".parse(),
            Ok(Address::Postgres(_))
        ));
    }

    #[test]
    fn what_is_refused_is_said_without_the_password() {
        for url in [
            "mysql://app:hunter2@db/app",
            "hunter2",
            "postgres://app:hunter2@db:99999/app",
            "sqlite:",
            "sqlite::memory:",
        ] {
            let message = refused(url);
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
}
