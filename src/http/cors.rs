//! Which pages may ask from a browser.
//!
//! Nothing here keeps anybody out: a browser that is not told that an origin is welcome hides the answer from the page.
//! No credentials are ever asked for, so `*` gives away no more than a request without a browser would get.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
    VARY,
};
use http::{HeaderMap, HeaderValue, Method};

/// How long a browser may remember what it was allowed: two hours, the most that any keeps.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// The origins that are welcome.
#[derive(Debug)]
pub struct Cors {
    listed: Vec<HeaderValue>,
    is_for_all: bool,
}

/// What the answer to a request says about its origin.
#[derive(Debug)]
pub(super) struct Welcome {
    allowed: Option<HeaderValue>,
}

impl Cors {
    /// `origins`: as browsers write them; `*` welcomes all. `None` when there are none.
    #[must_use]
    pub fn new(origins: &[String]) -> Option<Self> {
        let listed = origins
            .iter()
            .filter_map(|origin| HeaderValue::from_str(origin).ok());
        (!origins.is_empty()).then(|| Self {
            listed: listed.collect(),
            is_for_all: origins.iter().any(|origin| origin == "*"),
        })
    }

    pub(super) fn welcome(&self, headers: &HeaderMap) -> Welcome {
        let allowed = headers.get(ORIGIN).and_then(|origin| {
            if self.is_for_all {
                return Some(HeaderValue::from_static("*"));
            }
            self.listed.iter().find(|listed| *listed == origin).cloned()
        });
        Welcome { allowed }
    }
}

impl Welcome {
    /// Goes into every answer, errors included: a page that may not read a 429 cannot wait as it says.
    pub(super) fn add_to(self, headers: &mut HeaderMap) {
        headers.append(VARY, HeaderValue::from_static("Origin"));
        if let Some(origin) = self.allowed {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(
                ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static("Retry-After, Server-Timing, X-Request-Id"),
            );
        }
    }

    /// The answer to a preflight: 204 either way, the permission only for those who are welcome.
    pub(super) fn preflight(&self, headers: &mut HeaderMap) {
        if self.allowed.is_some() {
            headers.insert(
                ACCESS_CONTROL_ALLOW_METHODS,
                HeaderValue::from_static("GET, HEAD, POST"),
            );
            headers.insert(
                ACCESS_CONTROL_ALLOW_HEADERS,
                HeaderValue::from_static("Content-Type, X-Request-Id"),
            );
            headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
        }
    }
}

/// Whether a browser asks what it may ask.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}
