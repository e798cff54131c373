//! `/livez`: the runtime answers. `/readyz`: a question would be answered.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;

use crate::http::App;
use crate::http::openapi::Anywhere;

const DATABASE_ANSWERS_WITHIN: Duration = Duration::from_secs(1);

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
    let database_answers = observed.is_trusted
        || matches!(
            timeout(DATABASE_ANSWERS_WITHIN, app.store.held(&[])).await,
            Ok(Ok(_))
        );
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
