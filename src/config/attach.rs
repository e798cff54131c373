//! `namegate attach` and `namegate detach`: the change feed on a table that is there already.

use std::time::Duration;

use clap::Args;

use crate::config::values::{duration, duration_or_zero, parse};
use crate::config::{DatabaseArgs, TableArgs};
use crate::store::postgres::ident::{Identifier, TableName};

/// `namegate attach`.
#[derive(Debug, Clone, Args)]
pub struct AttachArgs {
    /// Which database; as the owner of the table.
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Which column.
    #[command(flatten)]
    pub table: TableArgs,

    /// Give this role, which will run the service, the rights that it needs and does not have: to read the column, and
    /// to call the functions of the change feed.
    #[arg(long, value_name = "ROLE", value_parser = parse::<Identifier>)]
    pub role: Option<Identifier>,

    /// Print the SQL, which psql can run, and change nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// How long to wait for the table.
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// `namegate detach`.
#[derive(Debug, Clone, Args)]
pub struct DetachArgs {
    /// Which database; as the role that attached.
    #[command(flatten)]
    pub database: DatabaseArgs,

    /// Detach only if this is the table that is watched. Without it: whichever is.
    #[arg(long, env = "NAMEGATE_TABLE", value_name = "TABLE", value_parser = parse::<TableName>)]
    pub table: Option<TableName>,

    /// Detach under services that follow the change feed; they answer from the database from then on.
    #[arg(long)]
    pub force: bool,

    /// Print the SQL, which psql can run, and change nothing.
    #[arg(long)]
    pub dry_run: bool,

    /// How long to wait for the table.
    #[command(flatten)]
    pub wait: WaitArgs,
}

/// How long to wait for a table that others use.
#[derive(Debug, Clone, Args)]
pub struct WaitArgs {
    /// How long to wait for the table's lock at one time. Writers wait as long, behind it.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub lock_timeout: Duration,

    /// How long to try again while the table is busy; then the command ends with exit code 4.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration_or_zero)]
    pub patience: Duration,
}
