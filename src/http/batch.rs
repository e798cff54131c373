//! `POST /username/available`: many names in one question, for one statement at most.
//!
//! | what could be found out | status |
//! | --- | --- |
//! | every name, or no name was asked about | 200 |
//! | some names | 200; the others are `unverified`, and `Retry-After` says when to ask about them again |
//! | no name at all | 503 `unverified`, as for a single question |
//!
//! There are no suggestions and no `Server-Timing` here.

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use http::header::RETRY_AFTER;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::gate::{Answer, Reason};
use crate::http::body::Expected;
use crate::http::openapi::{Anywhere, PROBLEM_JSON, Unverified};
use crate::http::{App, Problem, json};

/// The largest body that is read, in bytes.
pub(super) const LARGEST_BODY: usize = 256 * 1024;
/// The most names in one question.
const MOST_NAMES: usize = 1_000;

const EXPECTED: Expected = Expected {
    largest: LARGEST_BODY,
    example: r#"{"usernames": ["alice", "bob"]}"#,
};

/// Names to ask about.
#[derive(Deserialize, ToSchema)]
pub(super) struct Questions {
    #[schema(max_items = 1000, example = json!(["Alice", "bob"]))]
    usernames: Vec<String>,
}

/// The answers, in the order in which the names were asked about.
#[derive(Serialize, ToSchema)]
pub(super) struct Answers {
    answers: Vec<Answer>,
}

/// Are these names free?
///
/// Up to 1,000 names at once, for one database query at most; spellings of one name count as one. 200 when anything
/// could be found out: names that could not are `unverified`, and then there is a `Retry-After`.
#[utoipa::path(
    post,
    path = "/username/available",
    operation_id = "ask_many",
    tag = "names",
    request_body(content = Questions, content_type = "application/json", description = "At most 256 KiB"),
    responses(
        (status = 200, description = "An answer to each name", body = Answers,
         headers(("Retry-After" = u64, description = "Seconds until it is worth asking again about the names that are unverified"))),
        (status = 400, description = "The body cannot be read: `malformed_body`, `invalid_utf8`; `line` and `column` say where", body = Problem, content_type = PROBLEM_JSON),
        (status = 413, description = "The body is over 256 KiB: `body_too_large`", body = Problem, content_type = PROBLEM_JSON),
        (status = 415, description = "The body is not JSON: `unsupported_media_type`", body = Problem, content_type = PROBLEM_JSON),
        (status = 422, description = "More than 1,000 names: `too_many_names`", body = Problem, content_type = PROBLEM_JSON),
        Unverified,
        Anywhere,
    )
)]
pub(super) async fn ask_many(
    State(app): State<App>,
    request: Request,
) -> Result<Response, Problem> {
    let Questions { usernames } = EXPECTED.read(request).await?;
    if usernames.len() > MOST_NAMES {
        let asked = usernames.len();
        return Err(Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "too_many_names",
            "Too many names",
            format!("Ask about at most {MOST_NAMES} names at once; these are {asked}."),
        ));
    }
    let answers = app.gate.ask_many(&usernames).await;
    let unverified = answers
        .iter()
        .filter(|answer| answer.outcome.reason() == Reason::Unverified)
        .count();
    if unverified > 0 && unverified == answers.len() {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unverified",
            "Could not be verified",
            "It could not be found out whether any of these names is free. Try again in a moment.",
        ));
    }
    let mut response = json::response(&Answers { answers });
    if unverified > 0 {
        let seconds = super::RETRY_AFTER.as_secs();
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    Ok(response)
}
