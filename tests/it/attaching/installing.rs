//! What `attach` makes, and for whom.

use std::time::Duration;

use sqlx::Connection;

use super::{assert_refused, attach, catalog, database_with, role, run, serve_table, url_as};
use crate::fixtures::{
    BOUND, count, is_free, is_taken, migrate, sample_database, wait_until_following, within,
};
use crate::support::postgres::{Cluster, Database};
use crate::support::service;

/// Another shape, other types, a schema of its own, capitals in the name.
const ACCOUNTS: &str = r#"
    CREATE EXTENSION citext;
    CREATE SCHEMA app;
    CREATE TABLE app."Accounts" (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), handle citext NOT NULL UNIQUE, email text);
    INSERT INTO app."Accounts" (handle) VALUES ('Alice'), ('Bob_Smith');
"#;

#[tokio::test]
async fn a_dry_run_changes_nothing_and_prints_what_psql_runs_to_the_same_effect() {
    let cluster = Cluster::shared().await;
    let (by_hand, by_command) = (
        database_with("byhand", ACCOUNTS).await,
        database_with("bycommand", ACCOUNTS).await,
    );
    // Both grant to the same role: definitions are compared as text.
    let gate = role("gate", &by_hand);
    by_hand.execute(&format!("CREATE ROLE {gate} LOGIN")).await;
    let with_role = ["--role", gate.as_str()];
    let before = catalog::rows(&by_hand).await;
    let printed = run(
        "attach",
        &by_hand.url,
        "app.Accounts",
        &[&with_role[..], &["--dry-run"]].concat(),
    )
    .await
    .expect_success();
    let after = catalog::rows(&by_hand).await;
    assert_eq!(before, after, "{}", catalog::difference(&before, &after));

    cluster.psql(&by_hand.name, &printed).await.expect_success();
    run("attach", &by_command.url, "app.Accounts", &with_role)
        .await
        .expect_success();
    let (left, right) = (
        catalog::definitions(&by_hand).await,
        catalog::definitions(&by_command).await,
    );
    assert!(
        left.iter().any(|line| line.contains("namegate.poll"))
            && left.iter().any(|line| line.contains("namegate_insert"))
    );
    assert_eq!(left, right, "{}", catalog::difference(&left, &right));
    assert!(!left.iter().any(|line| line.contains("fill_canonical")));

    let again = run("attach", &by_hand.url, "app.Accounts", &["--dry-run"])
        .await
        .expect_success();
    assert!(again.starts_with("-- nothing to do"), "{again}");
}

#[tokio::test]
async fn attaching_twice_is_attaching_once() {
    let database = database_with("twice", ACCOUNTS).await;
    let first = attach(&database.url, "app.Accounts").await;
    assert!(
        first.contains("attached") && first.contains("citext") && first.contains("GRANT EXECUTE"),
        "{first}"
    );
    let before = catalog::rows(&database).await;
    let second = attach(&database.url, "app.Accounts").await;
    assert!(second.contains("attached already"), "{second}");
    let after = catalog::rows(&database).await;
    assert_eq!(before, after, "{}", catalog::difference(&before, &after));
}

#[tokio::test]
async fn attaching_again_puts_missing_triggers_right() {
    let database = database_with("again", ACCOUNTS).await;
    attach(&database.url, "app.Accounts").await;
    let service = serve_table(&database.url, "app.Accounts", &[]).await;
    for (damage, hidden) in [
        (
            "ALTER TABLE app.\"Accounts\" DISABLE TRIGGER namegate_insert",
            "disabled",
        ),
        (
            "DROP TRIGGER namegate_insert ON app.\"Accounts\"",
            "dropped",
        ),
        (
            "CREATE TABLE app.kin () INHERITS (app.\"Accounts\"); INSERT INTO app.kin (handle) VALUES ('kinsman')",
            "unborn",
        ),
        (
            "DROP TABLE app.kin; CREATE TABLE app.new (LIKE app.\"Accounts\" INCLUDING ALL);
             ALTER TABLE app.\"Accounts\" RENAME TO old; ALTER TABLE app.new RENAME TO \"Accounts\"",
            "swapped",
        ),
    ] {
        database.execute(damage).await;
        database
            .execute(&format!(
                "INSERT INTO app.\"Accounts\" (handle) VALUES ('{hidden}')"
            ))
            .await;
        let again = attach(&database.url, "app.Accounts").await;
        assert!(again.contains("once more"), "{damage}: {again}");
        let once = attach(&database.url, "app.Accounts").await;
        assert!(once.contains("attached already"), "{damage}: {once}");
        wait_until_following(&service).await;
        within(Duration::from_secs(15), damage, async || {
            is_taken(&service, hidden).await
        })
        .await;
        let name = format!("after-{hidden}");
        database
            .execute(&format!(
                "INSERT INTO app.\"Accounts\" (handle) VALUES ('{name}')"
            ))
            .await;
        within(Duration::from_secs(15), damage, async || {
            is_taken(&service, &name).await
        })
        .await;
    }
}

#[tokio::test]
async fn the_rights_that_are_printed_are_all_that_a_service_needs() {
    let cluster = Cluster::shared().await;
    let database = database_with("rights", ACCOUNTS).await;
    let (gate, app) = (role("gate", &database), role("app", &database));
    database
        .execute(&format!(
            "CREATE ROLE {gate} LOGIN; CREATE ROLE {app} LOGIN;
             GRANT USAGE ON SCHEMA app TO {app}; GRANT INSERT, SELECT, DELETE ON app.\"Accounts\" TO {app}"
        ))
        .await;
    let printed = attach(&database.url, "app.Accounts").await;
    let grants: String = printed
        .lines()
        .filter(|line| line.trim_start().starts_with("GRANT"))
        .map(|line| line.replace("TO gate;", &format!("TO {gate};\n")))
        .collect();
    assert_eq!(grants.lines().count(), 4, "{printed}");
    cluster.psql(&database.name, &grants).await.expect_success();

    let service = serve_table(&url_as(&gate, &database).await, "app.Accounts", &[]).await;
    assert!(is_taken(&service, "alice").await && is_taken(&service, "BOB_SMITH").await);
    assert!(is_free(&service, "carol").await);
    let as_app = format!("SET ROLE {app}; INSERT INTO app.\"Accounts\" (handle) VALUES ('Carol');");
    cluster.psql(&database.name, &as_app).await.expect_success();
    within(BOUND, "a row of a role without rights here", async || {
        is_taken(&service, "carol").await
    })
    .await;
    assert_eq!(
        count(&service, "namegate_feed_poll_failures_total").await,
        0
    );
    // Not one right more: what else is in the table is not for the service.
    let refused = cluster
        .psql(
            &database.name,
            &format!("SET ROLE {gate}; SELECT email FROM app.\"Accounts\";"),
        )
        .await;
    assert!(refused.stderr.contains("permission denied"), "{refused:?}");
    let asked = run(
        "check",
        &url_as(&gate, &database).await,
        "app.Accounts",
        &["--direct", "ALICE", "zoe"],
    )
    .await;
    assert_eq!(asked.code, Some(1), "{asked:?}");
    let words: Vec<&str> = asked
        .stdout
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    assert_eq!(words, ["taken", "free"]);
}

#[tokio::test]
async fn a_role_is_given_what_it_lacks_and_detaching_takes_that_back_and_no_more() {
    let database = database_with("role", ACCOUNTS).await;
    let (gate, clerk) = (role("gate", &database), role("clerk", &database));
    database
        .execute(&format!(
            "CREATE ROLE {gate} LOGIN; CREATE ROLE {clerk} LOGIN;
             GRANT USAGE ON SCHEMA app TO {clerk}; GRANT SELECT ON app.\"Accounts\" TO {clerk}"
        ))
        .await;
    let before = catalog::rows(&database).await;
    for name in [&gate, &clerk] {
        run("attach", &database.url, "app.Accounts", &["--role", name])
            .await
            .expect_success();
    }
    let again = run("attach", &database.url, "app.Accounts", &["--role", &gate])
        .await
        .expect_success();
    assert!(again.contains("has the rights"), "{again}");
    for name in [&gate, &clerk] {
        let service = serve_table(&url_as(name, &database).await, "app.Accounts", &[]).await;
        assert!(is_taken(&service, "alice").await);
        service.terminate().await;
    }
    run("detach", &database.url, "app.Accounts", &[])
        .await
        .expect_success();
    let after = catalog::rows(&database).await;
    assert_eq!(before, after, "{}", catalog::difference(&before, &after));
}

#[tokio::test]
async fn odd_names_are_only_names() {
    let long = "ü".repeat(31) + "x";
    for (schema, table, column) in [
        ("odd.schema", "say \"hi\"", "it's"),
        ("público", long.as_str(), "col;drop table x --"),
        ("$fn$", "$body$ %I %L", "$fn$ \\ %1$s"),
        ("SELECT", "user", "order"),
    ] {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let full = format!("{}.{}", quoted(schema), quoted(table));
        let database = database_with(
            "odd",
            &format!(
                "CREATE SCHEMA {s}; CREATE TABLE {full} (id int, {c} text); CREATE UNIQUE INDEX ON {full} (lower({c}));
                 INSERT INTO {full} ({c}) VALUES ('Alice')",
                s = quoted(schema),
                c = quoted(column)
            ),
        )
        .await;
        let named = [
            "--column".to_owned(),
            format!("\"{}\"", column.replace('"', "\"\"")),
        ];
        let named: Vec<&str> = named.iter().map(String::as_str).collect();
        run("attach", &database.url, &full, &named)
            .await
            .expect_success();
        let service = serve_table(&database.url, &full, &named).await;
        assert!(is_taken(&service, "alice").await && is_free(&service, "bob").await);
        database
            .execute(&format!(
                "UPDATE {full} SET {c} = 'BOB'",
                c = quoted(column)
            ))
            .await;
        within(BOUND, "the new name is taken", async || {
            is_taken(&service, "bob").await && is_free(&service, "alice").await
        })
        .await;
        service.terminate().await;
        run("detach", &database.url, &full, &[])
            .await
            .expect_success();
    }
}

#[tokio::test]
async fn a_busy_table_is_waited_for_and_nothing_is_left_when_it_stays_busy() {
    let database = database_with("busy", ACCOUNTS).await;
    let before = catalog::rows(&database).await;
    let mut holder = database.session().await;
    let mut writing = holder.begin().await.expect("a transaction");
    sqlx::raw_sql("INSERT INTO app.\"Accounts\" (handle) VALUES ('writer')")
        .execute(&mut *writing)
        .await
        .expect("a row");
    let impatient = ["--patience", "0s", "--lock-timeout", "50ms"];
    let refused = run("attach", &database.url, "app.Accounts", &impatient).await;
    assert_refused(&refused, 4, &["could not be locked", "--patience"]);
    let after = catalog::rows(&database).await;
    assert_eq!(before, after, "{}", catalog::difference(&before, &after));

    let patient = ["--lock-timeout", "50ms"];
    let (attached, ()) = tokio::join!(
        run("attach", &database.url, "app.Accounts", &patient),
        async {
            is_waited_for(&database).await;
            tokio::time::sleep(Duration::from_millis(200)).await; // one try is over by then
            writing.commit().await.expect("a commit");
        }
    );
    assert!(attached.stderr.contains("busy"), "{attached:?}");
    attached.expect_success();
    let service = serve_table(&database.url, "app.Accounts", &[]).await;
    assert!(is_taken(&service, "writer").await);
}

/// Returns once an attach waits for a lock.
async fn is_waited_for(database: &Database) {
    let mut session = database.session().await;
    within(Duration::from_mins(1), "attach waits", async || {
        sqlx::query_scalar(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
                AND application_name = 'namegate attach' AND wait_event_type = 'Lock')",
        )
        .fetch_one(&mut session)
        .await
        .expect("the statistics can be read")
    })
    .await;
}

#[tokio::test]
async fn one_database_has_one_feed() {
    let database = database_with(
        "one",
        "CREATE TABLE accounts (handle text UNIQUE, nick text UNIQUE); CREATE TABLE guests (handle text UNIQUE)",
    )
    .await;
    attach(&database.url, "accounts").await;
    for (table, column) in [("guests", "handle"), ("accounts", "nick")] {
        let refused = run("attach", &database.url, table, &["--column", column]).await;
        assert_refused(&refused, 5, &["public.accounts", "namegate detach"]);
    }
    let refused = service::run(&["migrate", "--database-url", &database.url], b"").await;
    assert_refused(
        &refused,
        5,
        &["attached to another table", "namegate detach"],
    );

    let sample = sample_database("sample").await;
    sample
        .execute("CREATE TABLE accounts (handle text UNIQUE)")
        .await;
    let refused = run("attach", &sample.url, "accounts", &[]).await;
    assert_refused(&refused, 5, &["public.users"]);
    let same = run("attach", &sample.url, "users", &["--column", "canonical"])
        .await
        .expect_success();
    assert!(same.contains("attached already"), "{same}");
    let refused = run("detach", &sample.url, "users", &[]).await;
    assert_refused(&refused, 5, &["DROP TABLE users"]);
}

/// The first two steps are what earlier versions of namegate left behind.
#[tokio::test]
async fn a_database_that_was_migrated_before_is_brought_up_to_date() {
    let database = Cluster::shared().await.database("earlier").await;
    let mut earlier = sqlx::migrate!("migrations/postgres");
    earlier.migrations.to_mut().truncate(2);
    earlier.create_schema("namegate");
    earlier.dangerous_set_table_name("namegate.migrations");
    earlier
        .run_direct(None, &mut database.session().await, false)
        .await
        .expect("the steps of an earlier version");
    let running = crate::fixtures::serve_warm(&database.url, &["--cache-ttl", "1ms"]).await;
    let refused = run("attach", &database.url, "users", &["--column", "canonical"]).await;
    assert_refused(&refused, 5, &["older version", "namegate migrate"]);

    migrate(&database.url).await;
    let fresh = sample_database("fresh").await;
    let (left, right) = (
        catalog::definitions(&database).await,
        catalog::definitions(&fresh).await,
    );
    assert_eq!(left, right, "{}", catalog::difference(&left, &right));
    // The service in front of it notices that the measure has changed, and goes on.
    within(Duration::from_secs(15), "a new filter", async || {
        count(&running, "namegate_distrusts_total").await > 0
    })
    .await;
    database
        .execute("INSERT INTO users (username) VALUES ('Later')")
        .await;
    within(Duration::from_secs(15), "the row is taken", async || {
        is_taken(&running, "later").await
    })
    .await;
}
