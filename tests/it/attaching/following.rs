//! Writers of every kind on an attached table, and a filter that stays in step with them.

use super::{attach, database_with, run, serve_table};
use crate::fixtures::{BOUND, count, is_free, is_taken, verdict, wait_until_following, within};
use crate::support::postgres::Database;
use crate::support::service::Service;

async fn becomes_taken(service: &Service, database: &Database, sql: &str, names: &[&str]) {
    database.execute(sql).await;
    for name in names {
        within(BOUND, sql, async || is_taken(service, name).await).await;
    }
}

async fn becomes_free(service: &Service, database: &Database, sql: &str, names: &[&str]) {
    database.execute(sql).await;
    for name in names {
        within(BOUND, sql, async || is_free(service, name).await).await;
    }
}

#[tokio::test]
async fn inserts_renames_and_deletes_by_sql_are_followed() {
    let database = database_with(
        "citext",
        "CREATE EXTENSION citext; CREATE SCHEMA app;
         CREATE TABLE app.\"Accounts\" (handle citext UNIQUE, note text);
         INSERT INTO app.\"Accounts\" VALUES ('Alice')",
    )
    .await;
    attach(&database.url, "app.Accounts").await;
    let service = serve_table(&database.url, "app.Accounts", &[]).await;
    let (available, _, source) = verdict(&service.ask("nobody-yet").await);
    assert_eq!((available, source.as_deref()), (Some(true), Some("filter")));
    assert!(is_taken(&service, "alice").await && is_taken(&service, "ALICE").await);
    for (sql, taken, free) in [
        (
            "INSERT INTO app.\"Accounts\" VALUES ('BoB'), (NULL)",
            "bob",
            "carol",
        ),
        (
            "UPDATE app.\"Accounts\" SET handle = 'Carol' WHERE handle = 'bob'",
            "carol",
            "bob",
        ),
        (
            "UPDATE app.\"Accounts\" SET handle = 'CAROL' WHERE handle = 'carol'",
            "carol",
            "bob",
        ),
        ("UPDATE app.\"Accounts\" SET note = 'x'", "alice", "bob"),
        (
            "DELETE FROM app.\"Accounts\" WHERE handle = 'CAROL'",
            "alice",
            "carol",
        ),
        (
            "INSERT INTO app.\"Accounts\" VALUES ('dave') ON CONFLICT (handle) DO UPDATE SET handle = 'erin'",
            "dave",
            "erin",
        ),
        (
            "INSERT INTO app.\"Accounts\" VALUES ('DAVE') ON CONFLICT (handle) DO UPDATE SET handle = 'erin'",
            "erin",
            "dave",
        ),
    ] {
        becomes_taken(&service, &database, sql, &[taken]).await;
        becomes_free(&service, &database, "SELECT", &[free]).await;
    }
    assert_eq!(count(&service, "namegate_rebuilds_total").await, 0);
    assert_eq!(count(&service, "namegate_distrusts_total").await, 0);
}

#[tokio::test]
async fn every_partition_is_followed_those_to_come_included() {
    let database = database_with(
        "parts",
        "CREATE TABLE accounts (handle text NOT NULL UNIQUE) PARTITION BY HASH (handle);
         CREATE TABLE accounts_0 PARTITION OF accounts FOR VALUES WITH (MODULUS 2, REMAINDER 0) PARTITION BY LIST (handle);
         CREATE TABLE accounts_1 PARTITION OF accounts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
         CREATE TABLE accounts_0_rest PARTITION OF accounts_0 DEFAULT;
         INSERT INTO accounts SELECT 'name' || n FROM generate_series(1, 20) n",
    )
    .await;
    attach(&database.url, "accounts").await;
    let service = serve_table(&database.url, "accounts", &[]).await;
    assert!(is_taken(&service, "name7").await && is_taken(&service, "name8").await);
    let many: Vec<String> = (100..120).map(|n| format!("name{n}")).collect();
    let names: Vec<&str> = many.iter().map(String::as_str).collect();
    // Straight into the leaves, past the table that was attached to.
    becomes_taken(
        &service,
        &database,
        "INSERT INTO accounts_1 SELECT 'name' || n FROM generate_series(100, 119) n
          WHERE satisfies_hash_partition('accounts'::regclass, 2, 1, 'name' || n);
         INSERT INTO accounts_0_rest SELECT 'name' || n FROM generate_series(100, 119) n
          WHERE satisfies_hash_partition('accounts'::regclass, 2, 0, 'name' || n)",
        &names,
    )
    .await;
    becomes_taken(
        &service,
        &database,
        "UPDATE accounts SET handle = 'moved' || substr(handle, 5) WHERE handle IN ('name7', 'name8', 'name9')",
        &["moved7", "moved8", "moved9"],
    )
    .await;
    becomes_free(&service, &database, "SELECT", &["name7", "name8", "name9"]).await;
    // A leaf emptied alone.
    let before = count(&service, "namegate_generation").await;
    database.execute("TRUNCATE accounts_1").await;
    within(
        std::time::Duration::from_secs(15),
        "a filter without them",
        async || count(&service, "namegate_generation").await > before,
    )
    .await;
    // A partition that comes later, with rows in it.
    database
        .execute(
            "CREATE TABLE late (handle text NOT NULL); INSERT INTO late VALUES ('latecomer');
             ALTER TABLE accounts_0 ATTACH PARTITION late FOR VALUES IN ('latecomer')",
        )
        .await;
    within(
        std::time::Duration::from_secs(15),
        "the latecomer is taken",
        async || is_taken(&service, "latecomer").await,
    )
    .await;
    wait_until_following(&service).await;
    becomes_free(&service, &database, "DELETE FROM late", &["latecomer"]).await;
    becomes_taken(
        &service,
        &database,
        "INSERT INTO late VALUES ('latecomer')",
        &["latecomer"],
    )
    .await;
}

#[tokio::test]
async fn children_by_inheritance_are_followed() {
    let database = database_with(
        "kin",
        "CREATE TABLE accounts (handle text UNIQUE); CREATE TABLE guests (CHECK (true)) INHERITS (accounts);
         INSERT INTO guests VALUES ('gustav')",
    )
    .await;
    attach(&database.url, "accounts").await;
    let service = serve_table(&database.url, "accounts", &[]).await;
    assert!(is_taken(&service, "gustav").await);
    becomes_taken(
        &service,
        &database,
        "INSERT INTO guests VALUES ('anselm')",
        &["anselm"],
    )
    .await;
    becomes_free(
        &service,
        &database,
        "DELETE FROM guests",
        &["gustav", "anselm"],
    )
    .await;
    service.terminate().await;
    run("detach", &database.url, "accounts", &[])
        .await
        .expect_success();
    database
        .execute("INSERT INTO guests VALUES ('after')")
        .await;
}

/// A column compared under a collation that takes two names for the same, and a unique index that does not.
#[tokio::test]
async fn a_rename_that_the_column_does_not_see_is_followed() {
    let database = database_with(
        "danish",
        "CREATE COLLATION danish (PROVIDER = icu, LOCALE = 'da-u-ks-level1', DETERMINISTIC = false);
         CREATE TABLE accounts (handle text COLLATE danish);
         CREATE UNIQUE INDEX ON accounts ((lower(handle COLLATE \"C\") COLLATE \"C\"));
         INSERT INTO accounts VALUES ('skaane')",
    )
    .await;
    attach(&database.url, "accounts").await;
    let service = serve_table(&database.url, "accounts", &["--profile", "unicode"]).await;
    assert!(is_taken(&service, "skaane").await && is_free(&service, "skåne").await);
    becomes_taken(
        &service,
        &database,
        "UPDATE accounts SET handle = 'skåne' WHERE handle = 'skåne'",
        &["skåne"],
    )
    .await;
    becomes_free(&service, &database, "SELECT", &["skaane"]).await;
}
