//! The filter stays in step with a table that others write to, and says when it cannot.

use std::time::{Duration, Instant};

use crate::fixtures::{
    BOUND, ask_all, count, insert, is_free, is_taken, is_trusted, present_names, sample_database,
    sample_database_in, serve, serve_warm, verdict, wait_until_following, within,
};
use crate::support::postgres::Cluster;

#[tokio::test]
async fn a_row_inserted_by_psql_is_taken_within_the_bound() {
    let cluster = Cluster::shared().await;
    let database = sample_database("psql").await;
    let service = serve_warm(&database.url, &[]).await;
    assert!(is_free(&service, "newcomer").await);
    cluster
        .psql(
            &database.name,
            "INSERT INTO users (username) VALUES ('Newcomer');",
        )
        .await
        .expect_success();
    within(BOUND, "the row is taken", async || {
        is_taken(&service, "newcomer").await
    })
    .await;
}

#[tokio::test]
async fn a_transaction_that_commits_late_loses_no_name() {
    let database = sample_database("late").await;
    let service = serve_warm(&database.url, &[]).await;
    let mut slow = database.session().await;
    sqlx::raw_sql("BEGIN; INSERT INTO users (username) VALUES ('slow')")
        .execute(&mut slow)
        .await
        .expect("an insert");
    database
        .execute("INSERT INTO users (username) VALUES ('fast')")
        .await;
    within(
        BOUND,
        "the second is taken while the first is open",
        async || is_taken(&service, "fast").await,
    )
    .await;
    // Long enough for several certificates to move past the open transaction.
    tokio::time::sleep(Duration::from_secs(3)).await;
    sqlx::raw_sql("COMMIT")
        .execute(&mut slow)
        .await
        .expect("a commit");
    within(
        BOUND,
        "the first is taken after its own commit",
        async || is_taken(&service, "slow").await,
    )
    .await;
}

#[tokio::test]
async fn a_released_name_becomes_free_through_the_database() {
    let database = sample_database("release").await;
    insert(&database, &["paula".to_owned(), "ghost7".to_owned()]).await;
    let service = serve_warm(&database.url, &[]).await;
    assert!(is_taken(&service, "paula").await && is_taken(&service, "ghost7").await);
    database
        .execute("UPDATE users SET username = 'paula2' WHERE canonical = 'paula'; DELETE FROM users WHERE canonical = 'ghost7'")
        .await;
    for name in ["paula", "ghost7"] {
        within(BOUND, "the released name is free", async || {
            is_free(&service, name).await
        })
        .await;
        assert_eq!(
            verdict(&service.ask(name).await).2.as_deref(),
            Some("database"),
            "the filter forgets nothing"
        );
    }
    within(BOUND, "the new name is taken", async || {
        is_taken(&service, "paula2").await
    })
    .await;
}

#[tokio::test]
async fn while_the_database_is_down_nothing_is_guessed_and_afterwards_it_heals_by_itself() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "down").await;
    insert(&database, &present_names(100)).await;
    let service = serve_warm(&database.url, &["--cache-ttl", "1ms"]).await;

    cluster.stop_fast().await;
    let down = Instant::now();
    let (available, ..) = verdict(&service.ask("user000001").await);
    assert_eq!(available, None, "a maybe cannot be confirmed");
    while down.elapsed() < Duration::from_secs(5) {
        let asked = Instant::now();
        let (available, reason, source) = verdict(&service.ask("nobody-yet").await);
        // From memory only within the bound since the database was last heard.
        if asked.duration_since(down) > BOUND {
            assert_eq!(
                (available, reason.as_str(), source),
                (None, "unverified", None)
            );
        } else if available.is_some() {
            assert_eq!((available, source.as_deref()), (Some(true), Some("filter")));
        }
        assert_eq!(verdict(&service.ask("user000002").await).0, None);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let reply = service.ask("nobody-yet").await;
    assert_eq!(
        (reply.status, reply.header("retry-after")),
        (503, Some("1"))
    );

    cluster.start().await;
    within(Duration::from_secs(5), "following again", async || {
        is_trusted(&service).await
    })
    .await;
    assert!(is_free(&service, "nobody-yet").await);
    assert!(is_taken(&service, "user000001").await);
    assert!(service.is_running());
}

#[tokio::test]
async fn a_service_that_starts_before_its_database_waits_for_it() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "before").await;
    insert(&database, &["alice".to_owned()]).await;
    cluster.stop_fast().await;
    let service = serve(&database.url, &[]).await;
    for name in ["alice", "zoe"] {
        assert_eq!(verdict(&service.ask(name).await).0, None);
    }
    cluster.start().await;
    wait_until_following(&service).await;
    assert!(is_taken(&service, "alice").await);
    assert!(is_free(&service, "zoe").await);
}

#[tokio::test]
async fn names_inserted_during_the_warm_up_are_in_the_filter() {
    let database = sample_database("during").await;
    insert(&database, &present_names(50_000)).await;
    let service = serve(&database.url, &[]).await;
    let mut session = database.session().await;
    let mut during = Vec::new();
    while !is_trusted(&service).await {
        let name = format!("during{:05}", during.len());
        sqlx::query("INSERT INTO users (username) VALUES ($1)")
            .bind(&name)
            .execute(&mut session)
            .await
            .expect("a row");
        during.push(name);
    }
    tokio::time::sleep(BOUND).await;
    let answers = ask_all(&service, during.iter().map(String::as_str)).await;
    assert!(answers.iter().all(|(reason, _)| reason == "taken"));
}

#[tokio::test]
async fn a_table_that_outgrows_its_filter_gets_a_larger_one_without_a_pause() {
    let database = sample_database("growth").await;
    let service = serve_warm(&database.url, &["--capacity", "1000"]).await;
    insert(&database, &present_names(20_000)).await;
    within(
        Duration::from_mins(1),
        "the next generation is asked",
        async || {
            assert!(
                is_free(&service, "nobody-yet").await || is_taken(&service, "user000001").await
            );
            count(&service, "namegate_generation").await >= 2
        },
    )
    .await;
    assert!(count(&service, "namegate_filter_capacity_names").await >= 30_000);
    let names = present_names(20_000);
    let answers = ask_all(&service, names.iter().step_by(20).map(String::as_str)).await;
    assert!(answers.iter().all(|(reason, _)| reason == "taken"));
}

#[tokio::test]
async fn the_outbox_place_is_given_up_on_the_way_out() {
    let database = sample_database("place").await;
    let service = serve_warm(&database.url, &[]).await;
    let consumers = "SELECT count(*) FROM namegate.consumer";
    let mut session = database.session().await;
    let count: i64 = sqlx::query_scalar(consumers)
        .fetch_one(&mut session)
        .await
        .expect("a count");
    assert_eq!(count, 1);
    assert_eq!(service.terminate().await.code, Some(0));
    let count: i64 = sqlx::query_scalar(consumers)
        .fetch_one(&mut session)
        .await
        .expect("a count");
    assert_eq!(count, 0);
}

#[tokio::test]
async fn a_sign_up_here_is_taken_at_once() {
    let database = sample_database("own").await;
    // Polls so seldom that only the sign-up itself can have set the bits.
    let service = serve_warm(
        &database.url,
        &[
            "--signup",
            "--poll-interval",
            "1s",
            "--max-staleness",
            "30s",
        ],
    )
    .await;
    for number in 0..50 {
        let name = format!("own{number:03}");
        let body = format!(r#"{{"username":"{name}"}}"#);
        let headers = [("content-type", "application/json")];
        let reply = crate::support::http::request(
            service.public(),
            "POST",
            "/users",
            &headers,
            body.as_bytes(),
        )
        .await;
        assert_eq!(reply.status, 201, "{reply:?}");
        assert!(is_taken(&service, &name).await, "{name}");
    }
}

#[tokio::test]
async fn a_role_with_the_documented_rights_and_no_others_can_serve() {
    let cluster = Cluster::private().await;
    let maintenance = cluster.maintenance();
    maintenance
        .execute("CREATE ROLE owner LOGIN; CREATE ROLE gate LOGIN; CREATE ROLE app LOGIN")
        .await;
    maintenance.execute("CREATE DATABASE app OWNER owner").await;
    let url = |role: &str| format!("postgres://{role}@127.0.0.1:{}/app", cluster.port());
    crate::fixtures::migrate(&url("owner")).await;
    let grants = "GRANT SELECT, INSERT ON users TO gate;
         GRANT USAGE ON SCHEMA namegate TO gate;
         GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA namegate TO gate;
         GRANT INSERT ON users TO app;";
    cluster.psql("app", grants).await.expect_success();

    let service = serve_warm(&url("gate"), &["--signup"]).await;
    let as_app = format!(
        "SET ROLE app; {}",
        "INSERT INTO users (username) VALUES ('Written');"
    );
    cluster.psql("app", &as_app).await.expect_success();
    within(BOUND, "another program's row is taken", async || {
        is_taken(&service, "written").await
    })
    .await;
    let headers = [("content-type", "application/json")];
    let body = br#"{"username":"signed"}"#;
    let reply =
        crate::support::http::request(service.public(), "POST", "/users", &headers, body).await;
    assert_eq!(reply.status, 201, "{reply:?}");
    assert_eq!(
        count(&service, "namegate_feed_poll_failures_total").await,
        0
    );
}

#[tokio::test]
async fn a_poll_that_outlasts_its_deadline_is_given_more_time() {
    let database = sample_database("slowpoll").await;
    let service = serve_warm(&database.url, &[]).await;
    // As after a bulk load that the server takes long to gather: the answer begins after the feed's deadline of 5 s.
    let columns =
        "is_header bool, name text, released bool, snapshot text, pruned_below text, nonce uuid,
                   watermark text, in_recovery bool, system_identifier text, fingerprint text";
    database
        .execute(&format!(
            "ALTER FUNCTION namegate.poll(uuid, xid8, xid8[]) RENAME TO poll_at_once;
             CREATE FUNCTION namegate.poll(a uuid, b xid8, c xid8[]) RETURNS TABLE ({columns})
             LANGUAGE plpgsql STABLE AS $$
             BEGIN
                 PERFORM pg_sleep(6);
                 RETURN QUERY SELECT * FROM namegate.poll_at_once(a, b, c);
             END $$",
        ))
        .await;
    insert(&database, &["patience".to_owned()]).await;
    within(
        Duration::from_secs(40),
        "a slow poll is applied",
        async || count(&service, "namegate_feed_rows_total").await >= 1,
    )
    .await;
    assert!(
        count(&service, "namegate_feed_poll_failures_total").await >= 1,
        "the first one was cut short"
    );
    assert!(is_taken(&service, "patience").await);
}
