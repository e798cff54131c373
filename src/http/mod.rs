//! The gate on the wire: two listeners, one answer shape, and no status code that alone means *free*.
//!
//! | listener | route | |
//! | --- | --- | --- |
//! | public | `GET`, `HEAD /username/available?username=NAME` | the question |
//! | public | `POST /users` | the sample sign-up, when it is switched on |
//! | public | `GET /username/policy` | the rules, for forms |
//! | public | `GET /`, `/assets/...` | the sign-up page |
//! | public | `POST /` | its form, as a browser without JavaScript sends it, when sign-up is switched on |
//! | public | `GET /livez`, `/readyz` | for supervisors |
//! | admin | `GET /metrics` | for Prometheus |
//! | admin | `GET /status`, `/status/history` | the same and more as JSON, and its last five minutes |
//! | admin | `GET /`, `/assets/...` | the status page |
//! | admin | `POST /rebuild`, `GET /rebuild` | the next generation, and how far it is |
//!
//! Every error, the framework's own included, is `application/problem+json` with `available: null` in it: see
//! [`Problem`].

mod admin;
mod available;
mod headers;
mod health;
mod history;
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

use crate::gate::{Gate, Store};
use crate::population::Status;
use crate::telemetry::Metrics;

use history::History;

pub use history::keep_history;
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
}

impl App {
    /// All handles at once.
    #[must_use]
    pub fn new(
        gate: Arc<Gate>,
        store: Arc<dyn Store>,
        status: Arc<Status>,
        metrics: Arc<Metrics>,
        offers: Offers,
    ) -> Self {
        Self {
            gate,
            store,
            status,
            metrics,
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
        .route("/assets/{file}", only(get(page::asset), "GET, HEAD"));
    if app.offers.sign_up {
        let limit = || DefaultBodyLimit::max(sign_up::LARGEST_BODY);
        let sign_up = post(sign_up::sign_up).layer(limit());
        let page = get(page::index).post(page::submit).layer(limit());
        router = router
            .route("/users", only(sign_up, "POST"))
            .route("/", only(page, "GET, HEAD, POST"));
    } else {
        router = router.route("/", only(get(page::index), "GET, HEAD"));
    }
    finish(router, app)
}

/// What the admin listener serves.
pub fn admin_router(app: App) -> Router {
    let router = Router::new()
        .route("/metrics", only(get(admin::metrics), "GET, HEAD"))
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
