//! JSON bodies, read strictly: one object, in UTF-8, of a bounded size; and where they go wrong, by line and column.
//!
//! Unknown members are ignored, as unknown parameters of a query are; a member given twice is refused. What was sent is
//! never repeated in an error: it may hold names.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use crate::http::Problem;
use crate::http::problem::Place;

/// What a route takes.
pub(super) struct Expected {
    /// The largest body that is read, in bytes; kept by the router's `DefaultBodyLimit`.
    pub(super) largest: usize,
    /// An object of the right shape, to show to people.
    pub(super) example: &'static str,
}

impl Expected {
    /// Reads the body; not at all when the head says already that it will not do.
    ///
    /// # Errors
    /// 415 for another media type, 413 for too large a body, 400 for one that is cut off, not UTF-8, not JSON or not of
    /// the expected shape.
    pub(super) async fn read<T: DeserializeOwned>(&self, request: Request) -> Result<T, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "Unsupported media type",
                "Send Content-Type: application/json.",
            ));
        }
        if declared_length(request.headers()).is_some_and(|length| length > self.largest) {
            return Err(self.too_large());
        }
        let body = Bytes::from_request(request, &())
            .await
            .map_err(|rejection| self.not_received(&rejection))?;
        let text = std::str::from_utf8(&body).map_err(|error| {
            let place = Place::of(&body, error.valid_up_to());
            unreadable(
                "invalid_utf8",
                format!("The body is not UTF-8 at {place}."),
                place,
            )
        })?;
        // The parser would take an array for an object, member by member.
        let begins = text.find(|c| !matches!(c, ' ' | '\t' | '\n' | '\r'));
        if let Some(at) = begins
            && !text[at..].starts_with('{')
        {
            return Err(self.malformed(Place::of(&body, at)));
        }
        serde_json::from_str(text).map_err(|error| {
            self.malformed(Place {
                line: error.line(),
                column: error.column().max(1), // 0 for a body of nothing
            })
        })
    }

    fn not_received(&self, rejection: &BytesRejection) -> Problem {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            return self.too_large();
        }
        let title = "The body cannot be read";
        let detail = "The body broke off. Send all of it.";
        Problem::new(StatusCode::BAD_REQUEST, "malformed_body", title, detail)
    }

    fn too_large(&self) -> Problem {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            "Body too large",
            format!("Send at most {} bytes.", self.largest),
        )
    }

    fn malformed(&self, place: Place) -> Problem {
        let detail = format!(
            "Expected a JSON object such as {}; what was sent is not one at {place}.",
            self.example
        );
        unreadable("malformed_body", detail, place)
    }
}

fn unreadable(code: &'static str, detail: String, place: Place) -> Problem {
    let title = "The body cannot be read";
    Problem::new(StatusCode::BAD_REQUEST, code, title, detail).at(place)
}

fn declared_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(media_type)) = headers.get(CONTENT_TYPE).map(|value| value.to_str()) else {
        return false;
    };
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}
