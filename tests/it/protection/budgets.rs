//! How much one client may ask, and who a client is.

use std::time::Duration;

use super::{ask_with, is_problem};
use crate::fixtures::{absent_names, count, insert, sample_database, serve, serve_warm};
use crate::support::http;
use crate::support::service::{Service, question};

/// Ten units, and practically none that come back while a test runs.
const TEN: [&str; 6] = [
    "--rate-limit",
    "on",
    "--rate-limit-burst",
    "10",
    "--rate-limit-per-second",
    "0.001",
];

async fn with_budgets_of_ten(prefix: &str, more: &[&str]) -> Service {
    let database = sample_database(prefix).await;
    insert(&database, &names_taken()).await;
    serve_warm(&database.url, &[&TEN[..], more].concat()).await
}

fn names_taken() -> Vec<String> {
    (0..20).map(|n| format!("taken{n}")).collect()
}

/// How many questions about free names are answered to whoever sends these headers, before the first 429.
async fn answered(service: &Service, headers: &[(&str, &str)]) -> usize {
    for (n, name) in absent_names(30).iter().enumerate() {
        let reply = ask_with(service, name, headers).await;
        if reply.status == 429 {
            return n;
        }
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    30
}

#[tokio::test]
async fn a_client_is_answered_up_to_its_budget_and_then_told_when_to_come_back() {
    let service = with_budgets_of_ten("budget", &[]).await;
    assert_eq!(answered(&service, &[]).await, 10);
    let refused = service.ask("Zoe").await;
    is_problem(&refused, 429, "rate_limited");
    let body = refused.json();
    assert_eq!(
        (&body["username"], &body["reason"]),
        (&"Zoe".into(), &"rate_limited".into())
    );
    let wait: u64 = refused
        .header("retry-after")
        .and_then(|seconds| seconds.parse().ok())
        .expect("seconds to wait");
    assert!((1..=1000).contains(&wait), "{wait}");
    let unreadable = http::get(service.public(), "/username/available?username=%").await;
    is_problem(&unreadable, 429, "rate_limited");
    for path in [
        "/",
        "/assets/page.css",
        "/username/policy",
        "/livez",
        "/readyz",
    ] {
        let reply = http::get(service.public(), path).await;
        assert_eq!(reply.status, 200, "{path} costs nothing");
    }
    assert!(count(&service, "namegate_rate_limited_requests_total").await >= 3);
    let operator = http::get(service.admin(), &question("zoe")).await;
    assert_eq!(operator.status, 200, "operators have no budget");
}

#[tokio::test]
async fn a_budget_fills_up_again() {
    let database = sample_database("refill").await;
    let flags = ["--rate-limit", "on", "--rate-limit-burst", "2"];
    let service = serve_warm(&database.url, &flags).await;
    let mut connection = service.connect().await.expect("a connection");
    let mut refused = 0;
    while refused == 0 {
        let reply = connection.get(&question("zoe")).await.expect("an answer");
        refused += usize::from(reply.status == 429);
    }
    tokio::time::sleep(Duration::from_secs(1)).await; // as its Retry-After says
    let reply = connection.get(&question("zoe")).await.expect("an answer");
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[tokio::test]
async fn a_question_that_needs_the_database_costs_more_and_is_not_asked_there_when_that_is_too_much()
 {
    let service = with_budgets_of_ten("lookups", &[]).await;
    let lookups = "namegate_lookup_names_total";
    let before = count(&service, lookups).await;
    for name in &names_taken()[..4] {
        assert_eq!(service.ask(name).await.status, 200); // 2 units each
    }
    assert_eq!(service.ask("taken0").await.status, 200, "1 unit: cached");
    // One unit is left: enough for memory to be asked, not for the database.
    let refused = service.ask("taken7").await;
    is_problem(&refused, 429, "rate_limited");
    assert_eq!(refused.json()["username"], "taken7");
    assert_eq!(count(&service, lookups).await - before, 4);
    assert_eq!(
        count(
            &service,
            r#"namegate_questions_total{answer="rate_limited"}"#
        )
        .await,
        1
    );
}

#[tokio::test]
async fn known_false_positives_and_an_absent_filter_cannot_be_used_to_load_the_database() {
    let database = sample_database("unfiltered").await;
    let service = serve(&database.url, &[&TEN[..], &["--filter", "off"]].concat()).await;
    service.wait_ready().await;
    let before = count(&service, "namegate_lookup_names_total").await;
    for name in absent_names(100) {
        service.ask(&name).await;
    }
    assert_eq!(
        count(&service, "namegate_lookup_names_total").await - before,
        5
    );
}

#[tokio::test]
async fn sign_ups_cost_most() {
    let service = with_budgets_of_ten("signups", &["--signup"]).await;
    let mut statuses = Vec::new();
    for name in ["zoe1", "zoe2", "zoe3"] {
        let body = format!(r#"{{"username":"{name}"}}"#);
        let json = [("content-type", "application/json")];
        let reply = http::request(service.public(), "POST", "/users", &json, body.as_bytes()).await;
        if reply.status == 429 {
            is_problem(&reply, 429, "rate_limited");
        }
        statuses.push(reply.status);
    }
    assert_eq!(statuses, [201, 201, 429]);
}

#[tokio::test]
async fn twenty_questions_at_once_from_one_address_are_all_answered_by_default() {
    let database = sample_database("parallel").await;
    insert(&database, &names_taken()).await;
    let service = serve_warm(&database.url, &["--rate-limit", "on"]).await;
    let names = [absent_names(20), names_taken()].concat();
    let answers = names.iter().map(|name| service.ask(name));
    for reply in futures_util::future::join_all(answers).await {
        assert_eq!(reply.status, 200, "{reply:?}");
    }
}

#[tokio::test]
async fn addresses_that_an_untrusted_peer_names_give_it_no_other_budgets() {
    let service = with_budgets_of_ten("untrusted", &[]).await;
    let mut statuses = Vec::new();
    for n in 0..12 {
        let forwarded = format!("198.51.100.{n}");
        let headers = [("x-forwarded-for", forwarded.as_str())];
        statuses.push(ask_with(&service, "zoe", &headers).await.status);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 10);
    assert_eq!(statuses[10..], [429, 429]);
    let warnings = service.output().matches("is not trusted").count();
    assert_eq!(warnings, 1, "{}", service.output());
}

#[tokio::test]
async fn a_trusted_proxy_names_its_clients_and_clients_cannot_name_themselves() {
    let trusted = ["--trusted-proxies", "127.0.0.0/8,10.0.0.0/8"];
    let service = with_budgets_of_ten("trusted", &trusted).await;
    for client in [
        ("x-forwarded-for", "198.51.100.1"),
        ("x-forwarded-for", "203.0.113.7:4711"),
        ("forwarded", r#"for="[2001:db8::1]:4711";proto=https"#),
    ] {
        assert_eq!(answered(&service, &[client]).await, 10, "{client:?}");
    }
    // What stands left of the client's own address is its own invention; what stands right of it are proxies.
    for same in [
        "1.2.3.4, 198.51.100.1",
        "garbage, 198.51.100.1, 10.0.0.3",
        "::ffff:198.51.100.1",
    ] {
        let headers = [("x-forwarded-for", same)];
        assert_eq!(answered(&service, &headers).await, 0, "{same}");
    }
    let lines = [
        ("x-forwarded-for", "1.2.3.4"),
        ("x-forwarded-for", "198.51.100.1"),
    ];
    assert_eq!(answered(&service, &lines).await, 0, "two lines, one list");
    let neighbour = [("forwarded", r#"for="[2001:db8::ffff]""#)];
    assert_eq!(answered(&service, &neighbour).await, 0, "the same /64");
    let other_network = [("forwarded", r#"for="[2001:db8:0:1::1]""#)];
    assert_eq!(answered(&service, &other_network).await, 10);
    assert_eq!(
        count(&service, "namegate_unreadable_forwarded_headers_total").await,
        0
    );
}

#[tokio::test]
async fn what_no_address_can_be_read_from_belongs_to_the_proxy_and_is_counted() {
    let trusted = ["--trusted-proxies", "127.0.0.1"];
    let service = with_budgets_of_ten("unreadable_forwards", &trusted).await;
    let garbage = [
        ("x-forwarded-for", "unknown"),
        ("x-forwarded-for", ""),
        ("x-forwarded-for", ", ,"),
        ("x-forwarded-for", "198.51.100.1, _hidden"),
        ("x-forwarded-for", "<script>"),
        ("forwarded", "for=unknown"),
        ("forwarded", "proto=https"),
    ];
    for header in garbage {
        let reply = ask_with(&service, "zoe", &[header]).await;
        assert_eq!(reply.status, 200, "{header:?}");
    }
    assert_eq!(
        count(&service, "namegate_unreadable_forwarded_headers_total").await,
        garbage.len() as u64
    );
    assert_eq!(answered(&service, &[]).await, 10 - garbage.len());
}
