//! Compares sets round by round, so that noise of a shared machine meets all of them alike, and
//! prints Markdown tables of medians and ratios.
//!
//! ```text
//! cargo bench --bench compare                                   1e6 and 1e7 names, 1 and 2 threads
//! cargo bench --bench compare -- names=1e8 threads=1            any number of names
//! cargo bench --bench compare -- names=1.05e9 stuffed only=atomic,sbbf,shared       filters of 2 GB
//! cargo bench --bench compare -- rate=0.01 rounds=25 asks=1e6   another rate, more rounds
//! ```
//!
//! `only` takes parts of labels. `stuffed` fills sets fast and does not measure it: ours with all
//! names in batches, others with random bits to the same rate, and the names that are asked for.
//!
//! Each set is filled in slices and asked in rounds. In every round all sets do the same work one
//! after the other, on the same names. A ratio is the median over rounds of the ratio within a
//! round, against the first set of the table. Names are made before each timed section of 512
//! names.

mod support;

use std::{env, hint::black_box, sync::Barrier, thread};

use support::{
    load_average, median,
    names::{Ask, CHUNK, Name, members, questions},
    sets::{CONTENDERS, Contender, Set},
    stopwatch::Stopwatch,
    whole,
};

/// A table: what was measured per set, a figure per round.
type Rounds = Vec<(&'static str, Vec<f64>)>;

struct Options {
    names: Vec<u64>,
    threads: Vec<usize>,
    rate: f64,
    rounds: u64,
    /// Questions per set, round and thread.
    asks: u64,
    /// Parts of labels; none means all.
    only: Vec<String>,
    /// Fill fast, without measuring it.
    is_stuffed: bool,
}

/// Members that are asked for in stuffed sets.
const STUFFED_MEMBERS: u64 = 1 << 22;

fn main() {
    let options = Options::from_arguments();
    for &names in &options.names {
        compare(names, &options);
    }
}

impl Options {
    fn from_arguments() -> Self {
        let mut options = Self {
            names: vec![1_000_000, 10_000_000],
            threads: vec![1, 2],
            rate: 0.001,
            rounds: 15,
            asks: 500_000,
            only: Vec::new(),
            is_stuffed: false,
        };
        let mut is_bench = false;
        for argument in env::args().skip(1) {
            match argument.split_once('=') {
                Some(("names", list)) => options.names = list.split(',').map(whole).collect(),
                Some(("threads", list)) => {
                    options.threads = list
                        .split(',')
                        .map(|count| count.parse().expect("threads=1,2"))
                        .collect();
                }
                Some(("rate", rate)) => options.rate = rate.parse().expect("rate=0.001"),
                Some(("rounds", rounds)) => options.rounds = whole(rounds),
                Some(("asks", asks)) => options.asks = whole(asks),
                Some(("only", list)) => options.only = list.split(',').map(str::to_owned).collect(),
                _ => {
                    is_bench |= argument == "--bench";
                    options.is_stuffed |= argument == "stuffed";
                }
            }
        }
        if !is_bench {
            // Called by `cargo test`: only show that it runs.
            options.names = vec![10_000];
            (options.rounds, options.asks) = (2, 2_000);
        }
        options
    }

    fn contenders(&self) -> Vec<&'static Contender> {
        let is_wanted = |contender: &&Contender| {
            self.only.is_empty() || self.only.iter().any(|part| contender.label.contains(part))
        };
        CONTENDERS.iter().filter(is_wanted).collect()
    }
}

fn compare(names: u64, options: &Options) {
    let contenders = options.contenders();
    println!("\n### {names} names, rate {}\n", options.rate);
    println!("Load average before: {}", load_average());
    let mut sets: Vec<Box<dyn Set>> = contenders
        .iter()
        .map(|contender| (contender.make)(names, options.rate))
        .collect();
    let members = if options.is_stuffed {
        let members = STUFFED_MEMBERS.min(names);
        for set in &mut sets {
            set.stuff(names, members);
        }
        members
    } else {
        let inserts = fill(&contenders, &mut sets, names, options.rounds);
        print_table("insert, 1 thread", &inserts);
        names
    };

    let mut maybes = vec![0; sets.len()];
    for &threads in &options.threads {
        for ask in [Ask::Absent, Ask::Present, Ask::Mixed] {
            let mut rounds: Rounds = contenders.iter().map(|it| (it.label, vec![])).collect();
            for round in 0..options.rounds {
                for (which, set) in sets.iter().enumerate() {
                    if !contenders[which].asks {
                        continue;
                    }
                    let (ns, found) =
                        asked(set.as_ref(), ask, members, threads, round, options.asks);
                    rounds[which].1.push(ns);
                    match ask {
                        Ask::Absent => maybes[which] += found,
                        Ask::Present => assert_eq!(found, asked_in_all(options.asks, threads)),
                        Ask::Mixed => {}
                    }
                }
            }
            print_table(&format!("{ask:?}, {threads} thread(s)"), &rounds);
        }
    }
    let asked: u64 = options
        .threads
        .iter()
        .map(|&threads| options.rounds * asked_in_all(options.asks, threads))
        .sum();
    print_sizes(&contenders, &sets, names, &maybes, asked);
    drop(sets);
    for &threads in &options.threads {
        if threads == 1 || options.is_stuffed {
            continue;
        }
        fill_together(&contenders, names, options, threads);
    }
    println!("\nLoad average after: {}", load_average());
}

fn asked_in_all(asks: u64, threads: usize) -> u64 {
    asks.next_multiple_of(CHUNK as u64) * threads as u64
}

/// Inserts all names into all sets, a slice at a time; ns per name and slice.
fn fill(
    contenders: &[&'static Contender],
    sets: &mut [Box<dyn Set>],
    names: u64,
    slices: u64,
) -> Rounds {
    let mut rounds: Rounds = contenders.iter().map(|it| (it.label, vec![])).collect();
    let mut chunk = [Name::default(); CHUNK];
    for slice in 0..slices {
        let (start, end) = (slice * names / slices, (slice + 1) * names / slices);
        for (which, set) in sets.iter_mut().enumerate() {
            if !contenders[which].grows {
                continue;
            }
            let mut ns = 0;
            for first in (start..end).step_by(CHUNK) {
                let chunk = &mut chunk[..length(end - first)];
                members(first, chunk);
                let begin = Stopwatch::start();
                set.insert(black_box(chunk));
                ns += begin.ns();
            }
            rounds[which].1.push(per_name(ns, end - start));
        }
    }
    rounds
}

/// As [`fill`], by several threads at once, with sets that allow it.
fn fill_together(contenders: &[&'static Contender], names: u64, options: &Options, threads: usize) {
    let mut sets: Vec<(&Contender, Box<dyn Set>)> = contenders
        .iter()
        .map(|&contender| (contender, (contender.make)(1, options.rate)))
        .filter(|(_, set)| set.insert_shared(&[]))
        .map(|(contender, _)| (contender, (contender.make)(names, options.rate)))
        .collect();
    let mut rounds: Rounds = sets.iter().map(|(it, _)| (it.label, vec![])).collect();
    let count = threads as u64;
    for slice in 0..options.rounds {
        let (start, end) = (
            slice * names / options.rounds,
            (slice + 1) * names / options.rounds,
        );
        for (which, (_, set)) in sets.iter_mut().enumerate() {
            let share = |worker: u64| {
                let mut chunk = [Name::default(); CHUNK];
                let (start, end) = (
                    start + worker * (end - start) / count,
                    start + (worker + 1) * (end - start) / count,
                );
                let mut ns = 0;
                for first in (start..end).step_by(CHUNK) {
                    let chunk = &mut chunk[..length(end - first)];
                    members(first, chunk);
                    let begin = Stopwatch::start();
                    set.insert_shared(black_box(chunk));
                    ns += begin.ns();
                }
                per_name(ns, end - start)
            };
            rounds[which].1.push(together(threads, share));
        }
    }
    print_table(&format!("insert, {threads} thread(s)"), &rounds);
}

/// Mean over threads of what each measured, all starting at once.
#[allow(clippy::cast_precision_loss, reason = "a few threads")]
fn together(threads: usize, measure: impl Fn(u64) -> f64 + Sync) -> f64 {
    let start = Barrier::new(threads);
    let sum: f64 = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads as u64)
            .map(|worker| {
                let (start, measure) = (&start, &measure);
                scope.spawn(move || {
                    start.wait();
                    measure(worker)
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("no panic"))
            .sum()
    });
    sum / threads as f64
}

/// Asks a set; ns per question, and how many names may be inside.
fn asked(
    set: &dyn Set,
    ask: Ask,
    members: u64,
    threads: usize,
    round: u64,
    asks: u64,
) -> (f64, u64) {
    let found = std::sync::atomic::AtomicU64::new(0);
    let asks = asks.next_multiple_of(CHUNK as u64);
    let ns = together(threads, |worker| {
        let mut chunk = [Name::default(); CHUNK];
        let (mut ns, mut maybes) = (0, 0);
        let start = (round * threads as u64 + worker) * asks;
        for first in (start..start + asks).step_by(CHUNK) {
            questions(ask, members, first, &mut chunk);
            let begin = Stopwatch::start();
            maybes += black_box(set.ask(black_box(&chunk)));
            ns += begin.ns();
        }
        found.fetch_add(maybes as u64, std::sync::atomic::Ordering::Relaxed);
        per_name(ns, asks)
    });
    (ns, found.into_inner())
}

fn length(left: u64) -> usize {
    usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK))
}

#[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
fn per_name(ns: u64, names: u64) -> f64 {
    ns as f64 / names.max(1) as f64
}

fn print_table(title: &str, rounds: &Rounds) {
    let measured = || rounds.iter().filter(|(_, figures)| !figures.is_empty());
    let Some((_, reference)) = measured().next() else {
        return;
    };
    println!("\n| {title} | ns, median | lowest | ratio |\n| --- | ---: | ---: | ---: |");
    for (label, figures) in measured() {
        let ratios = figures
            .iter()
            .zip(reference)
            .map(|(one, other)| one / other);
        println!(
            "| {label} | {:.1} | {:.1} | {:.2} |",
            median(figures.iter().copied()),
            figures.iter().copied().fold(f64::INFINITY, f64::min),
            median(ratios)
        );
    }
}

#[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
fn print_sizes(
    contenders: &[&'static Contender],
    sets: &[Box<dyn Set>],
    names: u64,
    maybes: &[u64],
    asked: u64,
) {
    println!("\n| size | MB | bits a name | measured rate |\n| --- | ---: | ---: | ---: |");
    for ((contender, set), &maybes) in contenders.iter().zip(sets).zip(maybes) {
        if contender.asks {
            println!(
                "| {} | {:.1} | {:.2} | {:.4} % |",
                contender.label,
                set.size_bytes() as f64 / 1e6,
                set.size_bytes() as f64 * 8.0 / names as f64,
                100.0 * maybes as f64 / asked as f64
            );
        }
    }
}
