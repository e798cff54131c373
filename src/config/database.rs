//! Which database, and which column of which table.

use std::path::PathBuf;

use clap::Args;

use crate::config::values::parse;
use crate::store::postgres::equality::Demand;
use crate::store::postgres::ident::{Identifier, TableName};

/// Which database, and where in it.
#[derive(Debug, Clone, Args)]
pub struct DatabaseArgs {
    /// postgres://USER:PASSWORD@HOST:PORT/DATABASE or sqlite:PATH. Without it: an embedded SQLite file in the data
    /// directory, made when it is missing.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, value_name = "URL")]
    pub database_url: Option<secrecy::SecretString>,

    /// A pooler in transaction mode, such as PgBouncer, stands before the database: everything then happens inside
    /// transactions, and no setting or prepared statement is expected to outlive one.
    #[arg(long, env = "NAMEGATE_BEHIND_POOLER", value_parser = clap::builder::FalseyValueParser::new())]
    pub behind_pooler: bool,

    /// Where the embedded database is kept, and copies of the filter to restart from.
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

    /// How the table compares names: auto (as its unique index says), exact, lower, upper or citext. What is said here
    /// must be what the unique index says.
    #[arg(long, env = "NAMEGATE_EQUALITY", value_name = "EQUALITY", default_value = "auto", value_parser = parse::<Demand>)]
    pub equality: Demand,
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
            equality: Demand::Auto,
        }
    }
}
