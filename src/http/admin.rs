//! `/metrics`, for Prometheus.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;

use crate::http::App;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn metrics(State(app): State<App>) -> Response {
    let observed = app.status.observe(app.gate.recall());
    ([(CONTENT_TYPE, OPENMETRICS)], app.metrics.render(&observed)).into_response()
}
