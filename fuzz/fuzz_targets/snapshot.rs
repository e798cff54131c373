//! Any bytes at all, read as a snapshot: a typed error or a filter that denies nothing it held.
//!
//! The first byte of the input says what is done with the rest:
//!
//! - `0`: it is a file. Hardly any gets past the checksums, and none may panic.
//! - `1`: it is a file whose checksums are all made to match, so that every field is read as if a
//!   writer had written it.
//! - `2`: it is a list of edits to a sound snapshot of known names. What is read back must hold all
//!   of them.
//! - anything else: edits, after which all checksums are made to match. What comes of it may hold
//!   other names, but must be as usable as any filter.
#![no_main]

use std::sync::LazyLock;

use crc32c::{crc32c, crc32c_append};
use libfuzzer_sys::{Corpus, fuzz_target};
use namegate::filter::{
    BlockedBloom, HashSecret, Hint, Sizing,
    snapshot::{Expected, Label, Restored, SnapshotError, SnapshotReader, write_snapshot},
};

const NAMES: u32 = 7_000;
/// Small, so that a filter that should not have been made shows as a failure, not as slowness.
const CEILING_BYTES: u64 = 1 << 20;
const SECRET: [u8; 16] = *b"fuzzing's secret";
const FOOTER_BYTES: usize = 24;

/// A sound snapshot of all names, in more than two hundred chunks of one block, so that a few may
/// be damaged before the whole is refused.
static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let sizing = Sizing::plan(NAMES.into(), 0.001, CEILING_BYTES).expect("small");
    let filter = BlockedBloom::new(sizing, HashSecret::from_bytes(SECRET)).expect("small");
    for name in 0..NAMES {
        filter.insert(&name.to_le_bytes());
    }
    let label = Label {
        source: b"fuzz".to_vec(),
        ..Label::default()
    };
    let mut whole = Vec::new();
    write_snapshot(&filter, &label, &mut whole).expect("memory takes it");
    let header_bytes = number(&whole, 16);
    let payload = &whole[header_bytes..whole.len() - FOOTER_BYTES - 4];
    let mut small = whole[..header_bytes].to_vec();
    small[20..24].copy_from_slice(&64_u32.to_le_bytes());
    for block in payload.chunks(64) {
        small.extend(block);
        small.extend([0; 4]);
    }
    small.extend(&whole[whole.len() - FOOTER_BYTES..]);
    let sealed = sealed(small);
    assert!(restored(&sealed).is_ok_and(|it| it.damaged_chunks == 0 && holds_all(&it.filter)));
    sealed
});

fuzz_target!(|input: &[u8]| -> Corpus {
    let Some((&what, rest)) = input.split_first() else {
        return Corpus::Reject;
    };
    match what {
        0 => drop(restored(rest)),
        1 => exercise(&sealed(rest.to_vec())),
        2 => {
            if let Ok(restored) = restored(&edited(rest)) {
                assert!(holds_all(&restored.filter));
            }
        }
        _ => exercise(&sealed(edited(rest))),
    }
    Corpus::Keep
});

fn holds_all(filter: &BlockedBloom) -> bool {
    (0..NAMES).all(|name| filter.probe(&name.to_le_bytes()) == Hint::Maybe)
}

/// Uses what was restored, if anything, in every way that depends on what the header said.
fn exercise(file: &[u8]) {
    let Ok(restored) = restored(file) else {
        return;
    };
    let filter = restored.filter;
    assert!(filter.size_bytes() <= CEILING_BYTES);
    filter.insert(b"one more");
    assert_eq!(filter.probe(b"one more"), Hint::Maybe);
    let census = filter.census();
    assert!(census.live_fpr() <= 1.0 + 1e-9 && census.estimated_count().names() > 0);
    let double = filter.expand().expect("still small");
    assert_eq!(double.probe(b"one more"), Hint::Maybe);
    let folded = double.fold().expect("even");
    assert_eq!(folded.probe(b"one more"), Hint::Maybe);
}

fn restored(file: &[u8]) -> Result<Restored, SnapshotError> {
    let expected = Expected {
        fold_fingerprint: 0,
        source: b"fuzz",
        ceiling_bytes: CEILING_BYTES,
    };
    SnapshotReader::open(file, file.len() as u64)?
        .restore(HashSecret::from_bytes(SECRET), &expected)
}

/// Makes all checksums match, as far as the file is long enough to have them.
fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    let (header_bytes, chunk_bytes) = (number(&file, 16), number(&file, 20));
    let Some(end) = file.len().checked_sub(FOOTER_BYTES) else {
        return file;
    };
    if !(24..=end).contains(&header_bytes) || chunk_bytes == 0 {
        return file;
    }
    let header = crc32c(&file[..header_bytes - 4]);
    file[header_bytes - 4..header_bytes].copy_from_slice(&header.to_le_bytes());
    for (index, chunk) in (0_u64..).zip(file[header_bytes..end].chunks_mut(chunk_bytes + 4)) {
        if let Some((blocks, checksum)) = chunk.split_last_chunk_mut() {
            let bound = crc32c_append(crc32c(&header.to_le_bytes()), &index.to_le_bytes());
            *checksum = crc32c_append(bound, blocks).to_le_bytes();
        }
    }
    let length = (file.len() as u64).to_le_bytes();
    let footer = &mut file[end..];
    footer[..8].copy_from_slice(b"etagname");
    footer[8..16].copy_from_slice(&length);
    footer[16..20].copy_from_slice(&header.to_le_bytes());
    let checksum = crc32c(&footer[..20]);
    footer[20..].copy_from_slice(&checksum.to_le_bytes());
    file
}

/// Four bytes at `place`; 0 where the file is too short.
fn number(file: &[u8], place: usize) -> usize {
    let bytes = file.get(place..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
}

/// The sound snapshot with some bytes replaced: two bytes say where, the third what. A place beyond
/// the end cuts the file somewhere.
fn edited(edits: &[u8]) -> Vec<u8> {
    let mut file = SOUND.clone();
    for &[low, high, value] in edits.as_chunks().0 {
        let place = usize::from(u16::from_le_bytes([low, high]));
        let length = file.len();
        match file.get_mut(place) {
            Some(byte) => *byte = value,
            None => file.truncate(place % (length + 1)),
        }
    }
    file
}
