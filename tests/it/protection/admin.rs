//! The admin listener: who may ask there, and what only they may.

use namegate::cli::admin_client::AdminClient;
use namegate::config::AdminArgs;
use tempfile::TempDir;

use super::is_problem;
use crate::fixtures::{count, insert, sample_database, serve_warm};
use crate::support::http::{self, Reply};
use crate::support::service::{self, Service, question};

const TOKEN: &str = "correct-horse-battery-staple";

fn token_file(directory: &TempDir, text: &str) -> String {
    let path = directory.path().join("token");
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("a path in UTF-8").to_owned()
}

async fn guarded(prefix: &str) -> (Service, String, TempDir) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = token_file(&directory, &format!("{TOKEN}\n"));
    let database = sample_database(prefix).await;
    insert(&database, &["alice".to_owned()]).await;
    let args = [
        "serve",
        "--database-url",
        &database.url,
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "0.0.0.0:0",
        "--admin-token-file",
        &file,
        "--registration",
        "closed",
    ];
    let service = Service::spawn(&args, &[]).await;
    service.wait_ready().await;
    (service, file, directory)
}

async fn ask(service: &Service, method: &str, path: &str, authorization: Option<&str>) -> Reply {
    let headers: Vec<_> = authorization
        .map(|value| ("authorization", value))
        .into_iter()
        .collect();
    let admin = (std::net::Ipv4Addr::LOCALHOST, service.admin().port()).into();
    http::request(admin, method, path, &headers, b"").await
}

#[tokio::test]
async fn without_the_token_everything_is_401() {
    let (service, _, _directory) = guarded("token").await;
    let bearer = format!("Bearer {TOKEN}");
    for (method, path) in [
        ("GET", "/metrics"),
        ("GET", "/livez"),
        ("GET", "/readyz"),
        ("GET", "/username/available?username=alice&scope=operator"),
        ("GET", "/username/available?username=zoe&scope=operator"),
        ("POST", "/rebuild"),
        ("OPTIONS", "/metrics"),
        ("GET", "/nope"),
    ] {
        for wrong in [
            None,
            Some("Bearer"),
            Some("Bearer correct-horse-battery-stapl"),
            Some("Bearer correct-horse-battery-staple2"),
            Some("Basic Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZQ=="),
            Some(TOKEN),
        ] {
            let refused = ask(&service, method, path, wrong).await;
            is_problem(&refused, 401, "unauthorized");
            let challenge = refused.header("www-authenticate").unwrap_or_default();
            assert!(challenge.starts_with("Bearer"), "{refused:?}");
        }
    }
    let page = ask(&service, "GET", "/metrics", Some(&bearer)).await;
    assert_eq!(page.status, 200);
    assert!(
        page.body
            .contains("namegate_unauthorized_requests_total 48")
    );
    assert_eq!(
        ask(&service, "GET", "/nope", Some(&bearer)).await.status,
        404
    );
}

#[tokio::test]
async fn operators_ask_past_the_reserved_names_also_while_registration_is_closed() {
    let (service, _, _directory) = guarded("operators").await;
    let bearer = format!("Bearer {TOKEN}");
    for (query, status, reason) in [
        ("username=alice&scope=operator", 200, "taken"),
        ("username=admin&scope=operator", 200, "free"),
        ("username=admin", 200, "reserved"),
        ("username=a%20b&scope=operator", 200, "invalid"),
        ("username=zoe&scope=operator", 200, "free"),
    ] {
        let path = format!("/username/available?{query}");
        let reply = ask(&service, "GET", &path, Some(&bearer)).await;
        assert_eq!(reply.status, status, "{reply:?}");
        assert_eq!(reply.json()["reason"], reason, "{query}");
    }
    let public = http::get(
        service.public(),
        "/username/available?username=admin&scope=operator",
    )
    .await;
    is_problem(&public, 403, "registration_closed");
}

#[tokio::test]
async fn the_public_does_not_get_past_the_reserved_names() {
    let database = sample_database("scope").await;
    let service = serve_warm(&database.url, &[]).await;
    let path = "/username/available?username=admin&scope=operator";
    let reply = http::get(service.public(), path).await;
    assert_eq!(reply.json()["reason"], "reserved");
    let operator = http::get(service.admin(), path).await;
    assert_eq!(
        operator.json()["reason"],
        "free",
        "loopback is proof enough"
    );
    assert_eq!(
        count(&service, "namegate_unauthorized_requests_total").await,
        0
    );
}

#[tokio::test]
async fn commands_reach_the_admin_listener_with_the_token_and_say_what_is_wrong_without() {
    let (service, file, directory) = guarded("client").await;
    let admin = format!("http://127.0.0.1:{}", service.admin().port());
    let client = |admin: &str, token: Option<&str>| {
        AdminClient::new(&AdminArgs {
            admin: admin.to_owned(),
            admin_token_file: token.map(Into::into),
        })
    };
    let with_token = client(&admin, Some(&file)).expect("a client");
    let parameters = [("username", "Größe & co"), ("scope", "operator")];
    let reply = with_token
        .get("/username/available", &parameters)
        .await
        .expect("an answer");
    assert_eq!(reply.body["username"], "Größe & co");
    let nothing_there = with_token.post("/nope", None).await.expect("an answer");
    assert_eq!(nothing_there.status, 404);

    for (token, word) in [(None, "demands a token"), (Some("other"), "this token")] {
        let file = token.map(|_| {
            let path = directory.path().join("other");
            std::fs::write(&path, "another-token-altogether").expect("a file");
            path.to_str().expect("a path in UTF-8").to_owned()
        });
        let client = client(&admin, file.as_deref()).expect("a client");
        let failure = client.get("/metrics", &[]).await.expect_err("no entry");
        assert!(failure.to_string().contains(word), "{failure}");
    }
    for (admin, file, word) in [
        ("::", None, "URL"),
        ("https://127.0.0.1:1", None, "http://"),
        (
            "http://127.0.0.1:1",
            Some("/nowhere/token"),
            "/nowhere/token",
        ),
    ] {
        let failure = client(admin, file).err().expect("no client");
        assert!(failure.to_string().contains(word), "{failure}");
    }
    let nobody = client("http://127.0.0.1:1", None).expect("a client");
    let failure = nobody.get("/status", &[]).await.expect_err("nobody there");
    assert!(failure.to_string().contains("could not reach"), "{failure}");
}

#[tokio::test]
async fn a_token_that_is_none_ends_the_start_in_one_line_that_does_not_show_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (text, word) in [
        ("hunter2", "16 or more"),
        ("", "16 or more"),
        ("hunter2 hunter2 hunter2", "one word"),
    ] {
        let file = token_file(&directory, text);
        let listen = ["--listen", "127.0.0.1:0", "--admin-listen", "0.0.0.0:0"];
        let args = [&["serve", "--admin-token-file", &file][..], &listen].concat();
        let refused = service::run(&args, b"").await;
        assert_eq!(refused.code, Some(3), "{refused:?}");
        let line = refused.stderr.lines().last().unwrap_or_default();
        assert!(line.contains(word) && line.contains(&file), "{line}");
        assert!(!refused.stderr.contains("hunter2"), "{refused:?}");
    }
    let missing = service::run(&["serve", "--admin-token-file", "/nowhere/token"], b"").await;
    assert_eq!(missing.code, Some(3), "{missing:?}");
    assert!(missing.stderr.contains("/nowhere/token"), "{missing:?}");
}

#[tokio::test]
async fn a_token_file_that_others_may_read_is_warned_about() {
    use std::os::unix::fs::PermissionsExt;
    let (service, file, _directory) = guarded("permissions").await;
    let warning = "other users may read the admin token";
    assert!(service.output().contains(warning), "{}", service.output());
    assert!(!service.output().contains(TOKEN));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    let database = sample_database("private_token").await;
    let private = serve_warm(&database.url, &[]).await;
    assert!(!private.output().contains(warning));
}

#[tokio::test]
async fn a_question_of_the_admin_listener_is_refused_as_any_other() {
    let database = sample_database("admin_errors").await;
    let service = serve_warm(&database.url, &[]).await;
    let reply = http::get(service.admin(), "/username/available?username=%").await;
    is_problem(&reply, 400, "malformed_query");
    let head = http::request(service.admin(), "HEAD", &question("zoe"), &[], b"").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let post = http::request(service.admin(), "POST", &question("zoe"), &[], b"").await;
    is_problem(&post, 405, "method_not_allowed");
}

/// A browser remembers the token for the listener, and sends it with whatever any page asks for.
#[tokio::test]
async fn a_browser_gets_in_by_password_and_a_page_of_another_site_does_not_come_along() {
    let (service, _, _directory) = guarded("browser").await;
    let admin: std::net::SocketAddr =
        (std::net::Ipv4Addr::LOCALHOST, service.admin().port()).into();
    // any-name:TOKEN
    let password = "Basic b3BzOmNvcnJlY3QtaG9yc2UtYmF0dGVyeS1zdGFwbGU=";
    let page = ask(&service, "GET", "/", Some(password)).await;
    assert_eq!(page.status, 200, "{page:?}");
    let challenge = ask(&service, "GET", "/", None).await;
    assert_eq!(challenge.status, 401, "{challenge:?}");

    let own = format!("http://{admin}");
    let post = async |path, header| {
        let headers = [("authorization", password), header];
        http::request(admin, "POST", path, &headers, b"").await
    };
    for path in ["/rebuild", "/audit", "/snapshot"] {
        for foreign in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://127.0.0.1:1"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let refused = post(path, foreign).await;
            is_problem(&refused, 403, "cross_site");
        }
        let accepted = post(path, ("origin", &own)).await;
        assert_ne!(accepted.status, 403, "{path}: {accepted:?}");
    }
}
