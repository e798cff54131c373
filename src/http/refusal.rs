//! Problems sent past hyper, on a socket that it has given up or was never given.
//!
//! Their origin is not known, so they carry no CORS headers.

use std::time::Duration;

use axum::response::IntoResponse;
use http::{HeaderName, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::http::{Problem, headers};

/// How long a client may go on sending once its refusal is on the way.
const LINGER: Duration = Duration::from_secs(1);
/// How much of that is read.
const LINGER_BYTES: u64 = 4 << 20;

/// What could not be read as a request; `status` as hyper has it.
pub(super) fn unreadable(status: StatusCode, begin: &[u8]) -> Problem {
    match status {
        // A head that fills its buffer without a single line end: it is the first line that is too long.
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE if begin.contains(&b'\n') => Problem::new(
            status,
            "headers_too_large",
            "Headers too large",
            format!("A request has at most {LARGEST_HEAD} bytes and 100 headers before its body."),
        ),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE | StatusCode::URI_TOO_LONG => Problem::new(
            StatusCode::URI_TOO_LONG,
            "query_too_long",
            "Query too long",
            format!("The first line of a request has at most {LARGEST_HEAD} bytes."),
        ),
        _ => Problem::new(
            StatusCode::BAD_REQUEST,
            "malformed_request",
            "Malformed request",
            "This is no HTTP/1.1 request.",
        ),
    }
}

/// The most bytes before the body of a request that are kept.
pub(super) const LARGEST_HEAD: usize = 16 * 1024;

/// The head of a request that did not come in time.
pub(super) fn late() -> Problem {
    Problem::new(
        StatusCode::REQUEST_TIMEOUT,
        "request_timeout",
        "Request timeout",
        "The request did not come in time.",
    )
}

/// A connection that is one too many.
pub(super) fn full() -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "too_many_connections",
        "Too many connections",
        "There are too many connections. Try again in a moment.",
    )
}

/// Sends a problem and ends the connection. The client gets to read it: a socket closed upon bytes that nobody has read
/// resets the connection, and what is on its way is lost.
pub(super) async fn send(mut socket: TcpStream, problem: Problem) {
    let bytes = written_out(problem).await;
    if let Ok(Ok(())) = timeout(LINGER, socket.write_all(&bytes)).await {
        linger(socket).await;
    }
}

/// Ends our side and waits a moment for the other.
pub(super) async fn linger(mut socket: TcpStream) {
    let until_both_are_done = async {
        socket.shutdown().await?;
        let mut rest = socket.take(LINGER_BYTES);
        let mut scratch = [0; 2048];
        while rest.read(&mut scratch).await? > 0 {}
        std::io::Result::Ok(())
    };
    // Whoever has gone meanwhile misses nothing.
    drop(timeout(LINGER, until_both_are_done).await);
}

async fn written_out(problem: Problem) -> Vec<u8> {
    let mut response = problem.into_response();
    headers::add(response.headers_mut(), headers::request_id());
    let (head, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX)
        .await
        .unwrap_or_default();
    let reason = head.status.canonical_reason().unwrap_or_default();
    let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", head.status.as_str()).into_bytes();
    let mut line = |name: &str, value: &[u8]| {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
    };
    for (name, value) in &head.headers {
        line(HeaderName::as_str(name), value.as_bytes());
    }
    line("connection", b"close");
    line("content-length", body.len().to_string().as_bytes());
    let date = httpdate::fmt_http_date(std::time::SystemTime::now());
    line("date", date.as_bytes());
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&body);
    bytes
}
