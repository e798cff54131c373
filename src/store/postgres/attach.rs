//! Installing the change feed on a table that is somebody else's.
//!
//! ```text
//!   look    server, table, column, unique index, owner, rights, what is installed already: refuse in words
//!   try     the column's equality on the filter's fold
//!   plan    one SQL text: the feed's migrations, one call of namegate.watch, the grants
//!   run     that text; or print it
//! ```
//!
//! The feed is made by the same files as `migrate` makes it with. Only the sample table's own step is left out.

mod grants;
mod installed;
mod target;

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use tokio::time::timeout;

use crate::gate::StoreError;
use crate::store::postgres::attach::grants::Grants;
use crate::store::postgres::attach::installed::Feed;
use crate::store::postgres::attach::target::Target;
use crate::store::postgres::equality::{self, Equality};
use crate::store::postgres::ident::{Identifier, quote_literal};
use crate::store::postgres::script::{LockWait, Script, ScriptError};
use crate::store::postgres::{Watched, connection, fitness};

/// The steps of `migrations/postgres` that make the feed, in order; the others make the sample table.
const FEED: [&str; 3] = [
    include_str!("../../../migrations/postgres/0001_feed.sql"),
    include_str!("../../../migrations/postgres/0003_attach.sql"),
    include_str!("../../../migrations/postgres/0005_bookmarks.sql"),
];

/// For the look at the database, in all.
const LOOK_DEADLINE: Duration = Duration::from_secs(30);

/// What to attach to.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which column of which table.
    pub watched: Watched,
    /// The role that will run the service, to be given its rights.
    pub role: Option<Identifier>,
    /// How long to wait for the table.
    pub wait: LockWait,
}

/// What is to be done, found out by a look that changed nothing.
#[derive(Debug)]
pub struct Plan {
    connection: PgConnection,
    wait: LockWait,
    /// The table, quoted, with its schema.
    pub table: String,
    /// How names are compared.
    pub equality: String,
    /// How it will have ended.
    pub outcome: Outcome,
    /// The rights a service needs: SQL, one statement a line; with a placeholder where no role was named.
    pub grants: Vec<String>,
    /// What people should know.
    pub notes: Vec<String>,
    /// `None` when nothing is left to do.
    pub script: Option<Script>,
}

/// How attaching ends, when it succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// There was no feed.
    Attached,
    /// There was one that watched this column, but not every change reached it.
    Rearmed,
    /// All was in place.
    AlreadyAttached,
}

/// Looks at the database.
///
/// # Errors
/// [`StoreError::Unfit`] says what does not fit, and what to do.
pub async fn plan(options: &PgConnectOptions, request: &Request) -> Result<Plan, StoreError> {
    let options = options.clone().application_name("namegate attach");
    let connection = connection::open(&options, Duration::from_secs(5)).await?;
    match timeout(LOOK_DEADLINE, look(connection, request)).await {
        Ok(plan) => plan,
        Err(_elapsed) => Err(StoreError::Overdue(LOOK_DEADLINE)),
    }
}

impl Plan {
    /// Does it. `waits` is called whenever the table is busy and has to be waited for.
    ///
    /// # Errors
    /// [`ScriptError`]; nothing has changed then.
    pub async fn run(&mut self, waits: &(dyn Fn() + Sync)) -> Result<(), ScriptError> {
        match &self.script {
            Some(script) => script.run(&mut self.connection, self.wait, waits).await,
            None => Ok(()),
        }
    }
}

async fn look(mut connection: PgConnection, request: &Request) -> Result<Plan, StoreError> {
    let Request {
        watched,
        role,
        wait,
    } = request;
    fitness::server(&mut connection).await?;
    let target = Target::find(&mut connection, watched).await?;
    target.refuse_what_cannot_be_watched()?;
    if !target.has_column {
        return unfit(format!(
            "the table {} has no column {}: name the right one with --column",
            target.table, watched.column
        ));
    }
    let equality = equality::detect(
        &mut connection,
        &target.table,
        &watched.column,
        watched.equality,
    )
    .await?;
    equality::check::verify(&mut connection, &target.table, &equality).await?;
    let feed = Feed::find(&mut connection, &target.table, &watched.column).await?;
    if matches!(feed, Feed::Absent) {
        target.refuse_other_triggers()?;
        target.refuse_without_rights(&mut connection).await?;
    }
    let grants = match role {
        Some(role) => Grants::missing(&mut connection, &target, watched, role).await?,
        None => Grants::all(&target, watched),
    };
    let mut steps = Vec::new();
    if matches!(feed, Feed::Absent) {
        steps.extend(FEED.map(str::to_owned));
    }
    if !matches!(feed, Feed::InPlace) {
        steps.push(format!(
            "LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE;",
            target.table
        ));
        steps.push(format!(
            "SELECT namegate.watch({}, {});",
            quote_literal(&target.table),
            quote_literal(watched.column.name())
        ));
    }
    if role.is_some() {
        steps.extend(grants.statements.iter().cloned());
        steps.extend(grants.record.clone());
    }
    Ok(Plan {
        connection,
        wait: *wait,
        equality: equality.describe(),
        outcome: match feed {
            Feed::Absent => Outcome::Attached,
            Feed::Disarmed => Outcome::Rearmed,
            Feed::InPlace => Outcome::AlreadyAttached,
        },
        notes: notes(&target, &equality, role.is_some()),
        grants: grants.statements,
        script: (!steps.is_empty()).then(|| Script::new(*wait, &steps)),
        table: target.table,
    })
}

fn notes(target: &Target, equality: &Equality, is_role_checked: bool) -> Vec<String> {
    let mut notes: Vec<String> = equality.note_on_length().into_iter().collect();
    if target.has_row_security && !is_role_checked {
        notes.push(format!(
            "row-level security is on for {}: the service's role must be one that it does not hide rows from \
             (ALTER ROLE ... BYPASSRLS)",
            target.table
        ));
    }
    notes
}

fn unfit<T>(why: impl Into<String>) -> Result<T, StoreError> {
    Err(StoreError::Unfit(why.into()))
}
