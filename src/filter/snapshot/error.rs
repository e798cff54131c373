//! What can be wrong with a snapshot, and with writing one.

use std::{io, path::PathBuf};

use crate::filter::FilterError;

/// Why a snapshot cannot be used; every case is answered by building a new filter from the table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// No such file: a normal first start.
    #[error("there is no snapshot")]
    Missing,
    /// Not a snapshot, or its first bytes are damaged.
    #[error("this is not a snapshot file")]
    Magic,
    /// The header's own length is impossible, or the file is shorter than its header.
    #[error("the header claims {found} bytes, possible are {least} to {most}")]
    HeaderLength {
        /// What the file says, or its whole length if that is less than a header.
        found: u64,
        /// Least that a header has.
        least: u64,
        /// Most that this header can have.
        most: u64,
    },
    /// The header is damaged.
    #[error("the header has checksum {found:08x}, it says {wanted:08x}")]
    HeaderChecksum {
        /// Stored checksum.
        wanted: u32,
        /// Checksum of what was read.
        found: u32,
    },
    /// Written by another version of this format.
    #[error("written as format {found}, this build reads {ours}")]
    Format {
        /// Version of the file.
        found: u16,
        /// Version of this build.
        ours: u16,
    },
    /// Bits are placed by other rules.
    #[error("written with block layout {found}, this build has {ours}")]
    Layout {
        /// Layout of the file.
        found: u16,
        /// Layout of this build.
        ours: u16,
    },
    /// Names are hashed by another function.
    #[error("written with hash function {found}, this build has {ours}")]
    Hash {
        /// Function of the file.
        found: u16,
        /// Function of this build.
        ours: u16,
    },
    /// A field holds what no writer writes.
    #[error("header field `{field}` holds {found}, which cannot be")]
    Field {
        /// Which field, as `docs/snapshot-format.md` names it.
        field: &'static str,
        /// Its value; the bit pattern of a float.
        found: u64,
    },
    /// Cut short, or grown.
    #[error("the file has {found} bytes, its header accounts for {wanted}")]
    Length {
        /// Bytes by the header.
        wanted: u128,
        /// Bytes of the file.
        found: u64,
    },
    /// Names were folded by other rules; the same name would be asked for with other bytes.
    #[error("names were folded by rule set {found:016x}, this build has {ours:016x}")]
    Folding {
        /// Fingerprint in the file.
        found: u64,
        /// Fingerprint of this build.
        ours: u64,
    },
    /// Filled from another table or database.
    #[error("the snapshot was taken of another source")]
    Source,
    /// Hashed under another key than the one given.
    #[error("names were hashed under key {found:016x}, the key given is {ours:016x}")]
    Key {
        /// Fingerprint in the file.
        found: u64,
        /// Fingerprint of the key given.
        ours: u64,
    },
    /// The key that belongs to the snapshot is not there, or not readable.
    #[error("the key {fingerprint:016x} of the snapshot could not be read")]
    Secret {
        /// Fingerprint of the key that is needed.
        fingerprint: u64,
        /// What the system said.
        source: io::Error,
    },
    /// Larger than this process may be; nothing was allocated.
    #[error("the filter needs {bytes_needed} bytes, the ceiling is {ceiling_bytes} bytes")]
    Ceiling {
        /// Bytes of its blocks.
        bytes_needed: u64,
        /// Bytes allowed.
        ceiling_bytes: u64,
    },
    /// The system granted no memory.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// Too many chunks do not match their checksums.
    #[error("{damaged} of {chunks} chunks are damaged")]
    Damaged {
        /// Chunks that failed.
        damaged: u64,
        /// Chunks in all.
        chunks: u64,
    },
    /// The end of the file is not that of this snapshot.
    #[error("the footer does not belong to this snapshot")]
    Footer,
    /// The system could not read.
    #[error("could not read the snapshot")]
    Io(#[from] io::Error),
}

/// Why a snapshot was not written; the one before it is untouched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// A part of the label is longer than the format allows.
    #[error("the {part} has {bytes} bytes, a snapshot takes at most {most}")]
    Label {
        /// `source` or `position`.
        part: &'static str,
        /// Its length.
        bytes: usize,
        /// The most there may be.
        most: usize,
    },
    /// The writer refused bytes.
    #[error("could not write the snapshot")]
    Write(#[from] io::Error),
    /// A step with a file failed.
    #[error("could not {action} {}", path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
