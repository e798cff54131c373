//! Headers that every response carries.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use http::header::{CACHE_CONTROL, HeaderName, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest request id that is taken over.
const LONGEST_ID: usize = 64;

/// Adds what is missing; a handler's own `Cache-Control` stays.
pub(super) fn add(headers: &mut HeaderMap, request_id: HeaderValue) {
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_REQUEST_ID, request_id);
}

/// The id that the request came with, where it is short and plain; else a new one.
pub(super) fn request_id_of(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(&X_REQUEST_ID).filter(|id| {
        let id = id.as_bytes();
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        (1..=LONGEST_ID).contains(&id.len()) && id.iter().all(is_plain)
    });
    given.cloned().unwrap_or_else(request_id)
}

/// Unique within a process's life, and unlikely to be met in another: a random start and a count. A random UUID for
/// each request was measured to cost more than the answer itself.
pub(super) fn request_id() -> HeaderValue {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| {
        std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id())
    });
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: the numbers only have to differ.
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    HeaderValue::from_str(&format!("{:016x}-{count:08x}", *PROCESS))
        .expect("hexadecimal digits are a header value")
}
