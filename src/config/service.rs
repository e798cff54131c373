//! `namegate serve` and `namegate demo`: listeners, filter, feed.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use crate::config::values::{OnOff, bytes, duration, duration_or_zero, rate, save_interval};
use crate::config::{DatabaseArgs, PolicyArgs, ProtectionArgs, TableArgs};
use crate::telemetry::LogFormat;

/// `namegate serve`.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Which database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Which column.
    #[command(flatten)]
    pub table: TableArgs,
    /// Which names.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Listeners, filter and the rest.
    #[command(flatten)]
    pub service: ServiceArgs,

    /// Make the sample table and its change feed first where they are missing.
    #[arg(long, env = "NAMEGATE_MIGRATE", value_parser = clap::builder::FalseyValueParser::new())]
    pub migrate: bool,

    /// Offer POST /users, the sample sign-up.
    #[arg(long, env = "NAMEGATE_SIGNUP", value_parser = clap::builder::FalseyValueParser::new())]
    pub signup: bool,
}

/// What `serve` and `demo` have in common.
#[derive(Debug, Clone, Args)]
pub struct ServiceArgs {
    /// The public listener: the check and the page. Port 0 takes any; the address bound is printed.
    #[arg(long, env = "NAMEGATE_LISTEN", value_name = "HOST:PORT", default_value = DEFAULT_LISTEN)]
    pub listen: SocketAddr,

    /// The admin listener: metrics, and questions of operators. Anything but loopback demands --admin-token-file.
    #[arg(long, env = "NAMEGATE_ADMIN_LISTEN", value_name = "HOST:PORT", default_value = DEFAULT_ADMIN_LISTEN)]
    pub admin_listen: SocketAddr,

    /// on: filter, cache, gathered lookups. off: every question is one statement; the escape hatch, and the baseline.
    #[arg(
        long,
        env = "NAMEGATE_FILTER",
        value_name = "on|off",
        default_value = "on",
        value_enum
    )]
    pub filter: OnOff,

    /// The false-positive rate a filter is sized for, at capacity: a probability between 0 and 1, not a percentage.
    #[arg(long, env = "NAMEGATE_FPR", value_name = "RATE", default_value = "0.001", value_parser = rate, allow_negative_numbers = true)]
    pub fpr: f64,

    /// Size filters for at least this many names. They are always sized for half as many again as the table holds.
    #[arg(
        long,
        env = "NAMEGATE_CAPACITY",
        value_name = "NAMES",
        default_value_t = 100_000,
        allow_negative_numbers = true
    )]
    pub capacity: u64,

    /// Filters may take at most this much memory together; while one replaces another there are two.
    #[arg(long, env = "NAMEGATE_FILTER_MEMORY", value_name = "BYTES", default_value = "8GiB", value_parser = bytes)]
    pub filter_memory: u64,

    /// The freshness bound: a filter that has not been in step with the database for longer is not asked.
    #[arg(long, env = "NAMEGATE_MAX_STALENESS", value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub max_staleness: Duration,

    /// Pause between two polls of the change feed.
    #[arg(long, env = "NAMEGATE_POLL_INTERVAL", value_name = "DURATION", default_value = "100ms", value_parser = duration)]
    pub poll_interval: Duration,

    /// Connections that read the table when a filter is built; one more holds their snapshot open.
    #[arg(long, env = "NAMEGATE_SCAN_CONNECTIONS", value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub scan_connections: u32,

    /// Pause between two copies of the filter to the data directory, from which the next start goes on instead of reading
    /// the table; 0s: none are written or read.
    #[arg(long, env = "NAMEGATE_SAVE_INTERVAL", value_name = "DURATION", default_value = "5m", value_parser = save_interval)]
    pub save_interval: Duration,

    /// Pause between two looks at a few hundred rows, to check that the filter has them; 0s: none.
    #[arg(long, env = "NAMEGATE_AUDIT_INTERVAL", value_name = "DURATION", default_value = "10s", value_parser = duration_or_zero)]
    pub audit_interval: Duration,

    /// How long a question waits for the database before it is answered "unverified".
    #[arg(long, env = "NAMEGATE_LOOKUP_DEADLINE", value_name = "DURATION", default_value = "500ms", value_parser = duration)]
    pub lookup_deadline: Duration,

    /// How long one "taken" may be repeated without asking again. A release reported by the feed ends it at once.
    #[arg(long, env = "NAMEGATE_CACHE_TTL", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub cache_ttl: Duration,

    /// On SIGTERM: how long to go on answering while /readyz already says no.
    #[arg(long, env = "NAMEGATE_DRAIN_DELAY", value_name = "DURATION", default_value = "0s", value_parser = duration_or_zero)]
    pub drain_delay: Duration,

    /// Say in a Server-Timing header who answered each question, and in how many milliseconds.
    #[arg(
        long,
        env = "NAMEGATE_SERVER_TIMING",
        value_name = "on|off",
        default_value = "on",
        value_enum
    )]
    pub server_timing: OnOff,

    /// How log lines look. RUST_LOG chooses which there are.
    #[arg(
        long,
        env = "NAMEGATE_LOG_FORMAT",
        value_name = "text|json",
        default_value = "text",
        value_enum
    )]
    pub log_format: LogFormat,

    /// Budgets, proxies, connections, origins, the operator's token.
    #[command(flatten)]
    pub protection: ProtectionArgs,
}

/// Where the public listener is when nobody says otherwise.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8080";
/// Where the admin listener is when nobody says otherwise.
pub const DEFAULT_ADMIN_LISTEN: &str = "127.0.0.1:9090";

/// `namegate demo`.
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// Listeners, filter and the rest. Unless they are named, ports that are in use are stepped around.
    #[command(flatten)]
    pub service: ServiceArgs,
    /// Which names.
    #[command(flatten)]
    pub policy: PolicyArgs,
}
