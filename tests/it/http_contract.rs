//! The contract of the public listener, over raw sockets where a client library would mend what is sent.

use serde_json::Value;

use crate::fixtures::{insert, sample_database, serve_warm, verdict};
use crate::support::http::{self, Reply};
use crate::support::service::Service;

const QUESTION: &str = "/username/available";

async fn service(prefix: &str) -> Service {
    let database = sample_database(prefix).await;
    insert(
        &database,
        &[
            "alice".to_owned(),
            "testuser".to_owned(),
            "petrak".to_owned(),
        ],
    )
    .await;
    serve_warm(&database.url, &["--signup"]).await
}

async fn get(service: &Service, path_and_query: &str) -> Reply {
    http::get(service.public(), path_and_query).await
}

/// An error as every client must be able to read it: JSON, and nothing in it that could pass for *free*.
#[track_caller]
fn problem(reply: &Reply, status: u16, code: &str) {
    assert_eq!(reply.status, status, "{reply:?}");
    assert_eq!(
        reply.header("content-type"),
        Some("application/problem+json"),
        "{reply:?}"
    );
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let body = reply.json();
    assert_eq!(body["status"], status);
    assert_eq!(body["code"], code, "{body}");
    assert_eq!(body["type"], format!("urn:namegate:problem:{code}"));
    for text in ["title", "detail", "reason"] {
        assert!(body[text].is_string(), "{text} in {body}");
    }
    for field in ["username", "canonical", "available", "source"] {
        assert_eq!(body.get(field), Some(&Value::Null), "{field} in {body}");
    }
}

#[tokio::test]
async fn an_answer_has_one_shape_and_its_headers() {
    let service = service("shape").await;
    let reply = get(&service, "/username/available?username=Alice").await;
    assert_eq!(
        reply.body,
        r#"{"username":"Alice","canonical":"alice","available":false,"reason":"taken","detail":null,"source":"database"}"#
    );
    for (name, value) in [
        ("content-type", "application/json"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(reply.header(name), Some(value));
    }
    let again = get(&service, "/username/available?username=Alice").await;
    assert!(
        reply
            .header("x-request-id")
            .is_some_and(|id| !id.is_empty())
    );
    assert_ne!(reply.header("x-request-id"), again.header("x-request-id"));
    assert_eq!(reply.header("etag"), None);
    assert!(
        reply
            .header("server-timing")
            .is_some_and(|timing| timing.starts_with("database;dur="))
    );
}

#[tokio::test]
async fn questions_that_cannot_be_read_are_refused_and_never_free() {
    let service = service("unreadable").await;
    let long = format!("?username={}", "a".repeat(5000));
    let cases = [
        ("", 400, "missing_username"),
        ("?", 400, "missing_username"),
        ("?Username=bob", 400, "missing_username"),
        ("?user=bob", 400, "missing_username"),
        ("?username=test%", 400, "malformed_query"),
        ("?username=abc%zz", 400, "malformed_query"),
        ("?username=%4", 400, "malformed_query"),
        ("?username=Andr%E9", 400, "invalid_utf8"),
        ("?username=%C0%AF", 400, "invalid_utf8"),
        ("?username=%ED%A0%80", 400, "invalid_utf8"),
        ("?username=foo&username=bar", 400, "repeated_parameter"),
        ("?username=foo&username=foo", 400, "repeated_parameter"),
        ("?username=foo&user%6eame=bar", 400, "repeated_parameter"),
        (long.as_str(), 414, "query_too_long"),
    ];
    for (query, status, code) in cases {
        problem(
            &get(&service, &format!("{QUESTION}{query}")).await,
            status,
            code,
        );
    }
}

#[tokio::test]
async fn names_that_break_a_rule_are_invalid_with_a_code_a_form_can_branch_on() {
    let service = service("invalid").await;
    let many = format!("%E2%80%8B{}", "%E2%80%8B".repeat(14));
    let long = "a".repeat(31);
    let longer = "a".repeat(3000);
    let cases = [
        ("", "empty"),
        ("ab", "too_short"),
        (&long, "too_long"),
        (&longer, "too_long"),
        ("max%20mustermann", "whitespace"),
        ("max+mustermann", "whitespace"),
        ("petrak%00", "control"),
        ("%00", "control"),
        ("a%07b", "control"),
        (&many, "invisible"),
        ("al%E2%80%8Bice", "invisible"),
        ("alice%EF%BB%BF", "invisible"),
        ("al%C2%ADice", "invisible"),
        ("alice%E3%85%A4", "invisible"),
        ("alice%EF%B8%8F", "invisible"),
        ("%E2%80%AEvatsug", "bidi_control"),
        ("us%D0%B5r", "charset"),
        ("%EF%BD%81dmin", "charset"),
        ("Sage%F0%9D%96%99", "charset"),
        ("testuser%2B", "charset"),
        ("j.o%27neil", "charset"),
        ("kim%40example.org", "charset"),
        ("foo%2Fbar", "charset"),
        ("..%2Fadmin", "charset"),
        ("a%252Fb", "charset"),
        ("test..test", "separator"),
        ("a._b", "separator"),
        ("-ab", "separator"),
        ("ab-", "separator"),
    ];
    for (query, code) in cases {
        let reply = get(&service, &format!("{QUESTION}?username={query}")).await;
        let (available, reason, source) = verdict(&reply);
        assert_eq!(
            (available, reason.as_str(), source.as_deref()),
            (Some(false), "invalid", Some("policy")),
            "{query}"
        );
        let body = reply.json();
        assert_eq!(body["detail"]["code"], code, "{query}: {body}");
        assert!(
            body["detail"]["message"]
                .as_str()
                .is_some_and(|sentence| sentence.ends_with('.')),
            "{body}"
        );
        assert_eq!(body["canonical"], Value::Null);
    }
    let too_long = get(&service, &format!("{QUESTION}?username={long}"))
        .await
        .json();
    assert_eq!(too_long["detail"]["max"], 30);
    let plus = get(&service, &format!("{QUESTION}?username=a+b"))
        .await
        .json();
    assert_eq!(plus["detail"]["hint"], "plus_decoded_as_space");
}

#[tokio::test]
async fn names_that_are_kept_back_say_which_kind_they_are() {
    let service = service("reserved").await;
    let cases = [
        ("Account", "route"),
        ("signin", "route"),
        ("api", "route"),
        ("marlow.JSON", "route_suffix"),
        ("postmaster", "infrastructure"),
        ("null", "sentinel"),
        ("Undefined", "sentinel"),
        ("me", "sentinel"),
    ];
    for (name, code) in cases {
        let reply = service.ask(name).await;
        assert_eq!(verdict(&reply).1, "reserved", "{reply:?}");
        assert_eq!(reply.json()["detail"]["code"], code, "{name}");
        assert_eq!(reply.json()["available"], false);
    }
}

#[tokio::test]
async fn every_route_of_the_service_is_a_reserved_name() {
    let service = service("routes").await;
    for route in [
        "username",
        "users",
        "assets",
        "livez",
        "readyz",
        "metrics",
        "openapi.json",
        "docs",
    ] {
        assert_ne!(verdict(&service.ask(route).await).0, Some(true), "{route}");
    }
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let service = service("head").await;
    for (path, status) in [
        ("/username/available?username=zoe", 200),
        ("/username/available", 400),
        ("/", 200),
    ] {
        let get = get(&service, path).await;
        let head = http::request(service.public(), "HEAD", path, &[], b"").await;
        assert_eq!((head.status, head.body.as_str()), (status, ""), "{path}");
        for name in ["content-type", "content-length", "cache-control"] {
            assert_eq!(head.header(name), get.header(name), "{name} of {path}");
        }
    }
}

#[tokio::test]
async fn other_methods_are_refused_with_those_that_are_not() {
    let service = service("methods").await;
    for method in ["PUT", "DELETE", "PATCH", "TRACE", "QUERY"] {
        let reply = http::request(
            service.public(),
            method,
            "/username/available?username=zoe",
            &[],
            b"",
        )
        .await;
        problem(&reply, 405, "method_not_allowed");
        assert_eq!(reply.header("allow"), Some("GET, HEAD, POST, OPTIONS"));
    }
    let options = http::request(service.public(), "OPTIONS", "/username/available", &[], b"").await;
    assert_eq!(
        (options.status, options.header("allow")),
        (204, Some("GET, HEAD, POST, OPTIONS"))
    );
    problem(
        &http::request(service.public(), "GET", "/users", &[], b"").await,
        405,
        "method_not_allowed",
    );
    problem(
        &http::request(service.public(), "POST", "/livez", &[], b"").await,
        405,
        "method_not_allowed",
    );
}

#[tokio::test]
async fn other_paths_are_not_there() {
    let service = service("paths").await;
    for path in [
        "/username/available/foo",
        "/username/available/",
        "/nope",
        "/assets/../index.html",
        "/assets/nope.js",
    ] {
        problem(&get(&service, path).await, 404, "not_found");
    }
}

#[tokio::test]
async fn bytes_that_are_no_request_do_not_disturb_others() {
    let service = service("garbage").await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\0\0\0\0",
    ] {
        let reply = http::raw(service.public(), bytes).await;
        assert!(reply.is_none_or(|reply| reply.status >= 400));
    }
    let huge = format!(
        "GET /username/available?username={} HTTP/1.1\r\nhost: x\r\n\r\n",
        "a".repeat(70_000)
    );
    let reply = http::raw(service.public(), huge.as_bytes())
        .await
        .expect("an answer");
    assert_eq!(reply.status, 414);
    assert_eq!(verdict(&service.ask("alice").await).1, "taken");
}

#[tokio::test]
async fn the_rules_are_published() {
    let service = service("policy").await;
    let policy = get(&service, "/username/policy").await.json();
    assert_eq!(
        (
            &policy["profile"],
            &policy["min_length"],
            &policy["max_length"]
        ),
        (&"ascii".into(), &3.into(), &30.into())
    );
}

#[tokio::test]
async fn supervisors_are_answered() {
    let service = service("health").await;
    assert_eq!(get(&service, "/livez").await.status, 200);
    let ready = get(&service, "/readyz").await;
    assert_eq!(ready.status, 200);
    assert_eq!(ready.json()["filter"]["state"], "following");
    let admin = http::get(service.admin(), "/readyz").await;
    assert_eq!(admin.status, 200);
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let service = service("page").await;
    let page = get(&service, "/").await;
    assert_eq!(
        (page.status, page.header("content-type")),
        (200, Some("text/html; charset=utf-8"))
    );
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(
        policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    for attribute in [
        r#"autocapitalize="none""#,
        r#"autocorrect="off""#,
        r#"spellcheck="false""#,
        r#"autocomplete="username""#,
        r#"role="status""#,
    ] {
        assert!(page.body.contains(attribute), "{attribute}");
    }
    assert!(!page.body.contains("://"), "every part is ours");
    for (part, kind) in [
        ("page.css", "text/css"),
        ("page.js", "text/javascript"),
        ("username-field.js", "text/javascript"),
    ] {
        let part = get(&service, &format!("/assets/{part}")).await;
        assert_eq!(part.status, 200);
        assert!(
            part.header("content-type")
                .is_some_and(|found| found.starts_with(kind))
        );
        assert!(!part.body.contains("://"));
    }
}

#[tokio::test]
async fn while_draining_the_service_is_not_ready_and_still_answers() {
    let database = sample_database("drain").await;
    let service = serve_warm(&database.url, &["--drain-delay", "2s"]).await;
    service.signal(crate::support::process::Signal::TERM);
    crate::fixtures::within(std::time::Duration::from_secs(1), "not ready", async || {
        get(&service, "/readyz").await.status == 503
    })
    .await;
    assert_eq!(verdict(&service.ask("zoe").await).0, Some(true));
    assert_eq!(service.wait_until_ended().await.code, Some(0));
}

#[tokio::test]
async fn no_name_gets_into_a_log_line_or_a_label() {
    let database = sample_database("private").await;
    insert(&database, &["secretname1".to_owned()]).await;
    let args = [
        "serve",
        "--database-url",
        database.url.as_str(),
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--signup",
    ];
    let service = Service::spawn(&args, &[("RUST_LOG", "trace")]).await;
    crate::fixtures::wait_until_following(&service).await;
    for name in ["secretname1", "secretname2", "SecretName3 x"] {
        service.ask(name).await;
    }
    let body = br#"{"username":"secretname4"}"#;
    http::request(
        service.public(),
        "POST",
        "/users",
        &[("content-type", "application/json")],
        body,
    )
    .await;
    let metrics = service.metrics().await.to_lowercase();
    let log = service.terminate().await.output.to_lowercase();
    for place in [metrics, log] {
        let line = place.lines().find(|line| line.contains("secretname"));
        assert_eq!(line, None);
    }
}

#[tokio::test]
async fn an_operator_keeps_back_names_of_their_own() {
    let database = sample_database("operator").await;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("reserved.txt");
    std::fs::write(&file, "# ours\nsam.saffron\nsupport-*\nsubstring badword\n").expect("a file");
    let service = serve_warm(
        &database.url,
        &["--reserved", file.to_str().expect("a path in UTF-8")],
    )
    .await;
    for (name, reason) in [
        ("Sam.Saffron", "reserved"),
        ("support-team", "reserved"),
        ("mybadwords", "reserved"),
        ("sam9saffron", "free"),
        ("supporter", "free"),
        ("sam", "free"),
    ] {
        assert_eq!(verdict(&service.ask(name).await).1, reason, "{name}");
    }
}

#[tokio::test]
async fn the_unicode_profile_judges_by_its_own_rules() {
    let database = sample_database("unicode").await;
    let service = serve_warm(&database.url, &["--profile", "unicode", "--signup"]).await;
    for (name, code) in [
        ("us\u{435}r", "mixed_script"),
        ("B\u{3bf}b", "mixed_script"),
        ("al\u{200b}ice", "invisible"),
        ("ふたは\u{309b}", "whitespace"),
        ("a\u{2100}b", "charset"),
        ("x\u{b4}y", "whitespace"),
    ] {
        let answer = service.ask(name).await.json();
        assert_eq!(answer["detail"]["code"], code, "{answer}");
    }
    for reserved in ["\u{ff41}dmin", "\u{24d0}dmin", "\u{1d4ea}dmin"] {
        let answer = service.ask(reserved).await.json();
        assert_eq!(
            (&answer["reason"], &answer["canonical"]),
            (&"reserved".into(), &"admin".into())
        );
    }
    let headers = [("content-type", "application/json")];
    let body = r#"{"username":"ふたば"}"#.as_bytes();
    let created = http::request(service.public(), "POST", "/users", &headers, body).await;
    assert_eq!(created.status, 201, "{created:?}");
    for spelling in ["ふたば", "ふたは\u{3099}", "ふたは\u{ff9e}"] {
        assert_eq!(verdict(&service.ask(spelling).await).1, "taken");
    }
}
