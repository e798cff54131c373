//! The filter is checked against the table: on demand for every row, all the time for a few.

use std::time::Duration;

use serde_json::Value;

use crate::fixtures::{
    count, insert, is_taken, is_trusted, present_names, sample_database, serve_warm, within,
};
use crate::support::command::Finished;
use crate::support::http;
use crate::support::postgres::Database;
use crate::support::service::{self, Service};

/// A row whose change the outbox lost: the writer's transaction deletes it there. Nothing in the feed can tell.
const LOSE_ONE: &str = "BEGIN; INSERT INTO users (username) VALUES ('lost');
    DELETE FROM namegate.outbox WHERE name = 'lost'; COMMIT";

async fn audit(service: &Service) -> Finished {
    let admin = format!("http://{}", service.admin());
    service::run(&["audit", "--admin", &admin], b"").await
}

async fn warm(prefix: &str, more: &[&str]) -> (Database, Service) {
    let database = sample_database(prefix).await;
    insert(&database, &present_names(3_000)).await;
    let mut args = vec!["--audit-interval"];
    if more.contains(&"--audit-interval") {
        args.clear();
    } else {
        args.push("0s");
    }
    args.extend(more);
    let service = serve_warm(&database.url, &args).await;
    (database, service)
}

#[tokio::test]
async fn a_sound_filter_misses_no_row() {
    let (_database, service) = warm("sound", &[]).await;
    let audit = audit(&service).await;
    assert_eq!(audit.code, Some(0), "{audit:?}");
    assert_eq!(audit.stdout.trim(), "3000 rows, 0 misses");
    assert_eq!(count(&service, "namegate_audited_rows_total").await, 3_000);
    assert_eq!(count(&service, "namegate_audit_misses_total").await, 0);
}

#[tokio::test]
async fn a_lost_row_is_found_counted_and_ends_the_filter() {
    let (database, service) = warm("lost", &[]).await;
    database.execute(LOSE_ONE).await;
    let found = audit(&service).await;
    assert_eq!(found.code, Some(1), "{found:?}");
    assert_eq!(found.stdout.trim(), "3001 rows, 1 misses");
    assert!(!found.stdout.contains("lost") && !found.stderr.contains("lost"));
    within(
        Duration::from_secs(10),
        "a new filter follows",
        async || {
            count(&service, "namegate_distrusts_total{cause=\"miss\"}").await == 1
                && is_trusted(&service).await
        },
    )
    .await;
    assert!(is_taken(&service, "lost").await);
    let again = audit(&service).await;
    assert_eq!(again.stdout.trim(), "3001 rows, 0 misses");
}

#[tokio::test]
async fn sampling_finds_a_lost_row_by_itself() {
    let (database, service) = warm("sampling", &["--audit-interval", "50ms"]).await;
    database.execute(LOSE_ONE).await;
    within(Duration::from_secs(30), "the row is found", async || {
        is_taken(&service, "lost").await
    })
    .await;
    assert_eq!(count(&service, "namegate_audit_misses_total").await, 1);
}

/// A filter on disk that lacks a name must not come back with the next start.
#[tokio::test]
async fn a_filter_that_missed_a_row_is_not_read_from_disk_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().to_str().expect("a readable path");
    let kept = ["--data-dir", path, "--save-interval", "5m"];
    let (database, service) = warm("comeback", &kept).await;
    database.execute(LOSE_ONE).await;
    let post = http::request(service.admin(), "POST", "/snapshot", &[], b"").await;
    assert_eq!(post.status, 202, "{post:?}");
    within(Duration::from_secs(10), "it is on disk", async || {
        count(&service, "namegate_filter_saves_total").await >= 1
    })
    .await;
    assert_eq!(audit(&service).await.code, Some(1));
    within(Duration::from_secs(10), "it was given up", async || {
        count(&service, "namegate_distrusts_total{cause=\"miss\"}").await == 1
    })
    .await;
    service.kill().await;
    let again = serve_warm(&database.url, &kept).await;
    assert!(is_taken(&again, "lost").await);
}

/// Rows that are committed while the audit looks are no misses: it waits for the feed.
#[tokio::test]
async fn audits_beside_busy_writers_raise_no_false_alarm() {
    let (database, service) = warm("busy", &["--audit-interval", "1ms"]).await;
    let writing = async {
        let mut session = database.session().await;
        for n in 0.. {
            sqlx::query("INSERT INTO users (username) VALUES ($1)")
                .bind(format!("busy{n}"))
                .execute(&mut session)
                .await
                .expect("the row is new");
        }
    };
    let auditing = async {
        for _ in 0..10 {
            let audit = audit(&service).await;
            assert_eq!(audit.code, Some(0), "{audit:?}");
        }
    };
    tokio::select! {
        () = auditing => {}
        () = writing => {}
    }
    assert_eq!(count(&service, "namegate_audit_misses_total").await, 0);
    assert!(count(&service, "namegate_audited_rows_total").await > 30_000);
}

#[tokio::test]
async fn one_audit_runs_at_a_time_and_each_tells_how_it_went() {
    let (database, service) = warm("one", &[]).await;
    let before = http::get(service.admin(), "/audit").await.json();
    assert_eq!(
        (&before["job"], &before["state"]),
        (&0.into(), &"none".into())
    );
    // The feed stands still, so the audit waits for it.
    let mut session = database.session().await;
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'namegate feed'";
    sqlx::raw_sql("BEGIN; LOCK TABLE namegate.outbox, namegate.consumer IN ACCESS EXCLUSIVE MODE")
        .execute(&mut session)
        .await
        .expect("a lock");
    let begun = http::request(service.admin(), "POST", "/audit", &[], b"").await;
    assert_eq!((begun.status, &begun.json()["job"]), (202, &1.into()));
    let busy = http::request(service.admin(), "POST", "/audit", &[], b"").await;
    assert_eq!(busy.status, 409, "{busy:?}");
    assert_eq!(busy.json()["available"], Value::Null);
    let running = http::get(service.admin(), "/audit").await.json();
    assert_eq!(running["state"], "running");
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("COMMIT; {kill}")))
        .execute(&mut session)
        .await
        .expect("a commit");
    within(Duration::from_secs(30), "the audit ends", async || {
        http::get(service.admin(), "/audit").await.json()["state"] == "done"
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_audited_is_said_in_one_line() {
    let nobody = service::run(&["audit", "--admin", "http://127.0.0.1:9"], b"").await;
    assert_eq!(nobody.code, Some(7), "{nobody:?}");
    assert_eq!(nobody.stderr.lines().count(), 1, "{nobody:?}");
    assert!(nobody.stderr.contains("admin listener"), "{nobody:?}");

    let database = sample_database("off").await;
    let args = ["--filter", "off"];
    let service = crate::fixtures::serve(&database.url, &args).await;
    let off = audit(&service).await;
    assert_eq!(off.code, Some(7), "{off:?}");
    assert!(off.stderr.contains("--filter off"), "{off:?}");
}
