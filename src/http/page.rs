//! The sign-up page and its parts, all of them in the binary.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};

use crate::http::Problem;

const INDEX: &str = include_str!("../../assets/index.html");
const PARTS: [(&str, &str, &str); 3] = [
    (
        "page.css",
        "text/css; charset=utf-8",
        include_str!("../../assets/page.css"),
    ),
    (
        "page.js",
        "text/javascript; charset=utf-8",
        include_str!("../../assets/page.js"),
    ),
    (
        "username-field.js",
        "text/javascript; charset=utf-8",
        include_str!("../../assets/username-field.js"),
    ),
];
const ONLY_OURS: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                         form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub(super) async fn index() -> Response {
    let mut response = INDEX.into_response();
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(ONLY_OURS));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

pub(super) async fn asset(Path(file): Path<String>) -> Result<Response, Problem> {
    let (_, kind, text) = PARTS
        .into_iter()
        .find(|(name, ..)| *name == file)
        .ok_or_else(Problem::not_found)?;
    let mut response = text.into_response();
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}
