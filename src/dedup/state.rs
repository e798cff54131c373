//! A memory on disk: what a restart goes on from.
//!
//! ```text
//!   lock                  held by the one process that uses the directory
//!   manifest              which of the files below belong together; replaced as a whole
//!   slice-20604/          one generation: a snapshot directory, with its key file
//!   digests-17            with --exact or --time-key: the last ids, exactly
//!   suspects.db           with --exact: the index of suspects
//! ```
//!
//! The promises: an id is on disk only after its message was written to the output; what the manifest names is whole,
//! and is all that had been judged when its save began. So a crash at any moment forgets at most what came since, and
//! those messages pass once more when they are sent again; none is lost. What is damaged or belongs to other messages is
//! refused, never used in part: a damaged block would drop everything that falls on it.
//!
//! The order of a save: copy the generations that changed (their older copies stay), wait until the output is written, replace
//! the manifest, remove what it no longer names. A generation's copy that is newer than the manifest was not completed,
//! and the one before it is used.

use std::collections::VecDeque;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::dedup::memory::{Generation, Memory, Plan};
use crate::dedup::recent::Recent;
use crate::filter::Digest;
use crate::filter::snapshot::{
    Expected, Label, SaveError, Slot, SnapshotDirectory, SnapshotError, SnapshotReader,
};

const FORMAT: u32 = 1;
/// By which rules an id becomes the bytes that are hashed.
const ID_RULES: u64 = 1;
const MANIFEST: &str = "manifest";
const SLICE: &str = "slice-";
const DIGESTS: &str = "digests-";
/// A digest and its slice.
const DIGEST_BYTES: usize = 16 + 8;
/// A manifest has some hundred bytes a generation; one that is larger is none.
const MOST_MANIFEST_BYTES: u64 = 1 << 20;

/// Why a state directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The system refused.
    #[error("could not {action} {}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process uses it.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// Cut short, or changed.
    #[error("{} is damaged ({why}); move the state directory away to begin with an empty memory", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// A generation cannot be used.
    #[error("{} cannot be used; move the state directory away to begin with an empty memory", path.display())]
    Snapshot {
        /// The generation's directory.
        path: PathBuf,
        /// Why.
        source: SnapshotError,
    },
    /// Written by another version.
    #[error("{} was written as format {found}, this build reads {FORMAT}", path.display())]
    Format {
        /// The manifest.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// It remembers other messages.
    #[error("{} remembers messages by `{found}`, now it is `{ours}`: use another directory", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// What it was written for.
        found: String,
        /// What it was opened for.
        ours: String,
    },
    /// It would not fit.
    #[error("{} needs {bytes_needed} bytes of memory, the ceiling is {ceiling_bytes} bytes: raise --memory", path.display())]
    Ceiling {
        /// The directory.
        path: PathBuf,
        /// Bytes of all filters, those that are still to come included.
        bytes_needed: u64,
        /// Bytes allowed.
        ceiling_bytes: u64,
    },
    /// A generation could not be written.
    #[error("could not save a generation")]
    Save(#[from] SaveError),
}

/// What is saved beside the filters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    format: u32,
    /// By what messages are remembered, and for how long.
    pub(super) contract: String,
    /// Counts saves.
    pub(super) sequence: u64,
    /// The oldest first.
    pub(super) generations: Vec<Saved>,
    /// The save that wrote the last ids.
    pub(super) digests: Option<u64>,
    /// Lines of its input that the run had judged.
    pub(super) lines: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// When it was written, in milliseconds since 1970.
    pub(super) saved_at_ms: u64,
}

/// What every format of a manifest has.
#[derive(Debug, Deserialize)]
struct Version {
    format: u32,
}

/// A generation as a manifest names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saved {
    pub(super) slice: u64,
    pub(super) ids: u64,
    /// The save that wrote it.
    pub(super) sequence: u64,
}

/// What one save writes.
#[derive(Debug)]
pub(super) struct Save {
    pub(super) manifest: Manifest,
    /// Generations that changed since they were written.
    pub(super) changed: Vec<Generation>,
    pub(super) digests: Option<Vec<u8>>,
}

/// What was read back.
pub(super) struct Restored {
    pub(super) memory: Memory,
    pub(super) manifest: Manifest,
    pub(super) last: Vec<(Digest, u64)>,
}

/// A directory that this process alone uses.
#[derive(Debug)]
pub(super) struct StateDirectory {
    path: PathBuf,
    /// Unlocked by the system when the process ends, however it ends.
    _lock: File,
}

impl StateDirectory {
    /// Opens `path`, and makes it when it is not there, readable by its owner alone.
    pub(super) fn open(path: &Path) -> Result<Self, StateError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(failed("make", path))?;
        let file = path.join("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&file);
        let lock = lock.map_err(failed("open", &file))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(StateError::InUse {
                path: path.to_owned(),
            }),
            Err(TryLockError::Error(error)) => Err(failed("lock", &file)(error)),
        }
    }

    /// Where the index of suspects is.
    pub(super) fn index(&self) -> PathBuf {
        self.path.join("suspects.db")
    }

    /// Reads what an earlier run saved; `None` when none did.
    pub(super) fn restore(
        &self,
        contract: &str,
        plan: Plan,
        ceiling_bytes: u64,
    ) -> Result<Option<Restored>, StateError> {
        let Some(manifest) = self.manifest()? else {
            return Ok(None);
        };
        if manifest.contract != contract {
            return Err(StateError::Foreign {
                path: self.path.clone(),
                found: manifest.contract,
                ours: contract.to_owned(),
            });
        }
        let mut generations = VecDeque::new();
        let mut left_bytes = ceiling_bytes;
        for (index, saved) in manifest.generations.iter().enumerate() {
            let is_newest = index + 1 == manifest.generations.len();
            let generation = self.generation(saved, is_newest, contract, left_bytes)?;
            left_bytes = left_bytes.saturating_sub(generation.filter.size_bytes());
            generations.push_back(generation);
        }
        self.check(&generations, plan, ceiling_bytes)?;
        let Some(newest) = generations.back() else {
            return Err(self.damaged(MANIFEST, "it names no generation"));
        };
        let secret = newest.filter.secret().clone();
        if generations
            .iter()
            .any(|generation| *generation.filter.secret() != secret)
        {
            return Err(self.damaged(MANIFEST, "its generations do not belong together"));
        }
        let last = manifest
            .digests
            .map(|sequence| self.digests(sequence))
            .transpose()?;
        Ok(Some(Restored {
            memory: Memory::restored(plan, secret, generations),
            manifest,
            last: last.unwrap_or_default(),
        }))
    }

    /// Filters that were made under another plan have other sizes; together with those to come they must fit.
    fn check(
        &self,
        generations: &VecDeque<Generation>,
        plan: Plan,
        ceiling_bytes: u64,
    ) -> Result<(), StateError> {
        let is_sorted = generations
            .iter()
            .map(|generation| generation.slice)
            .is_sorted_by(|one, two| one < two);
        if !is_sorted || generations.len() > plan.filters as usize {
            return Err(self.damaged(MANIFEST, "its generations are not in order"));
        }
        let to_come = u64::from(plan.filters) - generations.len() as u64;
        let present: u64 = generations
            .iter()
            .map(|generation| generation.filter.size_bytes())
            .sum();
        let bytes_needed = present.saturating_add(to_come.saturating_mul(plan.sizing.size_bytes()));
        if bytes_needed > ceiling_bytes {
            return Err(StateError::Ceiling {
                path: self.path.clone(),
                bytes_needed,
                ceiling_bytes,
            });
        }
        Ok(())
    }

    fn generation(
        &self,
        saved: &Saved,
        is_newest: bool,
        contract: &str,
        ceiling_bytes: u64,
    ) -> Result<Generation, StateError> {
        let path = self.slice(saved.slice);
        let refused = |source| StateError::Snapshot {
            path: path.clone(),
            source,
        };
        if !path.is_dir() {
            return Err(refused(SnapshotError::Missing));
        }
        let directory = SnapshotDirectory::open(&path).map_err(failed("open", &path))?;
        // A newer copy than the manifest's was never completed; the one before it holds what was written by then.
        let slot = match sequence_in(&directory, Slot::Current) {
            Ok(sequence) if sequence == saved.sequence => Slot::Current,
            Err(refusal) if !matches!(refusal, SnapshotError::Missing) => {
                return Err(refused(refusal));
            }
            _ => {
                let sequence = sequence_in(&directory, Slot::Previous).map_err(refused)?;
                if sequence < saved.sequence {
                    let why = format!("save {} of it is missing", saved.sequence);
                    return Err(StateError::Damaged { path, why });
                }
                Slot::Previous
            }
        };
        let expected = Expected {
            fold_fingerprint: ID_RULES,
            source: contract.as_bytes(),
            ceiling_bytes,
        };
        let restored = directory.restore(slot, &expected).map_err(refused)?;
        if restored.damaged_chunks > 0 || restored.needs_rebuild() {
            let damaged = restored.damaged_chunks;
            return Err(StateError::Damaged {
                path,
                why: format!("{damaged} of its chunks"),
            });
        }
        if slot == Slot::Previous {
            // It must not become the previous one with the next save: messages it knows of may never have been written.
            let current = directory.file(Slot::Current);
            match fs::remove_file(&current) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("remove", &current)(error));
                }
                _ => {}
            }
        }
        // The newest may hold ids that were admitted while it was copied.
        let counted = if is_newest {
            restored.header.advisory_count
        } else {
            0
        };
        Ok(Generation {
            slice: saved.slice,
            ids: saved.ids.max(counted),
            filter: Arc::new(restored.filter),
        })
    }

    fn manifest(&self) -> Result<Option<Manifest>, StateError> {
        let path = self.path.join(MANIFEST);
        let length = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata.map_err(failed("read", &path))?.len(),
        };
        if length > MOST_MANIFEST_BYTES {
            return Err(self.damaged(MANIFEST, "it is too long"));
        }
        let text = fs::read(&path).map_err(failed("read", &path))?;
        let text = String::from_utf8_lossy(&text);
        let parts = text
            .strip_suffix('\n')
            .and_then(|text| text.split_once('\n'));
        let Some((body, checksum)) = parts else {
            return Err(self.damaged(MANIFEST, "it is cut short"));
        };
        if checksum != checksum_of(body) {
            return Err(self.damaged(MANIFEST, "its checksum is wrong"));
        }
        let version: Version = serde_json::from_str(body)
            .map_err(|error| self.damaged(MANIFEST, &error.to_string()))?;
        if version.format != FORMAT {
            return Err(StateError::Format {
                path,
                found: version.format,
            });
        }
        let manifest = serde_json::from_str(body)
            .map_err(|error| self.damaged(MANIFEST, &error.to_string()))?;
        Ok(Some(manifest))
    }

    fn digests(&self, sequence: u64) -> Result<Vec<(Digest, u64)>, StateError> {
        let name = format!("{DIGESTS}{sequence}");
        let path = self.path.join(&name);
        let bytes = fs::read(&path).map_err(failed("read", &path))?;
        decode_digests(&bytes).ok_or_else(|| self.damaged(&name, "its checksum is wrong"))
    }

    /// Writes copies of what changed. They count for nothing until [`complete`](Self::complete).
    pub(super) fn copy(&self, save: &Save) -> Result<(), StateError> {
        let label = Label {
            fold_fingerprint: ID_RULES,
            source: save.manifest.contract.as_bytes().to_vec(),
            position: save.manifest.sequence.to_le_bytes().to_vec(),
        };
        for generation in &save.changed {
            let path = self.slice(generation.slice);
            let directory = SnapshotDirectory::open(&path).map_err(failed("make", &path))?;
            directory.save(&generation.filter, &label)?;
        }
        if let Some(digests) = &save.digests {
            let path = self
                .path
                .join(format!("{DIGESTS}{}", save.manifest.sequence));
            write_and_sync(&path, digests)?;
        }
        Ok(())
    }

    /// Makes the copies the ones to restart from. What they hold must have been written to the output.
    pub(super) fn complete(&self, manifest: &Manifest) -> Result<(), StateError> {
        let body = serde_json::to_string(manifest).expect("numbers and a string");
        let text = format!("{body}\n{}\n", checksum_of(&body));
        let partial = self.path.join("manifest.partial");
        write_and_sync(&partial, text.as_bytes())?;
        fs::rename(&partial, self.path.join(MANIFEST)).map_err(failed("rename", &partial))?;
        File::open(&self.path)
            .and_then(|directory| directory.sync_all())
            .map_err(failed("sync", &self.path))?;
        self.remove_others(manifest);
        Ok(())
    }

    /// Removes what a manifest does not name. What cannot be removed does no harm.
    fn remove_others(&self, manifest: &Manifest) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let number = |prefix| {
                name.strip_prefix(prefix)
                    .and_then(|number| number.parse().ok())
            };
            let is_stale_slice = number(SLICE).is_some_and(|slice: u64| {
                !manifest
                    .generations
                    .iter()
                    .any(|saved| saved.slice == slice)
            });
            let is_stale_file =
                number(DIGESTS).is_some_and(|sequence: u64| manifest.digests != Some(sequence));
            if is_stale_slice {
                let _ = fs::remove_dir_all(entry.path());
            } else if is_stale_file {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn slice(&self, slice: u64) -> PathBuf {
        self.path.join(format!("{SLICE}{slice}"))
    }

    fn damaged(&self, file: &str, why: &str) -> StateError {
        StateError::Damaged {
            path: self.path.join(file),
            why: why.to_owned(),
        }
    }
}

impl Manifest {
    /// What is to be saved of `memory` now.
    pub(super) fn new(contract: &str, sequence: u64, memory: &Memory) -> Self {
        let generations = memory.generations();
        Self {
            format: FORMAT,
            contract: contract.to_owned(),
            sequence,
            generations: generations
                .map(|generation| Saved {
                    slice: generation.slice,
                    ids: generation.ids,
                    sequence,
                })
                .collect(),
            digests: None,
            lines: 0,
            bytes: 0,
            saved_at_ms: 0,
        }
    }
}

/// The bytes of the file of last ids.
pub(super) fn encode_digests(maps: [Option<&Recent>; 2]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (digest, slice) in maps.into_iter().flatten().flat_map(Recent::iter) {
        bytes.extend(digest.bits().to_le_bytes());
        bytes.extend(slice.to_le_bytes());
    }
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

fn decode_digests(bytes: &[u8]) -> Option<Vec<(Digest, u64)>> {
    let (body, checksum) = bytes.split_last_chunk()?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let (entries, []) = body.as_chunks::<DIGEST_BYTES>() else {
        return None;
    };
    let entry = |entry: &[u8; DIGEST_BYTES]| {
        let (digest, slice) = entry.split_first_chunk()?;
        let slice = u64::from_le_bytes(*slice.first_chunk()?);
        Some((Digest::from_bits(u128::from_le_bytes(*digest)), slice))
    };
    entries.iter().map(entry).collect()
}

fn sequence_in(directory: &SnapshotDirectory, slot: Slot) -> Result<u64, SnapshotError> {
    let file = File::open(directory.file(slot)).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => SnapshotError::Missing,
        _ => SnapshotError::Io(error),
    })?;
    let file_bytes = file.metadata()?.len();
    let reader = SnapshotReader::open(file, file_bytes)?;
    let position = reader.header().label.position.as_slice().try_into();
    position
        .map(u64::from_le_bytes)
        .map_err(|_| SnapshotError::Source)
}

fn checksum_of(body: &str) -> String {
    format!("{:08x}", crc32c::crc32c(body.as_bytes()))
}

fn write_and_sync(path: &Path, bytes: &[u8]) -> Result<(), StateError> {
    let mut file = File::create(path).map_err(failed("create", path))?;
    file.write_all(bytes).map_err(failed("write", path))?;
    file.sync_all().map_err(failed("sync", path))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
    let path = path.to_path_buf();
    move |source| StateError::Io {
        action,
        path,
        source,
    }
}
