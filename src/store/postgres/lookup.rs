//! The confirming query: one statement for any number of names, answered by the unique index, on the primary.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use sqlx::postgres::{PgConnection, PgPool, PgRow};
use sqlx::{AssertSqlSafe, Row};
use tokio::time::timeout;

use crate::gate::StoreError;
use crate::names::Canonical;
use crate::store::postgres::Watched;
use crate::store::postgres::connection::{Borrowed, commit};
use crate::store::postgres::equality::Equality;
use crate::store::postgres::errors::{classify, is_broken};
use crate::store::postgres::fitness::{self, Fit};

/// How to ask, as the last look at the database showed it. Nothing is known before the first: asked by the wrong
/// equality, a name that is held would look free.
#[derive(Debug, Default)]
pub(super) struct Statement {
    known: ArcSwapOption<Known>,
    /// What a lookup begins with when a pooler stands between; otherwise the session is set up as it should be.
    begin: Option<String>,
}

#[derive(Debug)]
struct Known {
    text: String,
    equality: Equality,
    holds_raw_names: bool,
    /// Whether the filter's fold was found to be coarser than this equality.
    is_verified: bool,
}

impl Statement {
    /// Asked in a transaction of its own, with these settings.
    pub(super) fn in_a_transaction(settings: &str) -> Self {
        Self {
            begin: Some(format!("BEGIN READ ONLY; {settings}")),
            ..Self::default()
        }
    }

    /// From now on asks as `fit` says, whose equality was tried on the filter's fold. Its table has its schema, so that
    /// no other table can shadow it.
    pub(super) fn ask_and_filter_as(&self, fit: &Fit) {
        self.known.store(Some(Arc::new(Known::from(fit, true))));
    }

    /// Whether this very equality was tried on the filter's fold.
    pub(super) fn is_verified(&self, equality: &Equality) -> bool {
        self.known
            .load()
            .as_ref()
            .is_some_and(|known| known.is_verified && known.equality == *equality)
    }

    /// Whether a row may hold a name as it was typed. So it is taken to be while nothing is known.
    pub(super) fn holds_raw_names(&self) -> bool {
        self.known
            .load()
            .as_ref()
            .is_none_or(|known| known.holds_raw_names)
    }

    /// Asks as `fit` says if nothing better is known by now: lookups themselves can do without the trial.
    fn ask_as(&self, fit: &Fit) {
        let nothing: Option<Arc<Known>> = None;
        let known = Some(Arc::new(Known::from(fit, false)));
        self.known.compare_and_swap(&nothing, known);
    }
}

impl Known {
    fn from(fit: &Fit, is_verified: bool) -> Self {
        Self {
            text: for_table(&fit.table, &fit.equality),
            equality: fit.equality.clone(),
            holds_raw_names: fit.holds_raw_names,
            is_verified,
        }
    }
}

/// One index probe for each name, whatever the planner believes about the table: LATERAL with LIMIT leaves no choice.
/// Whether the server is a standby comes in the same answer: a standby's "no row" is no evidence.
fn for_table(table: &str, equality: &Equality) -> String {
    let probes: Vec<String> = equality
        .conditions("held", "asked.name")
        .map(|is_held| format!("(SELECT 1 FROM {table} AS held WHERE {is_held} LIMIT 1)"))
        .collect();
    let found = match probes.as_slice() {
        [probe] => probe.clone(),
        probes => format!("({} LIMIT 1)", probes.join(" UNION ALL ")),
    };
    format!(
        "SELECT pg_catalog.pg_is_in_recovery(), ARRAY(
             SELECT asked.at::int4 FROM unnest($1::text[]) WITH ORDINALITY AS asked(name, at)
             CROSS JOIN LATERAL {found} AS found)"
    )
}

pub(super) async fn held(
    pool: &PgPool,
    watched: &Watched,
    statement: &Statement,
    names: &[Canonical],
    deadline: Duration,
) -> Result<Vec<bool>, StoreError> {
    let asked: Vec<&str> = names.iter().map(Canonical::as_str).collect();
    let answer = on_a_live_connection(pool, watched, statement, &asked);
    match timeout(deadline, answer).await {
        Ok(answer) => answer,
        Err(_elapsed) => Err(StoreError::Overdue(deadline)),
    }
}

/// After a restart of the server every pooled connection is dead, and is found out one by one: as many tries as there
/// may be dead ones, and one more. The question is a read, so asking twice does no harm.
async fn on_a_live_connection(
    pool: &PgPool,
    watched: &Watched,
    statement: &Statement,
    asked: &[&str],
) -> Result<Vec<bool>, StoreError> {
    let mut tries = pool.options().get_max_connections() + 1;
    loop {
        let mut connection = Borrowed::from(pool).await?;
        tries -= 1;
        match ask(&mut connection, watched, statement, asked).await {
            Ok(row) => {
                connection.give_back();
                return read(&row, asked.len());
            }
            Err(error) if is_broken(&error) && tries > 0 => {}
            Err(error) => {
                if !is_broken(&error) && statement.begin.is_none() {
                    connection.give_back();
                }
                return Err(error);
            }
        }
    }
}

/// Looks first how to ask, where nobody has: the database may have been away when the service started.
async fn ask(
    connection: &mut PgConnection,
    watched: &Watched,
    statement: &Statement,
    asked: &[&str],
) -> Result<PgRow, StoreError> {
    if let Some(begin) = &statement.begin {
        let begin = sqlx::raw_sql(AssertSqlSafe(begin.as_str())).execute(&mut *connection);
        begin.await.map_err(classify)?;
    }
    if statement.known.load().is_none() {
        let fit = fitness::how_to_ask(connection, watched).await?;
        if !fit.has_triggers {
            return Err(StoreError::Unfit(format!(
                "{} is not the table that the change feed watches",
                fit.table
            )));
        }
        statement.ask_as(&fit);
    }
    let known = statement.known.load_full();
    let known = known.ok_or(StoreError::Garbled("a lookup that nobody knows how to ask"))?;
    let row = sqlx::query(AssertSqlSafe(known.text.as_str()))
        .persistent(statement.begin.is_none())
        .bind(asked)
        .fetch_one(&mut *connection)
        .await
        .map_err(classify)?;
    if statement.begin.is_some() {
        commit(connection).await.map_err(classify)?;
    }
    Ok(row)
}

fn read(row: &PgRow, asked: usize) -> Result<Vec<bool>, StoreError> {
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
