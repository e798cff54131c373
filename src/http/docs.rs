//! `/docs`: the OpenAPI document as a page for people. Written here and not by a script in the browser: the page needs
//! no JavaScript, loads nothing from elsewhere, and keeps the same strict content policy as the sign-up page.

use std::fmt::Write;
use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use serde_json::{Map, Value};

use crate::http::openapi::{Anywhere, document};
use crate::http::page::ONLY_OURS;

const STYLE: &str = include_str!("../../assets/docs.css");
const METHODS: [&str; 6] = ["get", "head", "post", "put", "delete", "options"];

/// This documentation, for people
#[utoipa::path(
    get,
    path = "/docs",
    operation_id = "docs",
    tag = "pages",
    responses((status = 200, description = "The page", body = String, content_type = "text/html"), Anywhere)
)]
pub(super) async fn docs() -> Response {
    static PAGE: LazyLock<String> = LazyLock::new(|| {
        let document = serde_json::from_str(document()).expect("the document is JSON");
        page(&document)
    });
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, ONLY_OURS),
        (REFERRER_POLICY, "no-referrer"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    (headers, PAGE.as_str()).into_response()
}

/// The looks of this documentation
#[utoipa::path(
    get,
    path = "/assets/docs.css",
    operation_id = "docs_style",
    tag = "pages",
    responses((status = 200, description = "The style sheet", body = String, content_type = "text/css"), Anywhere)
)]
pub(super) async fn style() -> Response {
    let headers = [
        (CONTENT_TYPE, "text/css; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    (headers, STYLE).into_response()
}

fn page(document: &Value) -> String {
    let info = &document["info"];
    let mut operations = String::new();
    for (path, item) in members(&document["paths"]) {
        for method in METHODS {
            // What HEAD answers is said once, above.
            if method != "head" && item[method].is_object() {
                operations += &operation(path, method, &item[method]);
            }
        }
    }
    let schemas = members(&document["components"]["schemas"]);
    let schemas: String = schemas.map(|(name, it)| schema(name, it)).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n  <meta charset=\"utf-8\">\n  \
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n  \
         <meta name=\"color-scheme\" content=\"light dark\">\n  <title>{title} {version}</title>\n  \
         <link rel=\"icon\" href=\"data:,\">\n  <link rel=\"stylesheet\" href=\"/assets/docs.css\">\n</head>\n\
         <body>\n<main>\n<h1>{title} {version}</h1>\n{about}\n\
         <p>For programs: <a href=\"/openapi.json\">openapi.json</a>. Each path that takes GET takes HEAD as well, and \
         answers it with the same head and no body.</p>\n{operations}<h2>Objects</h2>\n{schemas}</main>\n</body>\n</html>\n",
        title = text(&info["title"]),
        version = text(&info["version"]),
        about = paragraphs(&info["description"]),
    )
}

fn operation(path: &str, method: &str, it: &Value) -> String {
    let mut html = format!(
        "<section id=\"{id}\">\n<h2><code>{method} {path}</code> {summary}</h2>\n{about}",
        id = text(&it["operationId"]),
        method = method.to_uppercase(),
        path = escaped(path),
        summary = text(&it["summary"]),
        about = paragraphs(&it["description"]),
    );
    let parameters = it["parameters"].as_array();
    let rows: Vec<[String; 3]> = parameters
        .into_iter()
        .flatten()
        .map(|it| {
            let place = if it["required"] == true {
                ""
            } else {
                ", optional"
            };
            [
                format!("<code>{}</code>", text(&it["name"])),
                format!("{}{place}", text(&it["in"])),
                marked(&it["description"]),
            ]
        })
        .collect();
    html += &table(["Parameter", "In", ""], &rows);
    for (kind, content) in members(&it["requestBody"]["content"]) {
        let _ = writeln!(
            html,
            "<p>Body: {schema} as <code>{kind}</code>. {about}.</p>",
            schema = kind_of(&content["schema"]),
            kind = escaped(kind),
            about = marked(&it["requestBody"]["description"]),
        );
    }
    let rows: Vec<[String; 3]> = members(&it["responses"])
        .map(|(status, it)| {
            let content: Vec<String> = members(&it["content"])
                .map(|(kind, content)| {
                    let schema = kind_of(&content["schema"]);
                    format!("{schema} as <code>{}</code>", escaped(kind))
                })
                .collect();
            let mut about = marked(&it["description"]);
            for (name, _) in members(&it["headers"]) {
                let _ = write!(about, " (with <code>{}</code>)", escaped(name));
            }
            [escaped(status), about, content.join("<br>")]
        })
        .collect();
    html += &table(["Status", "", "Content"], &rows);
    html + "</section>\n"
}

fn schema(name: &str, it: &Value) -> String {
    let required = it["required"].as_array();
    let mut rows: Vec<[String; 3]> = Vec::new();
    for (member, schema) in members(&it["properties"]) {
        let is_required = required.is_some_and(|all| all.iter().any(|one| one == member));
        let optional = if is_required { "" } else { ", optional" };
        rows.push([
            format!("<code>{}</code>", escaped(member)),
            format!("{}{optional}", kind_of(schema)),
            marked(&schema["description"]),
        ]);
    }
    let words: Vec<String> = it["enum"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|word| format!("<code>{}</code>", text(word)))
        .collect();
    format!(
        "<section id=\"{name}\">\n<h3><code>{name}</code></h3>\n{about}{words}{table}</section>\n",
        name = escaped(name),
        about = paragraphs(&it["description"]),
        words = if words.is_empty() {
            String::new()
        } else {
            format!("<p>One of {}</p>\n", words.join(", "))
        },
        table = table(["Member", "", ""], &rows),
    )
}

/// What a schema is, in a few words; a named one is a link.
fn kind_of(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = escaped(reference.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#{name}\"><code>{name}</code></a>");
    }
    for combined in ["oneOf", "anyOf", "allOf"] {
        if let Some(kinds) = schema[combined].as_array() {
            let kinds: Vec<String> = kinds.iter().map(kind_of).collect();
            return kinds.join(" or ");
        }
    }
    match &schema["type"] {
        Value::Array(kinds) => kinds.iter().map(text).collect::<Vec<_>>().join(" or "),
        Value::String(kind) if kind == "array" => {
            format!("array of {}", kind_of(&schema["items"]))
        }
        Value::String(kind) => escaped(kind),
        _ => "any".to_owned(),
    }
}

fn table(head: [&str; 3], rows: &[[String; 3]]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head = head.join("</th><th scope=\"col\">");
    let mut html =
        format!("<table>\n<thead><tr><th scope=\"col\">{head}</th></tr></thead>\n<tbody>\n");
    for row in rows {
        let _ = writeln!(html, "<tr><td>{}</td></tr>", row.join("</td><td>"));
    }
    html + "</tbody>\n</table>\n"
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn text(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}

fn paragraphs(value: &Value) -> String {
    let mut html = String::new();
    for paragraph in marked(value).split("\n\n").filter(|text| !text.is_empty()) {
        let _ = writeln!(html, "<p>{paragraph}</p>");
    }
    html
}

/// A text with the two marks that are used here: `code` and *stress*.
fn marked(value: &Value) -> String {
    let escaped = text(value);
    let mut html = String::new();
    for (i, piece) in escaped.split('`').enumerate() {
        if i % 2 == 1 {
            let _ = write!(html, "<code>{piece}</code>");
            continue;
        }
        for (j, piece) in piece.split('*').enumerate() {
            let _ = match j % 2 {
                1 => write!(html, "<em>{piece}</em>"),
                _ => write!(html, "{piece}"),
            };
        }
    }
    html
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_and_every_object_is_on_the_page_and_every_link_leads_somewhere() {
        let document: Value = serde_json::from_str(document()).expect("JSON");
        let page = page(&document);
        for (path, item) in members(&document["paths"]) {
            for (method, _) in members(item).filter(|(method, _)| *method != "head") {
                let title = format!("<code>{} {path}</code>", method.to_uppercase());
                assert!(page.contains(&title), "{title}");
            }
        }
        for link in page.split("href=\"#").skip(1) {
            let target = link.split('"').next().expect("a link ends");
            assert!(page.contains(&format!("id=\"{target}\"")), "{target}");
        }
        assert!(!page.contains("://") && !page.contains("<script") && !page.contains("style="));
    }

    #[test]
    fn what_is_no_mark_is_text() {
        let value = Value::from("a < b & \"c\": `<x>` and *so* on");
        let html = "a &lt; b &amp; &quot;c&quot;: <code>&lt;x&gt;</code> and <em>so</em> on";
        assert_eq!(marked(&value), html);
    }
}
