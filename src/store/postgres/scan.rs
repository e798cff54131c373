//! Reading the whole table, or a sample of it, under one snapshot and on several connections.
//!
//! ```text
//!   exporter   BEGIN REPEATABLE READ, export the snapshot ............................. COMMIT
//!   lane 1       BEGIN, import it ▸ COPY a range of pages ▸ COPY another ▸ ... COMMIT
//!   lane 2       BEGIN, import it ▸ COPY a range of pages ▸ ...              COMMIT        names ──▶ Sink
//! ```
//!
//! All lanes read in the one exported snapshot: an update that does not touch the name can move a row from a range not
//! yet read into one already read, and two snapshots would show it in neither. A range is a `ctid` range of one leaf
//! table; the first and the last are open-ended. Any error, and a commit that fails, ends the scan with that error:
//! what was read is then worth nothing, and it is the caller's to throw it away.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::vec;

use async_trait::async_trait;
use futures_util::{Stream, TryStreamExt};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection, Row};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use crate::gate::freshness::Moment;
use crate::gate::{Extent, Sink, StoreError, Walk};
use crate::store::postgres::binary_copy::OneColumn;
use crate::store::postgres::connection::{commit, open, query, query_scalar, within};
use crate::store::postgres::errors::classify;
use crate::store::postgres::ident::Identifier;
use crate::store::postgres::lookup::Statement;
use crate::store::postgres::{Watched, look};

/// Pages of a range: 32 MiB. Small enough that a stretch of dead rows is passed within a deadline, large enough that
/// starting a COPY for it costs nothing.
const RANGE_PAGES: i64 = 4096;
/// Pages of a sample: some hundred rows, read in about a millisecond.
const SAMPLE_PAGES: i64 = 8;
/// Names travel from a lane in batches of about this many bytes.
const BATCH_BYTES: usize = 64 << 10;
/// Batches under way: enough to keep the lanes busy, and a bound on memory.
const BATCHES: usize = 16;
/// Counting a hundred million rows takes its time; a server that says nothing for this long will not say it.
const COUNT_DEADLINE: Duration = Duration::from_mins(10);

/// A session that holds a snapshot open, and knows the table as it is in it.
pub(super) struct Scan {
    exporter: PgConnection,
    snapshot_id: String,
    /// With its schema, and quoted.
    table: String,
    watched: Watched,
    options: PgConnectOptions,
    deadline: Duration,
}

impl Scan {
    /// Looks at the database (refusing what does not fit), then opens the snapshot and exports it.
    pub(super) async fn open(
        options: &PgConnectOptions,
        watched: &Watched,
        lookups: &Statement,
        deadline: Duration,
    ) -> Result<Self, StoreError> {
        let mut exporter = open(options, deadline).await?;
        let begin = sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        within(deadline, begin.execute(&mut exporter)).await?;
        within(deadline, free_of_timeouts(&mut exporter)).await?;
        let table = look(deadline, &mut exporter, watched, lookups).await?;
        let export = query_scalar("SELECT pg_export_snapshot()").fetch_one(&mut exporter);
        let snapshot_id = within(deadline, export).await?;
        Ok(Self {
            exporter,
            snapshot_id,
            table,
            watched: watched.clone(),
            options: options.clone(),
            deadline,
        })
    }

    /// The session in which the snapshot is open, for questions that must be answered in it.
    pub(super) const fn exporter(&mut self) -> &mut PgConnection {
        &mut self.exporter
    }

    /// Rows that hold a name. A real count: sizing from an estimate made filters elsewhere far too small or too big.
    pub(super) async fn count(&mut self) -> Result<u64, StoreError> {
        let count = format!("SELECT count({}) FROM {}", self.watched.column, self.table);
        let count = query_scalar::<i64>(AssertSqlSafe(count));
        let rows = within(COUNT_DEADLINE, count.fetch_one(&mut self.exporter)).await?;
        Ok(u64::try_from(rows).unwrap_or(0))
    }

    /// Reads on at most `lanes` connections. Returns the number of rows.
    pub(super) async fn read(
        mut self,
        extent: Extent,
        lanes: usize,
        into: &mut dyn Sink,
    ) -> Result<u64, StoreError> {
        let ranges = self.plan(extent).await?;
        let lanes = lanes.clamp(1, ranges.len().max(1));
        let ranges = Arc::new(Mutex::new(ranges.into_iter()));
        let (names, mut batches) = mpsc::channel(BATCHES);
        let mut reading = JoinSet::new();
        for _ in 0..lanes {
            let lane = Lane {
                options: self.options.clone(),
                deadline: self.deadline,
                snapshot_id: self.snapshot_id.clone(),
                ranges: Arc::clone(&ranges),
                names: names.clone(),
            };
            reading.spawn(lane.run());
        }
        drop(names); // so that the batches end when the last lane does
        let mut rows = 0;
        loop {
            tokio::select! {
                batch = batches.recv() => match batch {
                    Some(batch) => rows += batch.pour(into),
                    None => break,
                },
                Some(ended) = reading.join_next() => whole(ended)?,
            }
        }
        while let Some(ended) = reading.join_next().await {
            whole(ended)?;
        }
        // The commit must succeed: only then was the snapshot held open to the end.
        within(self.deadline, commit(&mut self.exporter)).await?;
        drop(timeout(self.deadline, self.exporter.close()).await);
        Ok(rows)
    }

    /// The statements that together read `extent`, in the exporter's snapshot.
    async fn plan(&mut self, extent: Extent) -> Result<Vec<String>, StoreError> {
        // What is read directly must be a plain table that the role may read and whose rows no policy hides.
        let leaves = query(
            "SELECT format('%I.%I', n.nspname, c.relname),
                    pg_relation_size(c.oid) / current_setting('block_size')::bigint,
                    c.relkind = 'r' AND a.amname = 'heap' AND NOT row_security_active(c.oid)
                      AND has_schema_privilege(n.oid, 'USAGE') AND has_column_privilege(c.oid, $1, 'SELECT')
               FROM namegate.watched_tree() AS tree (relid)
               JOIN pg_class c ON c.oid = tree.relid
               JOIN pg_namespace n ON n.oid = c.relnamespace
               LEFT JOIN pg_am a ON a.oid = c.relam
              WHERE c.relkind <> 'p'",
        )
        .bind(self.watched.column.name())
        .fetch_all(&mut self.exporter);
        let leaves = within(self.deadline, leaves).await?;
        let leaves = leaves
            .iter()
            .map(Leaf::read)
            .collect::<Result<Vec<_>, _>>()?;
        let column = &self.watched.column;
        let pages: i64 = leaves.iter().map(|leaf| leaf.pages).sum();
        let are_readable = leaves.iter().all(|leaf| leaf.is_readable);
        Ok(match extent {
            Extent::Whole if are_readable => {
                leaves.iter().flat_map(|leaf| leaf.ranges(column)).collect()
            }
            Extent::Whole => vec![format!("SELECT {column} FROM {}", self.table)],
            Extent::Sample if pages == 0 => Vec::new(),
            Extent::Sample if are_readable => sample(&leaves, pages, column),
            Extent::Sample => vec![format!(
                "SELECT {column} FROM {} TABLESAMPLE SYSTEM ({})",
                self.table,
                (100.0 * to_f64(SAMPLE_PAGES) / to_f64(pages)).min(100.0)
            )],
        })
    }
}

/// A scan that checks a filter: one range at a time, so that it takes little from those who ask.
pub(super) struct PostgresWalk {
    scan: Scan,
    extent: Extent,
    taken_at: Moment,
}

impl PostgresWalk {
    pub(super) async fn open(
        options: &PgConnectOptions,
        watched: &Watched,
        lookups: &Statement,
        deadline: Duration,
        extent: Extent,
    ) -> Result<Self, StoreError> {
        let options = options.clone().application_name("namegate audit");
        let scan = Scan::open(&options, watched, lookups, deadline).await?;
        // Read after the snapshot: a poll that is sent later than this sees all of it.
        let taken_at = Moment::now();
        Ok(Self {
            scan,
            extent,
            taken_at,
        })
    }
}

#[async_trait]
impl Walk for PostgresWalk {
    fn taken_at(&self) -> Moment {
        self.taken_at
    }

    async fn rows(self: Box<Self>, into: &mut dyn Sink) -> Result<u64, StoreError> {
        self.scan.read(self.extent, 1, into).await
    }
}

/// A table that holds rows itself.
struct Leaf {
    /// With its schema, and quoted.
    table: String,
    pages: i64,
    is_readable: bool,
}

impl Leaf {
    fn read(row: &PgRow) -> Result<Self, StoreError> {
        Ok(Self {
            table: row.try_get(0).map_err(classify)?,
            pages: row.try_get(1).map_err(classify)?,
            is_readable: row.try_get::<Option<bool>, _>(2).map_err(classify)? == Some(true),
        })
    }

    /// Statements that read every row once. Rows of the snapshot are on pages that were there when it was taken; the
    /// last range is open-ended all the same, and so is the first.
    fn ranges(&self, column: &Identifier) -> impl Iterator<Item = String> {
        let last = (self.pages - 1).max(0) / RANGE_PAGES;
        (0..=last).map(move |range| {
            let from = (range > 0).then_some(range * RANGE_PAGES);
            let to = (range < last).then_some((range + 1) * RANGE_PAGES);
            self.pages_between(column, from, to)
        })
    }

    /// ONLY: what is below this table has ranges of its own.
    fn pages_between(&self, column: &Identifier, from: Option<i64>, to: Option<i64>) -> String {
        let bounds: Vec<String> = [(">=", from), ("<", to)]
            .into_iter()
            .filter_map(|(relation, page)| Some(format!("ctid {relation} '({},0)'", page?)))
            .collect();
        let filter = if bounds.is_empty() { "" } else { " WHERE " };
        format!(
            "SELECT {column} FROM ONLY {}{filter}{}",
            self.table,
            bounds.join(" AND ")
        )
    }
}

/// A few neighbouring pages, every page of the table as likely as any other.
fn sample(leaves: &[Leaf], pages: i64, column: &Identifier) -> Vec<String> {
    // Not a secret: which rows are looked at may be guessed.
    let random = RandomState::new().hash_one(pages);
    let mut page = i64::try_from(random >> 1).unwrap_or(0) % pages;
    for leaf in leaves {
        if page < leaf.pages {
            let from = page.min((leaf.pages - SAMPLE_PAGES).max(0));
            return vec![leaf.pages_between(column, Some(from), Some(from + SAMPLE_PAGES))];
        }
        page -= leaf.pages;
    }
    Vec::new()
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a share for a sample need not be exact"
)]
const fn to_f64(pages: i64) -> f64 {
    pages as f64
}

fn whole(ended: Result<Result<(), StoreError>, JoinError>) -> Result<(), StoreError> {
    ended.unwrap_or(Err(StoreError::Garbled(
        "a lane of the scan ended abnormally",
    )))
}

/// One connection that reads ranges until none is left.
struct Lane {
    options: PgConnectOptions,
    deadline: Duration,
    snapshot_id: String,
    /// Shared by all lanes; locked for as long as it takes to take one.
    ranges: Arc<Mutex<vec::IntoIter<String>>>,
    names: mpsc::Sender<Names>,
}

impl Lane {
    async fn run(self) -> Result<(), StoreError> {
        let mut connection = open(&self.options, self.deadline).await?;
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '{}';
             SET LOCAL max_parallel_workers_per_gather = 0",
            self.snapshot_id
        );
        let begin = sqlx::raw_sql(AssertSqlSafe(begin)).execute(&mut connection);
        within(self.deadline, begin).await?;
        within(self.deadline, free_of_timeouts(&mut connection)).await?;
        while let Some(range) = self.next_range() {
            self.copy(&mut connection, &range).await?;
        }
        within(self.deadline, commit(&mut connection)).await?;
        drop(timeout(self.deadline, connection.close()).await);
        Ok(())
    }

    fn next_range(&self) -> Option<String> {
        // An iterator is whole whenever a panic might have happened.
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        ranges.next()
    }

    async fn copy(&self, connection: &mut PgConnection, select: &str) -> Result<(), StoreError> {
        // A SELECT, not the table's name: COPY of a name leaves out partitions and children.
        let copy = format!("COPY ({select}) TO STDOUT (FORMAT binary)");
        let mut chunks = within(self.deadline, connection.copy_out_raw(&copy)).await?;
        let mut reader = OneColumn::default();
        loop {
            // One deadline for a batch, not for a row: a timer for each would cost as much as the row.
            let (batch, is_last) =
                within_of(self.deadline, next_batch(&mut chunks, &mut reader)).await?;
            if !batch.is_empty() && self.names.send(batch).await.is_err() {
                return Ok(()); // the scan was given up, and with it this lane
            }
            if is_last {
                break;
            }
        }
        drop(chunks);
        reader.finish()
    }
}

/// Reads on until a batch is full or the stream ends; says which.
async fn next_batch(
    chunks: &mut (impl Stream<Item = Result<impl AsRef<[u8]>, sqlx::Error>> + Unpin),
    reader: &mut OneColumn,
) -> Result<(Names, bool), StoreError> {
    let mut batch = Names::default();
    while !batch.is_full() {
        match chunks.try_next().await.map_err(classify)? {
            Some(chunk) => reader.feed(chunk.as_ref(), |name| batch.push(name))?,
            None => return Ok((batch, true)),
        }
    }
    Ok((batch, false))
}

async fn within_of<T>(
    deadline: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match timeout(deadline, work).await {
        Ok(done) => done,
        Err(_elapsed) => Err(StoreError::Overdue(deadline)),
    }
}

/// A scan takes as long as it takes, so no timeout of the server's may end it; hidden rows become an error. Some of
/// these settings are not known to older servers, hence the detour.
async fn free_of_timeouts(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(
        "SELECT set_config(name, '0', true) FROM pg_settings
          WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout');
         SET LOCAL row_security = off",
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Names on their way from a lane to the filter: one allocation for some thousand.
#[derive(Debug, Default)]
struct Names {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Names {
    fn push(&mut self, name: &[u8]) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(BATCH_BYTES + BATCH_BYTES / 4);
            self.ends.reserve(BATCH_BYTES / 8);
        }
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
    }

    const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Empty names take room too.
    const fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.ends.len() >= BATCH_BYTES / 8
    }

    /// Returns how many there were.
    fn pour(&self, into: &mut dyn Sink) -> u64 {
        let mut from = 0;
        for &end in &self.ends {
            into.held(&self.bytes[from..end]);
            from = end;
        }
        self.ends.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(table: &str, pages: i64) -> Leaf {
        Leaf {
            table: table.to_owned(),
            pages,
            is_readable: true,
        }
    }

    fn column() -> Identifier {
        "name".parse().expect("a column")
    }

    #[test]
    fn ranges_meet_without_a_gap_and_are_open_at_both_ends() {
        let selects = |pages| leaf("t", pages).ranges(&column()).collect::<Vec<_>>();
        for small in [0, 1, RANGE_PAGES] {
            assert_eq!(selects(small), ["SELECT \"name\" FROM ONLY t"]);
        }
        assert_eq!(
            selects(2 * RANGE_PAGES + 1),
            [
                "SELECT \"name\" FROM ONLY t WHERE ctid < '(4096,0)'",
                "SELECT \"name\" FROM ONLY t WHERE ctid >= '(4096,0)' AND ctid < '(8192,0)'",
                "SELECT \"name\" FROM ONLY t WHERE ctid >= '(8192,0)'",
            ]
        );
    }

    #[test]
    fn a_sample_lies_inside_a_leaf_that_has_pages() {
        let leaves = [leaf("none", 0), leaf("some", 3), leaf("many", 1000)];
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..2000 {
            let selects = sample(&leaves, 1003, &column());
            assert_eq!(selects.len(), 1);
            assert!(!selects[0].contains("none"), "{selects:?}");
            seen.insert(selects[0].clone());
        }
        assert!(
            seen.iter()
                .any(|select| select.contains("ONLY some WHERE ctid >= '(0,0)'"))
        );
        assert!(seen.len() > 300, "{} different samples", seen.len());
    }

    #[derive(Default)]
    struct Heard(Vec<Vec<u8>>);

    impl Sink for Heard {
        fn held(&mut self, raw: &[u8]) {
            self.0.push(raw.to_vec());
        }
        fn released(&mut self, _raw: &[u8]) {}
        fn truncated(&mut self) {}
    }

    #[test]
    fn a_batch_pours_out_what_was_pushed() {
        let names: Vec<&[u8]> = vec![b"alice", b"", b"bob\xff"];
        let mut batch = Names::default();
        assert!(batch.is_empty());
        for name in &names {
            batch.push(name);
        }
        let mut heard = Heard::default();
        assert_eq!(batch.pour(&mut heard), 3);
        assert_eq!(heard.0, names);
        while !batch.is_full() {
            batch.push(b"");
        }
        assert_eq!(batch.pour(&mut Heard::default()), (BATCH_BYTES / 8) as u64);
    }
}
