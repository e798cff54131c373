//! How fast a filter is written and read back, and whether questions notice.
//!
//! ```text
//! cargo bench --bench snapshot                 1e8 names, 197 MB
//! cargo bench --bench snapshot -- names=1e7
//! ```
//!
//! Files are in the page cache: what is measured is copying and checking, not the disk.

mod support;

use std::{
    env,
    fs::{self, File},
    hint::black_box,
    io,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Instant,
};

use namegate::filter::{
    BlockedBloom, HashSecret, Sizing,
    snapshot::{Expected, Label, SnapshotReader, write_snapshot},
};
use support::{
    load_average, median,
    names::{Ask, CHUNK, Name, members, questions},
    whole,
};

const SECRET: [u8; 16] = *b"benchmark secret";
const ROUNDS: usize = 7;

fn main() {
    let is_bench = env::args().any(|argument| argument == "--bench");
    let wanted = env::args().find_map(|it| it.strip_prefix("names=").map(whole));
    let names = wanted.unwrap_or(if is_bench { 100_000_000 } else { 10_000 });
    println!("Load average before: {}", load_average());
    let filter = filled(names);
    let file = env::temp_dir().join(format!("namegate-bench-{}.snapshot", std::process::id()));
    throughput(&filter, &file);
    stalls(&filter, names, &file);
    fs::remove_file(&file).expect("written above");
    println!("\nLoad average after: {}", load_average());
}

fn filled(names: u64) -> BlockedBloom {
    let sizing = Sizing::plan(names, 0.001, 1 << 40).expect("a sensible rate");
    let mut filter =
        BlockedBloom::new(sizing, HashSecret::from_bytes(SECRET)).expect("enough memory");
    let mut chunk = [Name::default(); CHUNK];
    for first in (0..names).step_by(CHUNK) {
        members(first, &mut chunk);
        filter.insert_batch_exclusive(&chunk);
    }
    filter
}

#[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
fn throughput(filter: &BlockedBloom, path: &std::path::Path) {
    let (mut to_nowhere, mut written, mut read) = (vec![], vec![], vec![]);
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        to_nowhere.push(seconds(|| write(filter, io::sink())));
        written.push(seconds(|| {
            bytes = write(filter, File::create(path).expect("a writable directory"));
            bytes
        }));
        read.push(seconds(|| {
            let restored = SnapshotReader::open(File::open(path).expect("written"), bytes)
                .expect("sound")
                .restore(
                    HashSecret::from_bytes(SECRET),
                    &Expected {
                        fold_fingerprint: 0,
                        source: b"bench",
                        ceiling_bytes: u64::MAX,
                    },
                )
                .expect("sound");
            assert_eq!(restored.damaged_chunks, 0);
            restored.filter.blocks()
        }));
    }
    println!(
        "\n| {:.1} MB, {ROUNDS} rounds | s, median | GB/s, median | GB/s, best |",
        bytes as f64 / 1e6
    );
    println!("| --- | ---: | ---: | ---: |");
    for (what, times) in [
        ("count, copy and checksum", to_nowhere),
        ("the same, into a file in the page cache", written),
        ("read from the page cache, verify, fill new memory", read),
    ] {
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        let median = median(times.into_iter());
        let speed = |seconds: f64| bytes as f64 / 1e9 / seconds;
        println!(
            "| {what} | {median:.3} | {:.2} | {:.2} |",
            speed(median),
            speed(best)
        );
    }
}

fn write(filter: &BlockedBloom, output: impl io::Write) -> u64 {
    let label = Label {
        source: b"bench".to_vec(),
        ..Label::default()
    };
    write_snapshot(filter, &label, output).expect("room for it")
}

fn seconds(work: impl FnOnce() -> u64) -> f64 {
    let start = Instant::now();
    black_box(work());
    start.elapsed().as_secs_f64()
}

/// Times each question by the clock on the wall, in turns with and without a save running on
/// another thread.
fn stalls(filter: &BlockedBloom, names: u64, path: &std::path::Path) {
    let (mut calm, mut saving) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS as u64 {
        calm.append(&mut probe_ns(filter, names, 2 * round));
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                // Relaxed: only ends the loop.
                while !stop.load(Ordering::Relaxed) {
                    write(filter, File::create(path).expect("a writable directory"));
                }
            });
            saving.append(&mut probe_ns(filter, names, 2 * round + 1));
            stop.store(true, Ordering::Relaxed); // Relaxed: as above
        });
    }
    println!("\n| single questions, ns | median | 99 % | 99.9 % | 99.99 % |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for (what, mut ns) in [("no save", calm), ("a save running", saving)] {
        ns.sort_unstable();
        let at = |per_10_000: usize| ns[(ns.len() - 1) * per_10_000 / 10_000];
        println!(
            "| {what} | {} | {} | {} | {} |",
            at(5_000),
            at(9_900),
            at(9_990),
            at(9_999)
        );
    }
}

/// Includes two readings of the clock, some 50 ns.
fn probe_ns(filter: &BlockedBloom, names: u64, round: u64) -> Vec<u64> {
    const QUESTIONS: u64 = 400_000;
    let mut chunk = [Name::default(); CHUNK];
    let mut times = Vec::new();
    for first in (0..QUESTIONS).step_by(CHUNK) {
        questions(Ask::Mixed, names, round * QUESTIONS + first, &mut chunk);
        for name in &chunk {
            let start = Instant::now();
            black_box(filter.probe(black_box(name.as_ref())));
            times.push(u64::try_from(start.elapsed().as_nanos()).expect("less than centuries"));
        }
    }
    times
}
