//! Writing to the sample table: one sign-up, or many rows at once. The unique index decides.

use std::time::Duration;

use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool};

use crate::gate::{Claim, StoreError};
use crate::names::Canonical;
use crate::store::postgres::connection::{self, Borrowed, query, within};
use crate::store::postgres::errors::{classify, state};

/// The constraint that says *taken*; a violation of any other is an error of its own.
const UNIQUE_NAME: &str = "users_canonical_key";

pub(super) async fn claim(
    pool: &PgPool,
    username: &str,
    canonical: &Canonical,
    before_commit: &(dyn Fn() + Send + Sync),
    deadline: Duration,
) -> Result<Claim, StoreError> {
    let insert = async {
        let mut connection = Borrowed::from(pool).await?;
        let claim = in_a_transaction(&mut connection, username, canonical, before_commit).await;
        connection.give_back(); // also after a refusal: the transaction has ended
        claim
    };
    match tokio::time::timeout(deadline, insert).await {
        Ok(claim) => claim,
        Err(_elapsed) => Err(StoreError::Overdue(deadline)),
    }
}

async fn in_a_transaction(
    connection: &mut PgConnection,
    username: &str,
    canonical: &Canonical,
    before_commit: &(dyn Fn() + Send + Sync),
) -> Result<Claim, StoreError> {
    let mut transaction = connection.begin().await.map_err(classify)?;
    let inserted = query("INSERT INTO users (username, canonical) VALUES ($1, $2)")
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
        Err(error) => {
            transaction.rollback().await.map_err(classify)?;
            refused(error)
        }
    }
}

fn refused(error: sqlx::Error) -> Result<Claim, StoreError> {
    let Some(database) = error.as_database_error() else {
        return Err(classify(error));
    };
    match state(database).as_str() {
        "23505" if database.constraint() == Some(UNIQUE_NAME) => Ok(Claim::Taken),
        // too long for the column; not encodable; too long for the index
        "22001" | "22021" | "54000" => Ok(Claim::NotStorable),
        _ => Err(classify(error)),
    }
}

/// One statement and one transaction for all rows: (username, canonical).
pub(super) async fn import(
    options: &PgConnectOptions,
    rows: &[(String, String)],
) -> Result<u64, StoreError> {
    // A connection of its own for every batch of thousands: cheap against the batch, and no pool to configure.
    let mut connection = connection::open(options, Duration::from_secs(5)).await?;
    let usernames: Vec<&str> = rows.iter().map(|(username, _)| username.as_str()).collect();
    let canonicals: Vec<&str> = rows
        .iter()
        .map(|(_, canonical)| canonical.as_str())
        .collect();
    let insert = query(
        "INSERT INTO users (username, canonical) SELECT * FROM unnest($1::text[], $2::text[])
         ON CONFLICT (canonical) DO NOTHING",
    )
    .bind(usernames)
    .bind(canonicals)
    .execute(&mut connection);
    let inserted = within(Duration::from_mins(5), insert)
        .await?
        .rows_affected();
    drop(connection.close().await); // the rows are committed whether or not the goodbye arrives
    Ok(inserted)
}
