//! Many names in one question: the same answers as one by one, for one statement at most.

use serde_json::{Value, json};

use crate::fixtures::{
    absent_names, answer, count, insert, present_names, sample_database, sample_database_in, serve,
    serve_warm, within,
};
use crate::support::http::{self, Connection, Reply};
use crate::support::postgres::Cluster;
use crate::support::service::Service;

const PATH: &str = "/username/available";
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const STATEMENTS: &str = "namegate_lookup_statements_total";
const NAMES: &str = "namegate_lookup_names_total";

async fn post(service: &Service, body: &[u8]) -> Reply {
    http::request(service.public(), "POST", PATH, &JSON, body).await
}

async fn ask(service: &Service, names: &[impl AsRef<str>]) -> Reply {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let body = json!({ "usernames": names }).to_string();
    post(service, body.as_bytes()).await
}

/// The answers of a reply that has them.
#[track_caller]
fn answers(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let body = reply.json();
    assert_eq!(body.as_object().map(serde_json::Map::len), Some(1));
    body["answers"].as_array().expect("an array").clone()
}

fn words<'a>(answers: &'a [Value], field: &str) -> Vec<&'a str> {
    let word = |answer: &'a Value| answer[field].as_str().expect("a word");
    answers.iter().map(word).collect()
}

/// An error as every client must be able to read it.
#[track_caller]
fn is_problem(reply: &Reply, status: u16, code: &str) -> Value {
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(
        reply.header("content-type"),
        Some("application/problem+json")
    );
    let body = reply.json();
    assert_eq!(body["code"], code, "{body}");
    assert_eq!(body["available"], Value::Null);
    body
}

#[tokio::test]
async fn each_name_gets_the_answer_it_would_get_alone() {
    let database = sample_database("batch").await;
    insert(&database, &["alice".to_owned(), "bob".to_owned()]).await;
    let service = serve_warm(&database.url, &[]).await;
    let names = [
        "Alice",
        "zoe",
        "admin",
        "a..b",
        "",
        " BOB ",
        "alice",
        "Alice",
        "a\u{202e}b",
        "a\0b",
        "x\"y\\z",
        "\u{1f600}",
        "marlow.json",
        "me",
        &"x".repeat(5000),
    ];
    let together = answers(&ask(&service, &names).await);
    assert_eq!(together.len(), names.len());
    for (name, together) in names.into_iter().zip(together) {
        assert_eq!(together["username"], name);
        if name.len() > 4000 {
            assert_eq!(together["detail"]["code"], "too_long"); // does not fit into a query
            continue;
        }
        let mut alone = answer(&service, name).await;
        if alone["reason"] == "taken" {
            assert_eq!(
                (&together["source"], &alone["source"]),
                (&"database".into(), &"cache".into())
            );
            alone["source"] = "database".into();
        }
        assert_eq!(together, alone, "{name:?}");
    }
}

#[tokio::test]
async fn a_thousand_names_cost_one_statement_and_spellings_of_one_name_one_lookup() {
    let database = sample_database("thousand").await;
    let present = present_names(400);
    insert(&database, &present).await;
    let service = serve_warm(&database.url, &[]).await;
    let shouted = present.iter().map(|name| name.to_uppercase());
    let names: Vec<String> = present
        .iter()
        .cloned()
        .chain(shouted)
        .chain(absent_names(200))
        .collect();
    let reasons = answers(&ask(&service, &names).await);
    let reasons = words(&reasons, "reason");
    assert!(reasons[..800].iter().all(|reason| *reason == "taken"));
    assert!(reasons[800..].iter().all(|reason| *reason == "free"));
    let false_positives = count(&service, "namegate_false_positives_total").await;
    assert_eq!(count(&service, STATEMENTS).await, 1);
    assert_eq!(count(&service, NAMES).await, 400 + false_positives);
    assert_eq!(
        count(&service, r#"namegate_questions_total{answer="taken"}"#).await,
        800
    );

    let again = answers(&ask(&service, &present).await);
    assert!(words(&again, "source").iter().all(|word| *word == "cache"));
    let free = answers(&ask(&service, &absent_names(100)).await);
    assert!(words(&free, "reason").iter().all(|word| *word == "free"));
    let false_positives = count(&service, "namegate_false_positives_total").await - false_positives;
    assert!(count(&service, STATEMENTS).await <= 1 + false_positives);
}

#[tokio::test]
async fn with_the_filter_off_a_batch_is_one_statement_too() {
    let database = sample_database("batchoff").await;
    insert(&database, &["alice".to_owned()]).await;
    let service = serve(&database.url, &["--filter", "off"]).await;
    service.wait_ready().await;
    let found = answers(&ask(&service, &["alice", "zoe", "ALICE", "admin", "yan"]).await);
    assert_eq!(
        words(&found, "reason"),
        ["taken", "free", "taken", "reserved", "free"]
    );
    assert_eq!(
        words(&found, "source"),
        ["database", "database", "database", "policy", "database"]
    );
    assert_eq!(count(&service, STATEMENTS).await, 1);
    assert_eq!(count(&service, NAMES).await, 3);
    answers(&ask(&service, &["admin", "a..b"]).await);
    assert_eq!(
        count(&service, STATEMENTS).await,
        1,
        "nothing is left to ask"
    );
}

#[tokio::test]
async fn an_embedded_database_answers_a_batch_as_well() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let url = format!("sqlite:{}", directory.path().join("names.db").display());
    crate::fixtures::migrate(&url).await;
    let service = serve_warm(&url, &["--signup"]).await;
    let body = br#"{"username":"Alice"}"#;
    let made = http::request(service.public(), "POST", "/users", &JSON, body).await;
    assert_eq!(made.status, 201);
    let found = answers(&ask(&service, &["zoe", "alice", "null"]).await);
    assert_eq!(words(&found, "reason"), ["free", "taken", "reserved"]);
    assert_eq!(count(&service, STATEMENTS).await, 1);
}

#[tokio::test]
async fn nothing_asked_is_nothing_answered() {
    let database = sample_database("batchempty").await;
    let service = serve_warm(&database.url, &[]).await;
    let reply = post(
        &service,
        br#" {"usernames":[], "usernamez": [7], "x": {}} "#,
    )
    .await;
    assert_eq!(
        (reply.status, reply.body.as_str()),
        (200, r#"{"answers":[]}"#)
    );
    assert_eq!(count(&service, STATEMENTS).await, 0);
}

#[tokio::test]
async fn while_the_database_is_down_what_memory_knows_is_answered_and_nothing_is_guessed() {
    let cluster = Cluster::private().await;
    let database = sample_database_in(&cluster, "batchdown").await;
    insert(&database, &present_names(20)).await;
    let service = serve_warm(&database.url, &["--max-staleness", "1h"]).await;
    cluster.stop_fast().await;

    let names = ["zq00001xk", "user000001", "admin", "user000002", "a..b"];
    let reply = ask(&service, &names).await;
    assert_eq!(reply.header("retry-after"), Some("1"));
    let mixed = answers(&reply);
    assert_eq!(
        words(&mixed, "reason"),
        ["free", "unverified", "reserved", "unverified", "invalid"]
    );
    let available: Vec<&Value> = mixed.iter().map(|answer| &answer["available"]).collect();
    let (yes, no) = (Value::Bool(true), Value::Bool(false));
    assert_eq!(available, [&yes, &Value::Null, &no, &Value::Null, &no]);
    assert_eq!(mixed[1]["detail"]["code"], "unverified");

    let reply = ask(&service, &present_names(20)).await;
    let problem = is_problem(&reply, 503, "unverified");
    assert_eq!(problem["reason"], "unverified");
    assert_eq!(reply.header("retry-after"), Some("1"));

    let settled = ask(&service, &["zq00001xk", "admin"]).await;
    assert_eq!(settled.header("retry-after"), None);
    assert_eq!(words(&answers(&settled), "reason"), ["free", "reserved"]);
    assert_eq!(count(&service, "namegate_lookup_failures_total").await, 22);

    cluster.start().await;
    within(crate::support::http::PATIENCE, "it heals", async || {
        let reply = ask(&service, &present_names(20)).await;
        reply.status == 200 && words(&answers(&reply), "reason") == ["taken"; 20]
    })
    .await;
}

#[tokio::test]
async fn a_batch_stays_together_in_a_crowd_and_single_questions_ride_along() {
    let database = sample_database("crowded").await;
    let present = present_names(1700);
    insert(&database, &present).await;
    let service = serve_warm(
        &database.url,
        &["--lookup-deadline", "20s", "--cache-ttl", "1ms"],
    )
    .await;
    let mut lock = database.session().await;
    let hold = "BEGIN; LOCK TABLE users IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(hold)
        .execute(&mut lock)
        .await
        .expect("a lock");

    let first = futures_util::future::join(service.ask(&present[0]), service.ask(&present[1]));
    let crowd = async {
        // Both lanes are on their way by then, and wait for the lock.
        within(http::PATIENCE, "two statements are out", async || {
            count(&service, STATEMENTS).await == 2
        })
        .await;
        let singles = present[2..600].iter().map(|name| service.ask(name));
        let together = ask(&service, &present[600..1600]);
        futures_util::future::join(futures_util::future::join_all(singles), together).await
    };
    let release = async {
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        let rollback = sqlx::raw_sql("ROLLBACK").execute(&mut lock).await;
        rollback.expect("the lock is released");
    };
    let ((one, other), (singles, together), ()) =
        futures_util::future::join3(first, crowd, release).await;
    for reply in singles.iter().chain([&one, &other]) {
        assert_eq!(reply.json()["reason"], "taken", "{reply:?}");
    }
    assert_eq!(words(&answers(&together), "reason"), ["taken"; 1000]);
    assert_eq!(count(&service, NAMES).await, 1600);
    let statements = count(&service, STATEMENTS).await;
    assert!(statements <= 5, "{statements} statements");
}

#[tokio::test]
async fn bodies_that_cannot_be_read_say_where() {
    let database = sample_database("batchbad").await;
    let service = serve_warm(&database.url, &[]).await;
    let cases: [(&[u8], &str, (usize, usize)); 24] = [
        (b"{", "malformed_body", (1, 1)),
        (b"[]", "malformed_body", (1, 1)),
        (b" \n [[\"alice\"]]", "malformed_body", (2, 2)),
        (b"null", "malformed_body", (1, 1)),
        (b"\"alice\"", "malformed_body", (1, 1)),
        (b"{}", "malformed_body", (1, 2)),
        (b"{\"username\": [\"alice\"]}", "malformed_body", (1, 23)),
        (b"{\"usernames\": \"alice\"}", "malformed_body", (1, 21)),
        (b"{\"usernames\": null}", "malformed_body", (1, 18)),
        (
            b"{\"usernames\": {\"0\": \"a\"}}",
            "malformed_body",
            (1, 14),
        ),
        (b"{\"usernames\": [\"a\", 7]}", "malformed_body", (1, 21)),
        (
            b"{\"usernames\": [\"a\",\n null]}",
            "malformed_body",
            (2, 5),
        ),
        (b"{\"usernames\": [[\"a\"]]}", "malformed_body", (1, 15)),
        (b"{\"usernames\": [\"a\",]}", "malformed_body", (1, 20)),
        (b"{\"usernames\": [\"a\"]} x", "malformed_body", (1, 22)),
        (b"{\"usernames\": [\"a\"]}{}", "malformed_body", (1, 21)),
        (
            b"{\"usernames\": [], \"usernames\": []}",
            "malformed_body",
            (1, 29),
        ),
        (b"{'usernames': []}", "malformed_body", (1, 2)),
        (b"{\"usernames\": [\"\\ud800\"]}", "malformed_body", (1, 23)),
        (b"{\"usernames\": [\"\\udc00\"]}", "malformed_body", (1, 22)),
        (b"{\"usernames\": [\"a\x01\"]}", "malformed_body", (1, 18)),
        (b"{\"usernames\": [\"Andr\xe9\"]}", "invalid_utf8", (1, 21)),
        (
            b"{\"usernames\":\n[\"\xed\xa0\x80\"]}",
            "invalid_utf8",
            (2, 3),
        ),
        (b"\xef\xbb\xbf{\"usernames\": []}", "malformed_body", (1, 1)),
    ];
    for (body, code, (line, column)) in cases {
        let shown = body.escape_ascii();
        let problem = is_problem(&post(&service, body).await, 400, code);
        assert_eq!(problem["line"], line, "{shown}: {problem}");
        assert_eq!(problem["column"], column, "{shown}: {problem}");
        let detail = problem["detail"].as_str().expect("a sentence");
        let place = format!("line {line}, column {column}");
        assert!(detail.contains(&place), "{detail}");
        assert!(!detail.contains("Andr"), "{detail}");
    }
    is_problem(&post(&service, b"").await, 400, "malformed_body");
    let deep = format!("{{\"x\": {}", "[".repeat(200_000));
    is_problem(
        &post(&service, deep.as_bytes()).await,
        400,
        "malformed_body",
    );
    assert_eq!(answers(&ask(&service, &["zoe"]).await).len(), 1, "unharmed");
}

#[tokio::test]
async fn a_batch_has_bounds_and_says_so() {
    let database = sample_database("batchbounds").await;
    let service = serve_warm(&database.url, &[]).await;
    assert_eq!(
        answers(&ask(&service, &absent_names(1000)).await).len(),
        1000
    );
    let reply = ask(&service, &absent_names(1001)).await;
    let problem = is_problem(&reply, 422, "too_many_names");
    let detail = problem["detail"].as_str().expect("a sentence");
    assert!(
        detail.contains("1000") && detail.contains("1001"),
        "{detail}"
    );

    let padded = |size: usize| {
        let body = br#"{"usernames":["zoe"]}"#;
        [body, &b" ".repeat(size - body.len())[..]].concat()
    };
    assert_eq!(answers(&post(&service, &padded(256 * 1024)).await).len(), 1);
    let reply = post(&service, &padded(256 * 1024 + 1)).await;
    is_problem(&reply, 413, "body_too_large");

    for kind in ["", "text/plain", "application/jsonx", "multipart/form-data"] {
        let headers = [("content-type", kind)];
        let reply = http::request(service.public(), "POST", PATH, &headers, b"{}").await;
        is_problem(&reply, 415, "unsupported_media_type");
    }
    for kind in ["application/json; charset=utf-8", "Application/JSON"] {
        let headers = [("content-type", kind)];
        let body = br#"{"usernames":["zoe"]}"#;
        let reply = http::request(service.public(), "POST", PATH, &headers, body).await;
        assert_eq!(answers(&reply).len(), 1);
    }
}

/// What no client library would send.
#[tokio::test]
async fn bodies_without_an_honest_length_are_bounded_as_well() {
    let database = sample_database("batchraw").await;
    let service = serve_warm(&database.url, &[]).await;
    let head = format!("POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n");

    let chunk = format!("2000\r\n{}\r\n", " ".repeat(0x2000));
    let endless = format!(
        "{head}transfer-encoding: chunked\r\n\r\n{}",
        chunk.repeat(40)
    );
    let reply = http::raw(service.public(), endless.as_bytes()).await;
    is_problem(&reply.expect("an answer"), 413, "body_too_large");

    let chunked = format!(
        "{head}transfer-encoding: chunked\r\n\r\n8\r\n{{\"userna\r\nd\r\nmes\":[\"zoe\"]}}\r\n0\r\n\r\n"
    );
    let reply = http::raw(service.public(), chunked.as_bytes()).await;
    assert_eq!(answers(&reply.expect("an answer")).len(), 1);

    let declared = format!("{head}content-length: 99999999\r\n\r\n");
    let reply = http::raw(service.public(), declared.as_bytes()).await;
    is_problem(&reply.expect("an answer"), 413, "body_too_large");

    let mut cut_off = Connection::open(service.public())
        .await
        .expect("a connection");
    let part = format!("{head}content-length: 100\r\n\r\n{{\"usernames\":");
    cut_off.send(part.as_bytes()).await.expect("it is taken");
    drop(cut_off);
    assert_eq!(answers(&ask(&service, &["zoe"]).await).len(), 1, "unharmed");
}

/// The echo may be read on a console: what would turn its text around is sent as an escape.
#[tokio::test]
async fn an_echo_shows_what_does_not_show() {
    let database = sample_database("echo").await;
    let service = serve_warm(&database.url, &[]).await;
    let name = "a\u{202e}b\u{200b}c\u{2066}d\u{e0041}";
    let escaped = r#""username":"a\u202eb\u200bc\u2066d\udb40\udc41""#;
    for reply in [service.ask(name).await, ask(&service, &[name]).await] {
        assert!(reply.body.contains(escaped), "{reply:?}");
        assert!(!reply.body.contains('\u{202e}'));
    }
}
