//! The first reading of the table, while others write to it and while its connections are killed.

use std::sync::Arc;
use std::time::Duration;

use namegate::gate::{Sink, Store};
use namegate::store::Address;
use namegate::store::postgres::equality::Demand;
use namegate::store::postgres::{Connections, Deadlines, Watched};

use super::{backends, follows_within, run};
use crate::fixtures::{ask_all, present_names, sample_database, sample_database_in, serve};
use crate::support::postgres::{Cluster, Database};

/// Rows of about a kilobyte: 60,000 of them take more than one range of pages.
const WIDE: &str = "ALTER TABLE users ADD COLUMN padding text NOT NULL DEFAULT repeat('x', 1000);
    INSERT INTO users (username) SELECT 'user' || lpad(n::text, 6, '0') FROM generate_series(1, 60000) n";

fn store(database: &Database, lanes: u32) -> Arc<dyn Store> {
    let address: Address = database.url.parse().expect("a database URL");
    let watched = Watched {
        table: "users".parse().expect("a table"),
        column: "canonical".parse().expect("a column"),
        equality: Demand::Auto,
    };
    let connections = Connections {
        scan: lanes,
        ..Connections::default()
    };
    address.open(watched, Deadlines::default(), connections)
}

#[derive(Default)]
struct Heard(Vec<String>);

impl Sink for Heard {
    fn held(&mut self, raw: &[u8]) {
        self.0.push(String::from_utf8_lossy(raw).into_owned());
    }
    fn released(&mut self, _raw: &[u8]) {}
    fn truncated(&mut self) {}
}

/// An update that leaves the name alone moves its row, and the feed has nothing to report: a scan in two snapshots would
/// find the row in neither.
#[tokio::test]
async fn rows_that_move_backwards_while_several_ranges_are_read_are_not_missed() {
    let database = sample_database("moving").await;
    database.execute(WIDE).await;
    for round in 0..3 {
        // Room at the front, for rows from the back to move into.
        database
            .execute(&format!(
                "DELETE FROM users WHERE id <= {} ; ",
                10_000 * (round + 1)
            ))
            .await;
        database.execute("VACUUM users").await;
        let held: i64 = sqlx::query_scalar("SELECT count(*) FROM users")
            .fetch_one(&mut database.session().await)
            .await
            .expect("a count");
        let store = store(&database, 4);
        let mut feed = store.open_feed().await.expect("a feed");
        feed.begin().await.expect("a beginning");
        let mut scanned = Heard::default();
        let moving = async {
            let mut session = database.session().await;
            let mut last = 60_000;
            loop {
                let from = last - 499;
                run(
                    &mut session,
                    &format!(
                        "UPDATE users SET padding = repeat('y', 1000) WHERE id BETWEEN {from} AND {last}"
                    ),
                )
                .await;
                last = if from > 40_000 { from - 1 } else { 60_000 };
            }
        };
        tokio::select! {
            rows = feed.scan(&mut scanned) => assert_eq!(rows.expect("a scan"), u64::try_from(held).expect("a count")),
            () = moving => {}
        }
        scanned.0.sort_unstable();
        scanned.0.dedup();
        assert_eq!(scanned.0.len(), usize::try_from(held).expect("a count"));
        feed.close().await;
    }
}

#[tokio::test]
async fn every_way_to_cut_a_table_into_ranges_reads_each_row_once() {
    let database = sample_database("ranges").await;
    database.execute(WIDE).await;
    for lanes in [1, 2, 4, 16] {
        let store = store(&database, lanes);
        let mut feed = store.open_feed().await.expect("a feed");
        assert_eq!(feed.begin().await.expect("a beginning"), 60_000);
        let mut scanned = Heard::default();
        assert_eq!(feed.scan(&mut scanned).await.expect("a scan"), 60_000);
        scanned.0.sort_unstable();
        scanned.0.dedup();
        assert_eq!(scanned.0.len(), 60_000);
        feed.close().await;
    }
}

/// The rows of a partition are read from it directly only where the role may do so.
#[tokio::test]
async fn a_role_that_may_read_the_parent_only_scans_all_partitions() {
    let database = sample_database("parent").await;
    database
        .execute(
            "DROP TABLE users CASCADE;
             CREATE TABLE users (canonical text COLLATE \"C\" PRIMARY KEY) PARTITION BY RANGE (canonical);
             CREATE TABLE users_low PARTITION OF users FOR VALUES FROM (MINVALUE) TO ('user000300');
             CREATE TABLE users_high PARTITION OF users FOR VALUES FROM ('user000300') TO (MAXVALUE);
             SELECT namegate.watch('users', 'canonical');
             INSERT INTO users SELECT 'user' || lpad(n::text, 6, '0') FROM generate_series(0, 599) n",
        )
        .await;
    let role = format!("reader_{}", database.name);
    database
        .execute(&format!(
            "CREATE ROLE {role} LOGIN;
             GRANT SELECT ON users TO {role}; GRANT USAGE ON SCHEMA namegate TO {role};
             GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA namegate TO {role}"
        ))
        .await;
    let mut url: url::Url = database.url.parse().expect("a URL");
    url.set_username(&role).expect("a role");
    for url in [database.url.clone(), url.to_string()] {
        let service = serve(&url, &[]).await;
        follows_within(&service, Duration::from_secs(30)).await;
        for (reason, _) in ask_all(&service, present_names(600).iter().map(String::as_str)).await {
            assert_eq!(reason, "taken");
        }
    }
}

/// Killed again and again, at any point: a half-filled filter is never published, and in the end there is a whole one.
#[tokio::test]
async fn a_scan_whose_connections_are_killed_is_thrown_away() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "cutscan").await;
    database.execute(WIDE).await;
    let names: Vec<String> = (1..=60_000).map(|n| format!("user{n:06}")).collect();
    for round in 0..8 {
        let service = serve(&database.url, &[]).await;
        let mut session = database.session().await;
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_millis(5 + 7 * round)).await;
            for pid in backends(&mut session, "namegate feed").await {
                run(&mut session, &format!("SELECT pg_terminate_backend({pid})")).await;
            }
        }
        follows_within(&service, Duration::from_secs(30)).await;
        let asked = names.iter().step_by(60).map(String::as_str);
        for (reason, _) in ask_all(&service, asked).await {
            assert_eq!(reason, "taken");
        }
    }
}
