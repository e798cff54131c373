//! A filter on disk, to restart from: written while it is in use, read with suspicion.
//!
//! The promise: what is read back denies no name that was inserted before the recorded position.
//! Whatever is wrong with a file, the answer is a typed [`SnapshotError`] or blocks that say
//! *maybe* to everything; never a panic, never a huge allocation, and never an empty filter.
//!
//! It does not decide anything: what a position or a source means, whether the position is still
//! good, and when to write are the caller's business. Nor is it a mapping: a file that is cut
//! short under a mapping kills the process, under `read` it is an error.
//!
//! ```text
//!   ┌────────────────────────────────────────────────────────────┐
//!   │ header       104 bytes fixed, source, position, checksum   │  `header`
//!   ├────────────────────────────────────────────────────────────┤
//!   │ chunk 0      1 MiB of blocks, checksum                     │
//!   │ chunk 1      1 MiB of blocks, checksum                     │  `write`, `read`
//!   │ ...          the last one may be shorter                   │
//!   ├────────────────────────────────────────────────────────────┤
//!   │ footer       24 bytes: magic, total length, checksums      │  `footer`
//!   └────────────────────────────────────────────────────────────┘
//! ```
//!
//! All numbers are little-endian; all checksums are CRC-32C. The checksum of a chunk also covers
//! the header's checksum and the chunk's number, so a chunk in the wrong place, or one left over
//! from another snapshot, does not pass.
//!
//! # A fuzzy copy
//!
//! Names are inserted while the blocks are copied; some are in the copy, some are not. That is
//! harmless, because the position in the header was taken before the copy began and every change
//! after it is replayed. Take the position first, then write.
//!
//! # Suspicion, in order
//!
//! Length of the header against the file, magic, checksum of the header, format, layout and hash,
//! every field, length of the file to the byte; then, when the caller asks for the filter, folding,
//! source, key and the memory ceiling; only then is memory allocated, and chunk after chunk read.
//! A chunk that does not match its checksum becomes all ones. More than one chunk in a hundred
//! damaged, and there is no filter at all.

mod directory;
mod error;
mod fields;
mod footer;
mod header;
mod label;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use directory::{Slot, SnapshotDirectory};
pub use error::{SaveError, SnapshotError};
pub use header::SnapshotHeader;
pub use label::{Label, MOST_POSITION_BYTES, MOST_SOURCE_BYTES};
pub use read::{Expected, Restored, SnapshotReader};
pub use write::write_snapshot;

/// Bytes of blocks per checksum when written; a reader takes what the header says.
const CHUNK_BYTES: u32 = 1 << 20;

/// The checksum of chunk `index` of the snapshot whose header has the checksum `header`.
fn chunk_checksum(header: u32, index: u64, bytes: &[u8]) -> u32 {
    let bound = crc32c::crc32c_append(crc32c::crc32c(&header.to_le_bytes()), &index.to_le_bytes());
    crc32c::crc32c_append(bound, bytes)
}
