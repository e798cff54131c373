//! Reading a filter back: the header first, then, if the caller still wants it, the blocks.

use std::io::Read;

use super::{
    SnapshotError, chunk_checksum,
    fields::Fields,
    footer::{FOOTER_BYTES, footer},
    header::SnapshotHeader,
};
use crate::filter::{BlockedBloom, HashSecret, layout::Block};

/// A snapshot whose header was read and found sound. No memory for blocks was allocated yet.
#[derive(Debug)]
pub struct SnapshotReader<R> {
    input: R,
    header: SnapshotHeader,
}

/// What a snapshot must agree with before it is let in.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// Fingerprint of this build's folding rules.
    pub fold_fingerprint: u64,
    /// Identity of the table that names are asked for.
    pub source: &'a [u8],
    /// Bytes that the blocks may take.
    pub ceiling_bytes: u64,
}

/// A filter from disk.
#[derive(Debug)]
pub struct Restored {
    /// The filter; changes after the position in the header are not in it yet.
    pub filter: BlockedBloom,
    /// What was written beside it.
    pub header: SnapshotHeader,
    /// Chunks that did not match their checksums and became all ones.
    pub damaged_chunks: u64,
}

impl Restored {
    /// Whether some blocks say *maybe* to everything, now or since an earlier snapshot, so that a
    /// new filter should be built.
    #[must_use]
    pub const fn needs_rebuild(&self) -> bool {
        self.filter.damaged_blocks() > 0
    }
}

impl<R: Read> SnapshotReader<R> {
    /// Reads the header of a snapshot of exactly `file_bytes` bytes.
    ///
    /// # Errors
    /// A [`SnapshotError`] for anything that is not a whole snapshot of this build's format.
    pub fn open(mut input: R, file_bytes: u64) -> Result<Self, SnapshotError> {
        let header = SnapshotHeader::read(&mut input, file_bytes)?;
        Ok(Self { input, header })
    }

    /// What the snapshot says of itself; its key fingerprint tells which key to fetch.
    #[must_use]
    pub const fn header(&self) -> &SnapshotHeader {
        &self.header
    }

    /// Reads the blocks.
    ///
    /// # Errors
    /// A [`SnapshotError`] when the snapshot is not the expected one, too large, too damaged, or
    /// does not end where it should. There is no filter then.
    pub fn restore(
        mut self,
        secret: HashSecret,
        expected: &Expected<'_>,
    ) -> Result<Restored, SnapshotError> {
        self.check(&secret, expected)?;
        let mut filter = BlockedBloom::new(self.header.sizing, secret)?;
        filter.expansions = self.header.expansions;
        filter.damaged_blocks = self.header.damaged_blocks;
        let damaged_chunks = self.read_chunks(&mut filter)?;
        self.read_footer()?;
        let chunks = self.header.chunks();
        if damaged_chunks.saturating_mul(100) > chunks {
            return Err(SnapshotError::Damaged {
                damaged: damaged_chunks,
                chunks,
            });
        }
        Ok(Restored {
            filter,
            header: self.header,
            damaged_chunks,
        })
    }

    fn check(&self, secret: &HashSecret, expected: &Expected<'_>) -> Result<(), SnapshotError> {
        let (label, found) = (&self.header.label, self.header.label.fold_fingerprint);
        if found != expected.fold_fingerprint {
            return Err(SnapshotError::Folding {
                found,
                ours: expected.fold_fingerprint,
            });
        }
        if label.source != expected.source {
            return Err(SnapshotError::Source);
        }
        let (found, ours) = (self.header.key_fingerprint, secret.fingerprint());
        if found != ours {
            return Err(SnapshotError::Key { found, ours });
        }
        let (bytes_needed, ceiling_bytes) =
            (self.header.sizing.size_bytes(), expected.ceiling_bytes);
        if bytes_needed > ceiling_bytes {
            return Err(SnapshotError::Ceiling {
                bytes_needed,
                ceiling_bytes,
            });
        }
        Ok(())
    }

    /// Fills the filter chunk by chunk, a damaged one with ones; returns how many were damaged.
    ///
    /// In chunks, as one `read` may return less than was asked for, and on Linux never returns
    /// more than 2 GiB; `read_exact` repeats it.
    fn read_chunks(&mut self, filter: &mut BlockedBloom) -> Result<u64, SnapshotError> {
        let chunk_bytes = self.header.chunk_bytes as usize;
        let blocks_per_chunk = chunk_bytes / size_of::<[u64; 8]>();
        let mut buffer = vec![0; chunk_bytes + 4];
        let mut damaged_chunks = 0;
        for (index, blocks) in (0..).zip(filter.blocks.chunks_mut(blocks_per_chunk)) {
            let chunk = &mut buffer[..size_of::<[u64; 8]>() * blocks.len() + 4];
            self.input.read_exact(chunk)?;
            let (bytes, stored) = chunk.split_at(chunk.len() - 4);
            if chunk_checksum(self.header.checksum, index, bytes) == Fields(stored).u32() {
                copy_blocks(bytes, blocks);
            } else {
                for block in &mut *blocks {
                    block.fill_exclusive(Block::FULL);
                }
                damaged_chunks += 1;
                filter.damaged_blocks += blocks.len() as u64;
            }
        }
        filter.damaged_blocks = filter.damaged_blocks.min(filter.sizing.blocks);
        Ok(damaged_chunks)
    }

    fn read_footer(&mut self) -> Result<(), SnapshotError> {
        let mut found = [0; FOOTER_BYTES];
        self.input.read_exact(&mut found)?;
        let file_bytes =
            u64::try_from(self.header.file_bytes()).expect("equal to the file's length");
        if found == footer(file_bytes, self.header.checksum) {
            Ok(())
        } else {
            Err(SnapshotError::Footer)
        }
    }
}

fn copy_blocks(bytes: &[u8], blocks: &mut [Block]) {
    let mut words = Fields(bytes);
    for block in blocks {
        block.fill_exclusive(std::array::from_fn(|_| words.u64()));
    }
}
