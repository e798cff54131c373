//! `GET /username/available`: the question, and `GET /username/policy`: the rules that judge it.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, HeaderName};
use http::{HeaderValue, StatusCode};

use crate::gate::{Answer, Reason};
use crate::http::openapi::{Anywhere, PROBLEM_JSON, Unverified};
use crate::http::{App, Problem, json};
use crate::names::{PolicyDocument, parse_query};

/// What the path answers, for `Allow`.
pub(super) const METHODS: &str = "GET, HEAD, POST, OPTIONS";

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Is this name free?
///
/// Only `available: true` means free; no status code alone does. The answer is advice, not a reservation.
#[utoipa::path(
    get,
    path = "/username/available",
    operation_id = "ask",
    tag = "names",
    params(
        ("username" = String, Query, description = "The name, percent-encoded once as UTF-8; a bare `+` is a space",
         example = "Alice"),
        ("suggest" = Option<String>, Query, pattern = "^[0-9]+$",
         description = "How many free names like a taken one to suggest: a whole number, read as 10 when it is greater"),
    ),
    responses(
        (status = 200, description = "The question could be answered: free, taken, reserved or invalid", body = Answer),
        (status = 400, description = "The question cannot be read: `malformed_query`, `invalid_utf8`, `missing_username`, `repeated_parameter`, `invalid_suggest`",
         body = Problem, content_type = PROBLEM_JSON),
        (status = 414, description = "The query is over 4 KiB: `query_too_long`", body = Problem, content_type = PROBLEM_JSON),
        Unverified,
        Anywhere,
    )
)]
pub(super) async fn ask(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let question = parse_query(query.as_deref())?;
    let asked_at = Instant::now();
    let mut answer = app.gate.ask(&question.name).await;
    let took = asked_at.elapsed();
    if let Some(most) = question.suggest {
        answer.suggestions = Some(match answer.outcome.reason() {
            Reason::Taken => app.gate.suggest(&question.name, most.into(), random()),
            _ => Vec::new(),
        });
    }
    if question.plus_decoded
        && let Some(detail) = answer
            .detail
            .as_mut()
            .filter(|detail| detail.code == "whitespace")
    {
        detail.hint = Some("plus_decoded_as_space");
    }
    if answer.outcome.reason() == Reason::Unverified {
        return Err(unverified(answer));
    }
    let mut response = json::response(&answer);
    if app.offers.server_timing
        && let Some(timing) = server_timing(&answer, took)
    {
        response.headers_mut().insert(SERVER_TIMING, timing);
    }
    Ok(response)
}

/// Who answered, and in how many milliseconds: `filter;dur=0.001`.
fn server_timing(answer: &Answer, took: Duration) -> Option<HeaderValue> {
    let source = answer.outcome.source_word();
    let milliseconds = took.as_secs_f64() * 1e3;
    HeaderValue::from_str(&format!("{source};dur={milliseconds:.3}")).ok()
}

/// Not a secret: suggestions only have to differ from one question to the next.
fn random() -> u64 {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0)
}

/// The 503 that goes with an answer nobody could give.
pub(super) fn unverified(answer: Answer) -> Problem {
    Problem::answering(
        StatusCode::SERVICE_UNAVAILABLE,
        "unverified",
        "Could not be verified",
        answer,
    )
}

/// Which methods there are
#[utoipa::path(
    options,
    path = "/username/available",
    operation_id = "methods_to_ask",
    tag = "names",
    responses(
        (status = 204, description = "In `Allow`", headers(("Allow" = String))),
        Anywhere,
    )
)]
pub(super) async fn options() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(METHODS));
    response
}

/// The rules
///
/// For forms, so that they need none of their own.
#[utoipa::path(
    get,
    path = "/username/policy",
    operation_id = "policy",
    tag = "names",
    responses((status = 200, description = "The rules that judge new names", body = PolicyDocument), Anywhere)
)]
pub(super) async fn policy(State(app): State<App>) -> Response {
    Json(app.gate.policy().document()).into_response()
}
