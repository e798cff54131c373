//! The directory: the newest snapshot, the one before it, their keys, and crashes in between.

use std::{fs, path::Path};

use super::{
    super::{SaveError, Slot, SnapshotDirectory, SnapshotError},
    EXPECTED, filter, holds_names, label, name,
};
use crate::filter::{BlockedBloom, HashSecret, Hint, snapshot::Restored};

fn rekeyed(seed: u8) -> BlockedBloom {
    let filter =
        BlockedBloom::new(*filter(10).sizing(), HashSecret::from_bytes([seed; 16])).expect("small");
    filter.insert(&name(seed.into()));
    filter
}

fn key_files(path: &Path) -> usize {
    let names = fs::read_dir(path)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name());
    names
        .filter(|name| name.to_string_lossy().ends_with(".key"))
        .count()
}

/// The newest usable snapshot, and what was refused on the way.
fn newest(directory: &SnapshotDirectory) -> (Option<Restored>, Vec<(Slot, SnapshotError)>) {
    let mut refused = Vec::new();
    let restored =
        directory.restore_newest(&EXPECTED, |slot, refusal| refused.push((slot, refusal)));
    (restored, refused)
}

#[test]
fn a_saved_filter_is_restored_with_its_key() {
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = SnapshotDirectory::open(temporary.path().join("not/yet/there")).expect("made");
    let (nothing, refused) = newest(&directory);
    assert!(nothing.is_none());
    assert!(matches!(
        refused[..],
        [
            (Slot::Current, SnapshotError::Missing),
            (Slot::Previous, SnapshotError::Missing)
        ]
    ));

    let filter = filter(1_000);
    let bytes = directory.save(&filter, &label()).expect("saved");
    assert_eq!(
        fs::metadata(directory.file(Slot::Current))
            .expect("there")
            .len(),
        bytes
    );
    let (restored, refused) = newest(&directory);
    let restored = restored.expect("saved before");
    assert!(refused.is_empty() && holds_names(&restored.filter, 1_000));
    assert_eq!(restored.filter.secret(), filter.secret());
}

#[cfg(unix)]
#[test]
fn keys_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let temporary = tempfile::tempdir().expect("a directory");
    let directory = SnapshotDirectory::open(temporary.path()).expect("there");
    let filter = filter(1);
    let key = temporary
        .path()
        .join(format!("filter-{:016x}.key", filter.secret().fingerprint()));
    fs::write(&key, "left by a crash, for all to read").expect("written");
    directory.save(&filter, &label()).expect("saved");
    assert_eq!(
        fs::metadata(&key).expect("there").permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(fs::read(&key).expect("there"), filter.secret().to_bytes());
}

#[test]
fn the_snapshot_before_is_kept_and_older_ones_go_with_their_keys() {
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = SnapshotDirectory::open(temporary.path()).expect("there");
    for seed in 1..=3 {
        directory.save(&rekeyed(seed), &label()).expect("saved");
    }
    for (slot, seed) in [(Slot::Current, 3), (Slot::Previous, 2)] {
        let restored = directory.restore(slot, &EXPECTED).expect("saved before");
        assert_eq!(restored.filter.probe(&name(seed)), Hint::Maybe);
    }
    assert_eq!(key_files(temporary.path()), 2);
}

#[test]
fn a_damaged_snapshot_gives_way_to_the_one_before() {
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = SnapshotDirectory::open(temporary.path()).expect("there");
    directory.save(&rekeyed(1), &label()).expect("saved");
    directory.save(&rekeyed(2), &label()).expect("saved");
    let mut bytes = fs::read(directory.file(Slot::Current)).expect("there");
    bytes.truncate(bytes.len() - 1);
    fs::write(directory.file(Slot::Current), bytes).expect("written");

    let (restored, refused) = newest(&directory);
    assert_eq!(
        restored.expect("the one before").filter.probe(&name(1)),
        Hint::Maybe
    );
    assert!(matches!(
        refused[..],
        [(Slot::Current, SnapshotError::Length { .. })]
    ));
    // Saving again overwrites the damaged one, not the sound one; its key is needed no more.
    directory.save(&rekeyed(3), &label()).expect("saved");
    for (slot, seed) in [(Slot::Current, 3), (Slot::Previous, 1)] {
        let restored = directory.restore(slot, &EXPECTED).expect("sound");
        assert_eq!(restored.filter.probe(&name(seed)), Hint::Maybe);
    }
    assert_eq!(key_files(temporary.path()), 2);
}

#[test]
fn a_snapshot_without_its_key_is_refused() {
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = SnapshotDirectory::open(temporary.path()).expect("there");
    let filter = filter(10);
    directory.save(&filter, &label()).expect("saved");
    let key = temporary
        .path()
        .join(format!("filter-{:016x}.key", filter.secret().fingerprint()));
    for (content, is_other_key) in [
        (None, false),
        (Some(vec![]), false),
        (Some(vec![0; 15]), false),
        (Some(vec![7; 16]), true),
    ] {
        match content {
            None => fs::remove_file(&key).expect("removed"),
            Some(bytes) => fs::write(&key, bytes).expect("written"),
        }
        let refusal = directory
            .restore(Slot::Current, &EXPECTED)
            .expect_err("no such key");
        assert_eq!(
            matches!(refusal, SnapshotError::Key { .. }),
            is_other_key,
            "{refusal}"
        );
        assert_eq!(
            matches!(refusal, SnapshotError::Secret { .. }),
            !is_other_key,
            "{refusal}"
        );
    }
}

#[test]
fn a_save_that_fails_leaves_what_was_there() {
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = SnapshotDirectory::open(temporary.path()).expect("there");
    directory.save(&rekeyed(1), &label()).expect("saved");
    directory.save(&rekeyed(2), &label()).expect("saved");
    let partial = temporary.path().join("filter.partial.snapshot");
    fs::create_dir(&partial).expect("something in the way");
    let refusal = directory
        .save(&rekeyed(3), &label())
        .expect_err("in the way");
    assert!(
        matches!(
            refusal,
            SaveError::File {
                action: "create",
                ..
            }
        ),
        "{refusal}"
    );
    for (slot, seed) in [(Slot::Current, 2), (Slot::Previous, 1)] {
        let restored = directory.restore(slot, &EXPECTED).expect("as it was");
        assert_eq!(restored.filter.probe(&name(seed)), Hint::Maybe);
    }
}

#[test]
fn a_crash_at_any_step_leaves_a_snapshot() {
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = SnapshotDirectory::open(temporary.path()).expect("there");
    directory.save(&rekeyed(1), &label()).expect("saved");
    // Half of a new one was written aside.
    fs::write(
        temporary.path().join("filter.partial.snapshot"),
        b"namegate",
    )
    .expect("written");
    let (restored, refused) = newest(&directory);
    assert!(restored.is_some() && refused.is_empty());
    // The old one was set aside, the new one not yet renamed.
    fs::rename(
        directory.file(Slot::Current),
        directory.file(Slot::Previous),
    )
    .expect("renamed");
    let (restored, refused) = newest(&directory);
    assert_eq!(
        restored.expect("the one before").filter.probe(&name(1)),
        Hint::Maybe
    );
    assert!(matches!(
        refused[..],
        [(Slot::Current, SnapshotError::Missing)]
    ));
    // The next start writes as if nothing had happened.
    directory.save(&rekeyed(2), &label()).expect("saved");
    assert_eq!(
        newest(&directory).0.expect("saved").filter.probe(&name(2)),
        Hint::Maybe
    );
    assert!(directory.restore(Slot::Previous, &EXPECTED).is_ok());
}
