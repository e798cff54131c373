//! The confirming query: one statement for any number of names, answered by the unique index, on the primary.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, Row};
use tokio::time::timeout;

use crate::gate::StoreError;
use crate::names::Canonical;
use crate::store::postgres::Watched;
use crate::store::postgres::connection::Borrowed;
use crate::store::postgres::errors::{classify, is_broken};
use crate::store::postgres::ident::Identifier;

/// The statement, for the table as its users name it until a look at the database has said in which schema it is.
#[derive(Debug)]
pub(super) struct Statement {
    column: Identifier,
    text: ArcSwap<String>,
}

impl Statement {
    pub(super) fn new(watched: &Watched) -> Self {
        let text = for_table(&watched.table.to_string(), &watched.column);
        Self {
            column: watched.column.clone(),
            text: ArcSwap::from_pointee(text),
        }
    }

    /// From now on reads `table`: quoted, and with its schema, so that no other table can shadow it.
    pub(super) fn read_from(&self, table: &str) {
        self.text.store(Arc::new(for_table(table, &self.column)));
    }
}

/// One index probe for each name, whatever the planner believes about the table: LATERAL with LIMIT leaves no choice.
/// Whether the server is a standby comes in the same answer: a standby's "no row" is no evidence.
fn for_table(table: &str, column: &Identifier) -> String {
    format!(
        "SELECT pg_catalog.pg_is_in_recovery(), ARRAY(
             SELECT asked.at::int4 FROM unnest($1::text[]) WITH ORDINALITY AS asked(name, at)
             CROSS JOIN LATERAL (SELECT 1 FROM {table} AS held WHERE held.{column} = asked.name LIMIT 1) AS found)"
    )
}

pub(super) async fn held(
    pool: &PgPool,
    statement: &Statement,
    names: &[Canonical],
    deadline: Duration,
) -> Result<Vec<bool>, StoreError> {
    let asked: Vec<&str> = names.iter().map(Canonical::as_str).collect();
    let statement = statement.text.load_full();
    match timeout(deadline, on_a_live_connection(pool, &statement, &asked)).await {
        Ok(answer) => answer,
        Err(_elapsed) => Err(StoreError::Overdue(deadline)),
    }
}

/// After a restart of the server every pooled connection is dead, and is found out one by one: as many tries as there
/// may be dead ones, and one more. The question is a read, so asking twice does no harm.
async fn on_a_live_connection(
    pool: &PgPool,
    statement: &str,
    asked: &[&str],
) -> Result<Vec<bool>, StoreError> {
    let mut tries = pool.options().get_max_connections() + 1;
    loop {
        let mut connection = Borrowed::from(pool).await?;
        tries -= 1;
        let answered = sqlx::query(AssertSqlSafe(statement))
            .bind(asked)
            .fetch_one(&mut *connection)
            .await;
        match answered {
            Ok(row) => {
                connection.give_back();
                return read(&row, asked.len());
            }
            Err(error) => {
                let error = classify(error);
                if !is_broken(&error) {
                    connection.give_back();
                    return Err(error);
                }
                if tries == 0 {
                    return Err(error);
                }
            }
        }
    }
}

fn read(row: &sqlx::postgres::PgRow, asked: usize) -> Result<Vec<bool>, StoreError> {
    if row.try_get::<bool, _>(0).map_err(classify)? {
        return Err(StoreError::Unfit(
            "the database is a standby: point namegate at the primary".into(),
        ));
    }
    let mut held = vec![false; asked];
    for position in row.try_get::<Vec<i32>, _>(1).map_err(classify)? {
        let index = usize::try_from(position)
            .ok()
            .and_then(|position| position.checked_sub(1));
        match index.and_then(|index| held.get_mut(index)) {
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
