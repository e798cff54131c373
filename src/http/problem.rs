//! Errors on the wire: `application/problem+json` (RFC 9457), with the fields of an answer as extension members, so
//! that a form which reads blindly finds `available: null` and never mistakes an error for *free*.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::gate::{Answer, Detail, Outcome, Reason, Source};
use crate::http::{Wait, json};
use crate::names::{Canonical, QueryError};

/// One error, as the client sees it. What went wrong inside goes to the log, not here.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
    detail: String,
    answer: Option<Box<Answer>>,
    allow: Option<&'static str>,
    /// Boxed, as it is rare: errors are returned by value.
    place: Option<Box<Place>>,
    retry_after: Option<Duration>,
}

/// Where in a body it went wrong: both counted from 1, columns in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    /// The place of the byte at `offset`.
    pub(super) fn of(body: &[u8], offset: usize) -> Self {
        let lines = body[..offset].split(|&byte| byte == b'\n');
        let (line, columns) = lines
            .enumerate()
            .last()
            .map_or((0, 0), |(at, line)| (at, line.len()));
        Self {
            line: line + 1,
            column: columns + 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// An error (RFC 9457), with the members of an answer, so that a form which reads blindly never mistakes it for free.
#[derive(Serialize, ToSchema)]
struct Wire<'a> {
    /// `urn:namegate:problem:` and the code.
    #[schema(examples("urn:namegate:problem:missing_username"))]
    r#type: String,
    #[schema(value_type = String)]
    title: &'a str,
    /// The status of the response.
    status: u16,
    /// A sentence for people.
    #[schema(value_type = String)]
    detail: &'a str,
    /// A stable word.
    #[schema(value_type = String, examples("missing_username"))]
    code: &'a str,
    /// What was asked, when the problem is the answer to a question.
    #[schema(value_type = Option<String>, required)]
    username: Option<&'a str>,
    /// How it would be stored, when the problem is the answer to a question.
    #[schema(value_type = Option<String>, required)]
    canonical: Option<&'a str>,
    /// Never true.
    #[schema(required)]
    available: Option<bool>,
    reason: Reason,
    #[schema(required)]
    source: Option<Source>,
    /// The least number of characters, where that is the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = usize, required = false)]
    min: Option<usize>,
    /// The greatest number of characters, where that is the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = usize, required = false)]
    max: Option<usize>,
    /// The characters that are allowed, where that is the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    allowed: Option<&'a str>,
    /// Where a body went wrong, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = usize, required = false)]
    line: Option<usize>,
    /// Where in that line, in bytes counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = usize, required = false)]
    column: Option<usize>,
}

impl PartialSchema for Problem {
    fn schema() -> RefOr<Schema> {
        Wire::schema()
    }
}

impl ToSchema for Problem {
    fn name() -> Cow<'static, str> {
        "Problem".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Wire::schemas(schemas);
    }
}

impl Problem {
    /// A problem that says nothing about any name.
    #[must_use]
    pub fn new(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            status,
            code,
            title,
            detail: detail.into(),
            answer: None,
            allow: None,
            retry_after: (status == StatusCode::SERVICE_UNAVAILABLE).then_some(super::RETRY_AFTER),
            place: None,
        }
    }

    /// Says where in the body it went wrong.
    pub(super) fn at(self, place: Place) -> Self {
        Self {
            place: Some(Box::new(place)),
            ..self
        }
    }

    /// A problem that is the answer to a question. `code` and sentence come from the answer's detail, where it has one.
    #[must_use]
    pub fn answering(
        status: StatusCode,
        code: &'static str,
        title: &'static str,
        answer: Answer,
    ) -> Self {
        let (code, detail) = match &answer.detail {
            Some(detail) => (detail.code, detail.message.clone()),
            None => (code, format!("{title}.")),
        };
        Self {
            answer: Some(Box::new(answer)),
            ..Self::new(status, code, title, detail)
        }
    }

    /// The public may not ask, whatever the name.
    pub(super) fn registration_closed() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "registration_closed",
            "Registration is closed",
            "Registration is closed, so no question about a name is answered.",
        )
    }

    /// The client's budget does not suffice. `username`: what was asked, where that can be read, so that a form knows
    /// which of its questions this answers.
    #[must_use]
    pub fn rate_limited(wait: Wait, username: Option<String>) -> Self {
        let seconds = wait.0.as_secs_f64().ceil().max(1.0);
        let sentence = format!("Too many questions. Ask again in {seconds} s.");
        let problem = match username {
            Some(username) => Self::answering(
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limited",
                "Too many questions",
                Answer {
                    username,
                    canonical: None,
                    outcome: Outcome::RateLimited,
                    detail: Some(Detail::new("rate_limited", sentence)),
                    suggestions: None,
                },
            ),
            None => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "rate_limited",
                "Too many questions",
                sentence,
            ),
        };
        Self {
            retry_after: Some(Duration::from_secs_f64(seconds)),
            ..problem
        }
    }

    pub(super) fn not_found() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "Not found",
            "There is nothing at this path.",
        )
    }

    pub(super) fn method_not_allowed(allowed: &'static str) -> Self {
        let detail = format!("This path answers {allowed}.");
        let problem = Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "Method not allowed",
            detail,
        );
        Self {
            allow: Some(allowed),
            ..problem
        }
    }

    #[allow(
        clippy::needless_pass_by_value,
        reason = "the signature that a panic handler has"
    )]
    pub(super) fn from_panic(panic: Box<dyn Any + Send + 'static>) -> Response {
        let message = panic.downcast_ref::<&str>().copied();
        let message = message
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("(no message)");
        tracing::error!(panic = message, "a handler panicked");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "Internal error",
            "Something went wrong here, and it has been logged.",
        )
        .into_response()
    }
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        let (status, title) = match error {
            QueryError::TooLong { .. } => (StatusCode::URI_TOO_LONG, "Query too long"),
            _ => (StatusCode::BAD_REQUEST, "The question cannot be read"),
        };
        Self::new(status, error.code(), title, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let answer = self.answer.as_deref();
        let detail = answer.and_then(|answer| answer.detail.as_ref());
        let wire = Wire {
            r#type: format!("urn:namegate:problem:{}", self.code),
            title: self.title,
            status: self.status.as_u16(),
            detail: &self.detail,
            code: self.code,
            username: answer.map(|answer| answer.username.as_str()),
            canonical: answer
                .and_then(|answer| answer.canonical.as_ref())
                .map(Canonical::as_str),
            available: answer.and_then(|answer| answer.outcome.available()),
            reason: match answer {
                Some(answer) => answer.outcome.reason(),
                None if self.status == StatusCode::TOO_MANY_REQUESTS => Reason::RateLimited,
                None => Reason::Unverified,
            },
            source: answer.and_then(|answer| answer.outcome.source()),
            min: detail.and_then(|detail| detail.min),
            max: detail.and_then(|detail| detail.max),
            allowed: detail.and_then(|detail| detail.allowed),
            line: self.place.as_ref().map(|place| place.line),
            column: self.place.as_ref().map(|place| place.column),
        };
        let mut response = Response::new(Body::from(json::bytes(&wire)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(allowed) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allowed));
        }
        if let Some(pause) = self.retry_after {
            headers.insert(RETRY_AFTER, pause.as_secs().into());
        }
        response
    }
}
