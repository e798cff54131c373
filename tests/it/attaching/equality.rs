//! The table's own rule decides which names are the same: asked in its terms, through its index, and never finer.

use std::time::Duration;

use sqlx::Connection;
use sqlx::postgres::PgConnection;

use super::{PATIENT, assert_refused, attach, database_with, run, serve_table};
use crate::fixtures::{count, is_free, is_taken, serve, verdict, within};
use crate::support::postgres::{Cluster, Database, TURKISH};
use crate::support::service::Service;

/// How a table may compare names: the column, and what follows.
const SHAPES: [(&str, &str); 14] = [
    ("handle text UNIQUE", ""),
    ("handle varchar(40) COLLATE \"C\" UNIQUE", ""),
    ("handle name UNIQUE", ""),
    ("handle char(8) UNIQUE", ""),
    ("handle citext UNIQUE", ""),
    ("handle app.handle UNIQUE", ""),
    (
        "handle text",
        "CREATE UNIQUE INDEX ON app.people (lower(handle))",
    ),
    (
        "handle varchar(40) UNIQUE",
        "CREATE UNIQUE INDEX ON app.people (lower(handle))",
    ),
    (
        "handle text",
        "CREATE UNIQUE INDEX ON app.people (upper(handle) text_pattern_ops)",
    ),
    (
        "handle text",
        "CREATE UNIQUE INDEX ON app.people (lower(handle COLLATE \"tr-x-icu\"))",
    ),
    (
        "handle text COLLATE \"el-x-icu\"",
        "CREATE UNIQUE INDEX ON app.people ((lower(handle) COLLATE \"C\"))",
    ),
    (
        "handle char(8)",
        "CREATE UNIQUE INDEX ON app.people (lower(handle))",
    ),
    (
        "handle citext UNIQUE",
        "CREATE UNIQUE INDEX ON app.people (lower(handle COLLATE \"tr-x-icu\"))",
    ),
    (
        "handle text",
        "CREATE UNIQUE INDEX ON app.people (lower(btrim(handle)))",
    ),
];

/// Spellings that one rule or another takes for the same.
const FAMILIES: [&[&str]; 9] = [
    &["alice", "Alice", "ALICE", "aLiCe", " alice", "alice  "],
    &["iris", "IRIS", "Iris", "ıris", "İris", "IRIs"],
    &["σας", "ΣΑΣ", "σασ", "Σας"],
    &["strasse", "straße", "STRASSE", "STRAẞE"],
    &["zoë", "Zoe\u{308}", "ZOË", "zoe"],
    &["ab_c", "ab.c", "AB_C", "ab-c"],
    &["kim", "\u{212A}im", "KIM"],
    &["ﬁona", "fiona", "FIONA"],
    &["abcdefgh", "ABCDEFGH", "Abcdefgh"],
];

/// What the table makes of the name, were it inserted now.
async fn is_accepted(session: &mut PgConnection, name: &str) -> bool {
    let mut attempt = session.begin().await.expect("a transaction");
    let inserted = sqlx::query("INSERT INTO app.people (handle) VALUES ($1)")
        .bind(name)
        .execute(&mut *attempt)
        .await;
    attempt.rollback().await.expect("a rollback");
    match inserted {
        Ok(_) => true,
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => false,
        Err(error) => panic!("{name:?}: {error}"),
    }
}

async fn people(options: &str, (column, index): (&str, &str)) -> Database {
    let cluster = Cluster::shared().await;
    let database = cluster.database_with("people", options).await;
    database
        .execute(&format!(
            "CREATE EXTENSION citext; CREATE SCHEMA app; CREATE DOMAIN app.handle AS citext CHECK (VALUE <> '');
             CREATE TABLE app.people ({column}); {index}"
        ))
        .await;
    database
}

/// Stores each spelling of each family alone, and asks for every other: through the filter, and with the filter off.
async fn no_name_is_free_that_the_table_refuses(options: &str, shape: (&str, &str)) {
    let database = people(options, shape).await;
    attach(&database.url, "app.people").await;
    let unicode = ["--profile", "unicode"];
    let filtered = serve_table(&database.url, "app.people", &unicode).await;
    let bare = serve(
        &database.url,
        &[
            &[
                "--table",
                "app.people",
                "--column",
                "handle",
                "--filter",
                "off",
            ][..],
            &PATIENT,
            &unicode,
        ]
        .concat(),
    )
    .await;
    let (mut refused, mut free) = (0, 0);
    for stored in 0..6 {
        let names: Vec<&str> = FAMILIES
            .iter()
            .filter_map(|family| family.get(stored).copied())
            .filter(|name| !shape.0.contains("char(8)") || name.chars().count() <= 8)
            .collect();
        let mut session = database.session().await;
        sqlx::query("INSERT INTO app.people (handle) SELECT unnest($1::text[])")
            .bind(&names)
            .execute(&mut session)
            .await
            .expect("they are all different");
        wait_until_seen(&filtered, &names).await;
        for asked in FAMILIES.iter().copied().flatten().copied() {
            let is_accepted = is_accepted(&mut session, asked).await;
            for service in [&filtered, &bare] {
                let (available, reason, source) = verdict(&service.ask(asked).await);
                assert!(
                    is_accepted || available != Some(true),
                    "{shape:?} {options} holds {names:?}; {asked:?} is {reason} from {source:?}"
                );
                refused += usize::from(!is_accepted && reason == "taken");
                free += usize::from(available == Some(true));
            }
        }
        sqlx::raw_sql("DELETE FROM app.people")
            .execute(&mut session)
            .await
            .expect("a delete");
    }
    assert!(refused > 40 && free > 40, "{shape:?}: {refused} {free}");
}

/// The rows of one round are in the filter.
async fn wait_until_seen(service: &Service, names: &[&str]) {
    for name in names {
        within(Duration::from_secs(5), "the row is taken", async || {
            let (available, reason, _) = verdict(&service.ask(name).await);
            available == Some(false) && reason != "free"
        })
        .await;
    }
}

#[tokio::test]
async fn a_column_compared_as_it_is_makes_no_held_name_free() {
    for shape in &SHAPES[..4] {
        no_name_is_free_that_the_table_refuses("", *shape).await;
    }
}

#[tokio::test]
async fn a_citext_column_makes_no_held_name_free() {
    for shape in [SHAPES[4], SHAPES[5], SHAPES[12]] {
        no_name_is_free_that_the_table_refuses("", shape).await;
    }
}

#[tokio::test]
async fn an_index_on_lower_or_upper_makes_no_held_name_free() {
    for shape in &SHAPES[6..10] {
        no_name_is_free_that_the_table_refuses("", *shape).await;
    }
}

#[tokio::test]
async fn an_index_on_more_than_one_step_makes_no_held_name_free() {
    for shape in [SHAPES[10], SHAPES[11], SHAPES[13]] {
        no_name_is_free_that_the_table_refuses("", shape).await;
    }
}

/// Where `I` and `i` are two letters by default.
#[tokio::test]
async fn a_turkish_database_makes_no_held_name_free() {
    for shape in [SHAPES[0], SHAPES[4], SHAPES[6], SHAPES[8]] {
        no_name_is_free_that_the_table_refuses(TURKISH, shape).await;
    }
}

#[tokio::test]
async fn lookups_are_answered_by_the_index_whatever_its_expression() {
    for shape in SHAPES {
        let database = people("", shape).await;
        database
            .execute(
                "INSERT INTO app.people (handle) SELECT 'N' || n FROM generate_series(1, 5000) n; ANALYZE app.people",
            )
            .await;
        attach(&database.url, "app.people").await;
        let table_scans = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'people'";
        let index_scans =
            "SELECT sum(idx_scan)::int8 FROM pg_stat_user_indexes WHERE relname = 'people'";
        let mut session = database.session().await;
        let mut counted = async |sql: &'static str| -> i64 {
            sqlx::query_scalar(sql)
                .fetch_one(&mut session)
                .await
                .expect("statistics")
        };
        let (tables, indexes) = (counted(table_scans).await, counted(index_scans).await);
        let asked = run(
            "check",
            &database.url,
            "app.people",
            &["--direct", "N17", "n4999", "n-absent"],
        )
        .await;
        assert_eq!(asked.code, Some(1), "{asked:?}");
        within(Duration::from_secs(10), "scans are counted", async || {
            counted(index_scans).await > indexes
        })
        .await;
        assert_eq!(counted(table_scans).await, tables, "{shape:?}");
    }
}

#[tokio::test]
async fn a_demanded_equality_must_be_the_tables() {
    for (shape, fitting) in [
        (SHAPES[0], "exact"),
        (SHAPES[3], "exact"),
        (SHAPES[4], "citext"),
        (SHAPES[7], "lower"),
        (SHAPES[8], "upper"),
    ] {
        let database = people("", shape).await;
        for demanded in ["exact", "lower", "upper", "citext"] {
            let more = ["--equality", demanded, "--dry-run"];
            let tried = run("attach", &database.url, "app.people", &more).await;
            if demanded == fitting {
                tried.expect_success();
            } else {
                assert_refused(
                    &tried,
                    5,
                    &["--equality", "unique index", "leave --equality out"],
                );
            }
        }
        run(
            "attach",
            &database.url,
            "app.people",
            &["--equality", fitting],
        )
        .await
        .expect_success();
        let wrong = if fitting == "lower" { "exact" } else { "lower" };
        let refused = run(
            "check",
            &database.url,
            "app.people",
            &["--direct", "--equality", wrong, "alice"],
        )
        .await;
        assert_refused(&refused, 5, &["--equality"]);
    }
}

/// The letters `ech yiwn`: in Armenian their ligature is spelt in another way in capitals than in lower case.
#[tokio::test]
async fn a_rule_that_the_fold_does_not_follow_is_refused() {
    let database = database_with("armenian", "CREATE TABLE accounts (handle text UNIQUE)").await;
    attach(&database.url, "accounts").await;
    let stricter = "CREATE UNIQUE INDEX armenian ON accounts (upper(handle COLLATE \"hy-x-icu\"))";
    database.execute(stricter).await;
    let capitals: String = sqlx::query_scalar("SELECT upper('և' COLLATE \"hy-x-icu\")")
        .fetch_one(&mut database.session().await)
        .await
        .expect("a text");
    assert_eq!(capitals, "ԵՎ", "the server's ICU is too old for this test");
    let words = ["hy-x-icu", "armenian", "U+0587", "CREATE UNIQUE INDEX"];
    let refused = run("attach", &database.url, "accounts", &[]).await;
    assert_refused(&refused, 5, &words);
    let listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let refused = run("serve", &database.url, "accounts", &listen).await;
    assert_eq!(refused.code, Some(5), "{refused:?}");
    for words in words {
        assert!(refused.stderr.contains(words), "{refused:?}");
    }
    // The same function under a collation that the fold follows.
    database
        .execute("DROP INDEX armenian; CREATE UNIQUE INDEX ON accounts (upper(handle COLLATE \"und-x-icu\"))")
        .await;
    attach(&database.url, "accounts").await;
}

#[tokio::test]
async fn an_equality_that_changes_under_a_service_is_noticed_and_asked_from_then_on() {
    let database = database_with("changing", "CREATE TABLE accounts (handle text UNIQUE)").await;
    database
        .execute("INSERT INTO accounts VALUES ('KIM')")
        .await;
    attach(&database.url, "accounts").await;
    let service = serve_table(&database.url, "accounts", &[]).await;
    assert!(is_taken(&service, "KIM").await && is_free(&service, "kim").await);
    database
        .execute("CREATE UNIQUE INDEX lowered ON accounts (lower(handle))")
        .await;
    within(Duration::from_secs(15), "lower() is asked", async || {
        is_taken(&service, "kim").await
    })
    .await;
    assert!(count(&service, "namegate_distrusts_total{cause=\"fingerprint\"}").await >= 1);
    crate::fixtures::wait_until_following(&service).await;
    // The same name, another expression.
    database
        .execute(
            "BEGIN; DROP INDEX lowered;
             CREATE UNIQUE INDEX lowered ON accounts (lower(handle COLLATE \"tr-x-icu\")); COMMIT",
        )
        .await;
    within(Duration::from_secs(15), "Turkish is asked", async || {
        is_free(&service, "kim").await
    })
    .await;
}

/// What nobody has looked at yet is not guessed: asked byte for byte, `alice` would be free here.
#[tokio::test]
async fn a_service_that_starts_before_its_database_asks_by_the_right_rule_from_the_first_answer_on()
{
    let cluster = Cluster::private().await;
    let database = cluster.database("early").await;
    database
        .execute(
            "CREATE TABLE accounts (handle text); CREATE UNIQUE INDEX ON accounts (lower(handle));
             INSERT INTO accounts VALUES ('ALICE')",
        )
        .await;
    attach(&database.url, "accounts").await;
    for filter in ["on", "off"] {
        cluster.stop_fast().await;
        let service = serve(
            &database.url,
            &[
                "--table", "accounts", "--column", "handle", "--filter", filter,
            ],
        )
        .await;
        assert_eq!(verdict(&service.ask("alice").await).0, None);
        cluster.start().await;
        within(Duration::from_secs(15), "an answer", async || {
            let (available, reason, _) = verdict(&service.ask("alice").await);
            assert_ne!(available, Some(true));
            reason == "taken"
        })
        .await;
    }
}
