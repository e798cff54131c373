//! What breaks in production, broken on purpose: crashes, dead links, frozen processes, altered tables, odd writers.
//!
//! Each test drives the real binary in front of a real server, and lets the [`oracle`] judge every answer while the
//! fault lasts and after it. "I do not know" is never wrong; staying in that state is: each test also demands that the
//! service follows again within a stated time after its fault has ended.
//!
//! `NAMEGATE_CRASH_CYCLES`: how often the tests in [`crash`] that crash a server in a loop do so; 5 when it is not set.
//! Their faults are matters of chance, so a hundred cycles say more than five.

mod crash;
mod freeze;
mod link;
mod oracle;
mod pooler;
mod scan;
mod schema;
mod start;
mod switch;
mod writers;

use std::time::Duration;

use sqlx::postgres::PgConnection;

use crate::fixtures::{count, is_trusted, within};
use crate::support::postgres::Database;
use crate::support::service::Service;

/// The time in which a service follows again once its fault has ended: twice the longest pause between two tries, and
/// the rest for a busy machine.
const RECOVERY: Duration = Duration::from_secs(15);

/// Polls of the change feed that were applied.
const POLLS: &str = "namegate_feed_polls_total";

/// The feed's patience with a connection that says nothing.
const FEED_DEADLINE: Duration = Duration::from_secs(5);

/// Returns once the service follows: it has read the change feed again from now on, not only trusts what it read
/// before. Panics when it does not within `patience`.
#[track_caller]
fn follows_within(service: &Service, patience: Duration) -> impl Future<Output = ()> {
    let mut before = None;
    within(patience, "the service follows", async move || {
        let polls = count(service, POLLS).await;
        let before = *before.get_or_insert(polls);
        polls > before && is_trusted(service).await
    })
}

/// Returns once the service has noticed that its filter is out of step.
#[track_caller]
fn stops_following(service: &Service) -> impl Future<Output = ()> {
    within(RECOVERY, "the service no longer follows", async || {
        !is_trusted(service).await
    })
}

/// Returns once the change feed has been read `times` times more.
async fn polls(service: &Service, times: u64) {
    let wanted = count(service, POLLS).await + times;
    within(RECOVERY, "the change feed is read", async || {
        count(service, POLLS).await >= wanted
    })
    .await;
}

/// How many filters were given up for this cause; given up or replaced, for any, when it is empty.
async fn rebuilds(service: &Service, cause: &str) -> u64 {
    let distrusts = "namegate_distrusts_total";
    match cause {
        "" => count(service, distrusts).await + count(service, "namegate_rebuilds_total").await,
        cause => count(service, &format!("{distrusts}{{cause=\"{cause}\"}}")).await,
    }
}

/// Process ids of the service's sessions: those whose application name starts with `prefix`.
async fn backends(session: &mut PgConnection, prefix: &str) -> Vec<i32> {
    sqlx::query_scalar(
        "SELECT pid FROM pg_stat_activity
          WHERE datname = current_database() AND starts_with(application_name, $1)",
    )
    .bind(prefix)
    .fetch_all(session)
    .await
    .expect("the statistics can be read")
}

/// Inserts one row and returns the error, if any.
async fn insert_one(session: &mut PgConnection, name: &str) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO users (username) VALUES ($1)")
        .bind(name)
        .execute(session)
        .await
        .map(drop)
}

/// Runs any statements on this session.
async fn run(session: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
        .execute(session)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// `count` names that start with `prefix`.
fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n:06}")).collect()
}

/// Takes `count` transaction ids and uses none of them: nothing in the log vouches for them.
async fn burn_transaction_ids(database: &Database, count: usize) {
    let mut session = database.session().await;
    for _ in 0..count {
        run(&mut session, "BEGIN; SELECT pg_current_xact_id(); ROLLBACK").await;
    }
}
