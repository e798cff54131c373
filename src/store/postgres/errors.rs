//! What PostgreSQL's errors mean to us, by SQLSTATE.

use sqlx::error::DatabaseError;

use crate::gate::StoreError;

/// Sorts a driver's error by what can be done about it.
pub(super) fn classify(error: sqlx::Error) -> StoreError {
    let sqlx::Error::Database(database) = &error else {
        return match error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => StoreError::Unreachable(error),
            other => StoreError::Failed(other),
        };
    };
    match state(database.as_ref()).as_str() {
        // PgBouncer, about what a session is set up with
        "08P01" if database.message().contains("startup parameter") => StoreError::Unfit(format!(
            "what is reached is a pooler ({}): if it is one in transaction mode, say --behind-pooler",
            database.message()
        )),
        // invalid authorization; no such database
        "28000" | "28P01" | "3D000" => StoreError::Refused(error),
        // shut down, crashed, starting up; too many connections; connection exceptions
        "57P01" | "57P02" | "57P03" | "57P05" | "53300" => StoreError::Unreachable(error),
        code if code.starts_with("08") => StoreError::Unreachable(error),
        // no such table, column, function, schema; no right to it; row-level security in the way
        "42P01" | "42703" | "42883" | "3F000" | "42501" => StoreError::Unfit(format!(
            "the database does not have what namegate needs ({}): run `namegate attach` or `namegate migrate`, or \
             grant the role its rights",
            database.message()
        )),
        _ => StoreError::Failed(error),
    }
}

/// Whether the connection is of no use any more, so that another one may well answer.
pub(super) fn is_broken(error: &StoreError) -> bool {
    matches!(error, StoreError::Unreachable(_))
}

pub(super) fn state(error: &dyn DatabaseError) -> String {
    error.code().unwrap_or_default().into_owned()
}
