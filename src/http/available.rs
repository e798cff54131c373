//! `GET /username/available`: the question, and `GET /username/policy`: the rules that judge it.

use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, HeaderName};
use http::{HeaderValue, StatusCode};

use crate::gate::{Answer, Reason};
use crate::http::{App, Problem};
use crate::names::parse_query;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// 200 for every question that can be answered, whatever the answer; 503 when it could not be found out.
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
    let body = serde_json::to_vec(&answer).expect("an answer is plain data");
    let mut response = Response::new(Body::from(body));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
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
pub(super) fn random() -> u64 {
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

pub(super) async fn options() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static("GET, HEAD, OPTIONS"));
    response
}

pub(super) async fn policy(State(app): State<App>) -> Response {
    Json(app.gate.policy().document()).into_response()
}
