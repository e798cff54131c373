//! The gate on the wire: two listeners, one answer shape, and no status code that alone means *free*.
//!
//! | listener | route | |
//! | --- | --- | --- |
//! | public | `GET`, `HEAD /username/available?username=NAME` | the question |
//! | public | `POST /users` | the sample sign-up, when it is switched on |
//! | public | `GET /username/policy` | the rules, for forms |
//! | public | `GET /`, `/assets/...` | the sign-up page |
//! | public | `GET /livez`, `/readyz` | for supervisors |
//! | admin | `GET /metrics` | for Prometheus |
//! | admin | `POST`, `GET /audit` | check every row against the filter; how it goes |
//! | admin | `POST /snapshot` | copy the filter to disk now |
//!
//! Every error, the framework's own included, is `application/problem+json` with `available: null` in it: see
//! [`Problem`].

mod admin;
mod audit;
mod available;
mod headers;
mod health;
mod page;
mod problem;
mod sign_up;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{MethodRouter, get, post};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;

use crate::gate::{Gate, Store};
use crate::population::{Audits, Status};
use crate::telemetry::Metrics;

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
    let mut router = Router::new()
        .route(
            "/username/available",
            only(
                get(available::ask).options(available::options),
                "GET, HEAD, OPTIONS",
            ),
        )
        .route(
            "/username/policy",
            only(get(available::policy), "GET, HEAD"),
        )
        .route("/livez", only(get(health::livez), "GET, HEAD"))
        .route("/readyz", only(get(health::readyz), "GET, HEAD"))
        .route("/", only(get(page::index), "GET, HEAD"))
        .route("/assets/{file}", only(get(page::asset), "GET, HEAD"));
    if app.offers.sign_up {
        let sign_up = post(sign_up::sign_up).layer(DefaultBodyLimit::max(sign_up::LARGEST_BODY));
        router = router.route("/users", only(sign_up, "POST"));
    }
    finish(router, app)
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
        .route("/livez", only(get(health::livez), "GET, HEAD"))
        .route("/readyz", only(get(health::readyz), "GET, HEAD"));
    finish(router, app)
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
