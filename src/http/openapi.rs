//! The OpenAPI 3.1 document of the public listener, gathered from its handlers: a route that is not documented is not
//! routed. The admin listener is left out: it is for operators of this one program, not for clients.
//!
//! `docs/openapi.json` is a copy for readers and for generators of clients; a test compares the two.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::response::{IntoResponse, Response as Answered};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Response,
    ResponseBuilder,
};
use utoipa::{IntoResponses, ToSchema};

use crate::http::{Problem, public_routes};

pub(super) const PROBLEM_JSON: &str = "application/problem+json";

const ABOUT: &str = "Tells sign-up forms whether a username is free. A Bloom filter, warmed from the users table and kept \
    in step with it, answers *definitely free* from memory; the database is asked only when it says *maybe taken*.\n\n\
    Only `available: true` means free: no status code alone does. An answer is advice, not a reservation: the unique \
    index of the users table has the last word. Every error is `application/problem+json`, and carries `available: null` \
    or `false`. Other methods than those listed are answered 405 with `Allow`, other paths 404.";

/// The document, as JSON with a line feed at its end.
#[must_use]
pub fn document() -> &'static str {
    static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
        let mut document = public_routes(true).into_openapi();
        document.paths.paths.values_mut().for_each(add_head);
        let mut json = document.to_pretty_json().expect("a document is plain data");
        json.push('\n');
        json
    });
    &DOCUMENT
}

/// This document
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "openapi",
    tag = "pages",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value), Anywhere)
)]
pub(super) async fn openapi() -> Answered {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, document()).into_response()
}

/// What stands before the routes.
pub(super) fn preface() -> OpenApi {
    let tag = |name, about| {
        TagBuilder::new()
            .name(name)
            .description(Some(about))
            .build()
    };
    let license = LicenseBuilder::new()
        .name("MIT OR Apache-2.0")
        .identifier(Some("MIT OR Apache-2.0"))
        .build();
    let info = InfoBuilder::new()
        .title("namegate")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT))
        .license(Some(license))
        .build();
    OpenApiBuilder::new()
        .info(info)
        .tags(Some([
            tag(
                "names",
                "Questions about names, and the rules that judge them",
            ),
            tag("sign-up", "The sample sign-up"),
            tag("health", "For supervisors"),
            tag("pages", "For people"),
        ]))
        .build()
}

/// What any route may be answered with, whatever it is for.
pub(super) struct Anywhere;

impl IntoResponses for Anywhere {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let fault = "Something went wrong here, and it has been logged: `internal`";
        [("500".to_owned(), problem(fault).build().into())].into()
    }
}

/// What a client may be answered with who asks too much, or where nobody may ask.
pub(super) struct Protected;

impl IntoResponses for Protected {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let closed = problem("Registration is closed, for every name alike: `registration_closed`");
        let limited = problem("The client's budget does not suffice: `rate_limited`")
            .header("Retry-After", seconds("Seconds until it does"));
        [
            ("403".to_owned(), closed.build().into()),
            ("429".to_owned(), limited.build().into()),
        ]
        .into()
    }
}

fn seconds(about: &str) -> Header {
    let seconds = ObjectBuilder::new().schema_type(Type::Integer).build();
    HeaderBuilder::new()
        .schema(Some(seconds))
        .description(Some(about))
        .build()
}

/// What a question may be answered with that needs the database.
pub(super) struct Unverified;

impl IntoResponses for Unverified {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let unverified = problem("It could not be found out: `unverified`")
            .header(
                "Retry-After",
                seconds("Seconds until it is worth asking again"),
            )
            .build();
        [("503".to_owned(), unverified.into())].into()
    }
}

fn problem(about: &str) -> ResponseBuilder {
    let schema = Ref::from_schema_name(Problem::name());
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new()
        .description(about)
        .content(PROBLEM_JSON, content)
}

/// HEAD is GET without a body, on every path.
fn add_head(path: &mut PathItem) {
    path.head = path.get.as_ref().map(|get| {
        let mut head: Operation = get.clone();
        head.operation_id = get.operation_id.as_ref().map(|id| format!("{id}_head"));
        for response in head.responses.responses.values_mut() {
            if let RefOr::T(response) = response {
                response.content.clear();
            }
        }
        head
    });
}
