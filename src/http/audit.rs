//! `/audit` and `/snapshot`, for operators: check the filter against every row, write it to disk now.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::json;

use crate::http::{App, Problem};
use crate::population::Audits;

/// `POST /audit`: 202 with the job's number; 409 while another runs.
pub(super) async fn begin(State(app): State<App>) -> Response {
    let begun = match audits(&app) {
        Ok(audits) => audits.begin(),
        Err(problem) => return problem.into_response(),
    };
    match begun {
        Ok(job) => (StatusCode::ACCEPTED, Json(json!({ "job": job }))).into_response(),
        Err(busy) => Problem::new(
            StatusCode::CONFLICT,
            "busy",
            "An audit is running",
            format!("{busy}; GET this path to see how it goes."),
        )
        .into_response(),
    }
}

/// `GET /audit`: how the last one went, or how far it has come.
pub(super) async fn report(State(app): State<App>) -> Response {
    match audits(&app) {
        Ok(audits) => Json(audits.report()).into_response(),
        Err(problem) => problem.into_response(),
    }
}

/// `POST /snapshot`: 202; the copy is made beside everything else.
pub(super) async fn save(State(app): State<App>) -> Response {
    if !app.offers.keeps_filters {
        return Problem::new(
            StatusCode::CONFLICT,
            "not_kept",
            "Filters are not kept",
            "This service keeps no filter on disk: see --save-interval and --data-dir.",
        )
        .into_response();
    }
    app.status.want_saved();
    (StatusCode::ACCEPTED, Json(json!({}))).into_response()
}

fn audits(app: &App) -> Result<&Audits, Problem> {
    app.audits.as_ref().ok_or_else(|| {
        Problem::new(
            StatusCode::CONFLICT,
            "no_filter",
            "There is no filter",
            "This service runs with --filter off.",
        )
    })
}
