//! `/livez`: the runtime answers. `/readyz`: a question would be answered.
//!
//! Neither has a budget: who asks them stands beside the service. So whoever else asks them must not be able to load the
//! database: one statement at a time, and its outcome is believed for a moment.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::timeout;
use utoipa::ToSchema;

use crate::gate::Store;
use crate::http::App;
use crate::http::openapi::Anywhere;

const DATABASE_ANSWERS_WITHIN: Duration = Duration::from_secs(1);
const BELIEVED_FOR: Duration = Duration::from_millis(250);

/// Whether the database answers, as it was found a moment ago.
#[derive(Debug, Default)]
pub(super) struct Glance {
    /// Held while the database is asked, so that all who want to know wait for one statement.
    found: Mutex<Option<(Instant, bool)>>,
}

impl Glance {
    async fn database_answers(&self, store: &dyn Store) -> bool {
        let mut found = self.found.lock().await;
        if let Some((when, answers)) = *found
            && when.elapsed() < BELIEVED_FOR
        {
            return answers;
        }
        let asked = timeout(DATABASE_ANSWERS_WITHIN, store.held(&[])).await;
        let answers = matches!(asked, Ok(Ok(_)));
        *found = Some((Instant::now(), answers));
        answers
    }
}

/// The runtime answers.
#[derive(Serialize, ToSchema)]
struct Liveness {
    alive: bool,
}

/// Whether questions would be answered, and what that stands on.
#[derive(Serialize, ToSchema)]
struct Readiness {
    ready: bool,
    /// The service is on its way out.
    draining: bool,
    filter: FilterPart,
    database: DatabasePart,
}

/// Whether free names are answered from memory.
#[derive(Serialize, ToSchema)]
struct FilterPart {
    /// `starting`, `warming_up`, `following`, `stale` or `distrusted`.
    #[schema(value_type = String)]
    state: &'static str,
    trusted: bool,
}

/// Whether the database answers; while the filter is trusted it has answered a moment ago.
#[derive(Serialize, ToSchema)]
struct DatabasePart {
    answers: bool,
}

/// The process lives
#[utoipa::path(
    get,
    path = "/livez",
    operation_id = "livez",
    tag = "health",
    responses((status = 200, description = "It does", body = Liveness), Anywhere)
)]
pub(super) async fn livez() -> Response {
    Json(Liveness { alive: true }).into_response()
}

/// Questions are answered
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "readyz",
    tag = "health",
    responses(
        (status = 200, description = "A trusted filter or a database answer can be had", body = Readiness),
        (status = 503, description = "Neither can be had, or the service is on its way out", body = Readiness),
        Anywhere,
    )
)]
pub(super) async fn readyz(State(app): State<App>) -> Response {
    let observed = app.status.observe(app.gate.recall());
    let is_draining = app.is_draining();
    // A trusted filter has heard from the database a moment ago; only without one is it worth a statement.
    let database_answers = observed.is_trusted || app.database.database_answers(&*app.store).await;
    let is_ready = database_answers && !is_draining;
    let status = if is_ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = Readiness {
        ready: is_ready,
        draining: is_draining,
        filter: FilterPart {
            state: observed.state,
            trusted: observed.is_trusted,
        },
        database: DatabasePart {
            answers: database_answers,
        },
    };
    (status, Json(body)).into_response()
}
