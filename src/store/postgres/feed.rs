//! The change feed: scan under one snapshot, then poll by snapshot difference, with certified positions.
//!
//! ```text
//!   begin   register the consumer (from here pruning respects us)
//!           a scan opens its snapshot S and holds it open           feed: certify S
//!   scan    everything in S, see `scan`                             position := S
//!   poll    everything the position could not see, with a header that tells whether the position still holds
//!           about once a second: the same inside a transaction that certifies the poll's own snapshot
//! ```
//!
//! Bits are only ever set, so reading a change twice is harmless: between two certificates every poll reads from the
//! last certified position. Nothing here is kept across a failed wait: the connection is dropped, the position stays.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{Connection, Row};
use tokio::time::timeout;
use uuid::Uuid;

use crate::gate::freshness::Moment;
use crate::gate::{Bookmark, Distrust, Extent, Feed, Poll, Sink, StoreError};
use crate::store::postgres::certificate::{Certified, Standing};
use crate::store::postgres::connection::{begin, commit, open, query, query_scalar, within};
use crate::store::postgres::errors::classify;
use crate::store::postgres::lookup::Statement;
use crate::store::postgres::mark::Mark;
use crate::store::postgres::scan::Scan;
use crate::store::postgres::snapshot::Snapshot;
use crate::store::postgres::{Connections, Watched, look};

const CERTIFY_EVERY: Duration = Duration::from_secs(1);
const LONGEST_PATIENCE: Duration = Duration::from_mins(5);
const PRUNE_EVERY: Duration = Duration::from_secs(10);
/// Outbox rows younger than this are kept, for people who look into it.
const PRUNE_KEEP: &str = "5 minutes";
/// A consumer unseen for this long is forgotten; it will notice, and scan again.
const PRUNE_EXPIRY: &str = "1 hour";
const PRUNE_AT_MOST: i32 = 50_000;

const POLL: &str =
    "SELECT is_header, name, released, snapshot, pruned_below, nonce, watermark, in_recovery,
       system_identifier, fingerprint
  FROM namegate.poll($1, $2::text::xid8, $3::text[]::xid8[])";

const FACTS: &str =
    "SELECT pg_current_snapshot()::text, namegate.fingerprint(), namegate.armed_triggers(),
       (SELECT system_identifier::text FROM pg_control_system())";

pub(super) struct PostgresFeed {
    options: PgConnectOptions,
    watched: Watched,
    /// Told, by each look at the database, which table to read.
    lookups: Arc<Statement>,
    deadline: Duration,
    /// For the first row of a poll. Grows while polls are overdue: after a bulk load of many millions the server gathers
    /// for longer than any deadline that suits a broken link, and a poll that is always cut short would never end.
    patience: Duration,
    /// A fresh one for each filter, never a host's name: two filters must not share a certificate.
    consumer: Uuid,
    connection: Option<PgConnection>,
    /// Connections that a scan reads on.
    lanes: usize,
    /// A pooler stands between: see [`connection`](super::connection).
    is_pooled: bool,
    /// Between `begin` and `scan`.
    scan: Option<Scan>,
    /// Known from `begin` on.
    past: Option<Past>,
}

/// What the filter was filled from, and how far it has come.
struct Past {
    certified: Certified,
    system_identifier: String,
    fingerprint: String,
    /// When a certificate was last tried.
    certified_at: Moment,
    /// Tries in a row that failed.
    uncertified: u32,
    pruned_at: Moment,
}

/// The first row of a poll.
struct Header {
    snapshot: Snapshot,
    pruned_below: u64,
    certificate: Option<(Uuid, Snapshot)>,
    in_recovery: bool,
    system_identifier: String,
    fingerprint: String,
}

impl PostgresFeed {
    pub(super) fn new(
        options: PgConnectOptions,
        watched: Watched,
        lookups: Arc<Statement>,
        deadline: Duration,
        connections: Connections,
    ) -> Self {
        let options = options.application_name("namegate feed");
        Self {
            options,
            watched,
            lookups,
            deadline,
            patience: deadline,
            consumer: Uuid::new_v4(),
            connection: None,
            lanes: connections.scan as usize,
            is_pooled: connections.are_pooled,
            scan: None,
            past: None,
        }
    }

    /// Takes the connection out: only a poll that ended well puts it back, so that an interrupted one cannot leave
    /// half an answer in the socket for the next.
    async fn connection(&mut self) -> Result<PgConnection, StoreError> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => open(&self.options, self.deadline).await,
        }
    }

    async fn register(&mut self) -> Result<(), StoreError> {
        let mut connection = self.connection().await?;
        let register = query("SELECT namegate.register($1, $2)")
            .bind(self.consumer)
            .bind(Uuid::new_v4());
        within(self.deadline, begin(&mut connection)).await?;
        within(self.deadline, register.execute(&mut connection)).await?;
        within(self.deadline, commit(&mut connection)).await?;
        self.connection = Some(connection);
        Ok(())
    }

    /// What later polls are compared with, read in the scan's own snapshot.
    async fn facts(&self, scan: &mut Scan) -> Result<Facts, StoreError> {
        let facts = query(FACTS).fetch_one(scan.exporter());
        Facts::read(
            &within(self.deadline, facts).await?,
            &self.watched.table.to_string(),
        )
    }

    /// Certifies the scan's snapshot from the other connection, while the exporter still holds it open.
    async fn certify_first(&mut self, snapshot: &Snapshot) -> Result<Uuid, StoreError> {
        let nonce = Uuid::new_v4();
        let mut connection = self.connection().await?;
        within(self.deadline, begin_certifying(&mut connection)).await?;
        self.certify(&mut connection, nonce, snapshot).await?;
        self.connection = Some(connection);
        Ok(nonce)
    }

    /// Ends the transaction with a certificate.
    async fn certify(
        &self,
        connection: &mut PgConnection,
        nonce: Uuid,
        to: &Snapshot,
    ) -> Result<(), StoreError> {
        let certify =
            query_scalar::<bool>("SELECT namegate.certify($1, $2, $3::text::pg_snapshot)")
                .bind(self.consumer)
                .bind(nonce)
                .bind(to.to_text());
        if !within(self.deadline, certify.fetch_one(&mut *connection)).await? {
            return Err(StoreError::Distrusted(Distrust::Certificate));
        }
        within(self.deadline, commit(connection)).await
    }

    async fn poll_once(&mut self, into: &mut dyn Sink) -> Result<(Poll, Standing), StoreError> {
        let deadline = self.deadline;
        let mut connection = self.connection().await?;
        let consumer = self.consumer;
        let past = self
            .past
            .as_mut()
            .ok_or(StoreError::Garbled("a poll before its scan"))?;
        let asked_at = Moment::now();
        let certifying = asked_at.since(past.certified_at) >= CERTIFY_EVERY;
        if certifying {
            within(deadline, begin_certifying(&mut connection)).await?;
        } else if self.is_pooled {
            within(deadline, begin(&mut connection)).await?;
        }

        let (xmax, running) = past.certified.position().poll_arguments();
        let mut answer = sqlx::query(POLL)
            .persistent(!self.is_pooled)
            .bind(consumer)
            .bind(xmax)
            .bind(running)
            .fetch(&mut connection);
        let first = within(self.patience, answer.try_next()).await;
        self.patience = match first {
            Err(StoreError::Overdue(_)) => (self.patience * 2).min(LONGEST_PATIENCE),
            _ => deadline,
        };
        let first = first?;
        let header = Header::read(&first.ok_or(StoreError::Garbled("a poll without its header"))?)?;
        let standing = past.check(&header)?;
        if standing == Standing::Rewound {
            // Dropped half-read: the connection goes with it, the next poll begins at the older position.
            return Ok((Poll::at(asked_at, 0), standing));
        }
        let mut rows = 0;
        while let Some(row) = within(deadline, answer.try_next()).await? {
            apply(&row, into)?;
            rows += 1;
        }
        drop(answer);

        if !certifying && self.is_pooled {
            within(deadline, commit(&mut connection)).await?;
        }
        if certifying {
            let nonce = past.certified.draw_nonce();
            match self.certify(&mut connection, nonce, &header.snapshot).await {
                Ok(()) => self.move_to(header.snapshot, nonce, asked_at),
                Err(error @ StoreError::Distrusted(_)) => return Err(error),
                Err(error) => {
                    // The changes are read and applied all the same. Without the certificate they will be read again,
                    // on another connection: this one may be dead, or in the middle of a transaction.
                    self.stay(&error);
                    return Ok((Poll::at(asked_at, rows), standing));
                }
            }
        }
        self.connection = Some(connection);
        let mut poll = Poll::at(asked_at, rows);
        poll.is_certified = certifying;
        Ok((poll, standing))
    }

    fn move_to(&mut self, position: Snapshot, nonce: Uuid, at: Moment) {
        if let Some(past) = self.past.as_mut() {
            past.certified.move_to(position, nonce);
            past.certified_at = at;
            past.uncertified = 0;
        }
    }

    /// The next try is due after some polls without one: whatever stopped it may have taken long.
    fn stay(&mut self, error: &StoreError) {
        if let Some(past) = self.past.as_mut() {
            past.certified_at = Moment::now();
            past.uncertified += 1;
            if past.uncertified.is_power_of_two() {
                let tries = past.uncertified;
                tracing::warn!(error = %error, tries, "the feed's position could not be certified; it stays");
            }
        }
    }

    /// Empties the outbox of what every consumer has certified. Failing is harmless: another time, or another instance.
    async fn prune_at_times(&mut self) {
        let now = Moment::now();
        let Some(past) = self.past.as_mut() else {
            return;
        };
        if now.since(past.pruned_at) < PRUNE_EVERY {
            return;
        }
        past.pruned_at = now;
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        let prune = query("SELECT namegate.prune($1::text::interval, $2::text::interval, $3)")
            .bind(PRUNE_KEEP)
            .bind(PRUNE_EXPIRY)
            .bind(PRUNE_AT_MOST);
        let pruned = async {
            begin(&mut connection).await?;
            prune.execute(&mut connection).await?;
            commit(&mut connection).await
        };
        match within(self.deadline, pruned).await {
            Ok(()) => self.connection = Some(connection),
            Err(error) => tracing::warn!(error = %error, "the outbox could not be pruned"),
        }
    }
}

#[async_trait]
impl Feed for PostgresFeed {
    async fn begin(&mut self) -> Result<u64, StoreError> {
        self.register().await?;
        let mut scan =
            Scan::open(&self.options, &self.watched, &self.lookups, self.deadline).await?;
        let facts = self.facts(&mut scan).await?;
        let nonce = self.certify_first(&facts.snapshot).await?;
        let rows = scan.count().await?;
        self.scan = Some(scan);
        self.past = Some(Past::new(facts, nonce));
        Ok(rows)
    }

    async fn scan(&mut self, into: &mut dyn Sink) -> Result<u64, StoreError> {
        let scan = self
            .scan
            .take()
            .ok_or(StoreError::Garbled("a scan before its beginning"))?;
        scan.read(Extent::Whole, self.lanes, into).await
    }

    async fn poll(&mut self, into: &mut dyn Sink) -> Result<Poll, StoreError> {
        loop {
            let (poll, standing) = self.poll_once(into).await?;
            if standing == Standing::Sound {
                self.prune_at_times().await;
                return Ok(poll);
            }
            tracing::warn!(
                "the server lost this filter's last certificates; reading again from an older position"
            );
        }
    }

    async fn bookmark(&mut self) -> Result<Bookmark, StoreError> {
        let mut connection = self.connection().await?;
        let past = self
            .past
            .as_ref()
            .ok_or(StoreError::Garbled("a bookmark before its scan"))?;
        let mark = Mark {
            consumer: Uuid::new_v4(),
            nonce: Uuid::new_v4(),
            position: past.certified.position().to_text(),
            system_identifier: past.system_identifier.clone(),
            fingerprint: past.fingerprint.clone(),
        };
        // Committed after the certificate of this position, so whatever history has the mark has the certificate too.
        let place = query("SELECT namegate.place($1, $2, $3::text::pg_snapshot)")
            .bind(mark.consumer)
            .bind(mark.nonce)
            .bind(&mark.position);
        within(self.deadline, begin_certifying(&mut connection)).await?;
        within(self.deadline, place.execute(&mut connection)).await?;
        within(self.deadline, commit(&mut connection)).await?;
        self.connection = Some(connection);
        Ok(mark.into())
    }

    async fn resume(&mut self, bookmark: &Bookmark) -> Result<(), StoreError> {
        let mark = Mark::try_from(bookmark)?;
        let mut connection = self.connection().await?;
        within(self.deadline, begin_certifying(&mut connection)).await?;
        let table = look(self.deadline, &mut connection, &self.watched, &self.lookups).await?;
        let facts = query(FACTS).fetch_one(&mut connection);
        let facts = Facts::read(&within(self.deadline, facts).await?, &table)?;
        if facts.system_identifier != mark.system_identifier {
            return Err(StoreError::Distrusted(Distrust::Identity));
        }
        if facts.fingerprint != mark.fingerprint {
            return Err(StoreError::Distrusted(Distrust::Fingerprint));
        }
        let nonce = Uuid::new_v4();
        let resume = query_scalar::<Option<String>>("SELECT namegate.resume($1, $2, $3, $4)")
            .bind(mark.consumer)
            .bind(mark.nonce)
            .bind(self.consumer)
            .bind(nonce);
        let position = within(self.deadline, resume.fetch_one(&mut connection)).await?;
        within(self.deadline, commit(&mut connection)).await?;
        if position.as_ref() != Some(&mark.position) {
            return Err(StoreError::Distrusted(Distrust::Certificate));
        }
        // Pruning is looked at by the first poll, in its own snapshot, as by every other.
        let snapshot = parse_snapshot(&mark.position)?;
        self.past = Some(Past::new(Facts { snapshot, ..facts }, nonce));
        self.connection = Some(connection);
        Ok(())
    }

    async fn close(&mut self) {
        let Ok(mut connection) = self.connection().await else {
            return;
        };
        let leave = query("SELECT namegate.unregister($1)").bind(self.consumer);
        let left = async {
            begin(&mut connection).await?;
            leave.execute(&mut connection).await?;
            commit(&mut connection).await
        };
        if let Err(error) = within(self.deadline, left).await {
            tracing::debug!(error = %error, "the place in the outbox was not given up; it expires by itself");
        }
        drop(timeout(self.deadline, connection.close()).await);
    }
}

/// The world as a snapshot shows it.
struct Facts {
    snapshot: Snapshot,
    system_identifier: String,
    fingerprint: String,
}

impl Facts {
    fn read(row: &PgRow, table: &str) -> Result<Self, StoreError> {
        if row.try_get::<i32, _>(2).map_err(classify)? != 4 {
            return Err(StoreError::Unfit(format!(
                "the triggers of the change feed on {table} are missing or disabled: names would be lost"
            )));
        }
        Ok(Self {
            snapshot: parse_snapshot(row.try_get(0).map_err(classify)?)?,
            fingerprint: row.try_get(1).map_err(classify)?,
            system_identifier: row.try_get(3).map_err(classify)?,
        })
    }
}

impl Past {
    /// `nonce`: of the certificate that was committed for the snapshot of `facts`.
    fn new(facts: Facts, nonce: Uuid) -> Self {
        let now = Moment::now();
        Self {
            certified: Certified::new(facts.snapshot, nonce),
            system_identifier: facts.system_identifier,
            fingerprint: facts.fingerprint,
            certified_at: now,
            uncertified: 0,
            pruned_at: now,
        }
    }

    /// Whether the position still holds in the world the header describes.
    fn check(&mut self, header: &Header) -> Result<Standing, StoreError> {
        if header.in_recovery {
            return Err(StoreError::Unfit(
                "the database is a standby: point namegate at the primary".into(),
            ));
        }
        let distrusted = |cause| Err(StoreError::Distrusted(cause));
        if header.system_identifier != self.system_identifier {
            return distrusted(Distrust::Identity);
        }
        if header.fingerprint != self.fingerprint {
            return distrusted(Distrust::Fingerprint);
        }
        let standing = self
            .certified
            .check(header.certificate.clone())
            .map_err(StoreError::Distrusted)?;
        if self.certified.position().xmin < header.pruned_below {
            return distrusted(Distrust::Pruned);
        }
        Ok(standing)
    }
}

impl Header {
    fn read(row: &PgRow) -> Result<Self, StoreError> {
        let text = |at: &str| row.try_get::<Option<String>, _>(at).map_err(classify);
        let needed = |at: &str| text(at)?.ok_or(StoreError::Garbled("a poll's header has a gap"));
        if !row.try_get::<bool, _>("is_header").map_err(classify)? {
            return Err(StoreError::Garbled("a poll does not begin with its header"));
        }
        let certificate = match (
            row.try_get::<Option<Uuid>, _>("nonce").map_err(classify)?,
            text("watermark")?,
        ) {
            (Some(nonce), Some(watermark)) => Some((nonce, parse_snapshot(&watermark)?)),
            _ => None,
        };
        Ok(Self {
            snapshot: parse_snapshot(&needed("snapshot")?)?,
            pruned_below: needed("pruned_below")?
                .parse()
                .map_err(|_| StoreError::Garbled("an unreadable xid8"))?,
            certificate,
            in_recovery: row.try_get("in_recovery").map_err(classify)?,
            system_identifier: needed("system_identifier")?,
            fingerprint: needed("fingerprint")?,
        })
    }
}

fn apply(row: &PgRow, into: &mut dyn Sink) -> Result<(), StoreError> {
    let name: Option<&str> = row.try_get("name").map_err(classify)?;
    let released: bool = row.try_get("released").map_err(classify)?;
    match (name, released) {
        (Some(name), false) => into.held(name.as_bytes()),
        (Some(name), true) => into.released(name.as_bytes()),
        (None, true) => into.truncated(),
        (None, false) => {}
    }
    Ok(())
}

/// `synchronous_commit` on, whatever the database's default: an unflushed certificate certifies nothing.
/// The two timeouts are about our row in `namegate.consumer`: a poll must not wait long for whoever has locked it, and
/// that may be ourselves, on a connection that died between the update and its commit.
async fn begin_certifying(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = on;
         SET LOCAL lock_timeout = '500ms'; SET LOCAL idle_in_transaction_session_timeout = '10s'",
    )
    .execute(connection)
    .await?;
    Ok(())
}

fn parse_snapshot(text: &str) -> Result<Snapshot, StoreError> {
    text.parse()
        .map_err(|_| StoreError::Garbled("an unreadable pg_snapshot"))
}
