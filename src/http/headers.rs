//! Headers that every response carries.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::response::Response;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, HeaderName, X_CONTENT_TYPE_OPTIONS};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Adds what is missing; a handler's own `Cache-Control` stays.
pub(super) async fn add(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_REQUEST_ID, request_id());
    response
}

/// Unique within a process's life, and unlikely to be met in another: a random start and a count. A random UUID for
/// each request was measured to cost more than the answer itself.
fn request_id() -> HeaderValue {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| {
        std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id())
    });
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: the numbers only have to differ.
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    HeaderValue::from_str(&format!("{:016x}-{count:08x}", *PROCESS))
        .expect("hexadecimal digits are a header value")
}
