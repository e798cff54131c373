//! What cannot be watched is refused in words that say why and what to do, before anything is changed.

use super::{assert_refused, attach, catalog, database_with, role, run, serve_table, url_as};
use crate::fixtures::is_taken;
use crate::support::postgres::{Cluster, Durability};
use crate::support::service;

#[tokio::test]
async fn tables_that_cannot_be_watched_are_refused_in_words() {
    let database = database_with(
        "unfit",
        "CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
         CREATE COLLATION nd (PROVIDER = icu, LOCALE = 'und', DETERMINISTIC = false);
         CREATE TABLE good (handle text UNIQUE);
         CREATE VIEW a_view AS SELECT * FROM good;
         CREATE MATERIALIZED VIEW a_matview AS SELECT * FROM good;
         CREATE FOREIGN TABLE a_foreign (handle text) SERVER files OPTIONS (filename '/dev/null');
         CREATE SEQUENCE a_sequence;
         CREATE UNLOGGED TABLE an_unlogged (handle text UNIQUE);
         CREATE TABLE a_parent (handle text NOT NULL UNIQUE) PARTITION BY HASH (handle);
         CREATE TABLE a_partition PARTITION OF a_parent FOR VALUES WITH (MODULUS 1, REMAINDER 0);
         CREATE TABLE half_foreign (handle text NOT NULL);
         CREATE UNIQUE INDEX ON half_foreign (handle);
         CREATE FOREIGN TABLE elsewhere () INHERITS (half_foreign) SERVER files OPTIONS (filename '/dev/null');
         CREATE TABLE no_index (handle text);
         CREATE TABLE plain_index (handle text); CREATE INDEX ON plain_index (handle);
         CREATE TABLE partial (handle text, gone bool); CREATE UNIQUE INDEX some_idx ON partial (handle) WHERE NOT gone;
         CREATE TABLE composite (handle text, tenant int, UNIQUE (handle, tenant));
         CREATE TABLE hashed (handle text); CREATE UNIQUE INDEX ON hashed (md5(handle));
         CREATE TABLE nondeterministic (handle text COLLATE nd UNIQUE);
         CREATE TABLE numbers (handle int UNIQUE);
         CREATE TABLE bytes (handle bytea UNIQUE);
         CREATE TABLE shadowed (handle text);
         CREATE SCHEMA mine; CREATE FUNCTION mine.lower(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT ''x''';
         CREATE UNIQUE INDEX ON shadowed (mine.lower(handle));
         CREATE TABLE taken_trigger (handle text UNIQUE);
         CREATE TRIGGER namegate_insert BEFORE UPDATE ON taken_trigger FOR EACH ROW
            EXECUTE FUNCTION suppress_redundant_updates_trigger();",
    )
    .await;
    let before = catalog::rows(&database).await;
    for (table, words) in [
        ("missing", &["no table", "\\d"][..]),
        ("nowhere.good", &["no table"]),
        ("GOOD", &["no table"]),
        ("a_view", &["a view", "behind it"]),
        ("a_matview", &["a view"]),
        ("a_foreign", &["a foreign table"]),
        ("a_sequence", &["no table"]),
        ("an_unlogged", &["unlogged", "SET LOGGED"]),
        ("a_partition", &["a partition", "partitioned table"]),
        ("half_foreign", &["elsewhere", "foreign"]),
        ("no_index", &["no unique index", "CREATE UNIQUE INDEX"]),
        ("plain_index", &["no unique index"]),
        (
            "partial",
            &["no unique index", "some_idx covers only a part"],
        ),
        ("composite", &["no unique index", "has other columns too"]),
        ("hashed", &["no unique index", "md5(handle)", "lower"]),
        (
            "nondeterministic",
            &["nondeterministic", "nd", "COLLATE \"C\""],
        ),
        ("numbers", &["type integer", "citext"]),
        ("bytes", &["type bytea"]),
        ("shadowed", &["no unique index", "mine.lower"]),
        ("taken_trigger", &["namegate_insert", "drop"]),
        ("pg_catalog.pg_roles", &["a view"]),
        ("pg_catalog.pg_class", &["system's own"]),
    ] {
        for more in [&[][..], &["--dry-run"]] {
            let refused = run("attach", &database.url, table, more).await;
            assert_refused(&refused, 5, words);
        }
    }
    let no_column = run("attach", &database.url, "good", &["--column", "Handle"]).await;
    assert_refused(&no_column, 5, &["no column \"Handle\"", "--column"]);
    let after = catalog::rows(&database).await;
    assert_eq!(before, after, "{}", catalog::difference(&before, &after));
}

#[tokio::test]
async fn roles_that_may_not_are_told_what_they_lack() {
    let database = database_with(
        "norights",
        "CREATE SCHEMA app; CREATE TABLE app.accounts (handle text UNIQUE); INSERT INTO app.accounts VALUES ('alice')",
    )
    .await;
    let (owner, stranger, gate) = (
        role("owner", &database),
        role("stranger", &database),
        role("gate", &database),
    );
    database
        .execute(&format!(
            "CREATE ROLE {owner} LOGIN; CREATE ROLE {stranger} LOGIN; CREATE ROLE {gate} LOGIN;
             GRANT USAGE ON SCHEMA app TO {owner}; ALTER TABLE app.accounts OWNER TO {owner};"
        ))
        .await;
    let (as_owner, as_stranger) = (
        url_as(&owner, &database).await,
        url_as(&stranger, &database).await,
    );
    let refused = run("attach", &as_stranger, "app.accounts", &[]).await;
    assert_refused(&refused, 5, &["schema", "owner"]);
    database
        .execute(&format!("GRANT USAGE ON SCHEMA app TO {stranger}"))
        .await;
    let refused = run("attach", &as_stranger, "app.accounts", &[]).await;
    assert_refused(&refused, 5, &["does not own app.accounts"]);
    let refused = run("attach", &as_owner, "app.accounts", &[]).await;
    assert_refused(&refused, 5, &["GRANT CREATE ON DATABASE"]);
    database
        .execute(&format!(
            "GRANT CREATE ON DATABASE {} TO {owner}",
            database.name
        ))
        .await;
    let refused = run(
        "attach",
        &as_owner,
        "app.accounts",
        &["--role", "nobody_at_all"],
    )
    .await;
    assert_refused(&refused, 5, &["no role", "CREATE ROLE"]);
    // The schema is somebody else's: its owner has to let the service's role in.
    let refused = run("attach", &as_owner, "app.accounts", &["--role", &gate]).await;
    assert_refused(&refused, 5, &["GRANT USAGE ON SCHEMA app"]);
    database
        .execute(&format!("GRANT USAGE ON SCHEMA app TO {gate}"))
        .await;
    run("attach", &as_owner, "app.accounts", &["--role", &gate])
        .await
        .expect_success();
    let service = serve_table(&url_as(&gate, &database).await, "app.accounts", &[]).await;
    assert!(is_taken(&service, "alice").await);
    service.terminate().await;
    for command in ["attach", "detach"] {
        let refused = run(command, &as_stranger, "app.accounts", &[]).await;
        assert_refused(&refused, 5, &["own"]);
    }
    run("detach", &as_owner, "app.accounts", &[])
        .await
        .expect_success();
}

#[tokio::test]
async fn rows_that_a_policy_hides_are_a_reason_to_refuse() {
    let database = database_with("policy", "CREATE TABLE accounts (handle text UNIQUE)").await;
    let (owner, gate) = (role("owner", &database), role("gate", &database));
    database
        .execute(&format!(
            "CREATE ROLE {owner} LOGIN; CREATE ROLE {gate} LOGIN; ALTER TABLE accounts OWNER TO {owner};
             GRANT CREATE ON DATABASE {} TO {owner}; ALTER TABLE accounts ENABLE ROW LEVEL SECURITY;
             ALTER TABLE accounts FORCE ROW LEVEL SECURITY",
            database.name
        ))
        .await;
    let as_owner = url_as(&owner, &database).await;
    let refused = run("attach", &as_owner, "accounts", &[]).await;
    assert_refused(&refused, 5, &["row-level security"]);
    database
        .execute("ALTER TABLE accounts NO FORCE ROW LEVEL SECURITY")
        .await;
    let refused = run("attach", &as_owner, "accounts", &["--role", &gate]).await;
    assert_refused(&refused, 5, &["row-level security", "BYPASSRLS"]);
    let attached = attach(&as_owner, "accounts").await;
    assert!(attached.contains("note: row-level security"), "{attached}");
    database
        .execute(&format!("ALTER ROLE {gate} BYPASSRLS"))
        .await;
    run("attach", &as_owner, "accounts", &["--role", &gate])
        .await
        .expect_success();
    database
        .execute("INSERT INTO accounts VALUES ('alice')")
        .await;
    let service = serve_table(&url_as(&gate, &database).await, "accounts", &[]).await;
    assert!(is_taken(&service, "alice").await);
}

#[tokio::test]
async fn a_schema_of_that_name_is_left_alone() {
    let database = database_with(
        "squatter",
        "CREATE TABLE accounts (handle text UNIQUE); CREATE SCHEMA namegate; CREATE TABLE namegate.meta (note text)",
    )
    .await;
    let refused = run("attach", &database.url, "accounts", &[]).await;
    assert_refused(&refused, 5, &["not made by namegate"]);
    database
        .execute("DROP TABLE namegate.meta; CREATE FUNCTION namegate.f() RETURNS int LANGUAGE sql AS 'SELECT 1'")
        .await;
    let refused = run("attach", &database.url, "accounts", &[]).await;
    assert_refused(&refused, 5, &["not made by namegate"]);
    // An empty one may have been made for the purpose.
    database.execute("DROP FUNCTION namegate.f()").await;
    attach(&database.url, "accounts").await;
    database
        .execute("UPDATE namegate.meta SET version = 99")
        .await;
    let refused = run("attach", &database.url, "accounts", &[]).await;
    assert_refused(&refused, 5, &["another version"]);
    let own = run(
        "attach",
        &database.url,
        "namegate.outbox",
        &["--column", "name"],
    )
    .await;
    assert_refused(&own, 5, &["namegate's own"]);
}

#[tokio::test]
async fn a_standby_takes_no_triggers() {
    let primary = Cluster::builder().durability(Durability::Off).start().await;
    let database = primary.database("primary").await;
    database
        .execute("CREATE TABLE accounts (handle text UNIQUE)")
        .await;
    let standby = Cluster::builder().standby_of(&primary).start().await;
    let url = standby.url_for(&database.name);
    for command in ["attach", "detach"] {
        let refused = run(command, &url, "accounts", &[]).await;
        assert_refused(&refused, 5, &["standby", "primary"]);
    }
}

#[tokio::test]
async fn what_is_not_for_the_embedded_database_says_so() {
    for command in ["attach", "detach"] {
        let refused = run(command, "sqlite:names.db", "accounts", &[]).await;
        assert_refused(&refused, 2, &["for PostgreSQL"]);
        let refused = service::run(&[command], b"").await;
        assert_refused(&refused, 2, &["--database-url"]);
    }
    let refused = run(
        "check",
        "sqlite:names.db",
        "users",
        &[
            "--column",
            "canonical",
            "--equality",
            "lower",
            "--direct",
            "alice",
        ],
    )
    .await;
    assert_refused(&refused, 2, &["--equality", "PostgreSQL"]);
    let refused = run(
        "attach",
        "postgres://127.0.0.1/x",
        "accounts",
        &["--equality", "ilike"],
    )
    .await;
    assert_eq!(refused.code, Some(2));
    assert!(
        refused
            .stderr
            .contains("auto, exact, lower, upper or citext")
    );
}

#[tokio::test]
async fn a_sign_up_is_for_the_sample_table() {
    let database = database_with("signup", "CREATE TABLE accounts (handle text UNIQUE)").await;
    attach(&database.url, "accounts").await;
    let refused = run("serve", &database.url, "accounts", &["--signup"]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--signup"), "{refused:?}");
    let refused = run("serve", &database.url, "users", &["--column", "canonical"]).await;
    assert_eq!(refused.code, Some(5), "{refused:?}");
    for command in ["namegate attach", "namegate migrate"] {
        assert!(refused.stderr.contains(command), "{refused:?}");
    }
}
