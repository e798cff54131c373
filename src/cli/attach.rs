//! `namegate attach` and `namegate detach`: the change feed on a table that is there already, and off it again.

use anyhow::anyhow;
use sqlx::postgres::PgConnectOptions;

use crate::cli::{Exit, Failure, open};
use crate::config::{AttachArgs, DatabaseArgs, DetachArgs, WaitArgs};
use crate::store::Address;
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
        match &plan.script {
            Some(script) => print!("{}", script.as_sql()),
            None => println!("-- nothing to do: {} is attached", plan.table),
        }
        return Ok(Exit::Done);
    }
    plan.run(&say_that_it_waits)
        .await
        .map_err(|error| failure(error, could_not))?;
    let column = &request.watched.column;
    if plan.is_attached {
        println!("{}, column {column}: attached already", plan.table);
    } else {
        println!(
            "{}, column {column}: attached. Every change goes into the change feed, whoever makes it",
            plan.table
        );
    }
    println!("names are compared by: {}", plan.equality);
    for note in &plan.notes {
        println!("note: {note}");
    }
    print_rights(&plan, request.role.as_ref().map(ToString::to_string));
    println!("next: namegate serve, with the same --table and --column, as that role");
    Ok(Exit::Done)
}

fn print_rights(plan: &attach::Plan, role: Option<String>) {
    match role {
        Some(role) if plan.grants.is_empty() => {
            println!("the role {role} has the rights that a service needs");
        }
        Some(role) => {
            println!("the role {role} was given the rights that a service needs:");
        }
        None => {
            println!(
                "the role that runs the service (here: gate) needs these rights; --role gives them:"
            );
        }
    }
    for grant in &plan.grants {
        println!("  {grant}");
    }
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
        match &plan.script {
            Some(script) => print!("{}", script.as_sql()),
            None => println!("-- nothing to do: there is no change feed"),
        }
        return Ok(Exit::Done);
    }
    plan.run(&say_that_it_waits)
        .await
        .map_err(|error| failure(error, could_not.to_owned()))?;
    match (&plan.script, plan.tables.as_slice()) {
        (None, _) => println!("nothing to detach: there is no change feed in this database"),
        (Some(_), []) => println!("the change feed is gone; no table had its triggers any more"),
        (Some(_), tables) => println!("{}: detached, nothing is left behind", tables.join(", ")),
    }
    Ok(Exit::Done)
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
