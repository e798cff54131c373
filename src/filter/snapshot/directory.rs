//! Snapshots and keys as files: the newest, the one before it, and never half a one.
//!
//! ```text
//!   filter.snapshot               the newest
//!   filter.previous.snapshot      the one before it
//!   filter.partial.snapshot       being written; worthless after a crash, and overwritten
//!   filter-0123456789abcdef.key   the 16 bytes of the secret key with that fingerprint, mode 0600
//! ```
//!
//! A snapshot is written aside, forced to disk, and renamed into place; the directory is forced to
//! disk after it. A crash at any moment leaves the newest or, between two renames, the one before
//! it. Keys are named by fingerprint, so a snapshot and its key cannot be mixed up, and are removed
//! when neither snapshot needs them. One process at a time writes to a directory.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{Expected, Label, Restored, SaveError, SnapshotError, SnapshotReader, write_snapshot};
use crate::filter::{BlockedBloom, HashSecret};

/// Which of the two snapshots that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// The newest.
    Current,
    /// The one before it.
    Previous,
}

/// The directory that snapshots and their keys live in.
#[derive(Debug, Clone)]
pub struct SnapshotDirectory {
    path: PathBuf,
}

impl SnapshotDirectory {
    /// Uses `path`, and makes it if it is not there, readable by its owner alone.
    ///
    /// # Errors
    /// What the system says when it can be neither found nor made.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path)?;
        Ok(Self { path })
    }

    /// Writes `filter` while it is in use; it becomes the current snapshot, and the current one
    /// (unless it is damaged) the previous. Returns its bytes.
    ///
    /// # Errors
    /// [`SaveError`] when a file cannot be written, for example on a full disk. The snapshots that
    /// were there are as they were.
    pub fn save(&self, filter: &BlockedBloom, label: &Label) -> Result<u64, SaveError> {
        let partial = self.path.join("filter.partial.snapshot");
        self.save_secret(filter.secret())?;
        let written = write_and_sync(&partial, filter, label);
        if written.is_err() {
            let _ = fs::remove_file(&partial); // best effort: the error to report is the first one
        }
        let bytes = written?;
        let (current, previous) = (self.file(Slot::Current), self.file(Slot::Previous));
        // A damaged snapshot is not worth the place of a sound one: it is overwritten instead.
        if self.reader(Slot::Current).is_ok() {
            fs::rename(&current, &previous).map_err(failed("set aside", &current))?;
        }
        fs::rename(&partial, &current).map_err(failed("rename", &partial))?;
        self.sync()?;
        self.remove_unused_secrets();
        Ok(bytes)
    }

    /// Reads one snapshot and the key that belongs to it.
    ///
    /// # Errors
    /// [`SnapshotError::Missing`] when there is none; [`SnapshotError::Secret`] when its key is
    /// not there; any other [`SnapshotError`] when it cannot be trusted.
    pub fn restore(&self, slot: Slot, expected: &Expected<'_>) -> Result<Restored, SnapshotError> {
        let reader = self.reader(slot)?;
        let fingerprint = reader.header().key_fingerprint;
        let secret = self
            .secret(fingerprint)
            .map_err(|source| SnapshotError::Secret {
                fingerprint,
                source,
            })?;
        reader.restore(secret, expected)
    }

    /// Reads the newest snapshot that can be used. What stood in the way of a newer one goes to
    /// `on_refusal`, for the log.
    pub fn restore_newest(
        &self,
        expected: &Expected<'_>,
        mut on_refusal: impl FnMut(Slot, SnapshotError),
    ) -> Option<Restored> {
        [Slot::Current, Slot::Previous]
            .into_iter()
            .find_map(|slot| {
                self.restore(slot, expected)
                    .map_err(|refusal| on_refusal(slot, refusal))
                    .ok()
            })
    }

    /// What the snapshots whose headers are sound say of themselves, the newest first.
    #[must_use]
    pub fn labels(&self) -> Vec<Label> {
        [Slot::Current, Slot::Previous]
            .into_iter()
            .filter_map(|slot| Some(self.reader(slot).ok()?.header().label.clone()))
            .collect()
    }

    /// Removes both snapshots and their keys: a filter that can no longer be trusted must not come back.
    ///
    /// # Errors
    /// [`SaveError`] when a file is there and cannot be removed.
    pub fn clear(&self) -> Result<(), SaveError> {
        for slot in [Slot::Current, Slot::Previous] {
            let file = self.file(slot);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("remove", &file)(error));
                }
                _ => {}
            }
        }
        self.sync()?;
        self.remove_unused_secrets();
        Ok(())
    }

    /// Where a snapshot is, or would be.
    #[must_use]
    pub fn file(&self, slot: Slot) -> PathBuf {
        self.path.join(match slot {
            Slot::Current => "filter.snapshot",
            Slot::Previous => "filter.previous.snapshot",
        })
    }

    fn reader(&self, slot: Slot) -> Result<SnapshotReader<File>, SnapshotError> {
        let file = File::open(self.file(slot)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SnapshotError::Missing,
            _ => SnapshotError::Io(error),
        })?;
        let file_bytes = file.metadata()?.len();
        SnapshotReader::open(file, file_bytes)
    }

    fn secret_file(&self, fingerprint: u64) -> PathBuf {
        self.path.join(format!("filter-{fingerprint:016x}.key"))
    }

    fn secret(&self, fingerprint: u64) -> io::Result<HashSecret> {
        let bytes = fs::read(self.secret_file(fingerprint))?;
        let bytes = bytes
            .try_into()
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(HashSecret::from_bytes(bytes))
    }

    /// Writes the key before the snapshot that needs it, readable by its owner alone.
    fn save_secret(&self, secret: &HashSecret) -> Result<(), SaveError> {
        let path = self.secret_file(secret.fingerprint());
        if self
            .secret(secret.fingerprint())
            .is_ok_and(|stored| stored == *secret)
        {
            return Ok(());
        }
        let _ = fs::remove_file(&path); // what a crash may have left, so that the mode below holds
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(failed("create", &path))?;
        file.write_all(&secret.to_bytes())
            .map_err(failed("write", &path))?;
        file.sync_all().map_err(failed("sync", &path))
    }

    /// Removes keys that no snapshot needs. When a snapshot cannot be read just now, or a key not
    /// be removed, keys stay: one too many does no harm.
    fn remove_unused_secrets(&self) {
        let mut needed = Vec::new();
        for slot in [Slot::Current, Slot::Previous] {
            match self.reader(slot) {
                Ok(reader) => needed.push(self.secret_file(reader.header().key_fingerprint)),
                Err(SnapshotError::Missing) => {}
                Err(_) => return,
            }
        }
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_key = path.extension().is_some_and(|extension| extension == "key")
                && entry.file_name().to_string_lossy().starts_with("filter-");
            if is_key && !needed.contains(&path) {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Forces the names in the directory to disk: without it a rename may be lost with the power.
    #[cfg(unix)]
    fn sync(&self) -> Result<(), SaveError> {
        File::open(&self.path)
            .and_then(|directory| directory.sync_all())
            .map_err(failed("sync", &self.path))
    }

    /// Directories cannot be opened as files here.
    #[cfg(not(unix))]
    fn sync(&self) -> Result<(), SaveError> {
        Ok(())
    }
}

fn write_and_sync(path: &Path, filter: &BlockedBloom, label: &Label) -> Result<u64, SaveError> {
    let file = File::create(path).map_err(failed("create", path))?;
    let bytes = write_snapshot(filter, label, &file)?;
    file.sync_all().map_err(failed("sync", path))?;
    Ok(bytes)
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SaveError {
    let path = path.to_path_buf();
    move |source| SaveError::File {
        action,
        path,
        source,
    }
}
