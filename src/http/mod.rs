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
//! | admin | `GET /username/available?username=NAME&scope=operator` | the question past the reserved names |
//!
//! ```text
//!   listener ──seat?──▶ conversation ──▶ wire ──▶ hyper ──▶ responder ──▶ router ──▶ handler
//!   accepts, sees off   phases, alarm    bytes              who asks, token, CORS,    budget, then work
//!                                                           headers of every answer
//! ```
//!
//! Every error, the framework's own included, is `application/problem+json` with `available: null` in it: see
//! [`Problem`].

mod admin;
mod audit;
mod available;
mod batch;
mod body;
mod budget;
mod client;
mod conversation;
mod cors;
mod docs;
mod headers;
mod health;
mod history;
mod json;
mod listener;
mod openapi;
mod page;
mod problem;
mod rebuild;
mod refusal;
mod responder;
mod sign_up;
mod status;
mod template;
mod token;
mod wire;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::{MethodRouter, get, post};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use crate::gate::{Gate, Store};
use crate::population::{Audits, Status};
use crate::telemetry::Metrics;

use history::History;

pub use budget::{Budgets, LOOKUP, QUESTION, SIGN_UP, Wait};
pub use client::{Client, Clients, is_near};
pub use conversation::Patience;
pub use cors::Cors;
pub use history::keep_history;
pub use listener::{Manners, serve};
pub use openapi::document;
pub use problem::Problem;
pub use responder::Access;
pub use token::{AdminToken, SHORTEST_TOKEN, TokenError};

/// The handles that requests are answered with. One counted pointer: every request clones it.
#[derive(Clone)]
pub struct App(Arc<Handles>);

/// What is in an [`App`].
pub struct Handles {
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
    budgets: Option<Budgets>,
    database: health::Glance,
    is_draining: AtomicBool,
    started: Instant,
    history: History,
}

impl Deref for App {
    type Target = Handles;

    fn deref(&self) -> &Handles {
        &self.0
    }
}

/// What the public listener offers beyond the question itself.
#[derive(Debug, Clone, Copy)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own, set by name in one place"
)]
pub struct Offers {
    /// Questions and sign-ups of the public. When they are not, all of them get the same 403.
    pub registration: bool,
    /// `POST /users`, the sample sign-up.
    pub sign_up: bool,
    /// `Server-Timing`: what each answer cost.
    pub server_timing: bool,
    /// Filters are kept on disk, so that one can be written when asked.
    pub keeps_filters: bool,
}

impl App {
    /// All handles at once. `budgets`: `None` when whoever asks is answered.
    #[must_use]
    pub fn new(
        gate: Arc<Gate>,
        store: Arc<dyn Store>,
        status: Arc<Status>,
        metrics: Arc<Metrics>,
        audits: Option<Audits>,
        offers: Offers,
        budgets: Option<Budgets>,
    ) -> Self {
        Self(Arc::new(Handles {
            gate,
            store,
            status,
            metrics,
            audits,
            offers,
            budgets,
            database: health::Glance::default(),
            is_draining: AtomicBool::new(false),
            started: Instant::now(),
            history: History::default(),
        }))
    }

    /// From now on `/readyz` says no; everything else goes on.
    pub fn start_draining(&self) {
        // Relaxed: a flag of its own, nothing else is published by it.
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// To be asked first by every route that tells something about names or makes accounts.
    ///
    /// # Errors
    /// 403 when the public may not ask.
    pub fn admit(&self) -> Result<(), Problem> {
        if self.offers.registration {
            Ok(())
        } else {
            Err(Problem::registration_closed())
        }
    }

    /// Takes `units` out of a client's budget, where there are budgets: [`QUESTION`] for each name that is asked about,
    /// [`LOOKUP`] on top for each that the database is asked about.
    ///
    /// # Errors
    /// [`Wait`]: nothing was taken, and nothing must be done.
    pub fn charge(&self, client: Client, units: u32) -> Result<(), Wait> {
        let charged = match &self.budgets {
            Some(budgets) if client != Client::UNKNOWN => budgets.take(client, units),
            _ => return Ok(()),
        };
        if charged.is_err() {
            self.metrics.protection.rate_limited.inc();
        }
        charged
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
        .routes(questions)
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
    router.routes(sign_up).routes(page)
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
        .route("/readyz", only(get(health::readyz), "GET, HEAD"))
        .route(
            "/username/available",
            only(get(available::ask_as_operator), "GET, HEAD"),
        );
    finish(router.merge(status_page()), app)
}

/// The page of the admin listener. Where a token is wanted, it is wanted for this too: a browser asks its user for it.
fn status_page() -> Router<App> {
    Router::new()
        .route("/", only(get(status::page), "GET, HEAD"))
        .route("/assets/{file}", only(get(status::asset), "GET, HEAD"))
}

/// Routes whose other methods are refused with those that are `allowed`.
fn documented(
    (schemas, paths, methods): UtoipaMethodRouter<App>,
    allowed: &'static str,
) -> UtoipaMethodRouter<App> {
    (schemas, paths, only(methods, allowed))
}

fn only(methods: MethodRouter<App>, allowed: &'static str) -> MethodRouter<App> {
    methods.fallback(move || std::future::ready(Problem::method_not_allowed(allowed)))
}

fn finish(router: Router<App>, app: App) -> Router {
    router
        .fallback(|| std::future::ready(Problem::not_found()))
        .layer(CatchPanicLayer::custom(Problem::from_panic))
        .with_state(app)
}

/// How long a client is asked to wait before it asks again what could not be found out.
const RETRY_AFTER: Duration = Duration::from_secs(1);
