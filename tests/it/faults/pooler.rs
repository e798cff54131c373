//! PgBouncer in transaction mode between the service and its server: nothing that belongs to one session may be
//! expected to be there in the next transaction.

use std::time::Duration;

use super::oracle::Oracle;
use super::{RECOVERY, follows_within, names, run};
use crate::fixtures::{count, sample_database_in, serve, serve_warm};
use crate::support::pooler::Pooler;
use crate::support::postgres::Cluster;
use crate::support::service;

const POOLED: [&str; 5] = [
    "--behind-pooler",
    "--signup",
    "--cache-ttl",
    "1ms",
    "--audit-interval",
];

#[tokio::test]
async fn behind_a_pooler_no_name_is_lost_when_the_server_crashes() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "pooled").await;
    let pooler = Pooler::in_front_of(&cluster);
    let url = database.url_through(pooler.port());
    let mut args = POOLED.to_vec();
    args.push("200ms");
    let service = serve_warm(&url, &args).await;
    let oracle = Oracle::new();
    for round in 0..3 {
        oracle
            .insert(
                &mut database.session().await,
                &names(&format!("before{round}x"), 20),
            )
            .await;
        // The pooler's clients keep their connections, and find other sessions behind them afterwards.
        tokio::time::sleep(Duration::from_millis(300)).await;
        cluster.kill_minus_nine().await;
        cluster.start().await;
        oracle
            .insert(
                &mut database.session().await,
                &names(&format!("after{round}x"), 20),
            )
            .await;
        follows_within(&service, RECOVERY).await;
    }
    oracle.sees_every_name_taken(&service).await;
    assert_eq!(count(&service, "namegate_audit_misses_total").await, 0);
}

/// Another client gets the sessions that the service used. They must be as if nobody had been there.
#[tokio::test]
async fn behind_a_pooler_no_setting_and_no_statement_is_left_in_a_session() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "clean").await;
    let pooler = Pooler::in_front_of(&cluster);
    let url = database.url_through(pooler.port());
    let mut args = POOLED.to_vec();
    args.push("50ms");
    let service = serve_warm(&url, &args).await;
    let oracle = Oracle::new();
    let tally = oracle
        .under_load(&service, &database, "load", async {
            tokio::time::sleep(Duration::from_secs(4)).await;
        })
        .await;
    assert!(tally.taken > 0 && tally.unverified == 0, "{tally:?}");
    let mut other = database.session().await;
    let sessions: Vec<(i32, String)> = sqlx::query_as(
        "SELECT pid, coalesce(application_name, '') FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    .fetch_all(&mut other)
    .await
    .expect("the sessions can be listed");
    assert!(!sessions.is_empty());
    service.terminate().await;
    // As many transactions as there may be sessions, held open side by side, so that each is another session.
    let mut clients = Vec::new();
    for _ in 0..5 {
        let mut client = client(&url).await;
        run(&mut client, "BEGIN").await;
        let looked: Vec<String> = raw(
            &mut client,
            "SELECT concat_ws(' ', current_setting('statement_timeout'), current_setting('lock_timeout'),
                    current_setting('enable_seqscan'), current_setting('jit'), current_setting('row_security'),
                    (SELECT count(*) FROM pg_prepared_statements))",
        )
        .await;
        assert_eq!(looked.len(), 1);
        assert!(
            looked[0].starts_with("0 0 on ") && looked[0].ends_with(" on 0"),
            "a session is not as it was: {}",
            looked[0]
        );
        clients.push(client);
    }
}

#[tokio::test]
async fn a_pooler_that_nobody_mentioned_is_named_in_the_refusal() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "unmentioned").await;
    let pooler = Pooler::in_front_of(&cluster);
    let url = database.url_through(pooler.port());
    let checked = service::run(&["check", "--direct", "--database-url", &url, "alice"], b"").await;
    assert_eq!(checked.code, Some(5), "{checked:?}");
    assert!(checked.stderr.contains("--behind-pooler"), "{checked:?}");

    let args = ["migrate", "--database-url", &url, "--behind-pooler"];
    let migrated = service::run(&args, b"").await;
    assert_eq!(migrated.code, Some(2), "{migrated:?}");
    assert!(
        migrated.stderr.contains("direct connection"),
        "{migrated:?}"
    );
    let plain = serve(&database.url, &["--behind-pooler"]).await;
    follows_within(&plain, RECOVERY).await; // it does no harm where there is none
}

async fn client(url: &str) -> sqlx::PgConnection {
    use sqlx::ConnectOptions;
    let options: sqlx::postgres::PgConnectOptions = url.parse().expect("a URL");
    options
        .extra_float_digits(None)
        .connect()
        .await
        .expect("the pooler accepts connections")
}

/// By the simple protocol, which prepares nothing.
async fn raw(client: &mut sqlx::PgConnection, sql: &'static str) -> Vec<String> {
    use sqlx::{Executor, Row};
    let rows = client.fetch_all(sqlx::raw_sql(sql)).await.expect(sql);
    rows.iter().map(|row| row.get(0)).collect()
}
