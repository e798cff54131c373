//! Which pages may ask from a browser.

use super::{ask_with, is_problem};
use crate::fixtures::{sample_database, serve_warm};
use crate::support::http::{self, Reply};
use crate::support::service::{Service, question};

const HOME: &str = "https://signup.example";

async fn service(prefix: &str, more: &[&str]) -> Service {
    let database = sample_database(prefix).await;
    serve_warm(&database.url, &[&["--signup"], more].concat()).await
}

async fn preflight(service: &Service, path: &str, origin: &str, method: &str) -> Reply {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", method),
        ("access-control-request-headers", "content-type"),
    ];
    http::request(service.public(), "OPTIONS", path, &headers, b"").await
}

#[tokio::test]
async fn listed_origins_may_ask_and_read_every_answer_errors_too() {
    let listed = format!("{HOME},http://localhost:8081");
    let flags = [
        "--cors-origin",
        &listed,
        "--rate-limit",
        "on",
        "--rate-limit-burst",
        "3",
        "--rate-limit-per-second",
        "0.001",
    ];
    let service = service("cors", &flags).await;
    let (mut statuses, mut origins) = (Vec::new(), Vec::new());
    for (path, origin) in [
        (question("zoe"), HOME),
        (question("zoe"), "http://localhost:8081"),
        ("/username/available".to_owned(), HOME),
        (question("zoe"), HOME),
        ("/nope".to_owned(), HOME),
        ("/users".to_owned(), HOME),
        ("/username/policy".to_owned(), HOME),
        (question("zoe"), "https://elsewhere.example"),
        (question("zoe"), "https://signup.example.evil.example"),
        (question("zoe"), "null"),
    ] {
        let reply = http::request(service.public(), "GET", &path, &[("origin", origin)], b"").await;
        assert_eq!(reply.header("vary"), Some("Origin"), "{reply:?}");
        if let Some(allowed) = reply.header("access-control-allow-origin") {
            assert_eq!(allowed, origin);
            let exposed = reply.header("access-control-expose-headers");
            assert!(exposed.is_some_and(|names| names.contains("Retry-After")));
            origins.push(origin);
        }
        statuses.push(reply.status);
    }
    assert_eq!(statuses, [200, 200, 400, 429, 404, 405, 200, 429, 429, 429]);
    assert_eq!(origins.len(), 7, "the last three are not welcome");
    let without = service.ask("zoe").await;
    assert_eq!(without.header("vary"), Some("Origin"));
    assert_eq!(without.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn a_preflight_is_204_and_permits_only_those_who_are_listed() {
    let service = service("preflight", &["--cors-origin", HOME]).await;
    for (path, method) in [("/username/available", "GET"), ("/users", "POST")] {
        let welcome = preflight(&service, path, HOME, method).await;
        assert_eq!((welcome.status, welcome.body.as_str()), (204, ""));
        assert_eq!(welcome.header("access-control-allow-origin"), Some(HOME));
        let methods = welcome.header("access-control-allow-methods");
        assert!(
            methods.is_some_and(|all| all.contains(method)),
            "{welcome:?}"
        );
        let headers = welcome.header("access-control-allow-headers");
        assert!(headers.is_some_and(|all| all.contains("Content-Type")));
        assert_eq!(welcome.header("vary"), Some("Origin"));
        assert!(welcome.header("x-request-id").is_some());

        let foreign = preflight(&service, path, "https://elsewhere.example", method).await;
        assert_eq!(foreign.status, 204);
        for name in [
            "access-control-allow-origin",
            "access-control-allow-methods",
            "access-control-allow-headers",
        ] {
            assert_eq!(foreign.header(name), None, "{foreign:?}");
        }
        assert_eq!(foreign.header("vary"), Some("Origin"));
    }
}

#[tokio::test]
async fn nobody_is_welcome_unless_somebody_is_listed() {
    let service = service("no_cors", &[]).await;
    let reply = ask_with(&service, "zoe", &[("origin", HOME)]).await;
    assert_eq!(reply.header("access-control-allow-origin"), None);
    assert_eq!(reply.header("vary"), None);
    let asked = preflight(&service, "/username/available", HOME, "GET").await;
    assert_eq!(asked.status, 204);
    assert_eq!(asked.header("access-control-allow-origin"), None);
    is_problem(
        &preflight(&service, "/users", HOME, "POST").await,
        405,
        "method_not_allowed",
    );
}

#[tokio::test]
async fn a_star_welcomes_every_page_and_is_warned_about() {
    let service = service("star", &["--cors-origin", "*"]).await;
    let reply = ask_with(&service, "zoe", &[("origin", "https://any.example")]).await;
    assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
    assert!(service.output().contains("--cors-origin *"));
    let admin = http::request(
        service.admin(),
        "GET",
        "/livez",
        &[("origin", "https://any.example")],
        b"",
    )
    .await;
    assert_eq!(admin.header("access-control-allow-origin"), None);
}
