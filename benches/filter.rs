//! The filter and its peers, one group per operation.
//!
//! ```text
//! cargo bench --bench filter                              10^6 and 10^7 names
//! BENCH_NAMES=1e8 cargo bench --bench filter -- absent    another size, one operation
//! ```
//!
//! Groups are measured one after the other, so on a machine that does other work at times, compare
//! contenders with `--bench compare` instead, which interleaves them. Times are per 512 names, which
//! are made before each timed section; see `support/names.rs`.

mod support;

use std::{env, hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput};
use support::{
    names::{Ask, CHUNK, Name, members, questions},
    sets::{CONTENDERS, Set, insert_members},
    stopwatch::Stopwatch,
    whole,
};

const RATE: f64 = 0.001;

fn main() {
    let mut criterion = Criterion::default()
        .configure_from_args()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    let sizes = env::var("BENCH_NAMES").unwrap_or_else(|_| "1e6,1e7".to_owned());
    for names in sizes.split(',').map(whole) {
        insert(&mut criterion, names);
        ask(&mut criterion, names);
    }
    criterion.final_summary();
}

/// Inserts new names over and over into a set that has room for `names`, and starts afresh when it
/// is full.
fn insert(criterion: &mut Criterion, names: u64) {
    let mut group = criterion.benchmark_group("insert");
    group.throughput(Throughput::Elements(CHUNK as u64));
    for contender in CONTENDERS.iter().filter(|it| it.grows) {
        group.bench_function(BenchmarkId::new(contender.label, names), |bencher| {
            let mut set = (contender.make)(names, RATE);
            let mut inserted = 0;
            bencher.iter_custom(|iterations| {
                timed(iterations, |chunk| {
                    if inserted >= names {
                        set = (contender.make)(names, RATE);
                        inserted = 0;
                    }
                    members(inserted, chunk);
                    inserted += CHUNK as u64;
                    let watch = Stopwatch::start();
                    set.insert(black_box(chunk));
                    watch.ns()
                })
            });
        });
    }
    group.finish();
}

fn ask(criterion: &mut Criterion, names: u64) {
    for contender in CONTENDERS.iter().filter(|it| it.asks) {
        // Made at the first use: with a filter on benchmark names, most are never needed.
        let mut made: Option<Box<dyn Set>> = None;
        for ask in [Ask::Absent, Ask::Present, Ask::Mixed] {
            let mut group = criterion.benchmark_group(format!("{ask:?}").to_lowercase());
            group.throughput(Throughput::Elements(CHUNK as u64));
            group.bench_function(BenchmarkId::new(contender.label, names), |bencher| {
                let set = made.get_or_insert_with(|| filled(contender.make, names));
                let mut asked = 0;
                bencher.iter_custom(|iterations| {
                    timed(iterations, |chunk| {
                        questions(ask, names, asked, chunk);
                        asked += CHUNK as u64;
                        let watch = Stopwatch::start();
                        black_box(set.ask(black_box(chunk)));
                        watch.ns()
                    })
                });
            });
            group.finish();
        }
        if let Some(set) = made {
            report(contender.label, set.as_ref(), names);
        }
    }
}

fn timed(iterations: u64, mut chunk_ns: impl FnMut(&mut [Name]) -> u64) -> Duration {
    let mut chunk = [Name::default(); CHUNK];
    Duration::from_nanos((0..iterations).map(|_| chunk_ns(&mut chunk)).sum())
}

fn filled(make: support::sets::Make, names: u64) -> Box<dyn Set> {
    let mut set = make(names, RATE);
    insert_members(set.as_mut(), names);
    set
}

/// What the speed was bought with.
#[allow(clippy::cast_precision_loss, reason = "shown with a few digits")]
fn report(label: &str, set: &dyn Set, names: u64) {
    const QUESTIONS: u64 = 1 << 21;
    let mut chunk = [Name::default(); CHUNK];
    let mut maybes = 0;
    for first in (0..QUESTIONS).step_by(CHUNK) {
        questions(Ask::Absent, names, first, &mut chunk);
        maybes += set.ask(&chunk);
    }
    println!(
        "{label}, {names} names: {:.2} bits a name, {:.4} % measured false positives\n",
        set.size_bytes() as f64 * 8.0 / names as f64,
        100.0 * maybes as f64 / QUESTIONS as f64
    );
}
