//! The gate on the wire: two listeners, one answer shape, and no status code that alone means *free*.
//!
//! | listener | route | |
//! | --- | --- | --- |
//! | public | `GET`, `HEAD /username/available?username=NAME` | the question |
//! | public | `POST /username/available` | up to 1,000 names at once |
//! | public | `POST /users` | the sample sign-up, when it is switched on |
//! | public | `GET /username/policy` | the rules, for forms |
//! | public | `GET /`, `/assets/...` | the sign-up page |
//! | public | `POST /` | its form, as a browser without JavaScript sends it, when sign-up is switched on |
//! | public | `GET /livez`, `/readyz` | for supervisors |
//! | public | `GET /openapi.json`, `/docs` | this listener's routes, for programs and for people |
//! | admin | `GET /metrics` | for Prometheus |
//! | admin | `POST`, `GET /audit` | check every row against the filter; how it goes |
//! | admin | `POST /snapshot` | copy the filter to disk now |
//! | admin | `GET /status`, `/status/history` | the same and more as JSON, and its last five minutes |
//! | admin | `GET /`, `/assets/...` | the status page |
//! | admin | `POST /rebuild`, `GET /rebuild` | the next generation, and how far it is |
//!
//! Every error, the framework's own included, is `application/problem+json` with `available: null` in it: see
//! [`Problem`].

mod admin;
mod audit;
mod available;
mod batch;
mod body;
mod docs;
mod headers;
mod health;
mod history;
mod json;
mod openapi;
mod page;
mod problem;
mod rebuild;
mod sign_up;
mod status;
mod template;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{MethodRouter, get, post};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use crate::gate::{Gate, Store};
use crate::population::{Audits, Status};
use crate::telemetry::Metrics;

use history::History;

pub use history::keep_history;
pub use openapi::document;
pub use problem::Problem;

/// The handles that requests are answered with. Cheap to clone.
#[derive(Clone)]
pub struct App {
    /// Answers questions.
    pub gate: Arc<Gate>,
    /// Asked by `/readyz`, whether it answers at all.
    pub store: Arc<dyn Store>,
    /// What the population is doing.
    pub status: Arc<Status>,
    /// Every counter.
    pub metrics: Arc<Metrics>,
    /// Checks of the filter against the table; none while there is no filter.
    pub audits: Option<Audits>,
    offers: Offers,
    is_draining: Arc<AtomicBool>,
    started: Instant,
    history: History,
}

/// What the public listener offers beyond the question itself.
#[derive(Debug, Clone, Copy)]
pub struct Offers {
    /// `POST /users`, the sample sign-up.
    pub sign_up: bool,
    /// `Server-Timing`: what each answer cost.
    pub server_timing: bool,
    /// Filters are kept on disk, so that one can be written when asked.
    pub keeps_filters: bool,
}

impl App {
    /// All handles at once.
    #[must_use]
    pub fn new(
        gate: Arc<Gate>,
        store: Arc<dyn Store>,
        status: Arc<Status>,
        metrics: Arc<Metrics>,
        audits: Option<Audits>,
        offers: Offers,
    ) -> Self {
        Self {
            gate,
            store,
            status,
            metrics,
            audits,
            offers,
            is_draining: Arc::default(),
            started: Instant::now(),
            history: History::default(),
        }
    }

    /// From now on `/readyz` says no; everything else goes on.
    pub fn start_draining(&self) {
        // Relaxed: a flag of its own, nothing else is published by it.
        self.is_draining.store(true, Ordering::Relaxed);
    }

    fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }
}

/// What the public listener serves.
pub fn public_router(app: App) -> Router {
    let (router, _documented) = public_routes(app.offers.sign_up).split_for_parts();
    finish(router, app)
}

/// Every route of the public listener together with what is documented of it; the sign-up where it is offered.
fn public_routes(with_sign_up: bool) -> OpenApiRouter<App> {
    let questions = documented(
        routes!(available::ask, batch::ask_many, available::options),
        available::METHODS,
    );
    let router = OpenApiRouter::with_openapi(openapi::preface())
        .routes(up_to(batch::LARGEST_BODY, questions))
        .routes(documented(routes!(available::policy), "GET, HEAD"))
        .routes(documented(routes!(health::livez), "GET, HEAD"))
        .routes(documented(routes!(health::readyz), "GET, HEAD"))
        .routes(documented(routes!(page::asset), "GET, HEAD"))
        .routes(documented(routes!(openapi::openapi), "GET, HEAD"))
        .routes(documented(routes!(docs::docs), "GET, HEAD"))
        .routes(documented(routes!(docs::style), "GET, HEAD"));
    if !with_sign_up {
        return router.routes(documented(routes!(page::index), "GET, HEAD"));
    }
    let sign_up = documented(routes!(sign_up::sign_up), "POST");
    let page = documented(routes!(page::index, page::submit), "GET, HEAD, POST");
    router
        .routes(up_to(sign_up::LARGEST_BODY, sign_up))
        .routes(up_to(sign_up::LARGEST_BODY, page))
}

/// What the admin listener serves.
pub fn admin_router(app: App) -> Router {
    let router = Router::new()
        .route("/metrics", only(get(admin::metrics), "GET, HEAD"))
        .route(
            "/audit",
            only(get(audit::report).post(audit::begin), "GET, HEAD, POST"),
        )
        .route("/snapshot", only(post(audit::save), "POST"))
        .route("/status", only(get(status::document), "GET, HEAD"))
        .route("/status/history", only(get(history::samples), "GET, HEAD"))
        .route(
            "/rebuild",
            only(
                get(rebuild::progress).post(rebuild::start),
                "GET, HEAD, POST",
            ),
        )
        .route("/livez", only(get(health::livez), "GET, HEAD"))
        .route("/readyz", only(get(health::readyz), "GET, HEAD"));
    finish(router.merge(status_page()), app)
}

/// The page of the admin listener. Its text is no secret, and a browser cannot send a token before it has a page that
/// asks for one: where a token is wanted, it is wanted for everything but this.
fn status_page() -> Router<App> {
    Router::new()
        .route("/", only(get(status::page), "GET, HEAD"))
        .route("/assets/{file}", only(get(status::asset), "GET, HEAD"))
}

/// Serves until `stop`, then finishes what is under way.
///
/// # Errors
/// An I/O error of the listener.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        // Answers are one small write: waiting for more to send only delays them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(error = %error, "TCP_NODELAY could not be set");
        }
    });
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
}

/// Routes whose other methods are refused with those that are `allowed`.
fn documented(
    (schemas, paths, methods): UtoipaMethodRouter<App>,
    allowed: &'static str,
) -> UtoipaMethodRouter<App> {
    (schemas, paths, only(methods, allowed))
}

/// Routes that read bodies of up to `largest` bytes.
fn up_to(
    largest: usize,
    (schemas, paths, methods): UtoipaMethodRouter<App>,
) -> UtoipaMethodRouter<App> {
    let methods = methods.layer(DefaultBodyLimit::max(largest));
    (schemas, paths, methods)
}

fn only(methods: MethodRouter<App>, allowed: &'static str) -> MethodRouter<App> {
    methods.fallback(move || std::future::ready(Problem::method_not_allowed(allowed)))
}

fn finish(router: Router<App>, app: App) -> Router {
    router
        .fallback(|| std::future::ready(Problem::not_found()))
        .layer(CatchPanicLayer::custom(Problem::from_panic))
        .layer(axum::middleware::map_response(headers::add))
        .with_state(app)
}

/// How long a client is asked to wait before it asks again what could not be found out.
const RETRY_AFTER: Duration = Duration::from_secs(1);
