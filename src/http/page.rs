//! The sign-up page and its parts, all of them in the binary.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};

use crate::http::Problem;
use crate::http::openapi::{Anywhere, PROBLEM_JSON};

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
/// A page may load nothing but what this service serves.
pub(super) const ONLY_OURS: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                         form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The sign-up page
#[utoipa::path(
    get,
    path = "/",
    operation_id = "page",
    tag = "pages",
    responses((status = 200, description = "The page", body = String, content_type = "text/html"), Anywhere)
)]
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

/// A part of a page
#[utoipa::path(
    get,
    path = "/assets/{file}",
    operation_id = "part_of_a_page",
    tag = "pages",
    params(("file" = String, Path, description = "Such as `username-field.js`", example = "username-field.js")),
    responses(
        (status = 200, description = "The part", content((String = "text/css"), (String = "text/javascript"))),
        (status = 404, description = "There is no such part: `not_found`", body = Problem, content_type = PROBLEM_JSON),
        Anywhere,
    )
)]
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
