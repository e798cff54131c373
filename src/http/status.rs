//! `GET /status`: what the service does, as JSON for programs; and the page that shows it to people.
//!
//! Counters count since the process started. Whoever wants rates asks twice and divides: every document says how long
//! the process has been up.

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;

use crate::gate::{FilterSwitch, Outcome};
use crate::http::page::{CSS, JS, Part, html, part};
use crate::http::{App, Problem};
use crate::population::RebuildReport;
use crate::telemetry::{Metrics, Observation, Tally};

const PAGE: &str = include_str!("../../assets/status.html");
const PARTS: [Part; 2] = [
    ("status.css", CSS, include_str!("../../assets/status.css")),
    ("status.js", JS, include_str!("../../assets/status.js")),
];

/// What `GET /status` answers.
#[derive(Debug, Serialize)]
pub(super) struct StatusDocument {
    /// The version of the program.
    pub(super) version: &'static str,
    /// Since the process started, in seconds.
    pub(super) uptime_seconds: f64,
    /// `starting`, `warming_up`, `following`, `stale` or `distrusted`; `off` when the filter is switched off.
    pub(super) state: &'static str,
    /// Whether free names are answered from memory now.
    pub(super) trusted: bool,
    /// Whether the service is about to stop.
    pub(super) draining: bool,
    /// The freshness bound: a filter that lags more is not asked. In seconds.
    pub(super) max_staleness_seconds: f64,
    /// Questions answered or refused.
    pub(super) questions: Questions,
    /// What the questions cost the database.
    pub(super) database: DatabaseUse,
    /// How often the filter says *maybe* to a name that no row holds.
    pub(super) false_positives: FalsePositives,
    /// The filter that is followed; null: none is.
    pub(super) filter: Option<FilterStatus>,
    /// The change feed.
    pub(super) feed: FeedStatus,
    /// Sign-ups committed.
    pub(super) sign_ups: u64,
    /// As `GET /rebuild`.
    pub(super) rebuild: RebuildReport,
}

/// Questions by who knew the answer.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Questions {
    /// All of them.
    pub(super) total: u64,
    /// Free, known from the filter.
    pub(super) filter: u64,
    /// Taken, known from the cache.
    pub(super) cache: u64,
    /// Asked in the database.
    pub(super) database: u64,
    /// Reserved or invalid by the rules.
    pub(super) policy: u64,
    /// Not answered: the database was needed and could not be asked.
    pub(super) unverified: u64,
}

/// What the questions cost the database.
#[derive(Debug, Serialize)]
pub(super) struct DatabaseUse {
    /// Statements sent to confirm names.
    pub(super) statements: u64,
    /// Names asked in them.
    pub(super) names: u64,
    /// Names for which they brought no answer.
    pub(super) failures: u64,
    /// Questions that the rules let through less the statements sent: what one query for each would have cost more.
    pub(super) queries_saved: u64,
}

/// How often the filter says *maybe* to a name that no row holds. Rates are probabilities, 0 to 1.
#[derive(Debug, Serialize)]
pub(super) struct FalsePositives {
    /// How often it happened.
    pub(super) count: u64,
    /// The rate the filter was designed for, at capacity; null: no filter.
    pub(super) designed: Option<f64>,
    /// The rate computed from the bits as they are; null: no filter, or not read yet.
    pub(super) live: Option<f64>,
    /// `count`, divided by the free names that the filter was asked about; null: none was.
    pub(super) measured: Option<f64>,
}

/// The filter that is followed.
#[derive(Debug, Serialize)]
pub(super) struct FilterStatus {
    /// Counted from 1 in each process.
    pub(super) generation: u64,
    /// Since the filter was last known to be in step with the database, in seconds.
    pub(super) lag_seconds: f64,
    /// Names it was sized for.
    pub(super) capacity_names: u64,
    /// Names in it, estimated from its bits; null: not read yet.
    pub(super) names: Option<u64>,
    /// Share of its bits that are set, 0 to 1; null: not read yet.
    pub(super) fill_ratio: Option<f64>,
    /// Memory of its blocks, in bytes.
    pub(super) size_bytes: u64,
}

/// The change feed.
#[derive(Debug, Serialize)]
pub(super) struct FeedStatus {
    /// Polls applied.
    pub(super) polls: u64,
    /// Polls that failed.
    pub(super) failures: u64,
    /// Changes reported, including those read again.
    pub(super) rows: u64,
}

impl StatusDocument {
    pub(super) fn of(app: &App) -> Self {
        let observed = app.status.observe(app.gate.recall());
        let metrics = &*app.metrics;
        let tally = Tally::of(metrics);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: app.started.elapsed().as_secs_f64(),
            state: match app.gate.switch() {
                FilterSwitch::On => observed.state,
                FilterSwitch::Off => "off",
            },
            trusted: observed.is_trusted,
            draining: app.is_draining(),
            max_staleness_seconds: observed.max_staleness_seconds,
            questions: Questions {
                total: tally.questions,
                filter: tally.free_from_memory,
                cache: tally.taken_from_cache,
                database: tally.from_database,
                policy: tally.by_policy,
                unverified: tally.unverified,
            },
            database: DatabaseUse {
                statements: tally.statements,
                names: metrics.lookup_names.get(),
                failures: metrics.lookup_failures.get(),
                queries_saved: (tally.free_from_memory
                    + tally.taken_from_cache
                    + tally.from_database
                    + tally.unverified)
                    .saturating_sub(tally.statements),
            },
            false_positives: false_positives(metrics, &observed),
            filter: observed.filter.map(|filter| FilterStatus {
                generation: filter.generation,
                lag_seconds: filter.lag_seconds,
                capacity_names: filter.capacity,
                names: filter.is_surveyed.then_some(filter.names),
                fill_ratio: filter.is_surveyed.then_some(filter.fill),
                size_bytes: filter.size_bytes,
            }),
            feed: FeedStatus {
                polls: metrics.polls.get(),
                failures: metrics.poll_failures.get(),
                rows: metrics.poll_rows.get(),
            },
            sign_ups: metrics.signups.get(),
            rebuild: app.status.rebuilds(),
        }
    }
}

/// The document as of now.
pub(super) async fn document(State(app): State<App>) -> Response {
    Json(StatusDocument::of(&app)).into_response()
}

/// The page. It holds nothing but its own text: every number on it is asked for.
pub(super) async fn page() -> Response {
    html(StatusCode::OK, PAGE.to_owned())
}

pub(super) async fn asset(Path(file): Path<String>) -> Result<Response, Problem> {
    part(&PARTS, &file)
}

fn false_positives(metrics: &Metrics, observed: &Observation) -> FalsePositives {
    let count = metrics.false_positives.get();
    let absent = count + metrics.answered(Outcome::FreeInFilter);
    let filter = observed.filter.as_ref();
    FalsePositives {
        count,
        designed: filter.map(|filter| filter.fpr_designed),
        live: filter
            .filter(|filter| filter.is_surveyed)
            .map(|filter| filter.fpr_live),
        #[allow(clippy::cast_precision_loss, reason = "a rate, for people")]
        measured: (absent > 0).then(|| count as f64 / absent as f64),
    }
}
