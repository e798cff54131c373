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
mod available;
mod body;
mod budget;
mod client;
mod conversation;
mod cors;
mod headers;
mod health;
mod listener;
mod page;
mod problem;
mod refusal;
mod responder;
mod sign_up;
mod token;
mod wire;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::{MethodRouter, get, post};
use tower_http::catch_panic::CatchPanicLayer;

use crate::gate::{Gate, Store};
use crate::population::Status;
use crate::telemetry::Metrics;

pub use body::read_json;
pub use budget::{Budgets, LOOKUP, QUESTION, SIGN_UP, Wait};
pub use client::{Client, Clients, is_near};
pub use conversation::Patience;
pub use cors::Cors;
pub use listener::{Manners, serve};
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
    offers: Offers,
    budgets: Option<Budgets>,
    database: health::Glance,
    is_draining: AtomicBool,
}

impl Deref for App {
    type Target = Handles;

    fn deref(&self) -> &Handles {
        &self.0
    }
}

/// What the public listener offers beyond the question itself.
#[derive(Debug, Clone, Copy)]
pub struct Offers {
    /// Questions and sign-ups of the public. When they are not, all of them get the same 403.
    pub registration: bool,
    /// `POST /users`, the sample sign-up.
    pub sign_up: bool,
    /// `Server-Timing`: what each answer cost.
    pub server_timing: bool,
}

impl App {
    /// All handles at once. `budgets`: `None` when whoever asks is answered.
    #[must_use]
    pub fn new(
        gate: Arc<Gate>,
        store: Arc<dyn Store>,
        status: Arc<Status>,
        metrics: Arc<Metrics>,
        offers: Offers,
        budgets: Option<Budgets>,
    ) -> Self {
        Self(Arc::new(Handles {
            gate,
            store,
            status,
            metrics,
            offers,
            budgets,
            database: health::Glance::default(),
            is_draining: AtomicBool::new(false),
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
        router = router.route("/users", only(post(sign_up::sign_up), "POST"));
    }
    finish(router, app)
}

/// What the admin listener serves.
pub fn admin_router(app: App) -> Router {
    let router = Router::new()
        .route("/metrics", only(get(admin::metrics), "GET, HEAD"))
        .route("/livez", only(get(health::livez), "GET, HEAD"))
        .route("/readyz", only(get(health::readyz), "GET, HEAD"))
        .route(
            "/username/available",
            only(get(available::ask_as_operator), "GET, HEAD"),
        );
    finish(router, app)
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
