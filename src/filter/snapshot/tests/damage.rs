//! Whatever happens to the bytes: a typed error or *maybe*, never a panic, never a lost name.

use std::io;

use proptest::prelude::*;

use super::{
    super::{SnapshotError, SnapshotReader},
    EXPECTED, HEADER_BYTES, NAMES, filter, holds_names, restored, secret, snapshot, written,
};

#[test]
fn every_flipped_bit_of_the_header_and_footer_is_refused() {
    let mut bytes = snapshot();
    let length = bytes.len();
    for at in (0..HEADER_BYTES).chain(length - 24..length) {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            assert!(restored(&bytes).is_err(), "byte {at}, bit {bit}");
            bytes[at] ^= 1 << bit;
        }
    }
    assert!(restored(&bytes).is_ok());
}

#[test]
fn flipped_bits_of_the_payload_become_maybe_and_lose_no_name() {
    let mut bytes = snapshot();
    let payload_bits = (bytes.len() - 24 - HEADER_BYTES) * 8;
    for step in 0..10_000 {
        let bit = step * 7_919 % payload_bits; // a prime, so that all kinds of places are met
        let at = HEADER_BYTES + bit / 8;
        bytes[at] ^= 1 << (bit % 8);
        let restored = restored(&bytes).expect("one chunk in more than a hundred");
        assert_eq!(
            (restored.damaged_chunks, restored.filter.damaged_blocks()),
            (1, 1),
            "bit {bit}"
        );
        assert!(
            restored.needs_rebuild() && holds_names(&restored.filter, NAMES),
            "bit {bit}"
        );
        bytes[at] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_damaged_filter_still_knows_so_after_it_was_written_again() {
    let mut bytes = snapshot();
    bytes[HEADER_BYTES + 5] ^= 1;
    let damaged = restored(&bytes).expect("one chunk").filter;
    let again = restored(&written(&damaged, 64)).expect("undamaged");
    assert!(again.needs_rebuild() && again.damaged_chunks == 0);
}

#[test]
fn more_than_one_damaged_chunk_in_a_hundred_is_no_filter() {
    let mut bytes = snapshot(); // 123 chunks
    bytes[HEADER_BYTES + 10] ^= 1;
    bytes[HEADER_BYTES + 68 + 10] ^= 1;
    let refusal = restored(&bytes).expect_err("two chunks");
    assert!(
        matches!(
            refusal,
            SnapshotError::Damaged {
                damaged: 2,
                chunks: 123
            }
        ),
        "{refusal}"
    );
}

#[test]
fn a_chunk_in_the_wrong_place_or_of_another_snapshot_is_damaged() {
    let mut bytes = snapshot();
    let chunk = |number: usize| HEADER_BYTES + number * 68..HEADER_BYTES + (number + 1) * 68;
    let mut copied = bytes.clone();
    copied.copy_within(chunk(7), chunk(8).start);
    assert_eq!(restored(&copied).expect("one chunk").damaged_chunks, 1);
    // The same chunk of a snapshot of the same, emptier filter, which is sound in itself.
    let mut older = written(
        &filter(NAMES / 2).union(&filter(NAMES / 2)).expect("alike"),
        64,
    );
    older.resize(bytes.len(), 0);
    bytes[chunk(9)].copy_from_slice(&older[chunk(9)]);
    let restored = restored(&bytes).expect("one chunk");
    assert_eq!(restored.damaged_chunks, 1);
    assert!(holds_names(&restored.filter, NAMES));
}

#[test]
fn every_other_length_is_refused() {
    let bytes = snapshot();
    for length in 0..bytes.len() {
        assert!(restored(&bytes[..length]).is_err(), "{length} bytes");
    }
    let mut grown = bytes.clone();
    grown.push(0);
    let refusal = restored(&grown).expect_err("one byte more");
    assert!(
        matches!(refusal, SnapshotError::Length { wanted, found } if wanted + 1 == found.into())
    );
}

#[test]
fn a_file_that_is_cut_short_while_it_is_read_is_an_error() {
    let bytes = snapshot();
    for length in (0..bytes.len()).step_by(13) {
        let outcome = SnapshotReader::open(&bytes[..length], bytes.len() as u64)
            .and_then(|reader| reader.restore(secret(), &EXPECTED));
        let refusal = outcome.expect_err("short");
        let SnapshotError::Io(error) = refusal else {
            panic!("{length} bytes: {refusal}")
        };
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn a_header_alone_is_no_snapshot() {
    let refusal = restored(&snapshot()[..HEADER_BYTES]).expect_err("no chunks");
    assert!(matches!(refusal, SnapshotError::Length { .. }), "{refusal}");
}

proptest! {
    #[test]
    fn random_bytes_are_refused(
        mut bytes in prop::collection::vec(any::<u8>(), 0..2_000),
        with_magic: bool,
    ) {
        if with_magic && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(b"namegate");
        }
        prop_assert!(restored(&bytes).is_err());
    }
}
