//! Writing a filter that is in use.

use std::io::Write;

use super::{
    CHUNK_BYTES, Label, SaveError, chunk_checksum, footer::footer, header::SnapshotHeader,
};
use crate::filter::{BlockedBloom, layout::BLOCK_BYTES};

/// Writes `filter` with its label to `output`, while others insert. Returns the bytes written.
///
/// The position in `label` must have been taken before this call: names inserted later may or may
/// not be in the copy. Neither flushes to a disk nor buffers: each write is a chunk of 1 MiB, and
/// that much memory is what a snapshot costs.
///
/// # Errors
/// [`SaveError::Label`] for a label that is too long, before anything is written;
/// [`SaveError::Write`] when `output` fails.
pub fn write_snapshot(
    filter: &BlockedBloom,
    label: &Label,
    output: impl Write,
) -> Result<u64, SaveError> {
    write_in_chunks(filter, label, output, CHUNK_BYTES)
}

/// [`write_snapshot`] with chunks of any whole number of blocks, so that tests get many from few
/// names.
pub(super) fn write_in_chunks(
    filter: &BlockedBloom,
    label: &Label,
    mut output: impl Write,
    chunk_bytes: u32,
) -> Result<u64, SaveError> {
    let (header, bytes) = SnapshotHeader::describe(filter, label, chunk_bytes)?;
    output.write_all(&bytes)?;
    let blocks_per_chunk = usize::try_from(u64::from(chunk_bytes) / BLOCK_BYTES).expect("32 bits");
    let mut copy = Vec::with_capacity(chunk_bytes as usize + 4);
    for (index, blocks) in (0..).zip(filter.blocks.chunks(blocks_per_chunk)) {
        // The checksum is that of the copy: the words themselves may change at any moment.
        copy.clear();
        for block in blocks {
            copy.extend(block.words().map(u64::to_le_bytes).as_flattened());
        }
        let checksum = chunk_checksum(header.checksum, index, &copy);
        copy.extend(checksum.to_le_bytes());
        output.write_all(&copy)?;
    }
    let file_bytes = u64::try_from(header.file_bytes()).expect("the filter is in memory");
    output.write_all(&footer(file_bytes, header.checksum))?;
    Ok(file_bytes)
}
