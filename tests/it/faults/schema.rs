//! Somebody alters what the feed stands on: triggers, the table, the outbox, the rights of roles.

use std::time::Duration;

use super::oracle::Oracle;
use super::{RECOVERY, follows_within, names, polls, rebuilds, run};
use crate::fixtures::{
    BOUND, count, is_trusted, sample_database, sample_database_in, serve_warm, within,
};
use crate::support::postgres::{Cluster, Database};
use crate::support::service::{self, Service};
use crate::support::wire::FaultyWire;

/// Runs `change`, which lets `held` pass by the triggers, and demands a new filter that holds them.
async fn is_noticed(database: &Database, service: &Service, change: &str, held: &[&str]) -> Oracle {
    let oracle = Oracle::new();
    let before = rebuilds(service, "fingerprint").await;
    oracle
        .change(&mut database.session().await, change, held, held)
        .await;
    let asked: Vec<String> = held.iter().map(ToString::to_string).collect();
    within(RECOVERY, "the change is noticed", async || {
        oracle.ask_all(service, &asked).await;
        rebuilds(service, "fingerprint").await > before
    })
    .await;
    follows_within(service, RECOVERY).await;
    oracle.sees_every_name_taken(service).await;
    oracle
}

#[tokio::test]
async fn a_trigger_disabled_and_enabled_in_one_transaction_is_noticed() {
    let database = sample_database("disable").await;
    let service = serve_warm(&database.url, &[]).await;
    for (trigger, name) in [("namegate_insert", "hidden1"), ("USER", "hidden2")] {
        let change = format!(
            "BEGIN;
             ALTER TABLE users DISABLE TRIGGER {trigger};
             INSERT INTO users (username, canonical) VALUES ('{name}', '{name}');
             ALTER TABLE users ENABLE ALWAYS TRIGGER namegate_insert;
             ALTER TABLE users ENABLE ALWAYS TRIGGER namegate_update;
             ALTER TABLE users ENABLE ALWAYS TRIGGER namegate_delete;
             ALTER TABLE users ENABLE ALWAYS TRIGGER namegate_truncate;
             ALTER TABLE users ENABLE ALWAYS TRIGGER fill_canonical_on_insert;
             ALTER TABLE users ENABLE ALWAYS TRIGGER fill_canonical_on_update;
             COMMIT"
        );
        is_noticed(&database, &service, &change, &[name]).await;
    }
}

#[tokio::test]
async fn a_trigger_function_replaced_for_a_moment_is_noticed() {
    let database = sample_database("replace").await;
    let service = serve_warm(&database.url, &[]).await;
    let change = "BEGIN;
         CREATE OR REPLACE FUNCTION namegate.capture() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         INSERT INTO users (username) VALUES ('hidden');
         DROP TRIGGER namegate_insert ON users; DROP TRIGGER namegate_update ON users;
         DROP TRIGGER namegate_delete ON users; DROP TRIGGER namegate_truncate ON users;
         SELECT namegate.watch('users', 'canonical');
         COMMIT";
    is_noticed(&database, &service, change, &["hidden"]).await;
}

/// While the triggers are off there is no filter to trust, and every question goes to the database.
#[tokio::test]
async fn while_a_trigger_is_disabled_every_answer_comes_from_the_database() {
    let database = sample_database("off").await;
    let service = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    run(
        &mut session,
        "ALTER TABLE users DISABLE TRIGGER namegate_insert",
    )
    .await;
    super::stops_following(&service).await;
    oracle.insert(&mut session, &names("unseen", 10)).await;
    let tally = oracle.ask_all(&service, &names("unseen", 10)).await;
    assert_eq!(tally.taken, 10, "{tally:?}");
    let tally = oracle.ask_all(&service, &names("zqfree", 10)).await;
    assert_eq!(tally.free_from_database, 10, "{tally:?}");
    run(
        &mut session,
        "ALTER TABLE users ENABLE ALWAYS TRIGGER namegate_insert",
    )
    .await;
    follows_within(&service, RECOVERY).await;
    oracle.sees_every_name_taken(&service).await;
}

#[tokio::test]
async fn a_table_swapped_by_renaming_is_noticed() {
    let database = sample_database("swap").await;
    let service = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    oracle.insert(&mut session, &names("old", 10)).await;
    oracle
        .change(
            &mut session,
            "BEGIN;
             CREATE TABLE users_new (LIKE users INCLUDING ALL);
             INSERT INTO users_new (username, canonical) SELECT username, canonical FROM users;
             ALTER TABLE users RENAME TO users_old;
             ALTER TABLE users_new RENAME TO users;
             INSERT INTO users (username, canonical) VALUES ('swapped', 'swapped');
             COMMIT",
            &["swapped"],
            &["swapped"],
        )
        .await;
    within(RECOVERY, "the swap is noticed", async || {
        oracle.ask_all(&service, &oracle.held()).await;
        rebuilds(&service, "fingerprint").await > 0
    })
    .await;
    // Nothing tells what is written to the new table, so the database is asked about everything.
    oracle
        .change(
            &mut session,
            "INSERT INTO users (username, canonical) VALUES ('later', 'later')",
            &["later"],
            &["later"],
        )
        .await;
    oracle.sees_every_name_taken(&service).await;
    run(
        &mut session,
        "DROP TABLE users_old; SELECT namegate.watch('users', 'canonical')",
    )
    .await;
    follows_within(&service, RECOVERY).await;
    oracle.sees_every_name_taken(&service).await;
}

/// `SELECT FROM users` shows a child's rows, and the parent's triggers do not see them come.
#[tokio::test]
async fn a_child_table_is_not_a_way_past_the_triggers() {
    let database = sample_database("child").await;
    let service = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    run(&mut session, "CREATE TABLE guests () INHERITS (users)").await;
    let insert = |name: &str| {
        format!("INSERT INTO guests (id, username, canonical) VALUES (1, '{name}', '{name}')")
    };
    oracle
        .change(&mut session, &insert("guest1"), &["guest1"], &["guest1"])
        .await;
    oracle.sees_every_name_taken(&service).await;
    oracle
        .change(&mut session, &insert("guest2"), &["guest2"], &["guest2"])
        .await;
    oracle.sees_every_name_taken(&service).await;
    run(&mut session, "ALTER TABLE guests NO INHERIT users").await;
    oracle.doubt(&["guest1".to_owned(), "guest2".to_owned()]);
    follows_within(&service, RECOVERY).await;
}

#[tokio::test]
async fn truncated_names_are_free_again_and_a_new_filter_is_built_once() {
    let database = sample_database("truncate").await;
    let wire = FaultyWire::in_front_of("127.0.0.1", Cluster::shared().await.port()).await;
    let service = serve_warm(&database.url_through(wire.port()), &[]).await;
    wire.slow(Duration::from_millis(20)); // the new filter takes several polls to build
    let oracle = Oracle::new();
    let mut session = database.session().await;
    let gone = names("gone", 20);
    oracle.insert(&mut session, &gone).await;
    oracle.sees_every_name_taken(&service).await;
    oracle.doubt(&gone);
    run(&mut session, "TRUNCATE users").await;
    oracle.insert(&mut session, &names("kept", 10)).await;
    within(RECOVERY, "the names are free again", async || {
        let tally = oracle.ask_all(&service, &gone).await;
        tally.free_from_filter + tally.free_from_database == gone.len()
    })
    .await;
    within(RECOVERY, "a new filter is built", async || {
        count(&service, "namegate_generation").await > 1
    })
    .await;
    oracle.sees_every_name_taken(&service).await;
    tokio::time::sleep(BOUND).await;
    assert!(
        count(&service, "namegate_generation").await == 2,
        "one truncation is one reason:\n{}",
        service.output()
    );
}

/// Somebody else took the service for dead and pruned what it had not read.
#[tokio::test]
async fn an_outbox_pruned_behind_a_sleeping_service_is_noticed() {
    let database = sample_database("pruned").await;
    let awake = serve_warm(&database.url, &[]).await;
    let mut session = database.session().await;
    let others: String = sqlx::query_scalar("SELECT id::text FROM namegate.consumer")
        .fetch_one(&mut session)
        .await
        .expect("the one that is awake");
    let asleep = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    asleep.pause();
    oracle.insert(&mut session, &names("unread", 20)).await;
    run(
        &mut session,
        &format!(
            "UPDATE namegate.consumer SET seen = now() - interval '2 hours' WHERE id <> '{others}'"
        ),
    )
    .await;
    within(RECOVERY, "the changes are pruned", async || {
        run(
            &mut session,
            "SELECT namegate.prune('0 seconds', '1 hour', 100000)",
        )
        .await;
        let left: i64 = sqlx::query_scalar("SELECT count(*) FROM namegate.outbox")
            .fetch_one(&mut session)
            .await
            .expect("a count");
        left == 0
    })
    .await;
    tokio::time::sleep(BOUND).await;
    asleep.resume();
    oracle.ask_all(&asleep, &oracle.held()).await;
    within(RECOVERY, "the gap is noticed", async || {
        rebuilds(&asleep, "certificate").await > 0
    })
    .await;
    follows_within(&asleep, RECOVERY).await;
    for service in [&awake, &asleep] {
        oracle.sees_every_name_taken(service).await;
    }
    assert!(rebuilds(&awake, "").await == 0);
}

#[tokio::test]
async fn a_service_forgotten_by_the_outbox_builds_a_new_filter_and_leaves_nothing_behind() {
    let database = sample_database("forgotten").await;
    let service = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    oracle.insert(&mut session, &names("held", 10)).await;
    for (change, cause) in [
        ("DELETE FROM namegate.consumer", "certificate"),
        (
            "UPDATE namegate.meta SET pruned_below = pg_snapshot_xmax(pg_current_snapshot())",
            "pruned",
        ),
        (
            "UPDATE namegate.consumer SET nonce = gen_random_uuid()",
            "certificate",
        ),
    ] {
        let before = rebuilds(&service, cause).await;
        run(&mut session, change).await;
        within(RECOVERY, change, async || {
            rebuilds(&service, cause).await > before
        })
        .await;
        follows_within(&service, RECOVERY).await;
        oracle.sees_every_name_taken(&service).await;
    }
    // A place that nobody fills would hold up pruning for an hour.
    within(RECOVERY, "one service has one place", async || {
        let places: i64 = sqlx::query_scalar("SELECT count(*) FROM namegate.consumer")
            .fetch_one(&mut session)
            .await
            .expect("a count");
        places == 1
    })
    .await;
}

/// The cache must not outlive the filter that would have told it of the release.
#[tokio::test]
async fn a_name_released_while_no_filter_is_trusted_is_free_afterwards() {
    let database = sample_database("cache").await;
    let service = serve_warm(&database.url, &["--cache-ttl", "5m"]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    // The second row keeps the key in every later filter, so that the cache is asked.
    run(
        &mut session,
        "INSERT INTO users (username, canonical) VALUES ('alice', 'alice'), ('ALICE', 'ALICE')",
    )
    .await;
    oracle.committed(&["alice".to_owned()]);
    run(
        &mut session,
        "ALTER TABLE users DISABLE TRIGGER namegate_delete",
    )
    .await;
    super::stops_following(&service).await;
    assert_eq!(oracle.ask(&service, "alice").await.taken, 1);
    oracle
        .change(
            &mut session,
            "DELETE FROM users WHERE canonical = 'alice';
             ALTER TABLE users ENABLE ALWAYS TRIGGER namegate_delete",
            &["alice"],
            &[],
        )
        .await;
    follows_within(&service, RECOVERY).await;
    let tally = oracle.ask(&service, "alice").await;
    assert_eq!(tally.free_from_database, 1, "{tally:?}");
}

/// What an unlogged table holds is gone after a crash, and with it the names not yet read.
#[tokio::test]
async fn an_outbox_that_does_not_survive_a_crash_is_not_trusted() {
    let database = sample_database("unlogged").await;
    let service = serve_warm(&database.url, &[]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    oracle.insert(&mut session, &names("held", 10)).await;
    run(&mut session, "ALTER TABLE namegate.outbox SET UNLOGGED").await;
    super::stops_following(&service).await;
    polls_fail(&service).await;
    run(&mut session, "ALTER TABLE namegate.outbox SET LOGGED").await;
    follows_within(&service, RECOVERY).await;
    oracle.sees_every_name_taken(&service).await;
}

/// Long enough for another filter to have been built, had it been allowed.
async fn polls_fail(service: &Service) {
    for _ in 0..20 {
        assert!(!is_trusted(service).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A role with the least rights that a service needs, and the database as seen by it.
async fn least_role(database: &Database, cluster: &Cluster) -> String {
    let role = format!("asker_{}", database.name);
    database
        .execute(&format!(
            "CREATE ROLE {role} LOGIN;
             GRANT SELECT ON users TO {role};
             GRANT USAGE ON SCHEMA namegate TO {role};
             GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA namegate TO {role}"
        ))
        .await;
    format!(
        "postgres://{role}@127.0.0.1:{}/{}",
        cluster.port(),
        database.name
    )
}

#[tokio::test]
async fn hidden_rows_are_a_reason_not_to_start() {
    let cluster = Cluster::shared().await;
    let database = sample_database_in(cluster, "hidden").await;
    let url = least_role(&database, cluster).await;
    database
        .execute("ALTER TABLE users ENABLE ROW LEVEL SECURITY")
        .await;
    let refused = service::run(
        &[
            "serve",
            "--database-url",
            &url,
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
        ],
        b"",
    )
    .await;
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("row-level security"), "{refused:?}");
}

/// A lookup that silently sees no rows would call every name free.
#[tokio::test]
async fn rows_hidden_while_the_service_runs_are_never_called_free() {
    let cluster = Cluster::shared().await;
    let database = sample_database_in(cluster, "hide").await;
    let url = least_role(&database, cluster).await;
    let service = serve_warm(&url, &["--cache-ttl", "1ms"]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    let held = names("held", 10);
    oracle.insert(&mut session, &held).await;
    oracle.sees_every_name_taken(&service).await;

    run(&mut session, "ALTER TABLE users ENABLE ROW LEVEL SECURITY").await;
    polls(&service, 2).await;
    let tally = oracle.ask_all(&service, &held).await;
    assert_eq!(tally.unverified, held.len(), "{tally:?}");
    run(&mut session, "ALTER TABLE users DISABLE ROW LEVEL SECURITY").await;
    follows_within(&service, RECOVERY).await;
    oracle.sees_every_name_taken(&service).await;
}

/// A table of the same name in a schema that the role looks into first: the feed watches one, a lookup must not read
/// the other.
#[tokio::test]
async fn a_table_that_shadows_the_watched_one_frees_no_name() {
    let cluster = Cluster::shared().await;
    let database = sample_database_in(cluster, "shadow").await;
    let url = least_role(&database, cluster).await;
    let role = format!("asker_{}", database.name);
    let service = serve_warm(&url, &["--cache-ttl", "1ms"]).await;
    let oracle = Oracle::new();
    let mut session = database.session().await;
    let held = names("held", 10);
    oracle.insert(&mut session, &held).await;
    oracle.sees_every_name_taken(&service).await;
    run(
        &mut session,
        &format!(
            "CREATE SCHEMA {role} AUTHORIZATION {role};
             CREATE TABLE {role}.users (canonical text UNIQUE);
             GRANT SELECT ON {role}.users TO {role}"
        ),
    )
    .await;
    polls(&service, 2).await;
    oracle.ask_all(&service, &held).await;
    run(&mut session, &format!("DROP SCHEMA {role} CASCADE")).await;
    follows_within(&service, RECOVERY).await;
    oracle.sees_every_name_taken(&service).await;
}
