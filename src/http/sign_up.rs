//! `POST /users`: the sample sign-up. It does not check first; the insert decides.

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use crate::gate::{Answer, Detail, Outcome, SignUp};
use crate::http::available::unverified;
use crate::http::body::read_json;
use crate::http::{App, Client, Problem, SIGN_UP};

#[derive(Deserialize)]
struct Body {
    username: String,
}

/// The largest body that is read, in bytes: many times the longest name with every character escaped.
const LARGEST_BODY: usize = 16 * 1024;

/// 201 created; 403 closed; 409 taken; 422 refused by the rules; 429 too many; 503 unknown.
pub(super) async fn sign_up(
    State(app): State<App>,
    client: Client,
    request: Request,
) -> Result<Response, Problem> {
    app.admit()?;
    app.charge(client, SIGN_UP)
        .map_err(|wait| Problem::rate_limited(wait, None))?;
    let body = read_json(request, LARGEST_BODY).await?;
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
            let detail =
                "It is not known whether the account was created. Check the name, then try again.";
            let detail = Some(Detail::new("unverified", detail));
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
