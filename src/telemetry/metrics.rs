//! Every metric of namegate, declared once, with its help text and unit.
//!
//! Handles are plain atomics kept in a struct: counting on the hot path is one atomic add, and the numbers can be read
//! back for the terminal and the summary at shutdown. No label ever holds a name or an address.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::gate::{Distrust, Outcome};
use crate::population::Wish;

type Share = Gauge<f64, AtomicU64>;
type Labels<const N: usize> = [(&'static str, &'static str); N];

/// All metrics and the registry that writes them out.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    questions: [Counter; Outcome::ALL.len()],
    /// Statements sent to the database to confirm names.
    pub lookup_statements: Counter,
    /// Names asked in those statements.
    pub lookup_names: Counter,
    /// Lookups that brought no answer: unreachable, overdue, or too many waiting.
    pub lookup_failures: Counter,
    /// The filter said *maybe*, the database said no row.
    pub false_positives: Counter,
    /// Sign-ups that were committed.
    pub signups: Counter,
    /// Polls of the change feed that were applied.
    pub polls: Counter,
    /// Changes the feed reported, including those read again.
    pub poll_rows: Counter,
    /// Polls that failed.
    pub poll_failures: Counter,
    /// How long a poll takes, from question to applied.
    pub poll_seconds: Histogram,
    /// Times the filter was given twice the room.
    pub expansions: Counter,
    /// Filters copied to disk.
    pub saves: Counter,
    /// Copies to disk that failed.
    pub save_failures: Counter,
    /// Rows that an audit looked at, those of the background sampling included.
    pub audited_rows: Counter,
    /// Rows among them that the filter called absent. Must stay 0.
    pub audit_misses: Counter,
    /// What stands between the service and those who ask too much.
    pub protection: Protection,
    rebuilds: Family<Labels<1>, Counter>,
    distrusts: Family<Labels<1>, Counter>,
    /// Set by [`Metrics::observe`] just before they are written out.
    gauges: Gauges,
}

/// Connections, budgets, forwarded addresses, reloads.
#[derive(Debug, Default)]
pub struct Protection {
    /// Connections of the public listener, now.
    pub connections: Gauge,
    /// Connections that were one too many.
    pub connections_refused: Counter,
    /// Requests that could not be read as HTTP.
    pub unreadable_requests: Counter,
    /// Questions and sign-ups for which a client's budget did not suffice.
    pub rate_limited: Counter,
    /// Requests whose trusted proxy did not say whom it asks for, in words that can be read.
    pub unreadable_forwards: Counter,
    /// Requests without the admin token.
    pub unauthorized: Counter,
    late: Family<Labels<1>, Counter>,
    reloads: Family<Labels<1>, Counter>,
}

impl Protection {
    fn register(registry: &mut Registry) -> Self {
        let these = Self::default();
        registry.register(
            "connections",
            "Connections open on the public listener",
            these.connections.clone(),
        );
        registry.register(
            "connections_refused",
            "Connections refused because there were too many",
            these.connections_refused.clone(),
        );
        registry.register(
            "connections_late",
            "Connections that rested too long, by where: before a head was whole, before the answer, before it was \
             read, between requests",
            these.late.clone(),
        );
        registry.register(
            "unreadable_requests",
            "Requests that could not be read as HTTP",
            these.unreadable_requests.clone(),
        );
        registry.register(
            "rate_limited_requests",
            "Requests for which a client's budget did not suffice",
            these.rate_limited.clone(),
        );
        registry.register(
            "unreadable_forwarded_headers",
            "Requests whose trusted proxy named no address that can be read",
            these.unreadable_forwards.clone(),
        );
        registry.register(
            "unauthorized_requests",
            "Requests to the admin listener without its token",
            these.unauthorized.clone(),
        );
        registry.register(
            "reserved_reloads",
            "Readings of the reserved names anew, by how they ended",
            these.reloads.clone(),
        );
        these
    }

    /// Counts a connection that rested too long.
    pub fn count_late(&self, phase: &'static str) {
        self.late.get_or_create(&[("phase", phase)]).inc();
    }

    /// Counts a reading of the reserved names anew.
    pub fn count_reload(&self, is_applied: bool) {
        let outcome = if is_applied { "applied" } else { "refused" };
        self.reloads.get_or_create(&[("outcome", outcome)]).inc();
    }
}

#[derive(Debug, Default)]
struct Gauges {
    trusted: Gauge,
    state: Family<Labels<1>, Gauge>,
    generation: Gauge,
    lag_seconds: Share,
    max_staleness_seconds: Share,
    filter_bytes: Gauge,
    filter_capacity: Gauge,
    filter_names: Gauge,
    filter_fill: Share,
    fpr_designed: Share,
    fpr_live: Share,
}

/// What is read off the gate and the population when the metrics are written out.
#[derive(Debug, Clone, Copy)]
pub struct Observation {
    /// The population's state, one of [`Observation::STATES`].
    pub state: &'static str,
    /// Whether the filter would be believed now.
    pub is_trusted: bool,
    /// How old a lease may be, in seconds.
    pub max_staleness_seconds: f64,
    /// The filter, when there is one.
    pub filter: Option<FilterReading>,
}

impl Observation {
    /// The states a population can be in.
    pub const STATES: [&str; 5] = ["starting", "warming_up", "following", "stale", "distrusted"];
}

/// What a filter says of itself.
#[derive(Debug, Clone, Copy)]
pub struct FilterReading {
    /// Counted from 1 in each process.
    pub generation: u64,
    /// Seconds since the filter was last known to be in step with the database.
    pub lag_seconds: f64,
    /// Memory of its blocks.
    pub size_bytes: u64,
    /// Names it was sized for.
    pub capacity: u64,
    /// Whether its bits have been read; until then names, fill and live rate are 0.
    pub is_surveyed: bool,
    /// Names in it, estimated from its bits.
    pub names: u64,
    /// Share of bits set, 0 to 1.
    pub fill: f64,
    /// The false-positive rate it was designed for, at capacity.
    pub fpr_designed: f64,
    /// The false-positive rate it has now, computed from its bits.
    pub fpr_live: f64,
}

impl Metrics {
    /// Fresh metrics, all at zero.
    #[must_use]
    #[allow(
        clippy::too_many_lines,
        reason = "one line per metric, and all of them in one place"
    )]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("namegate");
        let questions = Family::<Labels<2>, Counter>::default();
        registry.register(
            "questions",
            "Questions answered, by answer and by source",
            questions.clone(),
        );
        let rebuilds = Family::<Labels<1>, Counter>::default();
        registry.register(
            "rebuilds",
            "Generations begun beside one that could be trusted, by cause",
            rebuilds.clone(),
        );
        let distrusts = Family::<Labels<1>, Counter>::default();
        registry.register(
            "distrusts",
            "Generations given up because they could not be trusted, by cause",
            distrusts.clone(),
        );

        let protection = Protection::register(&mut registry);
        let gauges = Gauges::default();
        registry.register(
            "trusted",
            "1 while free names are answered from memory, else 0",
            gauges.trusted.clone(),
        );
        registry.register(
            "population_state",
            "1 for the state the population is in, 0 for the others",
            gauges.state.clone(),
        );
        registry.register(
            "generation",
            "The live generation, counted from 1 since start; 0: none",
            gauges.generation.clone(),
        );
        registry.register_with_unit(
            "lag",
            "Time since the filter was last known to be in step with the database",
            Unit::Seconds,
            gauges.lag_seconds.clone(),
        );
        registry.register_with_unit(
            "max_staleness",
            "The freshness bound: a filter that lags more is not asked",
            Unit::Seconds,
            gauges.max_staleness_seconds.clone(),
        );
        registry.register_with_unit(
            "filter_size",
            "Memory of the filter's blocks",
            Unit::Bytes,
            gauges.filter_bytes.clone(),
        );
        registry.register(
            "filter_capacity_names",
            "Names the filter was sized for",
            gauges.filter_capacity.clone(),
        );
        registry.register(
            "filter_names",
            "Names in the filter, estimated from its bits",
            gauges.filter_names.clone(),
        );
        registry.register_with_unit(
            "filter_fill",
            "Share of the filter's bits that are set",
            Unit::Other("ratio".to_owned()),
            gauges.filter_fill.clone(),
        );
        registry.register_with_unit(
            "filter_false_positive_designed",
            "False-positive rate the filter was designed for, at capacity",
            Unit::Other("ratio".to_owned()),
            gauges.fpr_designed.clone(),
        );
        registry.register_with_unit(
            "filter_false_positive_live",
            "False-positive rate computed from the bits as they are",
            Unit::Other("ratio".to_owned()),
            gauges.fpr_live.clone(),
        );

        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let lookup_statements = counter(
            "lookup_statements",
            "Statements sent to the database to confirm names",
        );
        let lookup_names = counter("lookup_names", "Names asked in those statements");
        let lookup_failures = counter("lookup_failures", "Lookups that brought no answer");
        let false_positives = counter(
            "false_positives",
            "Names the filter said maybe to and no row held",
        );
        let signups = counter("signups", "Sign-ups committed");
        let polls = counter("feed_polls", "Polls of the change feed that were applied");
        let poll_rows = counter(
            "feed_rows",
            "Changes the feed reported, including those read again",
        );
        let poll_failures = counter("feed_poll_failures", "Polls of the change feed that failed");
        let expansions = counter("expansions", "Times the filter was given twice the room");
        let saves = counter("filter_saves", "Copies of the filter written to disk");
        let save_failures = counter(
            "filter_save_failures",
            "Copies of the filter that could not be written to disk",
        );
        let audited_rows = counter(
            "audited_rows",
            "Committed rows that the filter was checked against",
        );
        let audit_misses = counter(
            "audit_misses",
            "Committed rows that the filter called absent; must stay 0",
        );
        let poll_seconds = Histogram::new([
            0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0,
        ]);
        registry.register_with_unit(
            "feed_poll",
            "How long a poll takes, from question to applied",
            Unit::Seconds,
            poll_seconds.clone(),
        );

        Self {
            questions: Outcome::ALL.map(|outcome| {
                questions.get_or_create_owned(&[
                    ("answer", outcome.reason().word()),
                    ("source", outcome.source_word()),
                ])
            }),
            registry,
            lookup_statements,
            lookup_names,
            lookup_failures,
            false_positives,
            signups,
            polls,
            poll_rows,
            poll_failures,
            poll_seconds,
            expansions,
            saves,
            save_failures,
            audited_rows,
            audit_misses,
            protection,
            rebuilds,
            distrusts,
            gauges,
        }
    }

    /// Counts an answered question.
    pub fn count(&self, outcome: Outcome) {
        self.questions[outcome as usize].inc();
    }

    /// Counts a filter given up.
    pub fn count_distrust(&self, cause: Distrust) {
        self.distrusts
            .get_or_create(&[("cause", cause.label())])
            .inc();
    }

    /// Counts a filter that is replaced by a better one.
    pub fn count_rebuild(&self, wish: Wish) {
        self.rebuilds
            .get_or_create(&[("cause", wish.label())])
            .inc();
    }

    /// How many questions ended so.
    #[must_use]
    pub fn answered(&self, outcome: Outcome) -> u64 {
        self.questions[outcome as usize].get()
    }

    /// Writes all metrics in the OpenMetrics text format.
    ///
    /// # Panics
    /// Never: writing to a `String` cannot fail.
    #[must_use]
    pub fn render(&self, observed: &Observation) -> String {
        self.observe(observed);
        let mut text = String::with_capacity(8 * 1024);
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .expect("writing to a String cannot fail");
        text
    }

    fn observe(&self, observed: &Observation) {
        let gauges = &self.gauges;
        gauges.trusted.set(i64::from(observed.is_trusted));
        gauges
            .max_staleness_seconds
            .set(observed.max_staleness_seconds);
        for state in Observation::STATES {
            gauges
                .state
                .get_or_create(&[("state", state)])
                .set(i64::from(state == observed.state));
        }
        let Some(filter) = &observed.filter else {
            gauges.generation.set(0);
            return;
        };
        gauges.generation.set(filter.generation.cast_signed());
        gauges.lag_seconds.set(filter.lag_seconds);
        gauges.filter_bytes.set(filter.size_bytes.cast_signed());
        gauges.filter_capacity.set(filter.capacity.cast_signed());
        gauges.filter_names.set(filter.names.cast_signed());
        gauges.filter_fill.set(filter.fill);
        gauges.fpr_designed.set(filter.fpr_designed);
        gauges.fpr_live.set(filter.fpr_live);
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
