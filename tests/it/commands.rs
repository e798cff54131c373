//! The commands as a person meets them.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::fixtures::{
    insert, is_taken, sample_database, serve_warm, verdict, wait_until_following,
};
use crate::support::command::Finished;
use crate::support::http;
use crate::support::service::{self, Service};

async fn run(args: &[&str]) -> Finished {
    service::run(args, b"").await
}

#[tokio::test]
async fn the_demo_starts_with_nothing_and_tells_taken_names_from_free_ones() {
    let service = Service::spawn(
        &[
            "demo",
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
        ],
        &[],
    )
    .await;
    wait_until_following(&service).await;
    assert!(is_taken(&service, "numpy").await);
    assert_eq!(verdict(&service.ask("my-own-name-42").await).1, "free");
    let body = br#"{"username":"my-own-name-42"}"#;
    let headers = [("content-type", "application/json")];
    let created = http::request(service.public(), "POST", "/users", &headers, body).await;
    assert_eq!(created.status, 201);
    assert!(is_taken(&service, "my-own-name-42").await);
    let output = service.output();
    assert!(
        output.contains("50000 real names") && output.contains("Open http://"),
        "{output}"
    );
    let ended = service.terminate().await;
    assert_eq!(ended.code, Some(0));
    assert!(
        ended.output.contains("needed the database"),
        "{}",
        ended.output
    );
}

#[tokio::test]
async fn without_a_database_the_service_makes_its_own_and_keeps_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = directory.path().join("data");
    let data = data.to_str().expect("a path in UTF-8");
    let args = [
        "serve",
        "--data-dir",
        data,
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--signup",
    ];
    let service = Service::spawn(&args, &[]).await;
    wait_until_following(&service).await;
    let headers = [("content-type", "application/json")];
    let created = http::request(
        service.public(),
        "POST",
        "/users",
        &headers,
        br#"{"username":"Keeper"}"#,
    )
    .await;
    assert_eq!(created.status, 201);
    service.kill().await;
    let service = Service::spawn(&args, &[]).await;
    wait_until_following(&service).await;
    assert!(is_taken(&service, "keeper").await);
    // Another program writes to the same file.
    let imported = service::run(&["import", "-", "--data-dir", data], b"visitor\n")
        .await
        .expect_success();
    assert!(imported.starts_with("1 names imported"), "{imported}");
    crate::fixtures::within(crate::fixtures::BOUND, "the visitor is taken", async || {
        is_taken(&service, "visitor").await
    })
    .await;
}

#[tokio::test]
async fn import_reads_plain_and_gzip_files_and_can_be_repeated() {
    let database = sample_database("import").await;
    let text = "alice\nBob\r\n\n  carol  \nalice\nbad\0name\nfine-name";
    let directory = tempfile::tempdir().expect("a temporary directory");
    let plain = directory.path().join("names.txt");
    std::fs::write(&plain, text).expect("a file");
    let packed = directory.path().join("names.txt.gz");
    let mut gzip = GzEncoder::new(
        std::fs::File::create(&packed).expect("a file"),
        Compression::default(),
    );
    gzip.write_all(text.as_bytes())
        .and_then(|()| gzip.finish())
        .expect("a file");

    let import = async |file: &std::path::Path, more: &[&str]| {
        let mut args = vec![
            "import",
            file.to_str().expect("UTF-8"),
            "--database-url",
            database.url.as_str(),
        ];
        args.extend(more);
        run(&args).await.expect_success()
    };
    let first = import(&plain, &[]).await;
    assert!(
        first.contains("4 names imported") && first.contains("1 were there already"),
        "{first}"
    );
    assert!(
        first.contains("1 were left out") && first.contains("line 6"),
        "{first}"
    );
    let again = import(&packed, &[]).await;
    assert!(
        again.contains("0 names imported") && again.contains("5 were there already"),
        "{again}"
    );
    let stored: Vec<(String, String)> =
        sqlx::query_as("SELECT username, canonical FROM users ORDER BY canonical")
            .fetch_all(&mut database.session().await)
            .await
            .expect("rows");
    let stored: Vec<(&str, &str)> = stored
        .iter()
        .map(|(name, canonical)| (name.as_str(), canonical.as_str()))
        .collect();
    assert_eq!(
        stored,
        [
            ("alice", "alice"),
            ("Bob", "bob"),
            ("  carol  ", "carol"),
            ("fine-name", "fine-name")
        ]
    );
}

#[tokio::test]
async fn import_with_rules_leaves_out_what_a_sign_up_would_refuse() {
    let database = sample_database("validate").await;
    let args = ["import", "-", "--validate", "--database-url", &database.url];
    let output = service::run(&args, b"alice\nab\nadmin\nwith space\nBob\n")
        .await
        .expect_success();
    assert!(
        output.contains("2 names imported") && output.contains("3 were left out"),
        "{output}"
    );
    assert!(output.contains("line 2"), "{output}");
}

#[tokio::test]
async fn check_prints_a_line_a_name_and_its_exit_code_is_the_answer() {
    let database = sample_database("check").await;
    insert(&database, &["alice".to_owned()]).await;
    let service = serve_warm(&database.url, &[]).await;
    let url = format!("http://{}", service.public());
    for source in [
        &["--url", url.as_str()][..],
        &["--direct", "--database-url", database.url.as_str()],
    ] {
        let ask = async |names: &[&str]| run(&[&["check"], source, names].concat()).await;
        let free = ask(&["zoe", "yan"]).await;
        assert_eq!(
            (free.code, free.stdout.lines().count()),
            (Some(0), 2),
            "{free:?}"
        );
        let mixed = ask(&["zoe", "ALICE", "ab", "admin"]).await;
        assert_eq!(mixed.code, Some(1));
        let words: Vec<&str> = mixed
            .stdout
            .lines()
            .map(|line| line.split_whitespace().nth(1).expect("a word"))
            .collect();
        assert_eq!(words, ["free", "taken", "invalid", "reserved"], "{mixed:?}");
        let json = ask(&["--json", "a\u{202e}b"]).await;
        let answer: Value = serde_json::from_str(json.stdout.trim()).expect("JSON");
        assert_eq!(answer["detail"]["code"], "bidi_control");
        let shown = ask(&["a\u{202e}b"]).await.stdout;
        assert!(
            !shown.contains('\u{202e}'),
            "a terminal is not turned upside down: {shown:?}"
        );
    }
}

#[tokio::test]
async fn size_prints_the_arithmetic() {
    let table = run(&["size", "--names", "100000000", "--fpr", "0.001"])
        .await
        .expect_success();
    for words in ["3,071,212", "196.6 MB", "15.72", "textbook", "300 %"] {
        assert!(table.contains(words), "{words} in {table}");
    }
    let json = run(&["size", "--names", "1000000", "--fpr", "0.01", "--json"])
        .await
        .expect_success();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (&json["blocks"], &json["size_bytes"]),
        (&19_726.into(), &(19_726 * 64).into())
    );
    assert_eq!(json["loads"].as_array().map(Vec::len), Some(7));
}

#[tokio::test]
async fn healthcheck_says_whether_the_service_is_ready() {
    let database = sample_database("healthcheck").await;
    let service = serve_warm(&database.url, &[]).await;
    let url = format!("http://{}", service.public());
    assert_eq!(
        run(&["healthcheck", "--url", &url]).await.expect_success(),
        "ready\n"
    );
}

#[tokio::test]
async fn help_is_the_manual() {
    let help = run(&["--help"]).await.expect_success();
    for command in [
        "serve",
        "demo",
        "check",
        "migrate",
        "import",
        "size",
        "healthcheck",
        "Exit codes",
    ] {
        assert!(help.contains(command), "{command}");
    }
    let serve = run(&["serve", "--help"]).await.expect_success();
    for flag in [
        "--max-staleness",
        "NAMEGATE_MAX_STALENESS",
        "DATABASE_URL",
        "[default: 2s]",
    ] {
        assert!(serve.contains(flag), "{flag}");
    }
    let version = run(&["--version"]).await.expect_success();
    assert_eq!(
        version,
        concat!("namegate ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[tokio::test]
async fn a_secret_never_shows_in_the_help() {
    let secret = [("DATABASE_URL", "postgres://app:hunter2@db/app")];
    let help = service::run_with(&["serve", "--help"], &secret, b"").await;
    assert!(!help.stdout.contains("hunter2") && help.stdout.contains("DATABASE_URL"));
}
