//! The trait that stands between the gate and a database: what any store of names must be able to do.
//!
//! The gate and the population know only this file. The two implementations are in [`crate::store`]; one conformance
//! suite runs on both. Nothing here knows HTTP, and no error shows a name or a password.

use async_trait::async_trait;

use crate::gate::freshness::Moment;
use crate::names::Canonical;

/// Where the users table lives.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Which of `names` a committed row holds, in the order asked, by the column's own equality and in one statement.
    ///
    /// # Errors
    /// Any [`StoreError`]: the caller then knows nothing, and must say so.
    async fn held(&self, names: &[Canonical]) -> Result<Vec<bool>, StoreError>;

    /// Whether a row may hold a name as it was typed and not in its canonical form: such a table is asked about both.
    /// `true` also while the store does not know yet.
    fn holds_raw_names(&self) -> bool {
        false
    }

    /// Inserts a new user. `before_commit` runs between the insert and its commit, so that a name is in the filter
    /// before anybody can see its row: a rolled-back insert then costs a false positive, never a false negative.
    ///
    /// # Errors
    /// Any [`StoreError`]; it is then unknown whether the row was committed.
    async fn claim(
        &self,
        username: &str,
        canonical: &Canonical,
        before_commit: &(dyn Fn() + Send + Sync),
    ) -> Result<Claim, StoreError>;

    /// Inserts many users in one transaction, leaving out those whose name is held. Returns how many were new.
    ///
    /// # Errors
    /// Any [`StoreError`]: then none of them was inserted.
    async fn import(&self, rows: &[(String, String)]) -> Result<u64, StoreError>;

    /// Makes the sample table, the outbox and its trigger where they are missing.
    ///
    /// # Errors
    /// Any [`StoreError`]; objects of the same name that are not ours are left alone and reported.
    async fn migrate(&self) -> Result<(), StoreError>;

    /// Checks that the database can be served from: version, role, table, unique index, feed objects.
    ///
    /// # Errors
    /// [`StoreError::Unfit`] says what does not fit and what to do.
    async fn probe(&self) -> Result<(), StoreError>;

    /// Begins a feed of its own: own connections, own place in the outbox.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn open_feed(&self) -> Result<Box<dyn Feed>, StoreError>;

    /// Opens a look at committed rows, beside all feeds, to check a filter against.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn open_walk(&self, extent: Extent) -> Result<Box<dyn Walk>, StoreError>;

    /// Which names a filter of this store holds, as far as the configuration says: written beside a filter on disk, so
    /// that it is not read back for another table. Without secrets.
    fn source(&self) -> String;

    /// Gives up what a filter on disk held in the outbox: the file is gone. One that is not there is as good.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn forget(&self, bookmark: &Bookmark) -> Result<(), StoreError>;

    /// The store in a few words for people, without secrets: `PostgreSQL at db.example:5432/app`.
    fn describe(&self) -> String;

    /// Closes every connection.
    async fn close(&self);
}

/// One filter's way through the table and its changes: [`begin`](Self::begin), [`scan`](Self::scan), then
/// [`poll`](Self::poll) for ever. What a position is, and how it is kept safe across crashes, is the store's business.
#[async_trait]
pub trait Feed: Send {
    /// Takes the place in the outbox from which on nothing will be missed, and counts the rows.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn begin(&mut self) -> Result<u64, StoreError>;

    /// Reads every name in the table, as of [`begin`](Self::begin). Returns the number of rows.
    ///
    /// # Errors
    /// Any [`StoreError`]: what was read is then incomplete and must be thrown away.
    async fn scan(&mut self, into: &mut dyn Sink) -> Result<u64, StoreError>;

    /// Reads what changed since the position. Only after `Ok` may the lease be renewed to [`Poll::asked_at`].
    ///
    /// # Errors
    /// [`StoreError::Distrusted`]: names may have passed by the feed, build a new filter. Anything else: nothing is
    /// lost, poll again.
    async fn poll(&mut self, into: &mut dyn Sink) -> Result<Poll, StoreError>;

    /// Puts a mark of its own into the outbox at the present position, for a copy of the filter that is made after
    /// this. From it another feed can [`resume`](Self::resume), also after this one is closed.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn bookmark(&mut self) -> Result<Bookmark, StoreError>;

    /// Instead of [`begin`](Self::begin) and [`scan`](Self::scan): goes on from where a filter on disk was copied.
    ///
    /// # Errors
    /// [`StoreError::Distrusted`]: the bookmark does not hold, scan. Any other [`StoreError`].
    async fn resume(&mut self, bookmark: &Bookmark) -> Result<(), StoreError>;

    /// Gives up the place in the outbox.
    async fn close(&mut self);
}

/// Where a filter on disk was, in the store's own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bookmark(pub Vec<u8>);

/// How much of the table to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Every row.
    Whole,
    /// A few hundred neighbouring rows somewhere.
    Sample,
}

/// A look at the rows of one snapshot.
#[async_trait]
pub trait Walk: Send {
    /// When the snapshot was certainly there already: a filter whose lease is not older holds every row of it.
    fn taken_at(&self) -> Moment;

    /// Reads the rows. Returns how many there were.
    ///
    /// # Errors
    /// Any [`StoreError`].
    async fn rows(self: Box<Self>, into: &mut dyn Sink) -> Result<u64, StoreError>;
}

/// What one poll brought.
#[derive(Debug, Clone, Copy)]
pub struct Poll {
    /// Read just before the question was sent: the filter now holds everything committed before this.
    pub asked_at: Moment,
    /// Changes read, including those read again.
    pub rows: u64,
    /// The position moved behind them: they will not be read again.
    pub is_certified: bool,
}

impl Poll {
    /// A poll whose changes will be read again.
    #[must_use]
    pub const fn at(asked_at: Moment, rows: u64) -> Self {
        Self {
            asked_at,
            rows,
            is_certified: false,
        }
    }
}

/// Receives names as the database holds them. Keying them is the receiver's business.
pub trait Sink: Send {
    /// A row holds this name. `raw`: the text's bytes as stored.
    fn held(&mut self, raw: &[u8]);
    /// A row no longer holds this name.
    fn released(&mut self, raw: &[u8]);
    /// Every row is gone.
    fn truncated(&mut self);
}

/// How an insert ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The row is committed.
    Claimed,
    /// The unique index refused it.
    Taken,
    /// The database cannot hold this text at all (too long, not encodable).
    NotStorable,
}

/// Why a store gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No connection, or it broke.
    #[error("the database is unreachable")]
    Unreachable(#[source] sqlx::Error),
    /// It did not answer in time; the connection was closed.
    #[error("the database did not answer within {0:?}")]
    Overdue(std::time::Duration),
    /// It let nobody in: password, role, unknown database.
    #[error("the database refused the connection")]
    Refused(#[source] sqlx::Error),
    /// It is reached, but cannot be served from. The text says what to do.
    #[error("{0}")]
    Unfit(String),
    /// Names may have passed by the feed.
    #[error("the filter can no longer be trusted: {0}")]
    Distrusted(Distrust),
    /// It answered a statement with an error.
    #[error("the database answered with an error")]
    Failed(#[source] sqlx::Error),
    /// The stream of a scan or a poll was not what the protocol promises.
    #[error("the database sent something unexpected: {0}")]
    Garbled(&'static str),
}

/// Why a feed's past can no longer be vouched for. Each is answered by a new scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Distrust {
    /// The table, its triggers, its unique index or the outbox changed.
    #[error("the watched table, its triggers or the outbox were changed")]
    Fingerprint,
    /// This is another database than the one the filter was filled from.
    #[error("this is another database than the one the filter was filled from")]
    Identity,
    /// The outbox was emptied past the position.
    #[error("the outbox was pruned past the filter's position")]
    Pruned,
    /// The place in the outbox is gone, or its certificate is not one of ours.
    #[error("the filter's place in the outbox is not the one it wrote")]
    Certificate,
    /// Every row was removed at once.
    #[error("the table was truncated")]
    Truncated,
    /// A committed row was found that the filter called absent.
    #[error("a committed row was found that the filter called absent")]
    Miss,
}

impl Distrust {
    /// A short stable word, for metric labels.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Fingerprint => "fingerprint",
            Self::Identity => "identity",
            Self::Pruned => "pruned",
            Self::Certificate => "certificate",
            Self::Truncated => "truncated",
            Self::Miss => "miss",
        }
    }
}
