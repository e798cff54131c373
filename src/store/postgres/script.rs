//! A change of the database as one SQL text: what is printed is what is run, one transaction, all or nothing.
//!
//! The text waits for a lock on a table that others write to. While it waits, they wait behind it; so it waits briefly,
//! gives way, and tries again.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor};
use tokio::time::{Instant, sleep, timeout};

use crate::gate::StoreError;
use crate::store::postgres::errors::{classify, state};

/// For one try. Every lock is waited for briefly; a server that says nothing for this long will not say it.
const DEADLINE: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_secs(1);

/// SQL that begins and ends its own transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script(String);

/// How long to wait for a table that others use.
#[derive(Debug, Clone, Copy)]
pub struct LockWait {
    /// At one time: for so long do others wait, too.
    pub at_once: Duration,
    /// Over all tries.
    pub in_all: Duration,
}

/// Why a change was not made. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// Others hold the table.
    #[error(
        "the table could not be locked within {}: a long transaction holds it; try again later, or wait longer \
         with --patience", humantime::format_duration(*.0)
    )]
    Busy(Duration),
    /// Anything else.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Script {
    /// `steps`: statements, each with its semicolon.
    pub(super) fn new(wait: LockWait, steps: &[String]) -> Self {
        let lock_timeout = wait.at_once.as_millis().max(1);
        Self(format!(
            "BEGIN;\nSET LOCAL search_path = pg_catalog;\nSET LOCAL lock_timeout = '{lock_timeout}ms';\n\
             SELECT pg_advisory_xact_lock(hashtext('namegate.attach'));\n\n{}\nCOMMIT;\n",
            steps.join("\n")
        ))
    }

    /// The SQL, for psql or for people.
    #[must_use]
    pub fn as_sql(&self) -> &str {
        &self.0
    }

    /// Runs it. `waits` is called before each pause.
    pub(super) async fn run(
        &self,
        connection: &mut PgConnection,
        wait: LockWait,
        waits: &(dyn Fn() + Sync),
    ) -> Result<(), ScriptError> {
        let began = Instant::now();
        loop {
            let run = connection.execute(sqlx::raw_sql(AssertSqlSafe(self.as_sql())));
            let Ok(ran) = timeout(DEADLINE, run).await else {
                return Err(StoreError::Overdue(DEADLINE).into());
            };
            let Err(error) = ran else {
                return Ok(());
            };
            if !is_in_the_way(&error) {
                return Err(explain(error).into());
            }
            if began.elapsed() >= wait.in_all {
                return Err(ScriptError::Busy(wait.in_all));
            }
            connection
                .execute("ROLLBACK")
                .await
                .map_err(|error| ScriptError::Store(classify(error)))?;
            waits();
            sleep(PAUSE).await;
        }
    }
}

/// A lock that was not to be had in time, or only by a deadlock.
fn is_in_the_way(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().map(state).unwrap_or_default();
    matches!(code.as_str(), "55P03" | "40P01")
}

fn explain(error: sqlx::Error) -> StoreError {
    let Some(database) = error.as_database_error() else {
        return classify(error);
    };
    let message = database.message();
    match state(database).as_str() {
        "42P06" | "42P07" | "42710" | "42723" | "23505" => StoreError::Unfit(format!(
            "something of that name is there already ({message}): was namegate attached meanwhile? look again with --dry-run"
        )),
        "2BP01" => StoreError::Unfit(format!(
            "something that is not namegate's depends on the change feed ({message}): remove it first"
        )),
        "42501" => StoreError::Unfit(format!("the role lacks a right ({message})")),
        "25006" => StoreError::Unfit(format!("the database takes no changes ({message})")),
        _ => classify(error),
    }
}
