//! What stands between the service and those who ask too much, too slowly, too strangely, or without the right.

mod admin;
mod budgets;
mod connections;
mod cors;
mod privacy;
mod registration;
mod reload;
mod unreadable;

use serde_json::Value;

use crate::support::http::{self, Reply};
use crate::support::service::{Service, question};

/// An error as every client must be able to read it: JSON, the usual headers, and nothing that could pass for *free*.
#[track_caller]
fn is_problem(reply: &Reply, status: u16, code: &str) {
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(
        reply.header("content-type"),
        Some("application/problem+json"),
        "{reply:?}"
    );
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
    assert!(reply.header("x-request-id").is_some(), "{reply:?}");
    let body = reply.json();
    assert_eq!(body["status"], status);
    assert_eq!(body["code"], code, "{body}");
    assert_eq!(body.get("available"), Some(&Value::Null), "{body}");
    let reason = body["reason"].as_str();
    assert!(
        matches!(reason, Some("unverified" | "rate_limited")),
        "{body}"
    );
}

/// Asks about `name` with headers of its own.
async fn ask_with(service: &Service, name: &str, headers: &[(&str, &str)]) -> Reply {
    http::request(service.public(), "GET", &question(name), headers, b"").await
}
