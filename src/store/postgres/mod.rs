//! PostgreSQL 14 or newer: what production runs.
//!
//! Three kinds of connections, never shared, so that trouble with one is not trouble with the others: lookups, sign-ups
//! (one pool each), and the feed's own two. Every wait has a deadline; a connection whose deadline passed is closed, not
//! reused: its socket may be half-open.

pub mod attach;
pub mod binary_copy;
mod certificate;
mod connection;
pub mod detach;
pub mod equality;
mod errors;
mod feed;
mod fitness;
pub mod ident;
mod lookup;
mod mark;
mod scan;
mod schema;
pub mod script;
mod snapshot;
mod write;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};

use crate::gate::{Bookmark, Claim, Extent, Feed, Store, StoreError, Walk};
use crate::names::Canonical;
use crate::store::postgres::connection::{begin, commit, query, within};
use crate::store::postgres::equality::Demand;
use crate::store::postgres::feed::PostgresFeed;
use crate::store::postgres::ident::{Identifier, TableName};
use crate::store::postgres::mark::Mark;
use crate::store::postgres::scan::PostgresWalk;

/// Which column of which table holds the names.
#[derive(Debug, Clone)]
pub struct Watched {
    /// Quoted when displayed.
    pub table: TableName,
    /// Quoted when displayed.
    pub column: Identifier,
    /// Which equality its unique index must have.
    pub equality: Demand,
}

/// How long to wait for what.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// For one lookup, connecting included.
    pub lookup: Duration,
    /// For a sign-up.
    pub write: Duration,
    /// For a connection of the feed, and for each answer on it.
    pub feed: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            lookup: Duration::from_millis(500),
            write: Duration::from_secs(5),
            feed: Duration::from_secs(5),
        }
    }
}

/// How many connections for what, at most.
#[derive(Debug, Clone, Copy)]
pub struct Connections {
    /// Statements to confirm names that may be on their way at one time.
    pub lookups: u32,
    /// Ranges of the table that are read at one time; one more connection holds their snapshot open.
    pub scan: u32,
    /// A pooler in transaction mode stands between us and the server.
    pub are_pooled: bool,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            lookups: 2,
            scan: 4,
            are_pooled: false,
        }
    }
}

/// A users table in PostgreSQL.
pub struct PostgresStore {
    options: PgConnectOptions,
    lookups: PgPool,
    writes: PgPool,
    watched: Watched,
    deadlines: Deadlines,
    lookup_statement: Arc<lookup::Statement>,
    connections: Connections,
}

impl PostgresStore {
    /// A store that connects when it is first asked.
    #[must_use]
    pub fn new(
        options: PgConnectOptions,
        watched: Watched,
        deadlines: Deadlines,
        connections: Connections,
    ) -> Self {
        let options = options.application_name("namegate");
        let (options, lookups, writes, statement) = if connections.are_pooled {
            // A pooler refuses start-up settings that it does not know, and cannot keep them for us anyway.
            let options = options.extra_float_digits(None);
            let statement =
                lookup::Statement::in_a_transaction(&local(&lookup_settings(deadlines)));
            (options.clone(), options.clone(), options, statement)
        } else {
            let lookups = options.clone().options(lookup_settings(deadlines));
            let writes = options.clone().options([giving_up_before(deadlines.write)]);
            (options, lookups, writes, lookup::Statement::default())
        };
        let lookups = PgPoolOptions::new()
            .max_connections(connections.lookups)
            .acquire_timeout(deadlines.lookup)
            .test_before_acquire(false) // a round trip for each question; a stale connection is noticed and replaced
            .connect_lazy_with(lookups);
        let writes = PgPoolOptions::new()
            .max_connections(4)
            .acquire_timeout(deadlines.write)
            .connect_lazy_with(writes);
        Self {
            options,
            lookups,
            writes,
            watched,
            deadlines,
            lookup_statement: Arc::new(statement),
            connections,
        }
    }
}

/// Looks at the database, tries its equality on the filter's fold where that has not been done yet, and tells lookups
/// how to ask. Returns the table's name with its schema, quoted. The caller drops the connection after an error.
async fn look(
    deadline: Duration,
    connection: &mut PgConnection,
    watched: &Watched,
    lookups: &lookup::Statement,
) -> Result<String, StoreError> {
    let fit = fitness::probe_within(deadline, connection, watched).await?;
    if !lookups.is_verified(&fit.equality) {
        equality::check::verify(connection, &fit.table, &fit.equality).await?;
        tracing::info!(
            equality = fit.equality.describe(),
            "names are compared as the table's unique index compares them"
        );
        if let Some(note) = fit.equality.note_on_length() {
            tracing::warn!("{note}");
        }
    }
    lookups.ask_and_filter_as(&fit);
    Ok(fit.table)
}

/// What a session must be like in which names are confirmed.
fn lookup_settings(deadlines: Deadlines) -> [(&'static str, String); 4] {
    let off = |name| (name, "off".to_owned());
    [
        giving_up_before(deadlines.lookup),
        // A plan made while the table was small would read all of it for as long as the plan is kept.
        off("enable_seqscan"),
        off("jit"),
        // Rows that a policy hides from us would look free. So they are an error instead.
        off("row_security"),
    ]
}

/// The server gives up a little before we do: otherwise every deadline would leave a backend waiting on its lock.
fn giving_up_before(deadline: Duration) -> (&'static str, String) {
    let server_side = format!("{}ms", deadline.mul_f64(0.9).as_millis());
    ("statement_timeout", server_side)
}

/// The same settings for one transaction.
fn local(settings: &[(&'static str, String)]) -> String {
    let set = |(name, value): &(&str, String)| format!("SET LOCAL {name} = '{value}'");
    settings.iter().map(set).collect::<Vec<_>>().join("; ")
}

#[async_trait]
impl Store for PostgresStore {
    async fn held(&self, names: &[Canonical]) -> Result<Vec<bool>, StoreError> {
        lookup::held(
            &self.lookups,
            &self.watched,
            &self.lookup_statement,
            names,
            self.deadlines.lookup,
        )
        .await
    }

    async fn claim(
        &self,
        username: &str,
        canonical: &Canonical,
        before_commit: &(dyn Fn() + Send + Sync),
    ) -> Result<Claim, StoreError> {
        write::claim(
            &self.writes,
            username,
            canonical,
            before_commit,
            self.deadlines.write,
        )
        .await
    }

    async fn import(&self, rows: &[(String, String)]) -> Result<u64, StoreError> {
        write::import(&self.options, rows).await
    }

    async fn migrate(&self) -> Result<(), StoreError> {
        schema::migrate(&self.options, self.deadlines.feed).await
    }

    async fn probe(&self) -> Result<(), StoreError> {
        let mut connection = connection::open(&self.options, self.deadlines.feed).await?;
        within(self.deadlines.feed, begin(&mut connection)).await?;
        look(
            self.deadlines.feed,
            &mut connection,
            &self.watched,
            &self.lookup_statement,
        )
        .await?;
        Ok(())
    }

    fn holds_raw_names(&self) -> bool {
        self.lookup_statement.holds_raw_names()
    }

    async fn open_feed(&self) -> Result<Box<dyn Feed>, StoreError> {
        let feed = PostgresFeed::new(
            self.options.clone(),
            self.watched.clone(),
            Arc::clone(&self.lookup_statement),
            self.deadlines.feed,
            self.connections,
        );
        Ok(Box::new(feed))
    }

    async fn open_walk(&self, extent: Extent) -> Result<Box<dyn Walk>, StoreError> {
        let walk = PostgresWalk::open(
            &self.options,
            &self.watched,
            &self.lookup_statement,
            self.deadlines.feed,
            extent,
        );
        Ok(Box::new(walk.await?))
    }

    fn source(&self) -> String {
        format!("postgresql {} {}", self.watched.table, self.watched.column)
    }

    async fn forget(&self, bookmark: &Bookmark) -> Result<(), StoreError> {
        let mark = Mark::try_from(bookmark)?;
        let mut connection = connection::open(&self.options, self.deadlines.feed).await?;
        let leave = query("SELECT namegate.unregister($1)").bind(mark.consumer);
        within(self.deadlines.feed, begin(&mut connection)).await?;
        within(self.deadlines.feed, leave.execute(&mut connection)).await?;
        within(self.deadlines.feed, commit(&mut connection)).await
    }

    fn describe(&self) -> String {
        let database = self.options.get_database().unwrap_or("(default)");
        match self.options.get_socket() {
            Some(socket) => format!("PostgreSQL at {}, database {database}", socket.display()),
            None => format!(
                "PostgreSQL at {}:{}, database {database}",
                self.options.get_host(),
                self.options.get_port()
            ),
        }
    }

    async fn close(&self) {
        // Bounded: closing says goodbye to the server, which may be the very thing that does not answer.
        let goodbye = async { tokio::join!(self.lookups.close(), self.writes.close()) };
        drop(tokio::time::timeout(Duration::from_secs(2), goodbye).await);
    }
}
