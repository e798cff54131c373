//! `namegate dedup` beside what people use for the job: processor time, peak memory, and whether it came out right.
//!
//! ```text
//! cargo bench --bench dedup                                   10^7 clicks, all contestants
//! cargo bench --bench dedup -- messages=1e8 only=namegate     streamed through a pipe, as no disk is asked for
//! cargo bench --bench dedup -- clicks=1e7 > clicks.ndjson     the clicks alone
//! ```
//!
//! Clicks are generated: 100 bytes each with the line's end, 36 of them a random id, 3 in 100 sent again within the next
//! hundred. `only=` takes parts of contestants' names, separated by commas.
//!
//! Processor time is that of the contestant's process, user and system, as the machine is shared; memory is the most that was
//! resident at any time, read a hundred times a second.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// How many messages back a double click is.
const SOON: usize = 100;
const DOUBLE_CLICKS_PERCENT: u64 = 3;
/// Clock ticks a second in `/proc`, on every Linux there is.
const TICKS: f64 = 100.0;

fn main() -> io::Result<()> {
    let value = |name: &str| {
        env::args().find_map(|argument| {
            argument
                .strip_prefix(name)?
                .strip_prefix('=')
                .map(str::to_owned)
        })
    };
    if env::args().any(|argument| argument == "hashset") {
        return hash_set();
    }
    if let Some(count) = value("clicks") {
        let mut output = BufWriter::with_capacity(1 << 20, io::stdout().lock());
        return write_clicks(whole(&count), &mut output);
    }
    let is_bench = env::args().any(|argument| argument == "--bench");
    let messages = value("messages").map_or(if is_bench { 10_000_000 } else { 10_000 }, |text| {
        whole(&text)
    });
    let only = value("only").unwrap_or_default();
    measure(messages, &only)
}

fn measure(messages: u64, only: &str) -> io::Result<()> {
    let expect = messages.to_string();
    let namegate = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        command
            .args(["dedup", "--expect", &expect, "--json"])
            .args(args);
        command
    };
    let shell = |line: &str| {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("exec {line}")])
            .env("LC_ALL", "C");
        command
    };
    let mut hash_set = Command::new(env::current_exe()?);
    hash_set.arg("hashset");
    let contestants = [
        ("namegate --key id, 0.01 %", namegate(&["--key", "id"])),
        (
            "namegate --key id --window 24h, 0.01 %",
            namegate(&["--key", "id", "--window", "24h"]),
        ),
        ("namegate --whole-line, 0.01 %", namegate(&["--whole-line"])),
        ("Rust HashSet<String> of ids", hash_set),
        ("mawk '!seen[id]++'", shell(r#"mawk -F'"' '!seen[$4]++'"#)),
        ("gawk '!seen[id]++'", shell(r#"gawk -F'"' '!seen[$4]++'"#)),
        ("sort -u, order lost", shell("sort -u")),
    ];
    println!(
        "{messages} clicks of 100 bytes; load average before: {}\n",
        load_average()
    );
    println!(
        "| | processor s | million/s of processor time | wall s | peak MB | passed | genuine lost |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    let genuine = Clicks::new(messages).filter(|click| click.is_first).count() as u64;
    for (name, mut command) in contestants {
        let is_wanted = only.is_empty() || only.split(',').any(|part| name.contains(part));
        if is_wanted {
            match run(&mut command, messages) {
                Ok(run) => print(name, messages, genuine, &run),
                Err(error) => println!("| {name} | not run: {error} |"),
            }
        }
    }
    println!("\nload average after: {}", load_average());
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "shown with few digits")]
fn print(name: &str, messages: u64, genuine: u64, run: &Run) {
    let lost = i128::from(genuine) - i128::from(run.passed);
    println!(
        "| {name} | {:.1} | {:.2} | {:.1} | {:.0} | {} | {lost} |",
        run.processor_seconds,
        messages as f64 / 1e6 / run.processor_seconds,
        run.wall_seconds,
        run.peak_bytes as f64 / 1e6,
        run.passed,
    );
    let summary = run.told.lines().last().unwrap_or_default();
    if let Some((_, expected)) = summary.split_once("\"expected_lost\":") {
        eprintln!(
            "{name}: expected to lose {}",
            expected.split(',').next().unwrap_or_default()
        );
    }
}

struct Run {
    processor_seconds: f64,
    wall_seconds: f64,
    peak_bytes: u64,
    passed: u64,
    told: String,
}

fn run(command: &mut Command, messages: u64) -> io::Result<Run> {
    let program = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = program.spawn()?;
    let began = Instant::now();
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let mut errors = child.stderr.take();
    let told = thread::spawn(move || {
        let mut text = String::new();
        let _ = errors
            .as_mut()
            .map(|errors| errors.read_to_string(&mut text));
        text
    });
    let clicks = thread::spawn(move || {
        let mut input = BufWriter::with_capacity(1 << 20, input.expect("piped"));
        let _ = write_clicks(messages, &mut input); // a contestant that ends early shows in its count
    });
    let lines = thread::spawn(move || count_lines(output.expect("piped")));
    let (processor_seconds, peak_bytes) = watch(&mut child)?;
    clicks.join().expect("writing does not panic");
    Ok(Run {
        processor_seconds,
        wall_seconds: began.elapsed().as_secs_f64(),
        peak_bytes,
        passed: lines.join().expect("counting does not panic"),
        told: told.join().expect("reading does not panic"),
    })
}

/// Follows a child to its end: its processor time, and the most memory it had.
fn watch(child: &mut Child) -> io::Result<(f64, u64)> {
    let proc = Path::new("/proc").join(child.id().to_string());
    let mut peak_bytes = 0;
    let pid = Pid::from_child(child);
    // Not collected yet when it has ended: its times can still be read.
    while waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG,
    )?
    .is_none()
    {
        let status = fs::read_to_string(proc.join("status")).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = peak.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        peak_bytes = peak_bytes.max(kibibytes.unwrap_or(0) * 1024);
        thread::sleep(Duration::from_millis(10));
    }
    let stat = fs::read_to_string(proc.join("stat"))?;
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks: f64 = fields
        .split(' ')
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    let status = child.wait()?;
    if !status.success() {
        return Err(io::Error::other(status.to_string())); // a shell says so when there is no such program
    }
    Ok((ticks / TICKS, peak_bytes))
}

fn count_lines(mut output: impl Read) -> u64 {
    let mut buffer = vec![0; 1 << 20];
    let mut lines = 0;
    while let Ok(length @ 1..) = output.read(&mut buffer) {
        lines += memchr::memchr_iter(b'\n', &buffer[..length]).count() as u64;
    }
    lines
}

/// What a programmer writes first.
fn hash_set() -> io::Result<()> {
    #[derive(serde::Deserialize)]
    struct Click {
        id: String,
    }
    let mut input = BufReader::with_capacity(1 << 18, io::stdin().lock());
    let mut output = BufWriter::with_capacity(1 << 18, io::stdout().lock());
    let (mut seen, mut line) = (HashSet::new(), Vec::new());
    while input.read_until(b'\n', &mut line)? > 0 {
        let click: Click = serde_json::from_slice(&line)?;
        if seen.insert(click.id) {
            output.write_all(&line)?;
        }
        line.clear();
    }
    output.flush()
}

fn write_clicks(messages: u64, output: &mut impl Write) -> io::Result<()> {
    for click in Clicks::new(messages) {
        output.write_all(&click.line)?;
    }
    output.flush()
}

#[derive(Clone, Copy)]
struct Click {
    line: [u8; 100],
    is_first: bool,
}

/// A seeded stream of clicks.
struct Clicks {
    left: u64,
    random: u64,
    serial: u64,
    last: Vec<[u8; 100]>,
}

impl Clicks {
    fn new(messages: u64) -> Self {
        Self {
            left: messages,
            random: 42,
            serial: 0,
            last: Vec::with_capacity(SOON),
        }
    }

    /// `SplitMix64`.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
}

impl Iterator for Clicks {
    type Item = Click;

    fn next(&mut self) -> Option<Click> {
        self.left = self.left.checked_sub(1)?;
        let random = self.random();
        if random % 100 < DOUBLE_CLICKS_PERCENT && self.last.len() == SOON {
            let line =
                self.last[usize::try_from(random / 100 % SOON as u64).expect("below a hundred")];
            return Some(Click {
                line,
                is_first: false,
            });
        }
        let (high, low) = (random, self.random());
        let mut line = *br#"{"id":"00000000-0000-4000-8000-000000000000","user":"u00000000","page":"/offers/0000","t":10000000}."#;
        line[99] = b'\n';
        let groups = [
            (7, 8, high >> 32),
            (16, 4, high >> 16),
            (22, 3, high),
            (27, 3, low >> 48),
            (31, 12, low),
        ];
        for (at, digits, bits) in groups {
            write_digits(&mut line[at..at + digits], bits, 16);
        }
        write_digits(&mut line[54..62], high % 50_000_000, 10);
        write_digits(&mut line[80..84], low % 1_000, 10);
        // Random ids of 110 bits never meet.
        self.serial += 1;
        write_digits(&mut line[91..98], self.serial, 10);
        if self.last.len() == SOON {
            let place = usize::try_from(self.serial % SOON as u64).expect("below a hundred");
            self.last[place] = line;
        } else {
            self.last.push(line);
        }
        Some(Click {
            line,
            is_first: true,
        })
    }
}

fn write_digits(place: &mut [u8], mut number: u64, base: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b"0123456789abcdef"[usize::try_from(number % base).expect("a digit")];
        number /= base;
    }
}

fn whole(text: &str) -> u64 {
    let number: f64 = text.parse().expect("a number such as 1e7");
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count below 2^53"
    )]
    let number = number as u64;
    number
}

fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
