//! The only reader of flags and environment variables. `namegate COMMAND --help` prints what is written here.
//!
//! Every flag that scripts rely on is also a variable: `NAMEGATE_` and the flag's name, `DATABASE_URL` excepted, which
//! keeps its usual name. A flag wins over its variable.

mod admin;
mod attach;
mod database;
mod dedup;
mod policy;
mod protection;
mod service;
mod tools;
mod values;

use clap::{Parser, Subcommand};

pub use admin::AdminArgs;
pub use attach::{AttachArgs, DetachArgs, WaitArgs};
pub use database::{DatabaseArgs, TableArgs};
pub use dedup::{BadLines, DedupArgs};
pub use policy::PolicyArgs;
pub use protection::{ProtectionArgs, Registration};
pub use service::{DEFAULT_ADMIN_LISTEN, DEFAULT_LISTEN, DemoArgs, ServeArgs, ServiceArgs};
pub use tools::{AuditArgs, CheckArgs, HealthcheckArgs, ImportArgs, MigrateArgs, SizeArgs};
pub use values::OnOff;

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
  1   for `check`: at least one name is not free; for `healthcheck`: not ready; for `audit`: the filter misses a row;
      for `dedup --on-bad stop`: a line has no id
  2   a flag, a variable or a combination of them is wrong
  3   a file cannot be read or written
  4   the database cannot be reached, lets nobody in, or (`attach`, `detach`) its table stays locked
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
    /// Install the change feed on an existing table.
    Attach(AttachArgs),
    /// Remove the change feed from the table it was attached to.
    Detach(DetachArgs),
    /// Load names into the sample users table, one a line, plain or gzip.
    Import(ImportArgs),
    /// Work out how large a filter must be.
    Size(SizeArgs),
    /// Check that every committed row is in a running service's filter.
    Audit(AuditArgs),
    /// Drop repeated messages from a stream of lines, by their id.
    Dedup(DedupArgs),
    /// Ask a running service whether it is ready; for containers.
    Healthcheck(HealthcheckArgs),
    /// Print the OpenAPI document of the public listener.
    Openapi,
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
