//! What is no HTTP, or too much of it, is refused in the same words as everything else.

use super::{ask_with, is_problem};
use crate::fixtures::{count, sample_database, serve_warm, verdict};
use crate::support::http::{self, Connection};

fn head(lines: &str) -> Vec<u8> {
    format!("GET /username/available?username=zoe HTTP/1.1\r\nhost: x\r\n{lines}\r\n\r\n")
        .into_bytes()
}

#[tokio::test]
async fn bytes_that_are_no_request_are_told_so_and_the_connection_is_closed() {
    let database = sample_database("no_request").await;
    let service = serve_warm(&database.url, &[]).await;
    let long_line = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(20_000));
    let endless_line = format!("GET /{}", "a".repeat(80_000));
    let large = head(&format!("x-filler: {}", "a".repeat(20_000)));
    let many = head(&"x: y\r\n".repeat(150));
    let cases: [(&[u8], u16, &str); 12] = [
        (
            b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
            400,
            "malformed_request",
        ),
        (b"GET\r\n\r\n", 400, "malformed_request"),
        (b"GET / HTTP/9.9\r\n\r\n", 400, "malformed_request"),
        (b"GET /\x7f HTTP/1.1\r\n\r\n", 400, "malformed_request"),
        (b"\0\0\0\0\r\n\r\n", 400, "malformed_request"),
        (
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            400,
            "malformed_request",
        ),
        (
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
            400,
            "malformed_request",
        ),
        (
            b"GET / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
            400,
            "malformed_request",
        ),
        (long_line.as_bytes(), 414, "query_too_long"),
        (endless_line.as_bytes(), 414, "query_too_long"),
        (&large, 431, "headers_too_large"),
        (&many, 431, "headers_too_large"),
    ];
    for (bytes, status, code) in cases {
        let mut connection = service.connect().await.expect("a connection");
        connection.send(bytes).await.expect("it is taken");
        let reply = connection.reply("").await.expect("an answer");
        is_problem(&reply, status, code);
        assert_eq!(reply.header("connection"), Some("close"));
        assert!(reply.header("date").is_some());
        let closes = connection.closes_within(http::PATIENCE).await;
        assert!(closes.expect("nothing more comes"), "{code}");
    }
    assert_eq!(
        count(&service, "namegate_unreadable_requests_total").await,
        cases.len() as u64
    );
    assert_eq!(verdict(&service.ask("zoe").await).0, Some(true));
}

#[tokio::test]
async fn answers_that_are_under_way_come_before_the_refusal_of_what_follows() {
    let database = sample_database("pipeline").await;
    let service = serve_warm(&database.url, &[]).await;
    let mut connection = service.connect().await.expect("a connection");
    let mut bytes = head("x: y").repeat(3);
    bytes.extend_from_slice(b"nonsense\r\n\r\n");
    connection.send(&bytes).await.expect("it is taken");
    for _ in 0..3 {
        let reply = connection.reply("GET").await.expect("an answer");
        assert_eq!(verdict(&reply).0, Some(true));
    }
    let reply = connection.reply("").await.expect("a refusal");
    is_problem(&reply, 400, "malformed_request");
}

#[tokio::test]
async fn a_query_of_4_kib_is_read_and_one_byte_more_is_not() {
    let database = sample_database("query_bound").await;
    let service = serve_warm(&database.url, &[]).await;
    let filler = "a".repeat(4096 - "username=".len());
    let reply = http::get(
        service.public(),
        &format!("/username/available?username={filler}"),
    )
    .await;
    assert_eq!(reply.json()["detail"]["code"], "too_long");
    let reply = http::get(
        service.public(),
        &format!("/username/available?username={filler}a"),
    )
    .await;
    is_problem(&reply, 414, "query_too_long");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_413_however_it_comes() {
    let database = sample_database("large_body").await;
    let service = serve_warm(&database.url, &["--signup"]).await;
    let json = [("content-type", "application/json")];
    let large = format!(r#"{{"username":"{}"}}"#, "a".repeat(3_000_000));
    let reply = http::request(service.public(), "POST", "/users", &json, large.as_bytes()).await;
    is_problem(&reply, 413, "body_too_large");
    let chunked = format!(
        "POST /users HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n{}",
        format!("4000\r\n{}\r\n", "a".repeat(0x4000)).repeat(50)
    );
    let reply = http::raw(service.public(), chunked.as_bytes())
        .await
        .expect("an answer");
    is_problem(&reply, 413, "body_too_large");
    let promised = b"POST /users HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n";
    let reply = http::raw(service.public(), promised)
        .await
        .expect("an answer");
    is_problem(&reply, 413, "body_too_large");
}

#[tokio::test]
async fn a_request_id_is_taken_over_when_it_is_short_and_plain() {
    let database = sample_database("request_id").await;
    let service = serve_warm(&database.url, &[]).await;
    for id in ["a", "3f1c-77_x.9", &"a".repeat(64)] {
        let reply = ask_with(&service, "zoe", &[("x-request-id", id)]).await;
        assert_eq!(reply.header("x-request-id"), Some(id));
    }
    let mut seen = std::collections::BTreeSet::new();
    for id in ["", "a b", "<script>", "größe", &"a".repeat(65), "a\"b"] {
        let reply = ask_with(&service, "zoe", &[("x-request-id", id)]).await;
        let given = reply.header("x-request-id").expect("every answer has one");
        assert_ne!(given, id);
        assert!(seen.insert(given.to_owned()), "{given} was given before");
    }
}

#[tokio::test]
async fn an_old_client_and_one_that_closes_are_answered() {
    let database = sample_database("old").await;
    let service = serve_warm(&database.url, &[]).await;
    let asked =
        "GET /username/available?username=zoe HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let mut connection = Connection::open(service.public())
        .await
        .expect("a connection");
    connection
        .send(asked.as_bytes())
        .await
        .expect("it is taken");
    let reply = connection.reply("GET").await.expect("an answer");
    assert_eq!(verdict(&reply).0, Some(true));
    let closes = connection.closes_within(http::PATIENCE).await;
    assert!(closes.expect("nothing more comes"));

    let mut old = Connection::open(service.public())
        .await
        .expect("a connection");
    old.send(b"GET /livez HTTP/1.0\r\n\r\n")
        .await
        .expect("it is taken");
    // The support's client reads HTTP/1.1 status lines only.
    let error = old.reply("GET").await.expect_err("an older status line");
    assert!(error.to_string().contains("HTTP/1.0 200"), "{error}");
}
