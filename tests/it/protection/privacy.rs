//! Whatever is asked, and however talkative the log is: no name and no address of a client is in it.

use super::ask_with;
use crate::fixtures::{count, insert, sample_database, wait_until_following, within};
use crate::support::http;
use crate::support::process::Signal;
use crate::support::service::Service;

const ADDRESSES: [&str; 3] = ["198.51.100.77", "203.0.113.88", "2001:db8:77::88"];

#[tokio::test]
async fn neither_names_nor_addresses_get_into_logs_or_metrics_at_any_level() {
    let database = sample_database("privacy").await;
    insert(&database, &["secretname1".to_owned()]).await;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let reserved = directory.path().join("reserved.txt");
    std::fs::write(&reserved, "acme\n").expect("a file");
    let reserved = reserved.to_str().expect("a path in UTF-8");
    let args = [
        "serve",
        "--database-url",
        &database.url,
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--reserved",
        reserved,
        "--signup",
        "--trusted-proxies",
        "127.0.0.1",
        "--cors-origin",
        "https://signup.example",
        "--rate-limit-burst",
        "20",
        "--rate-limit-per-second",
        "0.001",
        "--request-timeout",
        "1s",
    ];
    let service = Service::spawn(&args, &[("RUST_LOG", "trace")]).await;
    wait_until_following(&service).await;

    let json = ("content-type", "application/json");
    for address in ADDRESSES {
        let forwarded = ("x-forwarded-for", address);
        for name in ["secretname1", "secretname2", "SecretName3 x", "secretname1"] {
            ask_with(&service, name, &[forwarded]).await;
        }
        for body in [
            r#"{"username":"secretname1"}"#,
            r#"{"username":"secretname4"#,
            r#"{"username":"secretname4"}"#,
        ] {
            let headers = [json, forwarded];
            http::request(
                service.public(),
                "POST",
                "/users",
                &headers,
                body.as_bytes(),
            )
            .await;
        }
        let unreadable = "/username/available?username=secretname5%&secretname6=%E9";
        http::request(service.public(), "GET", unreadable, &[forwarded], b"").await;
        http::get(service.public(), "/secretname7").await;
        let broken =
            format!("GET /?username=secretname8 HTTP/7\r\nx-forwarded-for: {address}\r\n\r\n");
        http::raw(service.public(), broken.as_bytes()).await;
        let slow = format!("GET /?username=secretname9 HTTP/1.1\r\nx-forwarded-for: {address}\r\n");
        http::raw(service.public(), slow.as_bytes()).await;
        let garbage = format!("secretname10, {address}, _secretname11");
        ask_with(&service, "secretname12", &[("x-forwarded-for", &garbage)]).await;
    }
    assert!(count(&service, "namegate_rate_limited_requests_total").await > 0);
    assert!(count(&service, "namegate_signups_total").await > 0);
    service.signal(Signal::HUP);
    within(http::PATIENCE, "the list is read", async || {
        count(&service, "namegate_reserved_reloads_total").await == 1
    })
    .await;

    // Without its database it says more, and still nothing of this kind.
    let name = &database.name;
    database
        .execute(&format!("ALTER TABLE users RENAME TO gone_{name}"))
        .await;
    for (n, address) in ADDRESSES.into_iter().enumerate() {
        let forwarded = ("x-forwarded-for", address);
        ask_with(&service, &format!("secretname2{n}"), &[forwarded]).await;
        let body = format!(r#"{{"username":"secretname3{n}"}}"#);
        let headers = [json, ("x-forwarded-for", "192.0.2.99")];
        http::request(
            service.public(),
            "POST",
            "/users",
            &headers,
            body.as_bytes(),
        )
        .await;
    }
    let metrics = service.metrics().await.to_lowercase();
    let log = service.terminate().await.output.to_lowercase();
    assert!(log.contains("asked to stop"), "{log}");
    for place in [metrics, log] {
        for kept in ["secretname", "192.0.2.99"].iter().chain(&ADDRESSES) {
            let line = place.lines().find(|line| line.contains(kept));
            assert_eq!(line, None, "{kept}");
        }
    }
}
