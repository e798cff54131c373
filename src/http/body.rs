//! JSON bodies, read strictly: one object, in UTF-8, of a bounded size; and where they go wrong, by line and column.
//!
//! Unknown members are ignored, as unknown parameters of a query are; a member given twice is refused. What was sent is
//! never repeated in an error: it may hold names.

use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use hyper::body::Body;
use serde::de::DeserializeOwned;

use crate::http::Problem;
use crate::http::problem::Place;

/// What a route takes.
pub(super) struct Expected {
    /// The largest body that is read, in bytes.
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
        let body = self.receive("application/json", request).await?;
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

    /// The body as it came, of this media type. One that announces more than is read is not waited for.
    ///
    /// # Errors
    /// 415 for another media type, 413 for too large a body, 400 for one that is cut off.
    pub(super) async fn receive(
        &self,
        media_type: &'static str,
        request: Request,
    ) -> Result<Bytes, Problem> {
        if !is_of(media_type, request.headers()) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "Unsupported media type",
                format!("Send Content-Type: {media_type}."),
            ));
        }
        let body = request.into_body();
        if body.size_hint().lower() > self.largest as u64 {
            return Err(self.too_large());
        }
        to_bytes(body, self.largest).await.map_err(|error| {
            let is_too_large = std::error::Error::source(&error)
                .is_some_and(<dyn std::error::Error>::is::<http_body_util::LengthLimitError>);
            if is_too_large {
                return self.too_large();
            }
            Problem::new(
                StatusCode::BAD_REQUEST,
                "malformed_body",
                "The body cannot be read",
                "The body ended before it was whole.",
            )
        })
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

fn is_of(media_type: &str, headers: &HeaderMap) -> bool {
    let Some(Ok(found)) = headers.get(CONTENT_TYPE).map(|value| value.to_str()) else {
        return false;
    };
    let essence = found.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(media_type)
}
