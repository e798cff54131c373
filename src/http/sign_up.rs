//! `POST /users`: the sample sign-up. It does not check first; the insert decides.

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::gate::{Answer, Detail, Outcome, SignUp};
use crate::http::available::unverified;
use crate::http::body::Expected;
use crate::http::openapi::{Anywhere, PROBLEM_JSON, Unverified};
use crate::http::{App, Problem, json};

/// Who signs up.
#[derive(Deserialize, ToSchema)]
#[schema(as = SignUp)]
struct Body {
    #[schema(examples("Alice"))]
    username: String,
}

/// What was made.
#[derive(Serialize, ToSchema)]
struct Created<'a> {
    /// As asked for.
    #[schema(value_type = String, examples("Alice"))]
    username: &'a str,
    /// As stored.
    #[schema(value_type = String, examples("alice"))]
    canonical: &'a str,
}

/// The largest body that is read, in bytes: many times the longest name with every character escaped.
pub(super) const LARGEST_BODY: usize = 16 * 1024;

const EXPECTED: Expected = Expected {
    largest: LARGEST_BODY,
    example: r#"{"username": "alice"}"#,
};

/// Sign up
///
/// The sample sign-up, where it is switched on (`--signup`); 404 where it is not. The insert decides, and nothing is
/// checked before.
#[utoipa::path(
    post,
    path = "/users",
    operation_id = "sign_up",
    tag = "sign-up",
    request_body(content = Body, content_type = "application/json", description = "At most 16 KiB"),
    responses(
        (status = 201, description = "The account is made", body = Created),
        (status = 400, description = "The body cannot be read: `malformed_body`, `invalid_utf8`; `line` and `column` say where", body = Problem, content_type = PROBLEM_JSON),
        (status = 404, description = "The sign-up is not switched on", body = Problem, content_type = PROBLEM_JSON),
        (status = 409, description = "Somebody has the name: `taken`", body = Problem, content_type = PROBLEM_JSON),
        (status = 413, description = "The body is over 16 KiB: `body_too_large`", body = Problem, content_type = PROBLEM_JSON),
        (status = 415, description = "The body is not JSON: `unsupported_media_type`", body = Problem, content_type = PROBLEM_JSON),
        (status = 422, description = "The rules refuse the name; the code is the rule's", body = Problem, content_type = PROBLEM_JSON),
        Unverified,
        Anywhere,
    )
)]
pub(super) async fn sign_up(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let Body { username } = EXPECTED.read(request).await?;
    match app.gate.sign_up(&username).await {
        SignUp::Created(canonical) => {
            let mut response = json::response(&Created {
                username: &username,
                canonical: canonical.as_str(),
            });
            *response.status_mut() = StatusCode::CREATED;
            Ok(response)
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
