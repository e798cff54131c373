//! The sample sign-up: the insert decides, and agrees with the check.

use serde_json::{Value, json};

use crate::fixtures::{is_free, is_taken, sample_database, serve_warm, verdict};
use crate::support::http::{self, Reply};
use crate::support::service::Service;

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

async fn post(service: &Service, body: &str) -> Reply {
    http::request(service.public(), "POST", "/users", &JSON, body.as_bytes()).await
}

async fn sign_up(service: &Service, name: &str) -> Reply {
    post(service, &json!({"username": name}).to_string()).await
}

#[tokio::test]
async fn a_name_is_created_once_whatever_its_case() {
    let database = sample_database("once").await;
    let service = serve_warm(&database.url, &["--signup"]).await;
    let created = sign_up(&service, "Anon1").await;
    assert_eq!(created.status, 201);
    assert_eq!(
        created.json(),
        json!({"username": "Anon1", "canonical": "anon1"})
    );
    for again in ["anon1", "Anon1", " ANON1 "] {
        let taken = sign_up(&service, again).await;
        assert_eq!(taken.status, 409, "{taken:?}");
        let body = taken.json();
        assert_eq!(
            (&body["code"], &body["reason"], &body["available"]),
            (&"taken".into(), &"taken".into(), &false.into())
        );
    }
}

#[tokio::test]
async fn what_the_rules_refuse_is_422_with_the_rules_own_code() {
    let database = sample_database("refused").await;
    let service = serve_warm(&database.url, &["--signup"]).await;
    for (name, code, reason) in [
        ("ab", "too_short", "invalid"),
        (&"x".repeat(31), "too_long", "invalid"),
        ("bad name", "whitespace", "invalid"),
        ("", "empty", "invalid"),
        ("a\0b", "control", "invalid"),
        ("admin", "route", "reserved"),
        ("null", "sentinel", "reserved"),
    ] {
        let reply = sign_up(&service, name).await;
        assert_eq!(reply.status, 422, "{name:?}: {reply:?}");
        let body = reply.json();
        assert_eq!(
            (&body["available"], &body["reason"]),
            (&false.into(), &reason.into()),
            "{body}"
        );
        if reason == "invalid" {
            assert_eq!(body["code"], code, "{body}");
        }
    }
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_refused() {
    let database = sample_database("bodies").await;
    let service = serve_warm(&database.url, &["--signup"]).await;
    let cases = [
        "",
        "{",
        "[]",
        r#"["alice"]"#,
        r#" ["alice"]"#,
        "null",
        r#""alice""#,
        "{}",
        r#"{"username":7}"#,
        r#"{"username":null}"#,
        r#"{"username":"a","username":"b"}"#,
        r#"{"username":"\ud800"}"#,
        r#"{"username":"alice"} {"username":"bob"}"#,
        "{\"username\":\"al\u{1}ice\"}",
    ];
    for body in cases {
        let reply = post(&service, body).await;
        assert_eq!(
            (reply.status, reply.json()["code"].clone()),
            (400, "malformed_body".into()),
            "{body}"
        );
        assert_eq!(reply.json()["available"], Value::Null);
    }
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
    ] {
        let reply = http::request(
            service.public(),
            "POST",
            "/users",
            &[("content-type", kind)],
            b"{}",
        )
        .await;
        assert_eq!(reply.status, 415, "{kind}");
        assert_eq!(
            reply.header("content-type"),
            Some("application/problem+json")
        );
    }
    let huge = format!(r#"{{"username":"{}"}}"#, "a".repeat(1 << 20));
    let reply = post(&service, &huge).await;
    assert_eq!(reply.status, 413);
    assert_eq!(
        reply.header("content-type"),
        Some("application/problem+json")
    );
}

#[tokio::test]
async fn of_two_sign_ups_at_once_one_wins_and_nobody_sees_a_500() {
    let database = sample_database("race").await;
    let service = serve_warm(&database.url, &["--signup"]).await;
    for round in 0..200 {
        let (one, other) = (format!("CaseUser{round}"), format!("caseuser{round}"));
        let (one, other) = tokio::join!(sign_up(&service, &one), sign_up(&service, &other));
        let mut statuses = [one.status, other.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409]);
    }
}

#[tokio::test]
async fn without_the_switch_there_is_no_sign_up() {
    let database = sample_database("closed").await;
    let service = serve_warm(&database.url, &[]).await;
    assert_eq!(sign_up(&service, "alice").await.status, 404);
    assert!(is_free(&service, "alice").await);
}

#[tokio::test]
async fn a_sign_up_while_the_database_is_down_is_503_and_nothing_is_claimed() {
    let cluster = crate::support::postgres::Cluster::private().await;
    let database = crate::fixtures::sample_database_in(&cluster, "outage").await;
    let service = serve_warm(&database.url, &["--signup"]).await;
    cluster.stop_fast().await;
    let reply = sign_up(&service, "alice").await;
    assert_eq!(reply.status, 503, "{reply:?}");
    assert_eq!(reply.json()["available"], Value::Null);
    cluster.start().await;
    crate::fixtures::wait_until_following(&service).await;
    assert_eq!(sign_up(&service, "alice").await.status, 201);
}

#[tokio::test]
async fn the_check_and_the_sign_up_agree_on_a_thousand_odd_names() {
    let database = sample_database("agree").await;
    let service = serve_warm(&database.url, &["--signup"]).await;
    let mut disagreements = Vec::new();
    for name in odd_names(1000) {
        let (available, reason, _) = verdict(&service.ask(&name).await);
        let status = sign_up(&service, &name).await.status;
        let expected = match (available, reason.as_str()) {
            (Some(true), _) => 201,
            (Some(false), "taken") => 409,
            _ => 422,
        };
        if status != expected {
            disagreements.push((name, reason, status));
        }
    }
    assert_eq!(disagreements, []);
    assert!(
        is_taken(&service, "alice").await,
        "the names were worth asking"
    );
}

/// Short names over letters, separators and trouble, some of them often. The same in every run.
fn odd_names(count: usize) -> impl Iterator<Item = String> {
    const PIECES: [&str; 24] = [
        "a",
        "B",
        "z9",
        "alice",
        "Bob",
        ".",
        "-",
        "_",
        " ",
        "..",
        "admin",
        "null",
        "\u{200b}",
        "\u{202e}",
        "é",
        "ß",
        "\u{430}",
        "\0",
        "+",
        "%",
        "'",
        "\\",
        "\u{1f600}",
        "xyzzy",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = move |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits") % below
    };
    std::iter::once("alice".to_owned()).chain(
        std::iter::repeat_with(move || (0..=draw(4)).map(|_| PIECES[draw(PIECES.len())]).collect())
            .take(count - 1),
    )
}
