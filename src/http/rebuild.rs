//! `POST /rebuild`: a new generation is built beside the live one, and `GET /rebuild`: how far it is.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};

use crate::gate::FilterSwitch;
use crate::http::{App, Problem};

/// 202 with the job's number in `job`; while one is waited for or running, that one's. 409 when there is nothing to
/// replace.
pub(super) async fn start(State(app): State<App>, headers: HeaderMap) -> Result<Response, Problem> {
    refuse_other_sites(&headers)?;
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

/// Any page that an operator has open could send this request to a loopback address. Browsers say where it comes from;
/// other programs say nothing.
fn refuse_other_sites(headers: &HeaderMap) -> Result<(), Problem> {
    match headers
        .get("sec-fetch-site")
        .map(http::HeaderValue::as_bytes)
    {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "cross_site",
            "Refused",
            "A page of another site asked for this.",
        )),
    }
}

fn refused(code: &'static str, detail: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, code, "Nothing to rebuild", detail)
}
