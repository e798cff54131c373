//! What people get wrong ends in one clear line and the documented exit code; nothing is lost, nothing panics.

use std::time::Duration;

use crate::fixtures::{insert, sample_database, serve_warm};
use crate::support::command::Finished;
use crate::support::port;
use crate::support::postgres::Cluster;
use crate::support::service;

/// Exit codes as `--help` lists them.
const USAGE: i32 = 2;
const FILE: i32 = 3;
const UNREACHABLE: i32 = 4;
const UNFIT: i32 = 5;
const ADDRESS: i32 = 6;
const SERVICE: i32 = 7;

/// The last line on standard error is the failure: one line that begins with the program's name and holds `words`.
#[track_caller]
fn fails(finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.code, Some(code), "{finished:?}");
    let line = finished.stderr.lines().last().unwrap_or_default();
    assert!(
        line.starts_with("namegate: ") && line.len() < 400,
        "{finished:?}"
    );
    for word in words {
        assert!(line.contains(word), "{word:?} in {line:?}");
    }
    for noise in ["panicked", "RUST_BACKTRACE", "Stack backtrace", "hunter2"] {
        assert!(!finished.stderr.contains(noise), "{finished:?}");
    }
}

/// A mistake that the command line itself shows.
#[track_caller]
fn is_refused(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.code, Some(USAGE), "{finished:?}");
    for word in words {
        assert!(finished.stderr.contains(word), "{word:?} in {finished:?}");
    }
    assert!(!finished.stderr.contains("panicked"), "{finished:?}");
}

async fn run(args: &[&str]) -> Finished {
    service::run(args, b"").await
}

async fn serve(more: &[&str]) -> Finished {
    let mut args = vec![
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
    ];
    args.extend(more);
    run(&args).await
}

#[tokio::test]
async fn flags_that_make_no_sense_are_refused() {
    is_refused(&run(&[]).await, &["Usage"]);
    is_refused(&run(&["fly"]).await, &["fly"]);
    is_refused(&serve(&["--frobnicate"]).await, &["--frobnicate"]);
    for rate in ["0", "1", "2", "-0.1", "NaN", "5", "inf", "1%"] {
        is_refused(&serve(&["--fpr", rate]).await, &["--fpr"]);
    }
    is_refused(&serve(&["--capacity", "-1"]).await, &["--capacity"]);
    is_refused(
        &serve(&["--max-staleness", "soon"]).await,
        &["--max-staleness", "2s"],
    );
    is_refused(
        &serve(&["--poll-interval", "0s"]).await,
        &["--poll-interval"],
    );
    is_refused(
        &serve(&["--filter-memory", "8GB"]).await,
        &["--filter-memory", "GiB"],
    );
    is_refused(&serve(&["--filter", "maybe"]).await, &["--filter", "off"]);
    is_refused(
        &serve(&["--profile", "klingon"]).await,
        &["--profile", "unicode"],
    );
    is_refused(
        &serve(&["--table", "a.b.c"]).await,
        &["--table", "SCHEMA.TABLE"],
    );
    is_refused(&serve(&["--listen", "nowhere"]).await, &["--listen"]);
    is_refused(&run(&["size", "--names", "many"]).await, &["--names"]);
    is_refused(&run(&["check"]).await, &["NAME"]);
}

#[tokio::test]
async fn an_open_admin_listener_is_refused() {
    let refused = run(&[
        "serve",
        "--admin-listen",
        "0.0.0.0:0",
        "--listen",
        "127.0.0.1:0",
    ])
    .await;
    fails(&refused, USAGE, &["--admin-listen", "loopback"]);
}

#[tokio::test]
async fn database_urls_that_cannot_be_read_are_refused_without_showing_them() {
    for url in [
        "mysql://app:hunter2@db/app",
        "hunter2",
        "postgres://app:hunter2@db:99999/app",
        "postgres://app:hunter2@[::1/app",
        "postgres://app:hunter2@db/app?sslmode=perhaps",
        "sqlite:",
        "sqlite::memory:",
        "",
    ] {
        fails(
            &serve(&["--database-url", url]).await,
            USAGE,
            &["database URL"],
        );
    }
    fails(
        &serve(&["--database-url", "sqlite:/tmp/x.db", "--table", "accounts"]).await,
        USAGE,
        &["--table", "PostgreSQL"],
    );
}

#[tokio::test]
async fn a_database_that_lets_nobody_in_is_named() {
    let cluster = Cluster::shared().await;
    let no_database = cluster.url_for("nothing_here");
    fails(
        &serve(&["--database-url", &no_database]).await,
        UNREACHABLE,
        &["refused", "nothing_here"],
    );
    let no_role = format!(
        "postgres://nobody_known:hunter2@127.0.0.1:{}/postgres",
        cluster.port()
    );
    fails(
        &serve(&["--database-url", &no_role]).await,
        UNREACHABLE,
        &["refused", "nobody_known"],
    );
}

#[tokio::test]
async fn commands_that_need_the_database_now_say_when_it_is_not_there() {
    let url = format!("postgres://app:hunter2@127.0.0.1:{}/app", port::unused());
    fails(
        &run(&["migrate", "--database-url", &url]).await,
        UNREACHABLE,
        &["unreachable", "127.0.0.1"],
    );
    fails(
        &run(&["check", "--direct", "--database-url", &url, "zoe"]).await,
        UNREACHABLE,
        &["unreachable"],
    );
    let import = service::run(&["import", "-", "--database-url", &url], b"zoe\n").await;
    fails(&import, UNREACHABLE, &["unreachable"]);
}

#[tokio::test]
async fn a_database_without_the_objects_names_the_command_that_makes_them() {
    let database = Cluster::shared().await.database("bare").await;
    fails(
        &serve(&["--database-url", &database.url]).await,
        UNFIT,
        &["no table", "users", "namegate migrate"],
    );
    database
        .execute("CREATE TABLE users (canonical text UNIQUE)")
        .await;
    fails(
        &serve(&["--database-url", &database.url]).await,
        UNFIT,
        &["change feed", "namegate migrate"],
    );
    fails(
        &run(&["migrate", "--database-url", &database.url]).await,
        UNFIT,
        &["users", "left as it is"],
    );
    let rows = "SELECT to_regclass('namegate.outbox') IS NULL";
    let untouched: bool = sqlx::query_scalar(rows)
        .fetch_one(&mut database.session().await)
        .await
        .expect("a row");
    assert!(untouched, "a migration that fails leaves nothing behind");
}

#[tokio::test]
async fn a_table_that_does_not_fit_is_refused_in_words() {
    let database = sample_database("unfit").await;
    let url = database.url.as_str();
    let no_table = serve(&["--database-url", url, "--table", "accounts"]).await;
    fails(&no_table, UNFIT, &["accounts", "--table"]);
    let no_column = serve(&["--database-url", url, "--column", "handle"]).await;
    fails(&no_column, UNFIT, &["handle", "--column"]);
    let other_column = serve(&["--database-url", url, "--column", "username"]).await;
    fails(
        &other_column,
        UNFIT,
        &["unique index", "CREATE UNIQUE INDEX"],
    );
    database
        .execute("CREATE UNIQUE INDEX ON users (username)")
        .await;
    let other_column = serve(&["--database-url", url, "--column", "username"]).await;
    fails(&other_column, UNFIT, &["watches another"]);
    database
        .execute("ALTER TABLE users DISABLE TRIGGER namegate_insert")
        .await;
    fails(
        &serve(&["--database-url", url]).await,
        UNFIT,
        &["triggers", "disabled"],
    );
    database.execute("ALTER TABLE users ENABLE ALWAYS TRIGGER namegate_insert; ALTER TABLE users DROP CONSTRAINT users_canonical_key").await;
    fails(
        &serve(&["--database-url", url]).await,
        UNFIT,
        &["unique index", "canonical"],
    );
}

#[tokio::test]
async fn a_role_without_rights_is_told_which() {
    let database = sample_database("rights").await;
    database.execute("CREATE ROLE poor LOGIN").await;
    let url = database.url.replace("postgres@", "poor@");
    assert_ne!(url, database.url, "the URL names its role");
    fails(
        &serve(&["--database-url", &url]).await,
        UNFIT,
        &["may not read", "GRANT SELECT"],
    );
}

#[tokio::test]
async fn a_standby_and_a_foreign_encoding_are_refused() {
    let primary = Cluster::private().await;
    let database = crate::fixtures::sample_database_in(&primary, "primary").await;
    let standby = Cluster::builder().standby_of(&primary).start().await;
    let url = standby.url_for(&database.name);
    fails(
        &serve(&["--database-url", &url]).await,
        UNFIT,
        &["standby", "primary"],
    );

    let latin = primary
        .database_with("latin", "TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
        .await;
    fails(
        &serve(&["--database-url", &latin.url]).await,
        UNFIT,
        &["LATIN1", "UTF8"],
    );
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let database = format!("sqlite:{}", directory.path().join("names.db").display());
    run(&["migrate", "--database-url", &database])
        .await
        .expect_success();
    let missing = run(&["import", "/nowhere/names.txt", "--database-url", &database]).await;
    fails(&missing, FILE, &["/nowhere/names.txt", "No such file"]);
    let folder = directory.path().to_str().expect("a path in UTF-8");
    fails(
        &run(&["import", folder, "--database-url", &database]).await,
        FILE,
        &[folder],
    );

    let reserved = directory.path().join("reserved.txt");
    std::fs::write(&reserved, "acme\nsam)\n").expect("a file");
    let reserved = reserved.to_str().expect("a path in UTF-8");
    let malformed = serve(&["--database-url", &database, "--reserved", reserved]).await;
    fails(&malformed, FILE, &["reserved.txt", "line 2"]);
    for (list, words) in [
        (&b"acme\n\n# fine\nregex sa.m\n"[..], "line 4"),
        (b"acme\r\ntoken\r\n", "line 2"),
        (b"*\n", "line 1"),
        (b"acme\nAndr\xe9\n", "line 2 is not UTF-8"),
        (b"\xff\xfea\0c\0m\0e\0", "line 1 is not UTF-8"),
        (b"ac\0me\n", "line 1"),
        (b"acme\none two three four\n", "line 2"),
        (b"substring ba*d\n", "line 1"),
        (b"al\xe2\x80\x8bice\n", "line 1"),
    ] {
        std::fs::write(reserved, list).expect("a file");
        let malformed = serve(&["--database-url", &database, "--reserved", reserved]).await;
        fails(&malformed, FILE, &["reserved.txt", words]);
    }
    let long = format!("acme\n{} word\n", "x".repeat(100_000));
    std::fs::write(reserved, long).expect("a file");
    let malformed = serve(&["--database-url", &database, "--reserved", reserved]).await;
    fails(&malformed, FILE, &["reserved.txt", "line 2"]);
    let missing = serve(&["--database-url", &database, "--reserved", "/nowhere.txt"]).await;
    fails(&missing, FILE, &["/nowhere.txt"]);

    let broken = directory.path().join("broken.gz");
    std::fs::write(
        &broken,
        b"\x1f\x8b\x08\0\0\0\0\0\0\x03 this is no deflate stream",
    )
    .expect("a file");
    let broken = broken.to_str().expect("a path in UTF-8");
    fails(
        &run(&["import", broken, "--database-url", &database]).await,
        FILE,
        &["broken.gz"],
    );

    let no_database = directory.path().join("text.db");
    std::fs::write(
        &no_database,
        "this is not a database, and long enough to look like one".repeat(40),
    )
    .expect("a file");
    let no_database = format!("sqlite:{}", no_database.display());
    fails(
        &serve(&["--database-url", &no_database]).await,
        UNFIT,
        &["not a sound SQLite database"],
    );
    fails(
        &run(&["migrate", "--database-url", "sqlite:/nowhere/at/all.db"]).await,
        UNREACHABLE,
        &["/nowhere/at/all.db"],
    );

    let taken = directory.path().join("file");
    std::fs::write(&taken, "").expect("a file");
    let taken = taken.to_str().expect("a path in UTF-8");
    fails(&serve(&["--data-dir", taken]).await, FILE, &[taken]);
}

#[tokio::test]
async fn a_port_in_use_is_named_with_the_flag_that_chooses_another() {
    let database = sample_database("port").await;
    let service = serve_warm(&database.url, &[]).await;
    let (public, admin) = (service.public().to_string(), service.admin().to_string());
    let args = [
        "serve",
        "--database-url",
        &database.url,
        "--listen",
        &public,
        "--admin-listen",
        "127.0.0.1:0",
    ];
    fails(&run(&args).await, ADDRESS, &[&public, "--listen"]);
    let args = [
        "serve",
        "--database-url",
        &database.url,
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        &admin,
    ];
    fails(&run(&args).await, ADDRESS, &[&admin, "--admin-listen"]);
}

#[tokio::test]
async fn a_service_that_is_not_there_or_is_something_else_is_named() {
    let nobody = format!("http://127.0.0.1:{}", port::unused());
    fails(
        &run(&["check", "--url", &nobody, "zoe"]).await,
        SERVICE,
        &[&nobody],
    );
    fails(
        &run(&["healthcheck", "--url", &nobody]).await,
        SERVICE,
        &[&nobody],
    );
    fails(
        &run(&["check", "--url", "ftp://example", "zoe"]).await,
        USAGE,
        &["http://"],
    );
    fails(
        &run(&["check", "--url", "::", "zoe"]).await,
        USAGE,
        &["URL"],
    );
    let database = sample_database("elsewhere").await;
    let service = serve_warm(&database.url, &[]).await;
    let admin = format!("http://{}/metrics", service.admin());
    assert_eq!(
        run(&["check", "--url", &admin, "zoe"]).await.code,
        Some(SERVICE)
    );
}

#[tokio::test]
async fn a_filter_that_would_not_fit_into_memory_is_refused_and_the_service_goes_on() {
    let database = sample_database("ceiling").await;
    insert(&database, &["alice".to_owned()]).await;
    let service = crate::fixtures::serve(
        &database.url,
        &["--capacity", "1000000000000", "--filter-memory", "1GiB"],
    )
    .await;
    service.wait_ready().await;
    crate::fixtures::within(
        Duration::from_secs(10),
        "the refusal is logged",
        async || service.output().contains("bytes"),
    )
    .await;
    let (_, reason, source) = crate::fixtures::verdict(&service.ask("alice").await);
    assert_eq!(
        (reason.as_str(), source.as_deref()),
        ("taken", Some("database"))
    );
}
