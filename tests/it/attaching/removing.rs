//! What `detach` leaves behind: nothing. And when it refuses.

use std::time::Duration;

use super::{assert_refused, attach, catalog, database_with, role, run, serve_table};
use crate::fixtures::{is_taken, within};
use crate::support::postgres::Cluster;

const PARTITIONED: &str = "
    CREATE TABLE accounts (handle text NOT NULL, note text) PARTITION BY HASH (handle);
    CREATE UNIQUE INDEX ON accounts (handle);
    CREATE TABLE accounts_0 PARTITION OF accounts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE accounts_1 PARTITION OF accounts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
    CREATE TRIGGER mine BEFORE UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
    INSERT INTO accounts VALUES ('alice')";

#[tokio::test]
async fn detaching_leaves_no_trace() {
    let database = database_with("trace", PARTITIONED).await;
    let gate = role("gate", &database);
    database.execute(&format!("CREATE ROLE {gate} LOGIN")).await;
    let before = catalog::rows(&database).await;
    for by_psql in [false, true] {
        run("attach", &database.url, "accounts", &["--role", &gate])
            .await
            .expect_success();
        assert_ne!(before, catalog::rows(&database).await);
        let service = serve_table(&database.url, "accounts", &[]).await;
        assert!(is_taken(&service, "alice").await);
        service.terminate().await;
        if by_psql {
            let printed = run("detach", &database.url, "accounts", &["--dry-run"])
                .await
                .expect_success();
            let cluster = Cluster::shared().await;
            cluster
                .psql(&database.name, &printed)
                .await
                .expect_success();
        } else {
            run("detach", &database.url, "accounts", &[])
                .await
                .expect_success();
        }
        let after = catalog::rows(&database).await;
        assert_eq!(before, after, "{}", catalog::difference(&before, &after));
    }
    database
        .execute("INSERT INTO accounts VALUES ('bob')")
        .await;
    let again = run("detach", &database.url, "accounts", &[])
        .await
        .expect_success();
    assert!(again.contains("nothing to detach"), "{again}");
}

#[tokio::test]
async fn a_feed_that_is_followed_is_not_taken_away_unless_by_force() {
    let database = database_with("followed", "CREATE TABLE accounts (handle text UNIQUE)").await;
    database
        .execute("INSERT INTO accounts VALUES ('alice')")
        .await;
    attach(&database.url, "accounts").await;
    let service = serve_table(&database.url, "accounts", &[]).await;
    let refused = run("detach", &database.url, "accounts", &[]).await;
    assert_refused(&refused, 5, &["follows this change feed", "--force"]);
    assert!(is_taken(&service, "alice").await);

    run("detach", &database.url, "accounts", &["--force"])
        .await
        .expect_success();
    database
        .execute("INSERT INTO accounts VALUES ('bob')")
        .await;
    // Without a feed there is no filter to trust: whoever asks is sent to the database.
    within(
        Duration::from_secs(15),
        "the filter is not asked",
        async || is_taken(&service, "bob").await,
    )
    .await;
    assert!(service.is_running());
    attach(&database.url, "accounts").await;
    crate::fixtures::wait_until_following(&service).await;
    assert!(is_taken(&service, "bob").await);
}

#[tokio::test]
async fn what_is_somebody_elses_stops_a_detach() {
    let database = database_with("others", "CREATE TABLE accounts (handle text UNIQUE)").await;
    attach(&database.url, "accounts").await;
    let other = run("detach", &database.url, "guests", &[]).await;
    assert_refused(&other, 5, &["public.accounts"]);
    for (make, remove) in [
        (
            "CREATE VIEW recent AS SELECT * FROM namegate.outbox",
            "DROP VIEW recent",
        ),
        (
            "CREATE TABLE namegate.notes (note text)",
            "DROP TABLE namegate.notes",
        ),
    ] {
        database.execute(make).await;
        let before = catalog::rows(&database).await;
        let refused = run("detach", &database.url, "accounts", &[]).await;
        assert_refused(&refused, 5, &["not namegate's"]);
        assert_eq!(before, catalog::rows(&database).await);
        database.execute(remove).await;
    }
    // The table may have been renamed, or be gone.
    database
        .execute("ALTER TABLE accounts RENAME TO people")
        .await;
    let printed = run("detach", &database.url, "people", &[]).await;
    assert_refused(&printed, 5, &["does not watch"]);
    let detached = crate::support::service::run(&["detach", "--database-url", &database.url], b"")
        .await
        .expect_success();
    assert!(detached.contains("public.people"), "{detached}");

    attach(&database.url, "people").await;
    database.execute("DROP TABLE people").await;
    let detached = crate::support::service::run(&["detach", "--database-url", &database.url], b"")
        .await
        .expect_success();
    assert!(detached.contains("is gone"), "{detached}");
}
