//! Writers that do what is allowed and seldom thought of: late, nested, prepared, bulky, renaming, oddly spelled.

use std::time::Duration;

use futures_util::future::join_all;
use namegate::names::Canonical;

use super::oracle::Oracle;
use super::{RECOVERY, follows_within, names, polls, rebuilds, run};
use crate::fixtures::{
    BOUND, is_taken, is_trusted, sample_database, sample_database_in, serve_warm, within,
};
use crate::support::http;
use crate::support::postgres::Cluster;

/// The transaction that began first commits last: a feed that remembers the highest id it has seen passes it by.
#[tokio::test]
async fn a_name_committed_late_is_seen_and_holds_nobody_up() {
    let database = sample_database("late").await;
    let service = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    let mut first = database.session().await;
    let mut second = database.session().await;
    for round in 0..2 {
        let (alice, bob) = (format!("alice{round}"), format!("bob{round}"));
        oracle.doubt(std::slice::from_ref(&alice));
        run(
            &mut first,
            &format!("BEGIN; INSERT INTO users (username) VALUES ('{alice}')"),
        )
        .await;
        oracle.insert(&mut second, std::slice::from_ref(&bob)).await;
        within(BOUND, "the one that committed is seen", async || {
            is_taken(&service, &bob).await
        })
        .await;
        tokio::time::sleep(Duration::from_millis(1100)).await; // a certificate has passed over the open one
        polls(&service, 1).await;
        assert!(!is_taken(&service, &alice).await, "it is not committed");
        run(&mut first, "COMMIT").await;
        oracle.committed(&[alice]);
        oracle.sees_every_name_taken(&service).await;
    }
}

/// It freezes the horizon below which every transaction has ended, for the whole cluster.
#[tokio::test]
async fn a_writer_idle_in_another_database_does_not_hold_the_feed_up() {
    let cluster = Cluster::shared().await;
    let elsewhere = cluster.database("elsewhere").await;
    let database = sample_database("here").await;
    let service = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    let mut idle = elsewhere.session().await;
    run(&mut idle, "BEGIN; CREATE TABLE t ()").await;
    let mut worst: f64 = 0.0;
    oracle
        .under_load(&service, &database, "load", async {
            for _ in 0..50 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                worst = worst.max(service.metric("namegate_lag_seconds").await);
            }
        })
        .await;
    assert!(worst < BOUND.as_secs_f64(), "lagged by {worst} s");
    run(&mut idle, "ROLLBACK").await;
    oracle.sees_every_name_taken(&service).await;
}

#[tokio::test]
async fn a_prepared_name_is_seen_when_it_is_committed_after_a_restart() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "prepared").await;
    let service = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    oracle.doubt(&["prepared".to_owned(), "dropped".to_owned()]);
    run(
        &mut session,
        "BEGIN; INSERT INTO users (username) VALUES ('prepared'); PREPARE TRANSACTION 'kept';
         BEGIN; INSERT INTO users (username) VALUES ('dropped'); PREPARE TRANSACTION 'not'",
    )
    .await;
    oracle.insert(&mut session, &names("other", 10)).await;
    tokio::time::sleep(Duration::from_millis(1100)).await; // a certificate has passed over the open ones
    polls(&service, 1).await;
    cluster.restart_immediate().await;
    follows_within(&service, RECOVERY).await;
    let mut session = database.session().await;
    oracle.insert(&mut session, &names("later", 10)).await;
    oracle
        .change(&mut session, "COMMIT PREPARED 'kept'", &[], &["prepared"])
        .await;
    run(&mut session, "ROLLBACK PREPARED 'not'").await;
    oracle.sees_every_name_taken(&service).await;
    assert!(!is_taken(&service, "dropped").await);
}

#[tokio::test]
async fn of_nested_savepoints_exactly_the_committed_names_are_held() {
    let database = sample_database("nested").await;
    let service = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    let all = names("level", 100);
    oracle.doubt(&all);
    run(&mut session, "BEGIN").await;
    for (level, name) in all.iter().enumerate() {
        run(
            &mut session,
            &format!("SAVEPOINT s{level}; INSERT INTO users (username) VALUES ('{name}')"),
        )
        .await;
        if level % 10 == 3 {
            polls(&service, 1).await; // open subtransactions are in the snapshots that the feed moves to
        }
    }
    run(
        &mut session,
        "RELEASE SAVEPOINT s90; ROLLBACK TO SAVEPOINT s50; RELEASE SAVEPOINT s20; COMMIT",
    )
    .await;
    oracle.committed(&all[..50]);
    oracle.sees_every_name_taken(&service).await;
    for name in &all[50..] {
        assert!(!is_taken(&service, name).await, "{name} was rolled back");
    }
}

#[tokio::test]
async fn a_name_written_by_a_replicating_session_is_seen() {
    let database = sample_database("replica").await;
    let service = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    run(&mut session, "SET session_replication_role = replica").await;
    oracle.insert(&mut session, &names("copied", 10)).await;
    oracle.sees_every_name_taken(&service).await;
    oracle
        .change(
            &mut session,
            "UPDATE users SET username = 'renamed' WHERE canonical = 'copied000003'",
            &["copied000003", "renamed"],
            &["renamed"],
        )
        .await;
    oracle.sees_every_name_taken(&service).await;
}

/// All changes have one transaction id, and come in one answer.
#[tokio::test]
async fn a_bulk_load_in_one_transaction_is_followed_in_bounded_memory() {
    const ROWS: usize = 200_000;
    let database = sample_database("bulk").await;
    let service = serve_warm(&database.url, &["--capacity", "1000000"]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    oracle.insert(&mut session, &names("before", 20)).await;
    let bulk: Vec<String> = names("bulk", ROWS).into_iter().step_by(499).collect();
    oracle.doubt(&bulk);
    let before = peak_memory(&service);
    oracle
        .under_questions(&service, async {
            run(
                &mut session,
                &format!("INSERT INTO users (username) SELECT 'bulk' || to_char(n, 'FM000000') FROM generate_series(0, {}) n", ROWS - 1),
            )
            .await;
            oracle.committed(&bulk);
            tokio::time::sleep(BOUND).await;
            follows_within(&service, RECOVERY * 2).await;
        })
        .await;
    let grown = peak_memory(&service) - before;
    assert!(grown < 64 << 20, "the load took {grown} bytes");
    assert_eq!(oracle.ask_all(&service, &bulk).await.free_from_filter, 0);
    oracle.insert(&mut session, &names("after", 20)).await;
    oracle.sees_every_name_taken(&service).await;
    assert!(rebuilds(&service, "").await == 0);
}

/// The most memory that the service ever had, in bytes.
fn peak_memory(service: &crate::support::service::Service) -> i64 {
    let path = format!("/proc/{}/status", service.pid().as_raw_pid());
    let Ok(status) = std::fs::read_to_string(path) else {
        return 0; // no Linux: there is no such number, and the other claims of the test stand
    };
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("Linux counts it");
    let kib: i64 = line
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .expect("a number");
    kib * 1024
}

#[tokio::test]
async fn names_that_move_from_row_to_row_are_never_free_while_somebody_holds_them() {
    let database = sample_database("moving").await;
    let service = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    oracle
        .insert(
            &mut session,
            &["chain_a", "swap_x", "swap_y", "reborn"].map(str::to_owned),
        )
        .await;
    oracle.sees_every_name_taken(&service).await;
    let rename = |from: &str, to: &str| {
        format!("UPDATE users SET username = '{to}' WHERE canonical = '{from}';")
    };
    // Each statement on its own, so that one is read before the other; then all of it in one transaction.
    for (from, to) in [("chain_a", "chain_b"), ("chain_b", "chain_c")] {
        oracle
            .change(&mut session, &rename(from, to), &[from, to], &[to])
            .await;
        oracle.ask_all(&service, &oracle.held()).await;
    }
    let swap = format!(
        "BEGIN; {} {} {} COMMIT",
        rename("swap_x", "swap_tmp"),
        rename("swap_y", "swap_x"),
        rename("swap_tmp", "swap_y")
    );
    let reborn = "BEGIN; DELETE FROM users WHERE canonical = 'reborn';
                  INSERT INTO users (username) VALUES ('reborn'); COMMIT";
    // Both names of a swap, and one reborn in a transaction, are held at every moment that anybody can see.
    oracle
        .under_questions(&service, async {
            for _ in 0..10 {
                run(&mut session, &swap).await;
                run(&mut session, reborn).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
    oracle.sees_every_name_taken(&service).await;

    for gone in ["chain_a", "chain_b", "swap_tmp"] {
        within(RECOVERY, gone, async || !is_taken(&service, gone).await).await;
    }
    // A name given up and taken again between two looks.
    for _ in 0..5 {
        oracle
            .change(
                &mut session,
                &rename("chain_c", "chain_d"),
                &["chain_c", "chain_d"],
                &["chain_d"],
            )
            .await;
        oracle
            .change(
                &mut session,
                &rename("chain_d", "chain_c"),
                &["chain_c", "chain_d"],
                &["chain_c"],
            )
            .await;
        oracle.ask_all(&service, &oracle.held()).await;
    }
    oracle.sees_every_name_taken(&service).await;
}

/// Rows that no question will ever be about must not make the service stumble over them, nor over their neighbours.
#[tokio::test]
async fn rows_with_odd_names_are_scanned_and_followed_like_others() {
    let database = sample_database("odd").await;
    let odd = [
        "back\\slash".to_owned(),
        "tab\tand\nnewline".to_owned(),
        "quote'\"s".to_owned(),
        "\\N".to_owned(),
        "\\.".to_owned(),
        "\u{1f600}\u{200d}\u{1f525}".to_owned(),
        "e\u{301}".repeat(40),
        "long".repeat(2048),
        String::new(),
        " ".to_owned(),
    ];
    let insert = |mark: &str| odd.clone().map(|name| format!("{mark}{name}"));
    let mut session = database.session().await;
    let oracle = Oracle::new();
    oracle.insert(&mut session, &names("scanned", 5)).await;
    store_as_they_are(&mut session, &insert("s")).await;
    let service = serve_warm(&database.url, &["--profile", "unicode"]).await;
    store_as_they_are(&mut session, &insert("f")).await;
    oracle.insert(&mut session, &names("followed", 5)).await;
    oracle.sees_every_name_taken(&service).await;
    for name in insert("s").iter().chain(&insert("f")) {
        // The longest is too long to be asked for in a URL of the usual length; it had to be read all the same.
        let reply = service
            .ask(&name.chars().take(1000).collect::<String>())
            .await;
        if name.len() < 1000 && reply.status == 200 {
            let body = reply.json();
            let is_whole = body["canonical"].as_str() == Some(name);
            assert!(
                !is_whole || body["available"] == false,
                "{name:?} is held: {reply:?}"
            );
        }
    }
    assert!(is_trusted(&service).await);
    assert!(rebuilds(&service, "").await == 0);
}

async fn store_as_they_are(session: &mut sqlx::PgConnection, names: &[String]) {
    sqlx::query("INSERT INTO users (username, canonical) SELECT n, n FROM unnest($1::text[]) n")
        .bind(names)
        .execute(session)
        .await
        .expect("the rows are new");
}

/// Whoever stores what another program asks about: what the service calls free, the table accepts.
#[tokio::test]
async fn what_is_called_free_can_be_signed_up() {
    let database = sample_database("pairs").await;
    let service = serve_warm(&database.url, &["--profile", "unicode", "--signup"]).await;
    let mut session = database.session().await;
    let pairs = [
        ("alice", "ALICE"),
        ("BOB", "bob"),
        ("  carol\u{3000}", "Carol"),
        ("STRASSE", "straße"),
        ("Straße2", "STRASSE2"),
        ("kadıköy", "KADIKÖY"),
        ("İstanbul", "istanbul"),
        ("Ωmega", "ωmega"),
        ("e\u{301}clair", "éclair"),
        ("ｆｕｌｌ", "full"),
        ("ǆungla", "Ǆungla"),
        ("σοφός", "ΣΟΦΌΣ"),
        ("ﬁsh", "fish"),
        ("K\u{212a}elvin", "kkelvin"),
    ];
    let mut free = 0;
    for (stored, asked) in pairs {
        if super::insert_one(&mut session, stored).await.is_err() {
            // Outside ASCII a writer gives the canonical form as well.
            sqlx::query("INSERT INTO users (username, canonical) VALUES ($1, $2)")
                .bind(stored)
                .bind(Canonical::unjudged(stored).as_str())
                .execute(&mut session)
                .await
                .expect("a new row");
        }
        polls(&service, 2).await;
        let reply = service.ask(asked).await;
        let is_free = reply.json()["available"] == true;
        let body = serde_json::json!({ "username": asked }).to_string();
        let made = http::request(
            service.public(),
            "POST",
            "/users",
            &[("Content-Type", "application/json")],
            body.as_bytes(),
        )
        .await;
        assert_eq!(
            is_free,
            made.status == 201,
            "{stored} {asked}: {reply:?} {made:?}"
        );
        free += usize::from(is_free);
    }
    assert!(free < pairs.len() - 4, "{free} of {} are free", pairs.len());
}

/// Who signs up and asks again is told "taken", whatever is rebuilt meanwhile.
#[tokio::test]
async fn a_sign_up_is_never_forgotten_by_the_next_filter() {
    let database = sample_database("signup").await;
    let service = serve_warm(&database.url, &["--signup"]).await;
    let mut session = database.session().await;
    let mut signed_up = 0;
    let stop = async {
        for _ in 0..15 {
            // Makes the service build its next filter.
            run(
                &mut session,
                "UPDATE namegate.consumer SET nonce = gen_random_uuid()",
            )
            .await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let sign_up = async {
        loop {
            let name = format!("mine{signed_up:05}");
            let body = format!(r#"{{"username":"{name}"}}"#);
            let made = http::request(
                service.public(),
                "POST",
                "/users",
                &[("Content-Type", "application/json")],
                body.as_bytes(),
            )
            .await;
            assert_eq!(made.status, 201, "{made:?}");
            let reply = service.ask(&name).await;
            assert_ne!(reply.json()["available"], true, "{reply:?}");
            signed_up += 1;
        }
    };
    tokio::select! {
        () = stop => {}
        () = sign_up => {}
    }
    assert!(signed_up > 20);
    assert!(rebuilds(&service, "certificate").await > 3);
    follows_within(&service, RECOVERY).await;
}

/// Each instance has a place of its own in the outbox, and none waits for another.
#[tokio::test]
async fn many_instances_follow_one_table() {
    const INSTANCES: usize = 5;
    let database = sample_database("many").await;
    let services = join_all((0..INSTANCES).map(|_| serve_warm(&database.url, &[]))).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    oracle.insert(&mut session, &names("shared", 20)).await;
    tokio::time::sleep(BOUND).await;
    for service in &services {
        oracle.ask_all(service, &oracle.held()).await;
    }
    let places = "SELECT count(*) FROM namegate.consumer";
    let count: i64 = sqlx::query_scalar(places)
        .fetch_one(&mut session)
        .await
        .expect("a count");
    assert_eq!(usize::try_from(count), Ok(INSTANCES));
    for service in &services[1..] {
        service.terminate().await;
    }
    let count: i64 = sqlx::query_scalar(places)
        .fetch_one(&mut session)
        .await
        .expect("a count");
    assert_eq!(count, 1, "who leaves gives up its place");
    oracle.sees_every_name_taken(&services[0]).await;
}
