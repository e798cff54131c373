//! Snapshots: what is written is read, what is damaged is refused or says *maybe*, bytes are
//! pinned.

mod damage;
mod files;
mod forgery;
mod golden;
mod round_trip;

use super::{
    Expected, Label, Restored, SnapshotError, SnapshotReader, chunk_checksum, footer::footer,
    write::write_in_chunks,
};
use crate::filter::{BlockedBloom, HashSecret, Hint, Sizing, layout::Block};

const FOLDING: u64 = 0x1122_3344_5566_7788;
const SOURCE: &[u8] = b"users.name";
const EXPECTED: Expected<'_> = Expected {
    fold_fingerprint: FOLDING,
    source: SOURCE,
    ceiling_bytes: 1 << 30,
};

fn secret() -> HashSecret {
    HashSecret::from_bytes(std::array::from_fn(|i| u8::try_from(i).expect("small")))
}

fn label() -> Label {
    Label {
        fold_fingerprint: FOLDING,
        source: SOURCE.to_vec(),
        position: b"748:751:749".to_vec(),
    }
}

fn name(i: u32) -> [u8; 4] {
    i.to_le_bytes()
}

/// A filter that holds names 0 to `names`.
fn filter(names: u32) -> BlockedBloom {
    let sizing = Sizing::plan(names.into(), 0.001, 1 << 30).expect("small");
    let mut filter = BlockedBloom::new(sizing, secret()).expect("small");
    for i in 0..names {
        filter.insert_exclusive(&name(i));
    }
    filter
}

fn written(filter: &BlockedBloom, chunk_bytes: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let length =
        write_in_chunks(filter, &label(), &mut bytes, chunk_bytes).expect("memory takes it");
    assert_eq!(length, bytes.len() as u64);
    bytes
}

fn restored(bytes: &[u8]) -> Result<Restored, SnapshotError> {
    SnapshotReader::open(bytes, bytes.len() as u64)?.restore(secret(), &EXPECTED)
}

fn holds_names(filter: &BlockedBloom, names: u32) -> bool {
    (0..names).all(|i| filter.probe(&name(i)) == Hint::Maybe)
}

fn have_equal_bits(one: &BlockedBloom, other: &BlockedBloom) -> bool {
    let (one, other) = (one.blocks.iter(), other.blocks.iter());
    one.map(Block::words).eq(other.map(Block::words))
}

/// Names in [`snapshot`].
const NAMES: u32 = 4_000;

/// A snapshot of more than a hundred chunks of one block, so that one damaged chunk is not one too
/// many.
fn snapshot() -> Vec<u8> {
    written(&filter(NAMES), 64)
}

/// Bytes of the header of [`snapshot`].
const HEADER_BYTES: usize = 129;

/// A number in the header, by its place.
fn field(bytes: &[u8], at: usize, length: usize) -> usize {
    bytes[at..at + length]
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | usize::from(byte))
}

/// Writes `value` into the header of a snapshot and makes every checksum match again.
fn forged(snapshot: &[u8], at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = snapshot.to_vec();
    let (header_bytes, chunk_bytes) = (field(&bytes, 16, 4), field(&bytes, 20, 4));
    bytes[at..at + value.len()].copy_from_slice(value);
    let header_checksum = crc32c::crc32c(&bytes[..header_bytes - 4]);
    bytes[header_bytes - 4..header_bytes].copy_from_slice(&header_checksum.to_le_bytes());
    let end = bytes.len() - 24;
    for (index, chunk) in (0..).zip(bytes[header_bytes..end].chunks_mut(chunk_bytes + 4)) {
        let (blocks, checksum) = chunk.split_at_mut(chunk.len() - 4);
        checksum.copy_from_slice(&chunk_checksum(header_checksum, index, blocks).to_le_bytes());
    }
    let length = bytes.len() as u64;
    bytes[end..].copy_from_slice(&footer(length, header_checksum));
    bytes
}
