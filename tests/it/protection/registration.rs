//! `--registration closed`: nobody is told anything, whatever they ask.

use super::is_problem;
use crate::fixtures::{count, insert, sample_database, serve_warm};
use crate::support::http;
use crate::support::service::question;

#[tokio::test]
async fn closed_means_the_same_refusal_for_every_name_and_no_look_anywhere() {
    let database = sample_database("closed").await;
    insert(&database, &["alice".to_owned()]).await;
    let flags = ["--registration", "closed", "--signup"];
    let service = serve_warm(&database.url, &flags).await;
    let mut bodies = std::collections::BTreeSet::new();
    for asked in [
        question("alice"),
        question("zoe"),
        question("admin"),
        question("a b"),
        question(""),
        "/username/available".to_owned(),
        "/username/available?username=%".to_owned(),
        format!("/username/available?username={}", "a".repeat(5000)),
    ] {
        let reply = http::get(service.public(), &asked).await;
        is_problem(&reply, 403, "registration_closed");
        bodies.insert(reply.body);
    }
    for body in [r#"{"username":"alice"}"#, r#"{"username":"zoe"}"#, "{"] {
        let json = [("content-type", "application/json")];
        let reply = http::request(service.public(), "POST", "/users", &json, body.as_bytes()).await;
        is_problem(&reply, 403, "registration_closed");
        bodies.insert(reply.body);
    }
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    assert_eq!(count(&service, "namegate_questions_total").await, 0);
    assert_eq!(count(&service, "namegate_lookup_names_total").await, 0);
    let policy = http::get(service.public(), "/username/policy").await;
    assert_eq!(policy.status, 200, "the rules are no secret");

    for (name, reason) in [("alice", "taken"), ("zoe", "free"), ("admin", "reserved")] {
        let reply = http::get(service.admin(), &question(name)).await;
        assert_eq!(
            (reply.status, &reply.json()["reason"]),
            (200, &reason.into())
        );
    }
}
