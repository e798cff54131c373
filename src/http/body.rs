//! The bodies of requests: JSON, and no more of it than a route asks for.

use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use hyper::body::Body;

use crate::http::Problem;

/// Reads a body that says it is JSON, of at most `most` bytes. One that announces more is not waited for.
///
/// # Errors
/// 415, 413, or 400 when the client stops before the end.
pub async fn read_json(request: Request, most: usize) -> Result<Bytes, Problem> {
    if !is_json(request.headers()) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "Unsupported media type",
            "Send Content-Type: application/json.",
        ));
    }
    let body = request.into_body();
    let too_large = || {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            "Body too large",
            format!("Send at most {most} bytes."),
        )
    };
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    to_bytes(body, most).await.map_err(|error| {
        let is_too_large = std::error::Error::source(&error)
            .is_some_and(<dyn std::error::Error>::is::<http_body_util::LengthLimitError>);
        if is_too_large {
            return too_large();
        }
        Problem::new(
            StatusCode::BAD_REQUEST,
            "malformed_body",
            "The body cannot be read",
            "The body ended before it was whole.",
        )
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(media_type)) = headers.get(CONTENT_TYPE).map(|value| value.to_str()) else {
        return false;
    };
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}
