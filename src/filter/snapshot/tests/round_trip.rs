//! What is written is read: the same bits, the same label, also while others insert.

use std::{
    io::{self, Read, Write},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
};

use proptest::prelude::*;

use super::{
    super::{
        Label, MOST_POSITION_BYTES, MOST_SOURCE_BYTES, SaveError, SnapshotReader, write_snapshot,
    },
    EXPECTED, Expected, filter, have_equal_bits, holds_names, label, name, restored, secret,
    write_in_chunks, written,
};
use crate::filter::{BlockedBloom, Sizing};

#[test]
fn a_filter_comes_back_bit_by_bit_with_its_label() {
    for names in [0, 1, 1_000, 100_000] {
        let filter = filter(names);
        for chunk_bytes in [64, 4_096, 1 << 20] {
            let restored = restored(&written(&filter, chunk_bytes)).expect("undamaged");
            assert!(have_equal_bits(&filter, &restored.filter));
            assert!(holds_names(&restored.filter, names));
            assert_eq!(restored.header.label, label());
            assert_eq!(restored.filter.sizing(), filter.sizing());
            assert_eq!(
                restored.header.advisory_count,
                filter.estimated_count().names()
            );
            assert!(!restored.needs_rebuild() && restored.damaged_chunks == 0);
        }
    }
}

#[test]
fn an_expanded_filter_comes_back_expanded() {
    let filter = filter(1_000).expand().expect("small");
    let restored = restored(&written(&filter, 4_096)).expect("undamaged");
    assert_eq!(restored.filter.expansions(), 1);
    assert_eq!(restored.filter.estimated_count(), filter.estimated_count());
}

#[test]
fn the_public_writer_uses_chunks_of_a_mebibyte() {
    let filter = filter(700_000); // 1.4 MB: a whole chunk and a shorter one
    let mut bytes = Vec::new();
    write_snapshot(&filter, &label(), &mut bytes).expect("memory takes it");
    assert_eq!(bytes, written(&filter, 1 << 20));
    assert_eq!(bytes.len() as u64, filter.size_bytes() + 129 + 2 * 4 + 24);
    assert!(have_equal_bits(
        &restored(&bytes).expect("undamaged").filter,
        &filter
    ));
}

#[test]
fn the_key_is_not_in_the_file() {
    let bytes = written(&filter(100), 4_096);
    assert!(
        !bytes
            .windows(16)
            .any(|window| window == secret().to_bytes())
    );
    let shown = format!(
        "{:?}",
        SnapshotReader::open(&bytes[..], bytes.len() as u64).expect("sound")
    );
    assert!(!shown.contains("[0, 1, 2, 3"), "{shown}");
}

#[test]
fn a_label_that_is_too_long_is_refused_before_anything_is_written() {
    let filter = filter(1);
    let most = Label {
        source: vec![1; MOST_SOURCE_BYTES],
        position: vec![2; MOST_POSITION_BYTES],
        ..label()
    };
    let mut bytes = Vec::new();
    write_snapshot(&filter, &most, &mut bytes).expect("just short enough");
    let reader = SnapshotReader::open(&bytes[..], bytes.len() as u64).expect("sound");
    assert_eq!(reader.header().label, most);

    let mut nothing = Vec::new();
    for (part, label) in [
        (
            "source",
            Label {
                source: vec![1; MOST_SOURCE_BYTES + 1],
                ..label()
            },
        ),
        (
            "position",
            Label {
                position: vec![1; MOST_POSITION_BYTES + 1],
                ..label()
            },
        ),
    ] {
        let refusal = write_snapshot(&filter, &label, &mut nothing).expect_err("one byte too many");
        assert!(matches!(refusal, SaveError::Label { part: found, .. } if found == part));
    }
    assert!(nothing.is_empty());
}

/// Gives a few bytes at a time, and is interrupted in between, as sockets, pipes and signals do.
struct Stuttering<'a>(&'a [u8], usize);

impl Read for Stuttering<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 += 1;
        if self.1.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let most = buffer.len().min(self.1 % 71 + 1);
        self.0.read(&mut buffer[..most])
    }
}

#[test]
fn short_and_interrupted_reads_are_continued() {
    let filter = filter(10_000);
    let bytes = written(&filter, 4_096);
    let reader = SnapshotReader::open(Stuttering(&bytes, 0), bytes.len() as u64).expect("sound");
    let restored = reader.restore(secret(), &EXPECTED).expect("undamaged");
    assert!(have_equal_bits(&restored.filter, &filter));
}

/// A disk with room for so many bytes.
struct SmallDisk(usize);

impl Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            Ok(taken)
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_wherever_it_strikes() {
    let filter = filter(1_000);
    let needed = written(&filter, 1 << 20).len();
    for room in [0, 1, 100, 500, needed - 25, needed - 1] {
        let refusal = write_snapshot(&filter, &label(), SmallDisk(room)).expect_err("too small");
        assert!(
            matches!(refusal, SaveError::Write(error) if error.kind() == io::ErrorKind::StorageFull)
        );
    }
    assert!(write_snapshot(&filter, &label(), SmallDisk(needed)).is_ok());
}

#[test]
fn snapshots_taken_while_names_are_inserted_always_load_and_hold_every_earlier_name() {
    let sizing = Sizing::plan(200_000, 0.001, 1 << 30).expect("small");
    let filter = BlockedBloom::new(sizing, secret()).expect("small");
    let (inserted, is_done) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..400_000 {
                filter.insert(&name(i));
                inserted.store(i + 1, Ordering::Release); // Release: the insert happens before it
            }
            is_done.store(true, Ordering::Release); // Release: only ends the loop below
        });
        while !is_done.load(Ordering::Acquire) {
            // Acquire: pairs with the release above.
            let position = inserted.load(Ordering::Acquire);
            let restored = restored(&written(&filter, 4_096)).expect("undamaged");
            assert!(holds_names(&restored.filter, position));
        }
    });
}

proptest! {
    #[test]
    fn any_filter_and_label_come_back(
        names in prop::collection::vec(any::<u32>(), 0..300),
        blocks in 1_u64..100,
        chunk_blocks in 1_u32..20,
        fold_fingerprint: u64,
        source in prop::collection::vec(any::<u8>(), 0..50),
        position in prop::collection::vec(any::<u8>(), 0..500),
    ) {
        let sizing = Sizing { capacity: 300, target_fpr: 0.01, blocks };
        let filter = BlockedBloom::new(sizing, secret()).expect("small");
        for &i in &names {
            filter.insert(&name(i));
        }
        let label = Label { fold_fingerprint, source, position };
        let mut bytes = Vec::new();
        write_in_chunks(&filter, &label, &mut bytes, chunk_blocks * 64)
            .expect("memory takes it");
        let expected = Expected {
            fold_fingerprint,
            source: &label.source,
            ceiling_bytes: blocks * 64,
        };
        let reader = SnapshotReader::open(&bytes[..], bytes.len() as u64).expect("sound");
        let restored = reader.restore(secret(), &expected).expect("undamaged");
        prop_assert!(have_equal_bits(&restored.filter, &filter));
        prop_assert_eq!(restored.header.label, label);
    }
}
