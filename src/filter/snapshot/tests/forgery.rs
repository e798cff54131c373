//! Headers whose checksums match and whose fields do not make sense, or not here.

use proptest::prelude::*;

use super::{
    super::{Expected, SnapshotError, SnapshotReader},
    EXPECTED, HEADER_BYTES, NAMES, forged, holds_names, restored, secret, snapshot,
};
use crate::filter::HashSecret;

#[test]
fn other_formats_layouts_and_hashes_are_named() {
    let bytes = snapshot();
    let refusal = |at| restored(&forged(&bytes, at, &[2, 0])).expect_err("not ours");
    assert!(matches!(
        refusal(8),
        SnapshotError::Format { found: 2, ours: 1 }
    ));
    assert!(matches!(
        refusal(10),
        SnapshotError::Layout { found: 2, ours: 1 }
    ));
    assert!(matches!(
        refusal(12),
        SnapshotError::Hash { found: 2, ours: 1 }
    ));
}

#[test]
fn sizes_that_cannot_be_are_refused_before_any_allocation() {
    let bytes = snapshot();
    let refusal =
        |at, value: u64| restored(&forged(&bytes, at, &value.to_le_bytes())).expect_err("absurd");
    for (blocks, payload) in [(0, u64::MAX), (1 << 60, 1 << 31), (u64::MAX, (1 << 32) + 1)] {
        assert!(matches!(refusal(40, blocks), SnapshotError::Field { .. }));
        assert!(matches!(
            refusal(80, payload),
            SnapshotError::Field {
                field: "payload",
                ..
            }
        ));
    }
    let refusal_32 = |at, value: u32| restored(&forged(&bytes, at, &value.to_le_bytes()));
    for chunk_bytes in [0, 1, 63, 65, (16 << 20) + 64, u32::MAX] {
        let refusal = refusal_32(20, chunk_bytes).expect_err("absurd");
        assert!(
            matches!(refusal, SnapshotError::Field { field: "chunk", .. }),
            "{refusal}"
        );
    }
    for (at, field) in [
        (88, "expansions"),
        (92, "source and position"),
        (96, "source and position"),
        (100, "zero"),
    ] {
        let refusal = refusal_32(at, 99).expect_err("absurd");
        assert!(
            matches!(refusal, SnapshotError::Field { field: found, .. } if found == field),
            "{refusal}"
        );
    }
    for rate in [0.0, 1.0, f64::NAN] {
        let refusal = restored(&forged(&bytes, 56, &rate.to_le_bytes())).expect_err("absurd");
        assert!(
            matches!(
                refusal,
                SnapshotError::Field {
                    field: "target rate",
                    ..
                }
            ),
            "{refusal}"
        );
    }
    assert!(matches!(
        refusal(72, 124),
        SnapshotError::Field {
            field: "damaged blocks",
            ..
        }
    ));
}

#[test]
fn headers_of_more_than_four_gibibytes_are_counted_in_64_bits() {
    for blocks in [1_u64 << 25, (1 << 26) + 1, 1 << 40, 1 << 57] {
        let mut forgery = forged(&snapshot(), 40, &blocks.to_le_bytes());
        forgery = forged(&forgery, 80, &(blocks * 64).to_le_bytes());
        forgery = forged(&forgery, 20, &(1_u32 << 20).to_le_bytes());
        let payload = u128::from(blocks) * 64;
        let wanted = HEADER_BYTES as u128 + payload + payload.div_ceil(1 << 20) * 4 + 24;
        let refusal = SnapshotReader::open(&forgery[..], 9_000).expect_err("far too short");
        assert!(
            matches!(refusal, SnapshotError::Length { wanted: found, .. } if found == wanted),
            "{refusal}"
        );

        let claimed = u64::try_from(wanted).expect("below 2^64");
        let reader = SnapshotReader::open(&forgery[..], claimed).expect("as long as it says");
        let refusal = reader
            .restore(secret(), &EXPECTED)
            .expect_err("over the ceiling");
        let SnapshotError::Ceiling {
            bytes_needed,
            ceiling_bytes,
        } = refusal
        else {
            panic!("{blocks} blocks: {refusal}")
        };
        assert_eq!(
            (bytes_needed, ceiling_bytes),
            (blocks * 64, EXPECTED.ceiling_bytes)
        );
    }
}

#[test]
fn a_snapshot_of_something_else_is_refused() {
    let bytes = snapshot();
    let refusal = |secret: HashSecret, expected: &Expected<'_>| {
        let reader = SnapshotReader::open(&bytes[..], bytes.len() as u64).expect("sound");
        reader
            .restore(secret, expected)
            .expect_err("something else")
    };
    let folding = Expected {
        fold_fingerprint: 7,
        ..EXPECTED
    };
    let source = Expected {
        source: b"accounts.handle",
        ..EXPECTED
    };
    let ceiling = Expected {
        ceiling_bytes: 123 * 64 - 1,
        ..EXPECTED
    };
    assert!(matches!(
        refusal(secret(), &folding),
        SnapshotError::Folding { ours: 7, .. }
    ));
    assert!(matches!(refusal(secret(), &source), SnapshotError::Source));
    assert!(matches!(
        refusal(secret(), &ceiling),
        SnapshotError::Ceiling {
            bytes_needed: 7_872,
            ..
        }
    ));
    assert!(matches!(
        refusal(HashSecret::from_bytes([9; 16]), &EXPECTED),
        SnapshotError::Key { .. }
    ));
}

#[test]
fn no_answer_depends_on_the_stored_count() {
    for count in [0, u64::MAX] {
        let restored = restored(&forged(&snapshot(), 64, &count.to_le_bytes())).expect("sound");
        assert_eq!(restored.header.advisory_count, count);
        assert!(holds_names(&restored.filter, NAMES) && restored.damaged_chunks == 0);
        assert!(
            restored
                .filter
                .estimated_count()
                .names()
                .abs_diff(NAMES.into())
                < 100
        );
    }
}

proptest! {
    #[test]
    fn random_header_fields_under_a_matching_checksum_never_panic(
        at in 8..HEADER_BYTES - 12,
        value: [u8; 8],
        claimed in prop::option::of(any::<u64>()),
    ) {
        let snapshot = snapshot();
        // The lengths of header and chunk stay, so that the forger can find the checksums.
        prop_assume!(at + 8 <= 16 || at >= 24);
        let forgery = forged(&snapshot, at, &value);
        let length = claimed.unwrap_or(forgery.len() as u64);
        if let Ok(reader) = SnapshotReader::open(&forgery[..], length)
            && let Ok(restored) = reader.restore(secret(), &EXPECTED)
        {
            prop_assert!(holds_names(&restored.filter, NAMES));
        }
    }
}
