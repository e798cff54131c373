//! The commands beside the service.

use std::path::PathBuf;

use clap::Args;

use crate::config::values::rate;
use crate::config::{AdminArgs, DatabaseArgs, PolicyArgs, TableArgs};

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

/// `namegate audit`.
#[derive(Debug, Clone, Args)]
pub struct AuditArgs {
    /// Which service.
    #[command(flatten)]
    pub admin: AdminArgs,
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
