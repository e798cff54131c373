//! The only reader of flags and environment variables. `namegate COMMAND --help` prints what is written here.
//!
//! Every flag that scripts rely on is also a variable: `NAMEGATE_` and the flag's name, `DATABASE_URL` excepted, which
//! keeps its usual name. A flag wins over its variable.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::filter::SMALLEST_RATE;
use crate::names::Profile;
use crate::store::postgres::ident::{Identifier, TableName};
use crate::telemetry::LogFormat;

/// Tells sign-up forms whether a username is free, and lets the database rest.
///
/// A Bloom filter, warmed from the users table and kept in step with it, answers "definitely free" from memory; the
/// database is asked only when the filter says "maybe taken".
#[derive(Debug, Parser)]
#[command(name = "namegate", version, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Printed below the help, and kept by [`crate::cli::Exit`].
const EXIT_CODES: &str = "\
Exit codes:
  0   done; for `check`: every name is free
  1   for `check`: at least one name is not free; for `healthcheck`: not ready
  2   a flag, a variable or a combination of them is wrong
  3   a file cannot be read or written
  4   the database cannot be reached, or lets nobody in
  5   the database is reached but does not fit: version, table, column, unique index, rights
  6   an address cannot be listened on
  7   the service cannot be reached, or could not find out
  70  a fault in namegate itself";

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the service.
    Serve(ServeArgs),
    /// Try it: the service on a throw-away embedded database filled with real names, with its sign-up page.
    Demo(DemoArgs),
    /// Ask whether names are free.
    Check(CheckArgs),
    /// Make the sample users table, its change feed and its trigger.
    Migrate(MigrateArgs),
    /// Load names into the sample users table, one a line, plain or gzip.
    Import(ImportArgs),
    /// Work out how large a filter must be.
    Size(SizeArgs),
    /// Ask a running service whether it is ready; for containers.
    Healthcheck(HealthcheckArgs),
}

/// Which database, and where in it.
#[derive(Debug, Clone, Args)]
pub struct DatabaseArgs {
    /// postgres://USER:PASSWORD@HOST:PORT/DATABASE or sqlite:PATH. Without it: an embedded SQLite file in the data
    /// directory, made when it is missing.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<secrecy::SecretString>,

    /// Where the embedded database is kept.
    #[arg(
        long,
        env = "NAMEGATE_DATA_DIR",
        value_name = "DIR",
        default_value = "namegate-data"
    )]
    pub data_dir: PathBuf,
}

/// Which column holds the names.
#[derive(Debug, Clone, Args)]
pub struct TableArgs {
    /// The table, perhaps with its schema, as psql's \d shows it.
    #[arg(long, env = "NAMEGATE_TABLE", value_name = "TABLE", default_value = "users", value_parser = parse::<TableName>)]
    pub table: TableName,

    /// The column that is watched and asked; it needs a unique index of its own.
    #[arg(long, env = "NAMEGATE_COLUMN", value_name = "COLUMN", default_value = "canonical", value_parser = parse::<Identifier>)]
    pub column: Identifier,
}

impl TableArgs {
    /// The sample table.
    ///
    /// # Panics
    /// Never: both names are constants that parse.
    #[must_use]
    pub fn sample() -> Self {
        let (table, column) = ("users".parse(), "canonical".parse());
        Self {
            table: table.expect("it is a name"),
            column: column.expect("it is a name"),
        }
    }
}

/// Which new names are allowed.
#[derive(Debug, Clone, Args)]
pub struct PolicyArgs {
    /// Which new names are allowed: a-z 0-9 and single . _ - inside, or letters and digits of one script.
    #[arg(long, env = "NAMEGATE_PROFILE", value_name = "ascii|unicode", default_value = "ascii", value_parser = parse::<Profile>)]
    pub profile: Profile,

    /// More reserved names: one `[exact|token|substring] ENTRY` a line, exact where nothing is said; * stands for any
    /// characters in exact entries, # begins a comment.
    #[arg(long, env = "NAMEGATE_RESERVED", value_name = "FILE")]
    pub reserved: Option<PathBuf>,
}

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

    /// The admin listener: metrics. Loopback only.
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

    /// A filter may take at most this much memory; two exist while one replaces the other.
    #[arg(long, env = "NAMEGATE_FILTER_MEMORY", value_name = "BYTES", default_value = "8GiB", value_parser = bytes)]
    pub filter_memory: u64,

    /// The freshness bound: a filter that has not been in step with the database for longer is not asked.
    #[arg(long, env = "NAMEGATE_MAX_STALENESS", value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub max_staleness: Duration,

    /// Pause between two polls of the change feed.
    #[arg(long, env = "NAMEGATE_POLL_INTERVAL", value_name = "DURATION", default_value = "100ms", value_parser = duration)]
    pub poll_interval: Duration,

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
}

/// Where the public listener is when nobody says otherwise.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:8080";
/// Where the admin listener is when nobody says otherwise.
pub const DEFAULT_ADMIN_LISTEN: &str = "127.0.0.1:9090";

/// A switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    /// Yes.
    On,
    /// No.
    Off,
}

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

/// `namegate check`.
#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// The names to ask about.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,

    /// The running service to ask.
    #[arg(
        long,
        env = "NAMEGATE_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:8080"
    )]
    pub url: String,

    /// Ask the database itself, without a service.
    #[arg(long)]
    pub direct: bool,

    /// Print the answers as JSON, one a line.
    #[arg(long)]
    pub json: bool,

    /// Which database, with --direct.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Which column, with --direct.
    #[command(flatten)]
    pub table: TableArgs,
    /// Which names, with --direct.
    #[command(flatten)]
    pub policy: PolicyArgs,
}

/// `namegate migrate`.
#[derive(Debug, Clone, Args)]
pub struct MigrateArgs {
    /// Which database.
    #[command(flatten)]
    pub database: DatabaseArgs,
}

/// `namegate import`.
#[derive(Debug, Clone, Args)]
pub struct ImportArgs {
    /// Names, one a line, plain or gzip; - reads standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Leave out names that a sign-up would refuse. Without it, whatever the database can store is loaded.
    #[arg(long)]
    pub validate: bool,

    /// Which database.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Which names, with --validate.
    #[command(flatten)]
    pub policy: PolicyArgs,
}

/// `namegate size`.
#[derive(Debug, Clone, Args)]
pub struct SizeArgs {
    /// How many names the filter shall hold.
    #[arg(long, value_name = "N")]
    pub names: u64,

    /// The false-positive rate at that many names: a probability between 0 and 1, not a percentage.
    #[arg(long, value_name = "RATE", default_value = "0.001", value_parser = rate, allow_negative_numbers = true)]
    pub fpr: f64,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `namegate healthcheck`.
#[derive(Debug, Clone, Args)]
pub struct HealthcheckArgs {
    /// The running service to ask.
    #[arg(
        long,
        env = "NAMEGATE_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:8080"
    )]
    pub url: String,
}

fn parse<T>(text: &str) -> Result<T, String>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text
        .parse()
        .map_err(|_| "expected a number such as 0.001".to_owned())?;
    if (SMALLEST_RATE..1.0).contains(&rate) {
        Ok(rate)
    } else {
        Err(format!(
            "a false-positive rate lies between {SMALLEST_RATE:e} and 1, 1 excluded"
        ))
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    match duration_or_zero(text)? {
        Duration::ZERO => Err("it must be longer than nothing".into()),
        duration => Ok(duration),
    }
}

fn duration_or_zero(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text)
        .map_err(|_| "expected a duration such as 100ms, 2s or 1m".to_owned())?;
    if duration > Duration::from_hours(24) {
        return Err("more than a day is certainly a slip".into());
    }
    Ok(duration)
}

fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err("expected bytes such as 1073741824, 512MiB or 8GiB".into()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "expected bytes such as 1073741824, 512MiB or 8GiB".to_owned())?;
    number
        .checked_mul(unit)
        .ok_or_else(|| "more bytes than any machine has".into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bytes_have_units() {
        assert_eq!(bytes("64"), Ok(64));
        assert_eq!(bytes("8GiB"), Ok(8 << 30));
        assert!(bytes("8GB").is_err());
        assert!(bytes("GiB").is_err());
        assert!(bytes("99999999999GiB").is_err());
    }

    #[test]
    fn a_rate_is_a_probability() {
        assert_eq!(rate("0.001"), Ok(0.001));
        for wrong in ["0", "1", "-0.1", "5", "NaN", "inf", "5e-324", "1%", ""] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_flag_of_the_service_has_its_variable() {
        let command = Cli::command();
        let serve = command
            .find_subcommand("serve")
            .expect("serve is a command");
        for argument in serve
            .get_arguments()
            .filter(|argument| !matches!(argument.get_id().as_str(), "help" | "version"))
        {
            let flag = argument
                .get_long()
                .expect("every argument of serve is a flag");
            let variable = argument
                .get_env()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let wanted = format!("NAMEGATE_{}", flag.replace('-', "_").to_uppercase());
            assert!(
                variable == wanted || variable == "DATABASE_URL",
                "--{flag} is {variable:?}, not {wanted}"
            );
        }
    }
}
