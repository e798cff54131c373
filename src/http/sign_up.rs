//! `POST /users`: the sample sign-up. It does not check first; the insert decides.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::json;

use crate::gate::{Answer, Detail, Outcome, SignUp};
use crate::http::available::unverified;
use crate::http::{App, Problem};

#[derive(Deserialize)]
struct Body {
    username: String,
}

/// The largest body that is read, in bytes: many times the longest name with every character escaped.
pub(super) const LARGEST_BODY: usize = 16 * 1024;

/// What can be said when the database did not say how an insert ended.
pub(super) const NOT_KNOWN: &str =
    "It is not known whether the account was created. Check the name, then try again.";

/// 201 created; 409 taken; 422 refused by the rules; 503 unknown.
pub(super) async fn sign_up(
    State(app): State<App>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    demand(&headers, "application/json")?;
    let body = whole(body)?;
    let Body { username } = serde_json::from_slice(&body).map_err(|_error| {
        // The parser's own message may repeat what was sent.
        let detail = r#"Expected a JSON object such as {"username": "alice"}."#;
        Problem::new(
            StatusCode::BAD_REQUEST,
            "malformed_body",
            "The body cannot be read",
            detail,
        )
    })?;
    match app.gate.sign_up(&username).await {
        SignUp::Created(canonical) => {
            let created = json!({"username": username, "canonical": canonical.as_str()});
            Ok((StatusCode::CREATED, Json(created)).into_response())
        }
        SignUp::Taken(canonical) => {
            let detail = Some(Detail::new("taken", "This name is taken."));
            let answer = Answer {
                username,
                canonical: Some(canonical),
                outcome: Outcome::TakenInDatabase,
                detail,
                suggestions: None,
            };
            Err(Problem::answering(
                StatusCode::CONFLICT,
                "taken",
                "Taken",
                answer,
            ))
        }
        SignUp::Refused(answer) => Err(Problem::answering(
            StatusCode::UNPROCESSABLE_ENTITY,
            "refused",
            "Refused by the rules",
            answer,
        )),
        SignUp::Unverified => {
            let detail = Some(Detail::new("unverified", NOT_KNOWN));
            Err(unverified(Answer {
                username,
                canonical: None,
                outcome: Outcome::Unverified,
                detail,
                suggestions: None,
            }))
        }
    }
}

/// Refuses a body of any other media type.
pub(super) fn demand(headers: &HeaderMap, media_type: &'static str) -> Result<(), Problem> {
    let found = headers.get(CONTENT_TYPE).map(|value| value.to_str());
    let essence = match found {
        Some(Ok(found)) => found.split(';').next().unwrap_or_default().trim(),
        _ => "",
    };
    if essence.eq_ignore_ascii_case(media_type) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        "Unsupported media type",
        format!("Send Content-Type: {media_type}."),
    ))
}

/// The body, unless it broke off or is longer than [`LARGEST_BODY`].
pub(super) fn whole(body: Result<Bytes, BytesRejection>) -> Result<Bytes, Problem> {
    body.map_err(|rejection| {
        let status = rejection.status();
        let (code, title) = match status {
            StatusCode::PAYLOAD_TOO_LARGE => ("body_too_large", "Body too large"),
            _ => ("malformed_body", "The body cannot be read"),
        };
        Problem::new(
            status,
            code,
            title,
            format!("Send at most {LARGEST_BODY} bytes, and all of them."),
        )
    })
}
