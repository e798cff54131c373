//! `namegate attach` and `namegate detach`: the change feed on a table that is there already, and off it again.

use std::io::{ErrorKind, Write};

use anyhow::anyhow;
use sqlx::postgres::PgConnectOptions;

use crate::cli::{Exit, Failure, open};
use crate::config::{AttachArgs, DatabaseArgs, DetachArgs, WaitArgs};
use crate::store::Address;
use crate::store::postgres::attach::Outcome;
use crate::store::postgres::script::{LockWait, ScriptError};
use crate::store::postgres::{attach, detach};

pub(super) async fn attach(args: AttachArgs) -> Result<Exit, Failure> {
    let options = postgres(&args.database, "attach")?;
    let request = attach::Request {
        watched: open::watched(&args.table),
        role: args.role,
        wait: wait(&args.wait),
    };
    let could_not = format!("could not attach to {}", request.watched.table);
    let mut plan = attach::plan(&options, &request)
        .await
        .map_err(|error| Failure::store(error, could_not.clone()))?;
    if args.dry_run {
        return say(&plan.script.as_ref().map_or_else(
            || format!("-- nothing to do: {} is attached\n", plan.table),
            |script| script.as_sql().to_owned(),
        ));
    }
    plan.run(&say_that_it_waits)
        .await
        .map_err(|error| failure(error, could_not))?;
    say(&report(&plan, &request))
}

/// What was done, and what is to be done next.
fn report(plan: &attach::Plan, request: &attach::Request) -> String {
    let done = match plan.outcome {
        Outcome::Attached => "attached. Every change goes into the change feed, whoever makes it",
        Outcome::Rearmed => "attached once more: not every change reached the change feed",
        Outcome::AlreadyAttached => "attached already",
    };
    let mut lines = vec![
        format!("{}, column {}: {done}", plan.table, request.watched.column),
        format!("names are compared by: {}", plan.equality),
    ];
    lines.extend(plan.notes.iter().map(|note| format!("note: {note}")));
    lines.push(match &request.role {
        Some(role) if plan.grants.is_empty() => {
            format!("the role {role} has the rights that a service needs")
        }
        Some(role) => format!("the role {role} was given the rights that a service needs:"),
        None => {
            "the role that runs the service (here: gate) needs these rights; --role gives them:"
                .to_owned()
        }
    });
    lines.extend(plan.grants.iter().map(|grant| format!("  {grant}")));
    lines.push("next: namegate serve, with the same --table and --column, as that role\n".into());
    lines.join("\n")
}

pub(super) async fn detach(args: DetachArgs) -> Result<Exit, Failure> {
    let options = postgres(&args.database, "detach")?;
    let request = detach::Request {
        table: args.table,
        force: args.force,
        wait: wait(&args.wait),
    };
    let could_not = "could not detach";
    let mut plan = detach::plan(&options, &request)
        .await
        .map_err(|error| Failure::store(error, could_not))?;
    if args.dry_run {
        return say(plan
            .script
            .as_ref()
            .map_or("-- nothing to do: there is no change feed\n", |script| {
                script.as_sql()
            }));
    }
    plan.run(&say_that_it_waits)
        .await
        .map_err(|error| failure(error, could_not.to_owned()))?;
    say(&match (&plan.script, plan.tables.as_slice()) {
        (None, _) => "nothing to detach: there is no change feed in this database\n".to_owned(),
        (Some(_), []) => "the change feed is gone; no table had its triggers any more\n".to_owned(),
        (Some(_), tables) => format!("{}: detached, nothing is left behind\n", tables.join(", ")),
    })
}

/// Prints. Whoever has closed the pipe has read enough.
fn say(text: &str) -> Result<Exit, Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::new(
            Exit::File,
            anyhow::Error::from(error).context("could not print"),
        )),
        _ => Ok(Exit::Done),
    }
}

fn postgres(args: &DatabaseArgs, command: &str) -> Result<PgConnectOptions, Failure> {
    let chosen = open::database(args)?.without_pooler()?;
    match chosen.address {
        Address::Postgres(options) => Ok(*options),
        Address::Sqlite(_) if chosen.is_embedded_default => Err(Failure::new(
            Exit::Usage,
            anyhow!("{command} needs a PostgreSQL database: name it with --database-url"),
        )),
        Address::Sqlite(_) => Err(Failure::new(
            Exit::Usage,
            anyhow!(
                "{command} is for PostgreSQL: an SQLite database has the sample table, and its change feed with it"
            ),
        )),
    }
}

fn wait(args: &WaitArgs) -> LockWait {
    LockWait {
        at_once: args.lock_timeout,
        in_all: args.patience,
    }
}

fn say_that_it_waits() {
    eprintln!("the table is busy: trying again in a second");
}

fn failure(error: ScriptError, doing: String) -> Failure {
    match error {
        ScriptError::Store(error) => Failure::store(error, doing),
        busy => Failure::new(Exit::Unreachable, anyhow::Error::new(busy).context(doing)),
    }
}
