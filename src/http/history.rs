//! `GET /status/history`: the counters of the last minutes, for plots that begin before somebody looks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::http::App;
use crate::http::status::{Questions, StatusDocument};

/// As often as the status page asks, at most.
const EVERY: Duration = Duration::from_secs(2);
/// Five minutes.
const KEPT: usize = 150;

/// The counters at one moment.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sample {
    /// Since the process started, in seconds.
    uptime_seconds: f64,
    questions: Questions,
    queries_saved: u64,
    /// Null: no filter was followed.
    lag_seconds: Option<f64>,
}

/// The last [`KEPT`] samples, oldest first. Guarded for as long as it takes to add or to copy them.
#[derive(Debug, Clone, Default)]
pub(super) struct History(Arc<Mutex<VecDeque<Sample>>>);

/// Takes a sample now and then, until `stop`.
pub async fn keep_history(app: App, stop: CancellationToken) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => app.history.add(StatusDocument::of(&app)),
        }
    }
}

pub(super) async fn samples(State(app): State<App>) -> Response {
    Json(&*app.history.lock()).into_response()
}

impl History {
    fn add(&self, status: StatusDocument) {
        let mut samples = self.lock();
        if samples.len() == KEPT {
            samples.pop_front();
        }
        samples.push_back(Sample {
            uptime_seconds: status.uptime_seconds,
            lag_seconds: status.filter.map(|filter| filter.lag_seconds),
            queries_saved: status.database.queries_saved,
            questions: status.questions,
        });
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Sample>> {
        // Samples are whole whenever a panic might have happened.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
