//! `/livez`: the runtime answers. `/readyz`: a question would be answered.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::json;
use tokio::time::timeout;

use crate::http::App;

const DATABASE_ANSWERS_WITHIN: Duration = Duration::from_secs(1);

pub(super) async fn livez() -> Response {
    Json(json!({"alive": true})).into_response()
}

/// 200 while a trusted filter or a database answer can be had, 503 otherwise and while draining.
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
    let body = json!({
        "ready": is_ready,
        "draining": is_draining,
        "filter": {"state": observed.state, "trusted": observed.is_trusted},
        "database": {"answers": database_answers},
    });
    (status, Json(body)).into_response()
}
