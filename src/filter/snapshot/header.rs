//! The first bytes of a snapshot: what it is, what it was made from, and how much follows.
//!
//! ```text
//!   0   8  magic "namegate"          48   8  capacity, names
//!   8   2  format                    56   8  target rate, IEEE 754 double
//!  10   2  layout                    64   8  advisory count, names
//!  12   2  hash                      72   8  damaged blocks
//!  14   2  zero                      80   8  payload, bytes without checksums = 64 x blocks
//!  16   4  header, bytes             88   4  expansions
//!  20   4  chunk, bytes              92   4  source, bytes
//!  24   8  fold fingerprint          96   4  position, bytes
//!  32   8  key fingerprint          100   4  zero
//!  40   8  blocks                   104   .  source, then position, then CRC-32C of all before it
//! ```
//!
//! Magic, format, header length and the checksum at the header's end stay where they are in every
//! future format, so that damage and an unknown version can be told apart.

use std::io::Read;

use super::{
    SaveError, SnapshotError,
    fields::Fields,
    footer::FOOTER_BYTES,
    label::{Label, MOST_POSITION_BYTES, MOST_SOURCE_BYTES},
};
use crate::filter::{BlockedBloom, Sizing, layout::BLOCK_BYTES, sizing::check_rate};

const MAGIC: [u8; 8] = *b"namegate";
const FORMAT: u16 = 1;
/// Blocks of 8 words of 64 bits, one bit per word by 6-bit slices, the block by a 128-bit product.
const LAYOUT: u16 = 1;
/// SipHash-1-3 with 128 bits of output over the key's bytes.
const HASH: u16 = 1;

const FIXED_BYTES: usize = 104;
/// Up to and including the header's length: enough to check the rest.
const PRELUDE_BYTES: usize = 20;
const CHECKSUM_BYTES: usize = 4;
const LEAST_BYTES: usize = FIXED_BYTES + CHECKSUM_BYTES;
const MOST_BYTES: usize = LEAST_BYTES + MOST_SOURCE_BYTES + MOST_POSITION_BYTES;
/// Keeps the buffer that a reader allocates for a chunk small.
const MOST_CHUNK_BYTES: u32 = 16 << 20;

/// A header that passed every check that needs nothing but the file.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotHeader {
    /// What the caller wrote beside the bits.
    pub label: Label,
    /// Size and promise of the filter.
    pub sizing: Sizing,
    /// How often its blocks were doubled.
    pub expansions: u32,
    /// Fingerprint of the key it hashes under.
    pub key_fingerprint: u64,
    /// Names counted when it was written; for people, as no answer depends on it.
    pub advisory_count: u64,
    /// Blocks that were all ones already, after damage to an earlier snapshot.
    pub damaged_blocks: u64,
    /// Bytes of blocks per checksum.
    pub chunk_bytes: u32,
    /// Checksum of the header, to which chunks and footer are bound.
    pub(super) checksum: u32,
}

impl SnapshotHeader {
    /// Describes `filter` as it is now, and gives the bytes to write.
    pub(super) fn describe(
        filter: &BlockedBloom,
        label: &Label,
        chunk_bytes: u32,
    ) -> Result<(Self, Vec<u8>), SaveError> {
        label.check_lengths()?;
        let mut header = Self {
            label: label.clone(),
            sizing: *filter.sizing(),
            expansions: filter.expansions(),
            key_fingerprint: filter.secret().fingerprint(),
            advisory_count: filter.estimated_count().names(),
            damaged_blocks: filter.damaged_blocks(),
            chunk_bytes,
            checksum: 0,
        };
        let mut bytes = header.encode();
        header.checksum = crc32c::crc32c(&bytes);
        bytes.extend(header.checksum.to_le_bytes());
        Ok((header, bytes))
    }

    /// Reads and checks the header of a file of `file_bytes` bytes. Nothing is believed, and no
    /// more allocated than a header can have, before the checksum was seen to match.
    pub(super) fn read(input: &mut impl Read, file_bytes: u64) -> Result<Self, SnapshotError> {
        let least = LEAST_BYTES as u64;
        let most = file_bytes.min(MOST_BYTES as u64);
        if most < least {
            return Err(SnapshotError::HeaderLength {
                found: most,
                least,
                most,
            });
        }
        let mut bytes = vec![0; PRELUDE_BYTES];
        input.read_exact(&mut bytes)?;
        let mut prelude = Fields(&bytes);
        if prelude.take() != MAGIC {
            return Err(SnapshotError::Magic);
        }
        let (format, _) = (prelude.u16(), prelude.take::<6>());
        let header_bytes = u64::from(prelude.u32());
        if !(least..=most).contains(&header_bytes) {
            return Err(SnapshotError::HeaderLength {
                found: header_bytes,
                least,
                most,
            });
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most MOST_BYTES")]
        bytes.resize(header_bytes as usize, 0);
        input.read_exact(&mut bytes[PRELUDE_BYTES..])?;
        let (body, stored) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
        let (wanted, found) = (Fields(stored).u32(), crc32c::crc32c(body));
        if wanted != found {
            return Err(SnapshotError::HeaderChecksum { wanted, found });
        }
        if format != FORMAT {
            return Err(SnapshotError::Format {
                found: format,
                ours: FORMAT,
            });
        }
        let header = Self::decode(body, found)?;
        let accounted = header.file_bytes();
        if accounted != file_bytes.into() {
            return Err(SnapshotError::Length {
                wanted: accounted,
                found: file_bytes,
            });
        }
        Ok(header)
    }

    /// Number of chunks, the last of which may be shorter.
    pub(super) fn chunks(&self) -> u64 {
        self.sizing.size_bytes().div_ceil(self.chunk_bytes.into())
    }

    /// Length of the whole file; wide, as a header may claim anything.
    pub(super) fn file_bytes(&self) -> u128 {
        let label_bytes = self.label.source.len() + self.label.position.len();
        let checksums_bytes = u128::from(self.chunks()) * CHECKSUM_BYTES as u128;
        (LEAST_BYTES + label_bytes + FOOTER_BYTES) as u128
            + u128::from(self.sizing.size_bytes())
            + checksums_bytes
    }

    /// Everything before the checksum; [`decode`](Self::decode) reads in the same order.
    fn encode(&self) -> Vec<u8> {
        let Label {
            fold_fingerprint,
            source,
            position,
        } = &self.label;
        // Both are bounded far below 2^32 by `describe`.
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("bounded").to_le_bytes();
        let header_bytes = u32::try_from(LEAST_BYTES + source.len() + position.len());
        let mut bytes = Vec::new();
        bytes.extend(MAGIC);
        bytes.extend(
            [FORMAT, LAYOUT, HASH, 0]
                .map(u16::to_le_bytes)
                .as_flattened(),
        );
        bytes.extend(header_bytes.expect("bounded").to_le_bytes());
        bytes.extend(self.chunk_bytes.to_le_bytes());
        let numbers = [
            *fold_fingerprint,
            self.key_fingerprint,
            self.sizing.blocks,
            self.sizing.capacity,
            self.sizing.target_fpr.to_bits(),
            self.advisory_count,
            self.damaged_blocks,
            self.sizing.size_bytes(),
        ];
        bytes.extend(numbers.map(u64::to_le_bytes).as_flattened());
        bytes.extend(self.expansions.to_le_bytes());
        bytes.extend([length(source), length(position), [0; 4]].as_flattened());
        bytes.extend(source.iter().chain(position));
        bytes
    }

    /// Reads a body whose checksum matched, and refuses what no writer of this format writes.
    fn decode(body: &[u8], checksum: u32) -> Result<Self, SnapshotError> {
        let (fixed, label) = body.split_at(FIXED_BYTES);
        let mut fields = Fields(fixed);
        let _ = fields.take::<10>(); // magic and format
        let (layout, hash, zero) = (fields.u16(), fields.u16(), fields.u16());
        if layout != LAYOUT {
            return Err(SnapshotError::Layout {
                found: layout,
                ours: LAYOUT,
            });
        }
        if hash != HASH {
            return Err(SnapshotError::Hash {
                found: hash,
                ours: HASH,
            });
        }
        let (_header_bytes, chunk_bytes) = (fields.u32(), fields.u32());
        let (fold_fingerprint, key_fingerprint) = (fields.u64(), fields.u64());
        let (blocks, capacity, rate_bits) = (fields.u64(), fields.u64(), fields.u64());
        let (advisory_count, damaged_blocks) = (fields.u64(), fields.u64());
        let (payload_bytes, expansions) = (fields.u64(), fields.u32());
        let (source_bytes, position_bytes) = (fields.u32(), fields.u32());
        let other_zero = fields.u32();

        let target_fpr = f64::from_bits(rate_bits);
        let is_family = 1_u64
            .checked_shl(expansions)
            .is_some_and(|family| blocks.is_multiple_of(family));
        let chunk_is_sound = (1..=MOST_CHUNK_BYTES).contains(&chunk_bytes)
            && u64::from(chunk_bytes).is_multiple_of(BLOCK_BYTES);
        let label_bytes = u64::from(source_bytes) + u64::from(position_bytes);
        require(
            zero == 0 && other_zero == 0,
            "zero",
            u64::from(zero) | u64::from(other_zero),
        )?;
        require(chunk_is_sound, "chunk", chunk_bytes.into())?;
        require(blocks > 0, "blocks", blocks)?;
        require(
            blocks.checked_mul(BLOCK_BYTES) == Some(payload_bytes),
            "payload",
            payload_bytes,
        )?;
        require(check_rate(target_fpr).is_ok(), "target rate", rate_bits)?;
        require(damaged_blocks <= blocks, "damaged blocks", damaged_blocks)?;
        require(is_family, "expansions", expansions.into())?;
        require(
            label_bytes == label.len() as u64,
            "source and position",
            label_bytes,
        )?;

        let (source, position) = label.split_at(source_bytes as usize);
        Ok(Self {
            label: Label {
                fold_fingerprint,
                source: source.to_vec(),
                position: position.to_vec(),
            },
            sizing: Sizing {
                capacity,
                target_fpr,
                blocks,
            },
            expansions,
            key_fingerprint,
            advisory_count,
            damaged_blocks,
            chunk_bytes,
            checksum,
        })
    }
}

fn require(holds: bool, field: &'static str, found: u64) -> Result<(), SnapshotError> {
    if holds {
        Ok(())
    } else {
        Err(SnapshotError::Field { field, found })
    }
}
