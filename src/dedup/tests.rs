//! The parts together: streams cut anywhere, and saves broken off anywhere.

use std::collections::{HashSet, VecDeque};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::thread;

use proptest::prelude::*;

use super::state::{Manifest, Save};
use super::*;
use crate::filter::Hint;

fn settings(keys: &[&str]) -> Settings {
    let keys: Vec<KeyPath> = keys
        .iter()
        .map(|key| key.parse().expect("a path"))
        .collect();
    Settings {
        identity: Identity::of_keys(&keys, None).expect("sound"),
        expected: 10_000,
        fpr: 1e-12,
        window: None,
        ceiling_bytes: 1 << 30,
        on_bad: OnBad::Pass,
        longest_line: 40,
        dropped: None,
        state: None,
        save_every: Duration::from_hours(1),
        exact: None,
    }
}

/// Runs `pieces` through a pipe, each of them one write.
fn run(settings: &Settings, pieces: Vec<Vec<u8>>) -> (Vec<u8>, Tally) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let (wake, waker) = UnixStream::pair().expect("a pair");
    let output = tempfile::NamedTempFile::new().expect("a file");
    let dedup = Dedup::open(settings, waker, runtime.handle().clone()).expect("it opens");
    let writing = thread::spawn(move || {
        for piece in pieces {
            writer.write_all(&piece).expect("it reads");
        }
    });
    let ends = Ends {
        input: File::from(OwnedFd::from(reader)),
        output: output.reopen().expect("a file"),
        stop: &AtomicBool::new(false),
        wake,
    };
    let (ended, progress) = dedup.run(ends, &mut |_| ()).expect("a sound stream");
    assert_eq!(ended, Ended::Input);
    writing.join().expect("writing does not panic");
    (fs::read(output.path()).expect("a file"), progress.tally)
}

#[derive(Debug, Clone)]
enum Line {
    Id(u8),
    Bad,
    Long(usize),
}

fn line() -> impl Strategy<Value = Line> {
    prop_oneof![
        8 => (0..20_u8).prop_map(Line::Id),
        1 => Just(Line::Bad),
        1 => (0..60_usize).prop_map(Line::Long),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_passes_does_not_depend_on_how_the_stream_is_cut(
        lines in prop::collection::vec((line(), any::<bool>()), 0..80),
        cuts in prop::collection::vec(1..50_usize, 1..40),
        has_end in any::<bool>(),
    ) {
        let (mut input, mut wanted) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        let count = lines.len();
        for (index, (line, is_crlf)) in lines.into_iter().enumerate() {
            let mut text = match &line {
                Line::Id(id) => format!("{{\"id\": {id}}}"),
                Line::Bad => "{\"id\"".to_owned(),
                Line::Long(more) => format!("{{\"id\":1,\"x\":\"{}\"}}", "y".repeat(40 + more)),
            };
            if index + 1 < count || has_end {
                text += if is_crlf { "\r\n" } else { "\n" };
            }
            input.extend(text.as_bytes());
            let passes = match line {
                Line::Id(id) => seen.insert(id),
                Line::Bad | Line::Long(_) => true,
            };
            if passes {
                wanted.extend(text.as_bytes());
            }
        }
        let mut pieces = Vec::new();
        let mut rest = &input[..];
        for cut in cuts.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, more) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece.to_vec());
            rest = more;
        }
        let (output, tally) = run(&settings(&["id"]), pieces);
        prop_assert_eq!(String::from_utf8_lossy(&output), String::from_utf8_lossy(&wanted));
        prop_assert_eq!(tally.lines, count as u64);
        prop_assert_eq!(tally.bytes, input.len() as u64);
        prop_assert_eq!(tally.passed + tally.duplicates, tally.lines);
    }
}

fn plan() -> Plan {
    let window = Window::new(Duration::from_secs(2), 2);
    Plan::new(1_000, 1e-12, Some(window), 1 << 30).expect("small")
}

fn admit(memory: &mut Memory, ids: std::ops::Range<u32>) -> usize {
    ids.filter(|id| {
        let digest = memory.digest(&id.to_le_bytes());
        memory.admit(digest) == Admission::New
    })
    .count()
}

fn copy(directory: &StateDirectory, memory: &Memory, sequence: u64) -> Manifest {
    let manifest = Manifest::new("a contract", sequence, memory);
    let save = Save {
        manifest: manifest.clone(),
        changed: memory.generations().cloned().collect(),
        digests: None,
    };
    directory.copy(&save).expect("a writable directory");
    manifest
}

fn restored(directory: &StateDirectory) -> Memory {
    let restored = directory.restore("a contract", plan(), 1 << 30);
    restored.expect("sound").expect("saved before").memory
}

#[test]
fn copies_that_were_never_completed_are_never_used() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = StateDirectory::open(directory.path()).expect("a directory");
    assert!(
        state
            .restore("a contract", plan(), 1 << 30)
            .expect("empty")
            .is_none()
    );
    let mut memory = Memory::new(plan(), HashSecret::random().expect("random")).expect("small");
    memory.begin(7);
    admit(&mut memory, 0..100);
    copy(&state, &memory, 1);
    assert!(
        state
            .restore("a contract", plan(), 1 << 30)
            .expect("empty")
            .is_none(),
        "not even the first"
    );
    let manifest = copy(&state, &memory, 1);
    state.complete(&manifest).expect("written");

    // Again and again a copy holds ids whose messages may not have been written, and the process dies. Three times, as each
    // save moves the copy before it aside.
    for _ in 0..3 {
        let mut memory = restored(&state);
        assert_eq!(memory.slice(), 7);
        assert_eq!(admit(&mut memory, 0..100), 0, "what was completed is known");
        assert_eq!(admit(&mut memory, 100..200), 100, "what was not is not");
        copy(&state, &memory, 2);
    }
    // It lives: a later slice begins, and the first is forgotten with its files.
    let mut memory = restored(&state);
    admit(&mut memory, 200..300);
    memory.advance(8).expect("small");
    admit(&mut memory, 300..400);
    state.complete(&copy(&state, &memory, 2)).expect("written");
    let mut memory = restored(&state);
    assert_eq!(admit(&mut memory, 200..400), 0);
    assert!(directory.path().join("slice-7").is_dir());
    memory.advance(10).expect("small");
    admit(&mut memory, 400..500);
    state.complete(&copy(&state, &memory, 3)).expect("written");
    assert!(!directory.path().join("slice-7").exists());
    assert_eq!(admit(&mut restored(&state), 200..300), 100, "forgotten");
    drop(memory);
}

#[test]
fn generations_of_several_secrets_do_not_belong_together() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = StateDirectory::open(directory.path()).expect("a directory");
    let mut generations = VecDeque::new();
    for slice in [3, 4] {
        let secret = HashSecret::random().expect("random");
        let mut memory = Memory::new(plan(), secret).expect("small");
        memory.begin(slice);
        admit(&mut memory, 0..10);
        generations.extend(memory.generations().cloned());
    }
    let secret = generations[0].filter.secret().clone();
    let mixed = Memory::restored(plan(), secret, generations);
    state.complete(&copy(&state, &mixed, 1)).expect("written");
    let refusal = state
        .restore("a contract", plan(), 1 << 30)
        .err()
        .expect("refused");
    assert!(
        refusal.to_string().contains("do not belong together"),
        "{refusal}"
    );
    let refusal = state
        .restore("another", plan(), 1 << 30)
        .err()
        .expect("refused");
    assert!(matches!(refusal, StateError::Foreign { .. }), "{refusal}");
    let refusal = state
        .restore("a contract", plan(), 100)
        .err()
        .expect("refused");
    assert!(
        matches!(
            refusal,
            StateError::Snapshot { .. } | StateError::Ceiling { .. }
        ),
        "{refusal}"
    );
    assert!(matches!(
        StateDirectory::open(directory.path()),
        Err(StateError::InUse { .. })
    ));
}

#[test]
fn a_suspect_that_is_cleared_is_remembered_for_a_window_from_then_on() {
    let mut memory = Memory::new(plan(), HashSecret::random().expect("random")).expect("small");
    memory.begin(1);
    let id = memory.digest(b"an id");
    memory.admit(id);
    memory.advance(3).expect("small");
    assert_eq!(memory.admit(id), Admission::Suspect);
    memory.admit_suspect(id);
    memory.advance(5).expect("small");
    assert_eq!(memory.admit(id), Admission::Suspect);
    assert!(
        memory
            .generations()
            .any(|generation| generation.filter.probe(b"an id") == Hint::Maybe)
    );
    assert!(memory.may_hold(id, 3) && !memory.may_hold(id, 4));
    memory.advance(6).expect("small");
    assert_eq!(memory.admit(id), Admission::New);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Against an exact model: with ordered times, a message passes when its id did not pass within the slices that are
    /// remembered, whatever pauses there are; a message from the future in between changes nothing.
    #[test]
    fn ordered_messages_pass_once_a_window_whatever_the_pauses(
        steps in prop::collection::vec((0..12_u64, prop_oneof![6 => 0..400_u64, 2 => 400..3_000_u64, 1 => 3_000..90_000_u64], any::<bool>()), 1..120),
    ) {
        let mut settings = settings(&["id"]);
        let key = |text: &str| text.parse::<KeyPath>().expect("a path");
        settings.identity = Identity::of_keys(&[key("id")], Some(&key("t"))).expect("sound");
        let window = Window::new(Duration::from_secs(2), 2);
        settings.window = Some(window);
        let (mut input, mut wanted) = (String::new(), String::new());
        let mut now = 1_500_000_000_000;
        let mut passed: Vec<(u64, u64)> = Vec::new();
        for (index, (id, pause, is_absurd)) in steps.into_iter().enumerate() {
            now += pause;
            let line = format!("{{\"id\":{id},\"t\":{now}}}\n");
            input += &line;
            let oldest = window.oldest(window.slice_of(now));
            // By a message's own slice where it leapt, by the stream's where it did not: in order they are the same.
            if !passed.iter().any(|&(known, slice)| known == id && slice >= oldest) {
                passed.push((id, window.slice_of(now)));
                wanted += &line;
            }
            if is_absurd {
                let line = format!("{{\"id\":\"x{index}\",\"t\":253402300799000}}\n");
                input += &line;
                wanted += &line;
            }
        }
        let (output, _) = run(&settings, vec![input.into_bytes()]);
        prop_assert_eq!(String::from_utf8_lossy(&output), wanted);
    }
}
