//! The OpenAPI document: one text, three places, and true.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fixtures::{insert, sample_database, serve_warm};
use crate::support::http::{self, Reply};
use crate::support::service;

/// The copy for readers. `cargo run -- openapi > docs/openapi.json` renews it.
fn copy() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
    std::fs::read_to_string(path).expect("the copy is there")
}

fn document() -> Value {
    serde_json::from_str(&copy()).expect("JSON")
}

#[tokio::test]
async fn what_is_served_what_is_printed_and_the_copy_are_one_text() {
    let printed = service::run(&["openapi"], b"").await.expect_success();
    assert_eq!(
        printed,
        copy(),
        "renew it: cargo run -- openapi > docs/openapi.json"
    );
    let database = sample_database("openapi").await;
    for more in [&[][..], &["--signup"]] {
        let service = serve_warm(&database.url, more).await;
        let served = http::get(service.public(), "/openapi.json").await;
        assert_eq!(served.header("content-type"), Some("application/json"));
        assert_eq!(served.body, printed);
    }
}

#[test]
fn it_is_openapi_3_1_with_every_operation_named_once() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    let mut names = BTreeSet::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        assert_eq!(
            item.get("get").is_some(),
            item.get("head").is_some(),
            "{path}"
        );
        for (method, operation) in item.as_object().expect("operations") {
            let name = operation["operationId"].as_str().expect("a name");
            assert!(names.insert(name.to_owned()), "{name} twice");
            assert!(operation["responses"]["500"].is_object(), "{method} {path}");
            for (status, response) in operation["responses"].as_object().expect("responses") {
                // The page answers people, with a page.
                let is_error = status.starts_with(['4', '5']) && path != "/readyz" && path != "/";
                let kinds = response["content"].as_object();
                if is_error && method != "head" {
                    let only = kinds.expect("content").keys().next().map(String::as_str);
                    assert_eq!(
                        only,
                        Some("application/problem+json"),
                        "{method} {path} {status}"
                    );
                }
                if method == "head" {
                    assert!(kinds.is_none_or(serde_json::Map::is_empty), "{path}");
                }
            }
        }
    }
    for name in [
        "ask", "ask_many", "sign_up", "policy", "livez", "readyz", "openapi", "docs",
    ] {
        assert!(names.contains(name), "{name}");
    }
}

/// Every reference leads somewhere.
#[test]
fn no_reference_dangles() {
    fn walk(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    match value {
                        Value::String(to) if name == "$ref" => found.push(to.clone()),
                        other => walk(other, found),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = Vec::new();
    walk(&document, &mut found);
    assert!(found.len() > 20, "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').expect("a local reference");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

/// What is sent has the members that are documented, and those that are required.
#[tokio::test]
async fn replies_are_as_documented() {
    let database = sample_database("documented").await;
    insert(&database, &["alice".to_owned()]).await;
    let service = serve_warm(&database.url, &["--signup"]).await;
    let document = document();
    let kind = [("content-type", "application/json")];
    let post = async |path: &str, body: &str| {
        http::request(service.public(), "POST", path, &kind, body.as_bytes()).await
    };
    let get = async |path: &str| http::get(service.public(), path).await;
    let ask = "/username/available";
    let replies = [
        (
            "get",
            ask,
            get("/username/available?username=Alice&suggest=2").await,
        ),
        ("get", ask, get("/username/available?username=zoe").await),
        ("get", ask, get("/username/available?username=a%20b").await),
        ("get", ask, get("/username/available?username=a+b").await),
        ("get", ask, get("/username/available?username=ab").await),
        ("get", ask, get("/username/available").await),
        (
            "get",
            ask,
            get(&format!("{ask}?username={}", "a".repeat(5000))).await,
        ),
        (
            "post",
            ask,
            post(ask, r#"{"usernames":["zoe","alice","me"]}"#).await,
        ),
        ("post", ask, post(ask, r#"{"usernames":7}"#).await),
        (
            "post",
            "/users",
            post("/users", r#"{"username":"Yan"}"#).await,
        ),
        (
            "post",
            "/users",
            post("/users", r#"{"username":"yan"}"#).await,
        ),
        (
            "post",
            "/users",
            post("/users", r#"{"username":"a b"}"#).await,
        ),
        ("post", "/users", post("/users", "[]").await),
        ("get", "/username/policy", get("/username/policy").await),
        ("get", "/livez", get("/livez").await),
        ("get", "/readyz", get("/readyz").await),
        ("get", "/", get("/").await),
        ("get", "/docs", get("/docs").await),
        ("get", "/assets/docs.css", get("/assets/docs.css").await),
        ("get", "/assets/{file}", get("/assets/page.css").await),
        ("get", "/assets/{file}", get("/assets/nope.css").await),
    ];
    for (method, path, reply) in &replies {
        is_documented(&document, &document["paths"][path][method], reply);
    }
}

#[track_caller]
fn is_documented(document: &Value, operation: &Value, reply: &Reply) {
    let response = &operation["responses"][reply.status.to_string()];
    assert!(response.is_object(), "{} of {operation}", reply.status);
    let kind = reply.header("content-type").expect("a content type");
    let essence = kind.split(';').next().unwrap_or_default();
    let content = &response["content"][essence];
    assert!(content.is_object(), "{essence} of {response}");
    if essence.ends_with("json") {
        fits(document, &content["schema"], &reply.json(), reply);
    }
}

/// As much of JSON Schema as the document uses.
#[track_caller]
fn fits(document: &Value, schema: &Value, value: &Value, reply: &Reply) {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document.pointer(&reference[1..]).expect("a schema");
        return fits(document, schema, value, reply);
    }
    if let Some(kinds) = schema["oneOf"].as_array() {
        let kind = match value {
            Value::Null => kinds.iter().find(|kind| kind["type"] == "null"),
            _ => kinds.iter().find(|kind| kind["type"] != "null"),
        };
        return fits(document, kind.expect("one of them"), value, reply);
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        Value::String(kind) => vec![kind],
        _ => return,
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    assert!(kinds.contains(&kind), "{value} is no {kinds:?}: {reply:?}");
    if let (Some(words), Value::String(_)) = (schema["enum"].as_array(), value) {
        assert!(words.contains(value), "{value} is none of {words:?}");
    }
    for item in value.as_array().into_iter().flatten() {
        fits(document, &schema["items"], item, reply);
    }
    if let Some(members) = value.as_object() {
        for (name, value) in members {
            let schema = &schema["properties"][name];
            assert!(schema.is_object(), "{name} is not documented: {reply:?}");
            fits(document, schema, value, reply);
        }
        for required in schema["required"].as_array().into_iter().flatten() {
            let name = required.as_str().expect("a name");
            assert!(members.contains_key(name), "{name} is missing: {reply:?}");
        }
    }
}

#[tokio::test]
async fn the_page_about_it_needs_no_script_and_nothing_from_elsewhere() {
    let database = sample_database("docs").await;
    let service = serve_warm(&database.url, &[]).await;
    let page = http::get(service.public(), "/docs").await;
    assert_eq!(
        (page.status, page.header("content-type")),
        (200, Some("text/html; charset=utf-8"))
    );
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"));
    for words in [
        "POST /username/available",
        "/openapi.json",
        "too_many_names",
        "id=\"Answer\"",
    ] {
        assert!(page.body.contains(words), "{words}");
    }
    for trouble in ["<script", "style=", "://", "onclick"] {
        assert!(!page.body.contains(trouble), "{trouble}");
    }
    for link in page.body.split("href=\"/").skip(1) {
        let path = link.split('"').next().expect("a link ends");
        let reply = http::get(service.public(), &format!("/{path}")).await;
        assert_eq!(reply.status, 200, "{path}");
    }
}
