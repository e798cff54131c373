//! Connections: how many, how long, and how they end.

use std::time::Duration;

use super::is_problem;
use crate::fixtures::{count, insert, sample_database, serve_warm, verdict, within};
use crate::support::http::{self, Connection};
use crate::support::process::Signal;
use crate::support::service::{Service, question};

/// Longer than any limit that these tests set, shorter than those that they leave alone.
const SOON: Duration = Duration::from_secs(5);

const ONE_SECOND: [&str; 2] = ["--request-timeout", "1s"];

async fn service(prefix: &str, more: &[&str]) -> Service {
    let database = sample_database(prefix).await;
    insert(&database, &["alice".to_owned()]).await;
    serve_warm(&database.url, &[&["--signup"], more].concat()).await
}

async fn connect(service: &Service) -> Connection {
    service.connect().await.expect("a connection")
}

async fn late(service: &Service, phase: &str) -> u64 {
    let series = format!(r#"namegate_connections_late_total{{phase="{phase}"}}"#);
    count(service, &series).await
}

#[tokio::test]
async fn a_head_that_does_not_come_is_waited_for_no_longer_than_allowed() {
    let service = service("slow_head", &ONE_SECOND).await;
    let mut silent = connect(&service).await;
    let mut begun = connect(&service).await;
    begun
        .send(b"GET /username/avail")
        .await
        .expect("it is taken");
    let mut second = connect(&service).await;
    second.get("/livez").await.expect("an answer");
    second.send(b"GET /live").await.expect("it is taken");

    for slow in [&mut begun, &mut second] {
        let reply = slow.reply("").await.expect("an answer");
        is_problem(&reply, 408, "request_timeout");
        assert!(slow.closes_within(SOON).await.expect("nothing more comes"));
    }
    assert!(silent.closes_within(SOON).await.expect("not a word"));
    assert_eq!(late(&service, "head").await, 3);
}

#[tokio::test]
async fn a_head_that_comes_byte_by_byte_has_no_more_time_than_others() {
    let service = service("loris", &ONE_SECOND).await;
    let mut slow = connect(&service).await;
    let head = b"GET /username/available?username=zoe HTTP/1.1\r\nhost: example\r\n\r\n";
    let mut sent = 0;
    for byte in head {
        if slow.send(&[*byte]).await.is_err() {
            break; // closed meanwhile
        }
        sent += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let reply = slow.reply("").await;
    if let Ok(reply) = reply {
        is_problem(&reply, 408, "request_timeout");
    }
    assert_eq!(late(&service, "head").await, 1, "{sent} bytes were sent");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let service = service("slow_body", &ONE_SECOND).await;
    let mut slow = connect(&service).await;
    slow.send(b"POST /users HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 20\r\n\r\n{\"user")
        .await
        .expect("it is taken");
    let reply = slow.reply("POST").await.expect("an answer");
    is_problem(&reply, 408, "request_timeout");
    assert!(slow.closes_within(SOON).await.expect("nothing more comes"));
    assert_eq!(late(&service, "answer").await, 1);
}

#[tokio::test]
async fn a_connection_on_which_nothing_is_asked_is_closed_and_one_in_use_is_not() {
    let service = service("idle", &["--idle-timeout", "1s"]).await;
    let mut used = connect(&service).await;
    let mut idle = connect(&service).await;
    idle.get("/livez").await.expect("an answer");
    for _ in 0..15 {
        let reply = used.get(&question("zoe")).await.expect("an answer");
        assert_eq!(verdict(&reply).0, Some(true));
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    assert!(idle.closes_within(SOON).await.expect("not a word"));
    used.get(&question("zoe")).await.expect("it is still open");
    assert_eq!(late(&service, "idle").await, 1);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_let_go() {
    let service = service("unread", &ONE_SECOND).await;
    let mut greedy = connect(&service)
        .await
        .with_patience(Duration::from_secs(2));
    let many = b"GET /assets/username-field.js HTTP/1.1\r\nhost: x\r\n\r\n".repeat(1000);
    // It asks and asks, until nothing is taken any more.
    while greedy.send(&many).await.is_ok() {}
    within(SOON * 2, "it is let go", async || {
        late(&service, "unread").await == 1
    })
    .await;
    assert_eq!(verdict(&service.ask("zoe").await).0, Some(true));
}

#[tokio::test]
async fn one_connection_too_many_is_told_so_and_a_place_that_is_free_is_given() {
    let service = service("seats", &["--max-connections", "3"]).await;
    let mut seated = Vec::new();
    for _ in 0..3 {
        let mut connection = connect(&service).await;
        connection.get("/livez").await.expect("an answer");
        seated.push(connection);
    }
    let mut standing = connect(&service).await;
    let told = standing.reply("").await.expect("an answer");
    is_problem(&told, 503, "too_many_connections");
    assert!(told.header("retry-after").is_some());
    let asking = http::get(service.public(), &question("zoe")).await;
    is_problem(&asking, 503, "too_many_connections");
    assert_eq!(count(&service, "namegate_connections").await, 3);
    assert_eq!(
        count(&service, "namegate_connections_refused_total").await,
        2
    );

    drop(seated.pop());
    within(SOON, "the place is free again", async || {
        count(&service, "namegate_connections").await == 2
    })
    .await;
    assert_eq!(verdict(&service.ask("zoe").await).0, Some(true));
    for connection in &mut seated {
        connection
            .get("/livez")
            .await
            .expect("they still sit there");
    }
}

#[tokio::test]
async fn hundreds_of_slow_clients_keep_nobody_from_being_answered() {
    let service = service("flood", &[]).await;
    let mut slow = Vec::new();
    for n in 0..400 {
        let mut connection = connect(&service).await;
        let begin: &[u8] = match n % 4 {
            0 => b"",
            1 => b"GET /username/available?username=z",
            2 => b"POST /users HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9000\r\n\r\n{",
            _ => b"GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HT",
        };
        connection.send(begin).await.expect("it is taken");
        slow.push(connection);
    }
    let mut connection = connect(&service).await;
    for n in 0..500 {
        let free = connection.get(&question(&format!("zoe{n}"))).await;
        assert_eq!(verdict(&free.expect("an answer")).0, Some(true));
    }
    assert_eq!(verdict(&service.ask("alice").await).1, "taken");
    within(SOON, "only they are there", async || {
        count(&service, "namegate_connections").await == 401
    })
    .await;
    assert_eq!(
        count(&service, "namegate_connections_refused_total").await,
        0
    );
}

#[tokio::test]
async fn at_the_end_idle_connections_are_closed_at_once_and_requests_are_finished() {
    let service = service("drain", &[]).await;
    let mut idle = connect(&service).await;
    idle.get("/livez").await.expect("an answer");
    let mut fresh = connect(&service).await;
    let mut begun = connect(&service).await;
    begun.send(b"GET /live").await.expect("it is taken");
    let mut busy = connect(&service).await;
    busy.send(b"POST /users HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 18\r\n\r\n{\"user")
        .await
        .expect("it is taken");
    within(SOON, "all of them are there", async || {
        count(&service, "namegate_connections").await == 4
    })
    .await;

    service.signal(Signal::TERM);
    for nothing_asked in [&mut idle, &mut fresh] {
        assert!(nothing_asked.closes_within(SOON).await.expect("not a word"));
    }
    let refused = tokio::net::TcpStream::connect(service.public()).await;
    assert!(refused.is_err(), "nothing new is accepted");
    let late = begun.reply("").await.expect("an answer");
    is_problem(&late, 408, "request_timeout");
    busy.send(b"name\":\"zoe\"}").await.expect("it is taken");
    let created = busy.reply("POST").await.expect("an answer");
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(created.header("connection"), Some("close"));
    let ended = service.wait_until_ended().await;
    assert_eq!(ended.code, Some(0));
    assert!(!ended.output.contains("cut off"), "{}", ended.output);
}
