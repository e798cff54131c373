//! Filters on disk, so that a restart need not read the table.
//!
//! A file is worth something only together with its bookmark in the outbox: the position from which everything that the
//! file does not have is read again. So the order is: bookmark, copy, rename; and a bookmark whose file is gone is given
//! up. What cannot be used, for whatever reason, is passed over: the table is there. One process at a time keeps its
//! filters in a directory.

use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;

use crate::filter::BlockedBloom;
use crate::filter::snapshot::{Expected, Label, SaveError, Slot, SnapshotDirectory, SnapshotError};
use crate::gate::{Bookmark, Generation};
use crate::names::fold_fingerprint;
use crate::population::PopulationSettings;

/// The directory in which one process keeps its filters.
#[derive(Debug)]
pub struct Keeper {
    directory: SnapshotDirectory,
    source: String,
    /// Half a second of work, done once, when it is first needed.
    folding: OnceLock<u64>,
    /// Locked for as long as this process lives.
    _lock: File,
}

/// Why a directory cannot be used to keep filters in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeeperError {
    /// Another process has locked it.
    #[error("another process keeps its filters there")]
    InUse,
    /// It cannot be made, or not be written to.
    #[error("it cannot be made or written to")]
    Io(#[source] std::io::Error),
}

/// A filter that was read back.
pub(super) struct Kept {
    pub(super) filter: BlockedBloom,
    pub(super) bookmark: Bookmark,
    /// Some of its blocks are damaged and say *maybe* to everything.
    pub(super) needs_rebuild: bool,
}

impl Keeper {
    /// `source`: what the filters are filled from, see [`Store::source`](crate::gate::Store::source).
    ///
    /// # Errors
    /// [`KeeperError`]: then nothing can be kept there.
    pub fn open(path: &Path, source: String) -> Result<Self, KeeperError> {
        let directory = SnapshotDirectory::open(path).map_err(KeeperError::Io)?;
        let lock = File::create(path.join("lock")).map_err(KeeperError::Io)?;
        lock.try_lock().map_err(|error| match error {
            std::fs::TryLockError::WouldBlock => KeeperError::InUse,
            std::fs::TryLockError::Error(error) => KeeperError::Io(error),
        })?;
        Ok(Self {
            directory,
            source,
            folding: OnceLock::new(),
            _lock: lock,
        })
    }

    /// Reads one of the two filters, when it is one that would be built now. Blocks the thread.
    pub(super) fn restore(
        &self,
        slot: Slot,
        settings: &PopulationSettings,
    ) -> Result<Kept, SnapshotError> {
        let expected = Expected {
            fold_fingerprint: self.folding(),
            source: self.source.as_bytes(),
            ceiling_bytes: settings.ceiling_bytes,
        };
        let restored = self.directory.restore(slot, &expected)?;
        let needs_rebuild = restored.needs_rebuild();
        Ok(Kept {
            filter: restored.filter,
            bookmark: Bookmark(restored.header.label.position),
            needs_rebuild,
        })
    }

    /// Copies a filter that is in use. Blocks the thread. Returns the file's size in bytes, and the bookmarks whose files
    /// are gone now.
    pub(super) fn save(
        &self,
        generation: &Generation,
        bookmark: Bookmark,
    ) -> Result<(u64, Vec<Bookmark>), SaveError> {
        let before = self.bookmarks();
        let label = Label {
            fold_fingerprint: self.folding(),
            source: self.source.clone().into_bytes(),
            position: bookmark.0,
        };
        let bytes = self.directory.save(generation.filter(), &label)?;
        let after = self.bookmarks();
        let gone = before.into_iter().filter(|old| !after.contains(old));
        Ok((bytes, gone.collect()))
    }

    /// Removes all files: a filter that lacks names must not come back. Returns their bookmarks. Blocks the thread.
    pub(super) fn clear(&self) -> Result<Vec<Bookmark>, SaveError> {
        let bookmarks = self.bookmarks();
        self.directory.clear()?;
        Ok(bookmarks)
    }

    fn bookmarks(&self) -> Vec<Bookmark> {
        let labels = self.directory.labels().into_iter();
        labels.map(|label| Bookmark(label.position)).collect()
    }

    fn folding(&self) -> u64 {
        *self.folding.get_or_init(fold_fingerprint)
    }
}
