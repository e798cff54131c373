//! One policy: what the check says, the sign-up does and the import keeps, on ten thousand names that were made to
//! tell them apart. Both profiles, both databases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use sqlx::Connection as _;

use crate::fixtures::{migrate, sample_database, serve_warm};
use crate::support::http::{Connection, percent_encoded};
use crate::support::service::{self, question};

const MANY: usize = 10_000;
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

#[tokio::test]
async fn check_sign_up_and_import_agree_in_postgresql_under_ascii() {
    let [one, other] = [
        sample_database("agree").await,
        sample_database("agree").await,
    ];
    all_agree(&one.url, &other.url, "ascii").await;
}

#[tokio::test]
async fn check_sign_up_and_import_agree_in_postgresql_under_unicode() {
    let [one, other] = [
        sample_database("agree").await,
        sample_database("agree").await,
    ];
    all_agree(&one.url, &other.url, "unicode").await;
}

#[tokio::test]
async fn check_sign_up_and_import_agree_in_sqlite_under_ascii() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let [one, other] = sqlite(&directory).await;
    all_agree(&one, &other, "ascii").await;
}

#[tokio::test]
async fn check_sign_up_and_import_agree_in_sqlite_under_unicode() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let [one, other] = sqlite(&directory).await;
    all_agree(&one, &other, "unicode").await;
}

async fn sqlite(directory: &tempfile::TempDir) -> [String; 2] {
    let urls = ["one.db", "other.db"]
        .map(|file| format!("sqlite:{}", directory.path().join(file).display()));
    for url in &urls {
        migrate(url).await;
    }
    urls
}

/// Signs up in front of `signed_up`, imports into `imported`: two empty databases of one kind.
async fn all_agree(signed_up: &str, imported: &str, profile: &str) {
    let names = names(MANY);
    let service = serve_warm(signed_up, &["--signup", "--profile", profile]).await;
    let mut connection = service.connect().await.expect("a connection");
    let mut made: BTreeMap<String, String> = BTreeMap::new();
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for name in &names {
        let asked = connection.get(&question(name)).await.expect("an answer");
        let check = asked.json();
        let body = json!({ "username": name }).to_string();
        let reply = connection
            .request("POST", "/users", &JSON, body.as_bytes())
            .await
            .expect("an answer");
        let sign_up = reply.json();
        let reason = check["reason"].as_str().unwrap_or_default();
        let status = match reason {
            "free" => 201,
            "taken" => 409,
            _ => 422,
        };
        assert_eq!(reply.status, status, "{name:?}: {check} {sign_up}");
        assert_eq!(sign_up["canonical"], check["canonical"], "{name:?}");
        if reason != "free" {
            assert_eq!(sign_up["available"], check["available"], "{name:?}");
            assert_eq!(sign_up["reason"], check["reason"], "{name:?}");
        }
        if status == 422 {
            assert_eq!(sign_up["code"], check["detail"]["code"], "{name:?}");
        }
        if let (201, Some(canonical)) = (reply.status, check["canonical"].as_str()) {
            let username = name.trim().to_owned();
            assert_eq!(made.insert(canonical.to_owned(), username), None);
        }
        let code = check["detail"]["code"].as_str().unwrap_or(reason);
        *counts.entry(code.to_owned()).or_default() += 1;
    }
    for code in [
        "free",
        "taken",
        "empty",
        "too_short",
        "too_long",
        "charset",
        "separator",
    ] {
        assert!(counts.contains_key(code), "no name is {code}: {counts:?}");
    }
    for code in [
        "whitespace",
        "control",
        "invisible",
        "bidi_control",
        "route",
        "sentinel",
    ] {
        assert!(counts.contains_key(code), "no name is {code}: {counts:?}");
    }
    assert!(counts["free"] > 500, "{counts:?}");
    in_batches_alike(&mut connection, &names).await;
    service.terminate().await;
    assert_eq!(rows(signed_up).await, made, "what was signed up is stored");

    // A line feed would part a name from itself, and a carriage return before it belongs to the line's end.
    let lines: Vec<&String> = names
        .iter()
        .filter(|name| !name.contains('\n') && !name.ends_with('\r'))
        .collect();
    let mut file = String::new();
    for line in &lines {
        let _ = writeln!(file, "{line}"); // writing to a string cannot fail
    }
    let args = [
        "import",
        "-",
        "--validate",
        "--profile",
        profile,
        "--database-url",
        imported,
    ];
    let output = service::run(&args, file.as_bytes()).await.expect_success();
    let wanted: BTreeSet<&String> = made
        .iter()
        .filter(|(_, username)| lines.iter().any(|line| line.trim() == *username))
        .map(|(canonical, _)| canonical)
        .collect();
    let kept = rows(imported).await;
    let kept: BTreeSet<&String> = kept.keys().collect();
    assert_eq!(kept, wanted, "{output}");
}

/// What was signed up or refused by now is taken or refused, many at a time as one at a time.
async fn in_batches_alike(connection: &mut Connection, names: &[String]) {
    for names in names.chunks(1000) {
        let body = json!({ "usernames": names }).to_string();
        let reply = connection
            .request("POST", "/username/available", &JSON, body.as_bytes())
            .await
            .expect("an answer");
        let reply = reply.json();
        let answers = reply["answers"].as_array().expect("answers");
        assert_eq!(answers.len(), names.len());
        for (name, together) in names.iter().zip(answers) {
            let path = format!("/username/available?username={}", percent_encoded(name));
            let alone = connection.get(&path).await.expect("an answer").json();
            assert_eq!(together["available"], Value::Bool(false), "{together}");
            for field in ["username", "canonical", "available", "reason", "detail"] {
                assert_eq!(together[field], alone[field], "{field} of {name:?}");
            }
        }
    }
}

/// Canonical form and username of every row.
async fn rows(url: &str) -> BTreeMap<String, String> {
    const ALL: &str = "SELECT canonical, username FROM users";
    let rows: Vec<(String, String)> = if url.starts_with("sqlite:") {
        let mut connection = sqlx::SqliteConnection::connect(url).await.expect("a file");
        sqlx::query_as(ALL).fetch_all(&mut connection).await
    } else {
        let mut connection = sqlx::PgConnection::connect(url).await.expect("a session");
        sqlx::query_as(ALL).fetch_all(&mut connection).await
    }
    .expect("rows");
    rows.into_iter().collect()
}

/// The same names in every run: plain ones, spellings of one another, and every kind of trouble.
fn names(count: usize) -> Vec<String> {
    let mut runner = TestRunner::deterministic();
    let strategy = name();
    let mut names: Vec<String> = ["", "alice", "Alice", "ALICE ", "null", "admin", "ab"]
        .map(str::to_owned)
        .to_vec();
    while names.len() < count {
        let tree = strategy.new_tree(&mut runner).expect("a name");
        let name = tree.current();
        // Longer ones do not fit into a query, whatever they are.
        if percent_encoded(&name).len() < 4000 {
            names.push(name);
        }
    }
    names
}

fn name() -> impl Strategy<Value = String> {
    let plain = "[a-zA-Z0-9]{1,12}([._-][a-zA-Z0-9]{1,8}){0,2}";
    let piece = prop_oneof![
        4 => "[a-z]{1,6}",
        2 => "[A-Z0-9]{1,4}",
        1 => "[._-]{1,2}",
        3 => prop::sample::select(TROUBLE).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => prop::char::range('\u{300}', '\u{36f}').prop_map(String::from),
        1 => prop::char::range('\u{400}', '\u{52f}').prop_map(String::from),
        1 => prop::char::range('\u{370}', '\u{3ff}').prop_map(String::from),
        1 => prop::char::range('\u{1e00}', '\u{1fff}').prop_map(String::from),
        1 => prop::char::range('\u{fb00}', '\u{fb4f}').prop_map(String::from),
        1 => prop::char::range('\u{fe70}', '\u{ffef}').prop_map(String::from),
        1 => prop::char::range('\u{3040}', '\u{30ff}').prop_map(String::from),
        1 => prop::char::range('\u{ac00}', '\u{d7a3}').prop_map(String::from),
        1 => prop::char::range('\u{1f300}', '\u{1faff}').prop_map(String::from),
    ];
    let joined = prop::collection::vec(piece, 1..7).prop_map(|pieces| pieces.concat());
    let one_script = prop::sample::select(SCRIPTS).prop_flat_map(|(from, to)| {
        prop::collection::vec(prop::char::range(from, to), 1..14).prop_map(String::from_iter)
    });
    let reserved = prop::sample::select(RESERVED);
    let alike = (reserved, 0..6_usize).prop_map(|(name, how)| disguised(name, how));
    let long = (prop::sample::select(TROUBLE), 1..300_usize).prop_map(|(piece, n)| piece.repeat(n));
    prop_oneof![
        4 => plain.prop_map(|name| name),
        5 => joined,
        3 => one_script,
        2 => alike,
        1 => long,
        1 => prop::collection::vec(any::<char>(), 0..5).prop_map(String::from_iter),
    ]
}

fn disguised(name: &str, how: usize) -> String {
    let wide = |c: char| char::from_u32(u32::from(c) + 0xfee0).filter(|_| c.is_ascii_graphic());
    match how {
        0 => name.to_uppercase(),
        1 => name.chars().map(|c| wide(c).unwrap_or(c)).collect(),
        2 => format!(" {name}\u{3000}"),
        3 => name.replace('a', "\u{430}"),
        4 => name.replace('i', "\u{131}").replace('s', "\u{17f}"),
        _ => format!("{name}\u{200d}"),
    }
}

const RESERVED: &[&str] = &[
    "admin",
    "api",
    "login",
    "settings",
    "postmaster",
    "hostmaster",
    "null",
    "undefined",
    "root",
    "me",
    "marlow.json",
    "robots.txt",
    "system",
    "support",
    "status",
    "assets",
    "self",
    "a.png",
];

const SCRIPTS: &[(char, char)] = &[
    ('a', 'z'),
    ('à', 'ž'),
    ('α', 'ω'),
    ('а', 'я'),
    ('א', 'ת'),
    ('ا', 'ي'),
    ('अ', 'ह'),
    ('ก', 'ฮ'),
    ('ぁ', 'ゖ'),
    ('ァ', 'ヺ'),
    ('가', '힣'),
    ('一', '龥'),
    ('\u{1100}', '\u{11ff}'),
    ('\u{10d0}', '\u{10fa}'),
];

/// What rules, folds and databases stumble over.
const TROUBLE: &[&str] = &[
    " ",
    "\t",
    "\r",
    "\u{a0}",
    "\u{2003}",
    "\u{3000}",
    "\u{85}",
    "\u{2028}",
    "\0",
    "\u{1}",
    "\u{7f}",
    "\u{9f}",
    "\u{ad}",
    "\u{34f}",
    "\u{61c}",
    "\u{115f}",
    "\u{17b4}",
    "\u{180e}",
    "\u{200b}",
    "\u{200c}",
    "\u{200d}",
    "\u{200e}",
    "\u{200f}",
    "\u{202a}",
    "\u{202e}",
    "\u{2060}",
    "\u{2066}",
    "\u{2069}",
    "\u{2800}",
    "\u{3164}",
    "\u{fe0f}",
    "\u{feff}",
    "\u{ffa0}",
    "\u{fff9}",
    "\u{fffd}",
    "\u{ffff}",
    "\u{d7ff}",
    "\u{e000}",
    "\u{10ffff}",
    "\u{e0041}",
    "\u{e0100}",
    "+",
    "%",
    "%00",
    "&",
    "=",
    "#",
    "?",
    "/",
    "\\",
    "'",
    "\"",
    "<",
    ">",
    "@",
    "{}",
    "[]",
    ",",
    ";",
    "*",
    "..",
    "--",
    "I",
    "i",
    "ı",
    "İ",
    "i\u{307}",
    "ß",
    "ẞ",
    "ss",
    "ﬁ",
    "ﬀ",
    "ŀ",
    "ĳ",
    "ǆ",
    "Σ",
    "σ",
    "ς",
    "ᾳ",
    "\u{345}",
    "é",
    "e\u{301}",
    "\u{301}\u{301}\u{301}\u{301}",
    "\u{fdfa}",
    "\u{2100}",
    "\u{2025}",
    "\u{ff05}",
    "\u{b4}",
    "\u{2126}",
    "\u{212a}",
    "\u{17f}",
    "٣",
    "９",
    "Ａ",
    "ⓐ",
    "\u{1d4ea}",
    "\u{430}",
    "\u{3bf}",
    "は\u{3099}",
    "ﾊﾞ",
    "は\u{309b}",
    "\u{1f600}",
    "\u{1f468}\u{200d}\u{1f469}",
    "🇩🇪",
    "ا\u{640}",
    "لا",
    "ﻻ",
    "n̈",
    "q\u{307}\u{323}",
];
