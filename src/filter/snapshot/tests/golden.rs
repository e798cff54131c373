//! The bytes of format 1, pinned: this file was computed apart from this code, from the format's
//! description, and must be read and written alike for ever.

use super::{have_equal_bits, label, restored, secret, write_in_chunks};
use crate::filter::{BlockedBloom, Hint, Sizing};

const GOLDEN: &[u8] = include_bytes!("golden-1.snapshot");
const NAMES: [&str; 5] = ["alice", "bob_77", "müller", "日本語", "🦀"];

/// Five names in five blocks, in chunks of two.
fn filter() -> BlockedBloom {
    let sizing = Sizing {
        capacity: 100,
        target_fpr: 0.001,
        blocks: 5,
    };
    let filter = BlockedBloom::new(sizing, secret()).expect("small");
    for name in NAMES {
        assert!(filter.insert(name.as_bytes()));
    }
    filter
}

#[test]
fn the_golden_file_is_read() {
    let restored = restored(GOLDEN).expect("undamaged");
    assert!(have_equal_bits(&restored.filter, &filter()));
    assert!(
        NAMES
            .iter()
            .all(|name| restored.filter.probe(name.as_bytes()) == Hint::Maybe)
    );
    assert_eq!(restored.filter.probe(b"zebra"), Hint::Absent);
    assert_eq!(restored.header.label, label());
    assert_eq!(restored.header.advisory_count, 5);
}

#[test]
fn the_golden_file_is_written_byte_by_byte() {
    let mut bytes = Vec::new();
    write_in_chunks(&filter(), &label(), &mut bytes, 128).expect("memory takes it");
    assert_eq!(bytes, GOLDEN);
}
