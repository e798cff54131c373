//! `POST /rebuild`: a new generation is built beside the live one, and `GET /rebuild`: how far it is.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use crate::gate::FilterSwitch;
use crate::http::{App, Problem};

/// 202 with the job's number in `job`; while one is waited for or running, that one's. 409 when there is nothing to
/// replace.
pub(super) async fn start(State(app): State<App>) -> Result<Response, Problem> {
    if app.gate.switch() == FilterSwitch::Off {
        return Err(refused(
            "filter_off",
            "The filter is switched off (--filter off), so there is none to rebuild.",
        ));
    }
    app.status.wish_rebuilt().map_err(|_nothing| {
        refused(
            "no_generation",
            "No filter is followed now; one is being built already. GET /rebuild says how far it is.",
        )
    })?;
    Ok((StatusCode::ACCEPTED, Json(app.status.rebuilds())).into_response())
}

pub(super) async fn progress(State(app): State<App>) -> Response {
    Json(app.status.rebuilds()).into_response()
}

fn refused(code: &'static str, detail: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, code, "Nothing to rebuild", detail)
}
