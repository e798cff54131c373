//! `namegate dedup` in real pipes, stopped and killed as pipelines are.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::command::Finished;
use crate::support::process::{self, Pid, Signal};
use crate::support::service;

/// More than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// Too small to fail a test by a false positive, whatever the secret.
const RARELY: [&str; 2] = ["--fpr", "1e-12"];

async fn dedup(args: &[&str], input: impl AsRef<[u8]>) -> Finished {
    let args = [&["dedup"], args, &RARELY].concat();
    service::run(&args, input.as_ref()).await
}

async fn passed(args: &[&str], input: impl AsRef<[u8]>) -> String {
    dedup(args, input).await.expect_success()
}

/// A running `namegate dedup` between two pipes. Its input ends with the test process, and so does it.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
}

impl Running {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(service::binary())
            .arg("dedup")
            .args(args)
            .args(RARELY)
            .env_remove("RUST_LOG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let (sender, lines) = channel();
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        thread::spawn(move || {
            let mut line = Vec::new();
            while stdout
                .read_until(b'\n', &mut line)
                .is_ok_and(|length| length > 0)
            {
                let text = String::from_utf8_lossy(&line).into_owned();
                if sender.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        });
        let mut stderr = child.stderr.take().expect("piped");
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text); // what was read counts
            text
        });
        Self {
            input: child.stdin.take(),
            child,
            lines,
            stderr: Some(stderr),
        }
    }

    fn write(&mut self, text: &str) {
        let input = self.input.as_mut().expect("not closed yet");
        input.write_all(text.as_bytes()).expect("it reads");
    }

    /// The next line that passes.
    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line passes")
    }

    fn lines(&self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.line()).collect()
    }

    fn signal(&self, signal: Signal) {
        process::signal(Pid::from_child(&self.child), signal);
    }

    /// Ends its input, if that is open, and waits for its end.
    fn finish(mut self) -> Finished {
        drop(self.input.take());
        self.wait()
    }

    /// Waits for its end while its input stays open.
    fn wait(mut self) -> Finished {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().expect("it is ours") {
                Some(status) => break status,
                None if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                None => panic!("it does not end"),
            }
        };
        let stderr = self.stderr.take().expect("waited for once");
        Finished {
            code: status.code(),
            stdout: self.lines.iter().collect(),
            stderr: stderr.join().expect("reading does not panic"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

fn ids(range: std::ops::Range<u32>) -> String {
    let lines: Vec<String> = range.map(|id| format!("{{\"id\":{id}}}\n")).collect();
    lines.concat()
}

/// Waits until the state says that this many lines are in it.
fn wait_until_saved(state: &Path, lines: u64) {
    let wanted = format!("\"lines\":{lines},");
    let deadline = Instant::now() + PATIENCE;
    while !fs::read_to_string(state.join("manifest")).is_ok_and(|text| text.contains(&wanted)) {
        assert!(Instant::now() < deadline, "{lines} lines are never saved");
        thread::sleep(Duration::from_millis(10));
    }
}

#[tokio::test]
async fn the_classical_example_comes_out_right() {
    let input = "{\"id\":123}\n{\"id\":456}\n{\"id\":123}\n{\"id\":789}\n";
    let output = passed(&["--key", "id", "--expect", "1000"], input).await;
    assert_eq!(output, "{\"id\":123}\n{\"id\":456}\n{\"id\":789}\n");
    let output = passed(&["--whole-line", "--expect", "1000"], "123\n456\n123\n789").await;
    assert_eq!(output, "123\n456\n789");
}

#[tokio::test]
async fn generated_clicks_with_double_clicks_pass_once_each_and_in_order() {
    let (mut input, mut wanted) = (String::new(), String::new());
    let mut waiting: Vec<(u64, String)> = Vec::new();
    for click in 0..100_000_u64 {
        let random = click.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ click >> 3;
        let line = format!(
            "{{\"at\":{click},\"user\":{{\"click\":{{\"id\":\"{random:016x}-{click}\"}}}},\"page\":\"/p/{}\"}}\n",
            random % 97
        );
        input += &line;
        wanted += &line;
        if random % 100 < 3 {
            waiting.push((click + random % 50, line));
        }
        waiting.retain(|(due, line)| {
            if *due <= click {
                input += line;
            }
            *due > click
        });
    }
    let args = [
        "--key",
        "user.click.id",
        "--expect",
        "100000",
        "--window",
        "24h",
    ];
    assert!(passed(&args, &input).await == wanted, "each once, in order");
}

#[test]
fn a_message_passes_while_the_input_pauses() {
    let mut running = Running::start(&["--key", "id", "--expect", "1000"]);
    for id in 0..20 {
        running.write(&format!("{{\"id\":{id}}}\n{{\"id\":{id}}}\n"));
        assert_eq!(running.line(), format!("{{\"id\":{id}}}\n"));
    }
    running.write("{\"id\":");
    running.write("99}");
    let ended = running.finish();
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "{\"id\":99}")
    );
    assert!(
        ended
            .stderr
            .contains("41 messages: 21 passed, 20 duplicates"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn lines_pass_byte_for_byte() {
    let input = b"{\"id\" :1, \"x\":\"\\u0061\"}\r\n { \"id\":2}\t\n{\"id\":1}\n{\"id\":\"a\"}\n{\"id\":\"\\u0061\"}\n\n{\"id\":3}";
    let directory = tempfile::tempdir().expect("a directory");
    let dropped = directory.path().join("dropped");
    let args = [
        "--key",
        "id",
        "--expect",
        "1000",
        "--dropped",
        dropped.to_str().expect("UTF-8"),
    ];
    let output = passed(&args, input).await;
    assert_eq!(
        output,
        "{\"id\" :1, \"x\":\"\\u0061\"}\r\n { \"id\":2}\t\n{\"id\":\"a\"}\n\n{\"id\":3}"
    );
    let dropped = fs::read_to_string(dropped).expect("a file");
    assert_eq!(dropped, "{\"id\":1}\n{\"id\":\"\\u0061\"}\n");

    let whole = ["--whole-line", "--expect", "1000"];
    let output = passed(&whole, b"a\0b\na\0\na\0b\r\nB\nb\n \n\n\nb").await;
    assert_eq!(output, "a\0b\na\0\nB\nb\n \n\n");
    assert_eq!(passed(&whole, b"").await, "");
    assert_eq!(passed(&whole, b"\n").await, "\n");
}

#[tokio::test]
async fn lines_without_an_id_are_passed_dropped_or_the_end() {
    let input =
        b"{\"id\":1}\nnot JSON\n{\"id\":1}\n\xff\n{\"id\":null}\n{\"id\":1,\"id\":2}\n{\"id\":2}\n";
    let args = |policy| {
        [
            "--key", "id", "--expect", "1000", "--json", "--on-bad", policy,
        ]
    };
    let run = async |policy| {
        service::run(&[&["dedup"], &args(policy)[..], &RARELY].concat(), input).await
    };
    let pass = run("pass").await;
    assert!(
        pass.stdout
            .starts_with("{\"id\":1}\nnot JSON\n\u{fffd}\n{\"id\":null}\n"),
        "{pass:?}"
    );
    let summary: Value = serde_json::from_str(&pass.stderr).expect("nothing but JSON");
    assert_eq!(
        (&summary["bad"], &summary["passed"], &summary["duplicates"]),
        (&4.into(), &6.into(), &1.into())
    );
    assert_eq!(summary["first_bad"]["line"], 2);
    assert_eq!(
        run("drop").await.expect_success(),
        "{\"id\":1}\n{\"id\":2}\n"
    );
    let stop = run("stop").await;
    assert_eq!((stop.code, stop.stdout.as_str()), (Some(1), "{\"id\":1}\n"));
    assert!(
        stop.stderr.contains("line 2 has no id: it is not JSON"),
        "{}",
        stop.stderr
    );
}

#[tokio::test]
async fn a_line_that_is_too_long_is_never_kept_in_memory() {
    let long = format!("{{\"id\":1,\"x\":\"{}\"}}", "y".repeat(3_000_000));
    let input = format!("{{\"id\":1}}\n{long}\n{{\"id\":2}}\n{long}\r\n{{\"id\":1}}\n{long}");
    let args = [
        "--key",
        "id",
        "--expect",
        "1000",
        "--max-line",
        "100",
        "--memory",
        "1MiB",
    ];
    let output = passed(&args, &input).await;
    let wanted = format!("{{\"id\":1}}\n{long}\n{{\"id\":2}}\n{long}\r\n{long}");
    assert!(
        output == wanted,
        "they pass as they are: nobody knows their ids"
    );
    let output = passed(&[&args[..], &["--on-bad", "drop"]].concat(), &input).await;
    assert_eq!(output, "{\"id\":1}\n{\"id\":2}\n");
    let stop = dedup(&[&args[..], &["--on-bad", "stop"]].concat(), &input).await;
    assert_eq!((stop.code, stop.stdout.as_str()), (Some(1), "{\"id\":1}\n"));
    // At the bound, to the byte.
    let fits = format!("{{\"id\":\"{}\"}}", "z".repeat(91));
    assert_eq!(fits.len(), 100);
    let output = passed(&args, format!("{fits}\r\n{fits}\n{fits}0\n{fits}0\n{fits}")).await;
    assert_eq!(output, format!("{fits}\r\n{fits}0\n{fits}0\n"));
}

#[tokio::test]
async fn what_cannot_be_is_refused_in_words_before_anything_is_read() {
    let key = ["--key", "id", "--expect", "864000000"];
    for (args, words) in [
        (
            &["--window", "24h", "--memory", "4GiB"][..],
            "864000000 names need",
        ),
        (
            &["--window", "24h", "--memory", "1KiB"],
            "does not fit into --memory 1024",
        ),
        (&["--key", "id.x"], "leads through"),
        (&["--key", "id"], "given twice"),
        (&["--key", "a..b"], "a name in it is empty"),
        (&["--whole-line"], "cannot be used with"),
        (&["--window", "0s"], "at least a millisecond"),
        (&["--window", "9999d"], "ten years"),
        (&["--slices", "3"], "--window"),
        (&["--time-key", "t"], "--window"),
        (&["--exact"], "--state"),
        (&["--max-line", "0"], "at least one byte"),
    ] {
        let refused =
            service::run(&[&["dedup"], &key[..], args].concat(), ids(0..1).as_bytes()).await;
        assert_eq!(
            (refused.code, refused.stdout.as_str()),
            (Some(2), ""),
            "{args:?}"
        );
        assert!(
            refused.stderr.contains(words),
            "{args:?}: {}",
            refused.stderr
        );
    }
    let missing = service::run(&["dedup", "--expect", "10"], b"").await;
    assert_eq!(missing.code, Some(2), "neither --key nor --whole-line");
}

#[test]
fn an_id_is_forgotten_when_its_window_is_over() {
    let mut running = Running::start(&["--key", "id", "--expect", "1000", "--window", "1s"]);
    running.write(&ids(1..2));
    running.line();
    running.write(&ids(1..3));
    assert_eq!(running.line(), "{\"id\":2}\n");
    thread::sleep(Duration::from_millis(2_100));
    running.write(&ids(1..2));
    assert_eq!(running.line(), "{\"id\":1}\n");
    assert_eq!(running.finish().code, Some(0));
}

#[tokio::test]
async fn a_window_by_the_messages_own_time_stands_late_and_absurd_times() {
    let args = [
        "--key",
        "id",
        "--expect",
        "1000",
        "--window",
        "1h",
        "--time-key",
        "at",
    ];
    let input = [
        r#"{"id":1,"at":"2020-01-01T00:00:00Z"}"#,
        r#"{"id":1,"at":"2020-01-01T01:00:00+00:00"}"#, // within the window
        r#"{"id":2,"at":"9999-01-01T00:00:00Z"}"#,      // from the future
        r#"{"id":3,"at":"2025-01-01T00:00:00Z"}"#,      // a leap that nobody follows
        r#"{"id":1,"at":1577840400}"#,                  // still within
        r#"{"id":3,"at":"2025-01-01T00:30:00Z"}"#,      // the leap's own window
        r#"{"id":2}"#,                                  // without a time
        r#"{"id":4,"at":"2019-12-31T12:00:00Z"}"#,      // late
        r#"{"id":4,"at":1577840400000}"#,
        r#"{"id":5,"at":"2020-01-01T02:00:00Z"}"#,
        r#"{"id":1,"at":"2020-01-01T02:00:00Z"}"#, // twice the window
    ];
    let run = dedup(&args, input.join("\n")).await;
    let passed: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(
        passed,
        [input[0], input[2], input[3], input[7], input[9], input[10]]
    );
    assert!(
        run.stderr
            .contains("1 messages without a time, 1 from the future"),
        "{}",
        run.stderr
    );
    // After a quiet year, time goes on.
    let year = |id: u32| {
        format!(
            "{{\"id\":{id},\"at\":\"2021-06-01T00:00:{:02}Z\"}}\n",
            id % 60
        )
    };
    let leap: String = (1..40).chain(1..40).map(year).collect();
    let output = passed_lines(&args, &format!("{}\n{leap}", input[0])).await;
    assert_eq!(
        output.len(),
        1 + 39,
        "all of the new year once, whatever was remembered of the old one"
    );
}

async fn passed_lines(args: &[&str], input: &str) -> Vec<String> {
    let output = passed(args, input).await;
    output.lines().map(str::to_owned).collect()
}

#[test]
fn a_killed_process_remembers_what_was_saved_and_nothing_it_had_not_passed() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().join("state");
    let path = state.to_str().expect("UTF-8");
    let args = [
        "--key",
        "id",
        "--expect",
        "1000",
        "--window",
        "24h",
        "--state",
        path,
        "--save-every",
    ];
    let often = [&args[..], &["50ms"]].concat();
    let mut next = 0;
    for round in 0..3_u64 {
        let mut running = Running::start(&often);
        running.write(&ids(0..next));
        running.write(&ids(next..next + 100));
        let passed = running.lines(100).concat();
        assert_eq!(
            passed,
            ids(next..next + 100),
            "round {round}: what was saved does not pass again"
        );
        next += 100;
        wait_until_saved(&state, u64::from(next));
        running.signal(Signal::KILL);
        assert_eq!(running.wait().code, None);
    }
    // What came after the last save passes again: nothing says that it ever arrived.
    let rarely = [&args[..], &["1h"]].concat();
    for _ in 0..2 {
        let mut running = Running::start(&rarely);
        running.write(&ids(0..next + 1));
        assert_eq!(running.line(), ids(next..next + 1));
        running.signal(Signal::KILL);
        running.wait();
    }
    let ended = Running::start(&rarely).finish();
    assert!(
        ended.stderr.contains("going on from 300 ids"),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stderr.contains("had read 300 lines"),
        "{}",
        ended.stderr
    );
}

#[test]
fn asked_to_stop_it_finishes_what_is_on_its_way_and_saves() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().join("state");
    let args = [
        "--key",
        "id",
        "--expect",
        "100000",
        "--state",
        state.to_str().expect("UTF-8"),
    ];
    let mut running = Running::start(&args);
    running.write(&ids(0..1));
    running.line();
    running.write(&ids(1..5_000));
    running.write("{\"id\":");
    running.signal(Signal::TERM);
    let input = running.input.take();
    let ended = running.wait();
    drop(input);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.stdout, ids(1..5_000));
    assert!(
        ended.stderr.contains("stopped inside a line: 6 bytes"),
        "{}",
        ended.stderr
    );
    let mut again = Running::start(&args);
    again.write(&ids(0..5_001));
    assert_eq!(again.finish().stdout, ids(5_000..5_001));
}

#[tokio::test]
async fn a_state_that_cannot_be_trusted_is_refused_in_words() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().join("state");
    let path = state.to_str().expect("UTF-8");
    let args = [
        "--key", "id", "--expect", "1000", "--window", "24h", "--state", path,
    ];
    assert_eq!(passed(&args, ids(0..100)).await, ids(0..100));
    assert_eq!(passed(&args, ids(0..101)).await, ids(100..101));

    let mut running = Running::start(&args);
    running.write(&ids(101..102));
    running.line();
    let refused = |finished: Finished, words: &str| {
        assert_eq!(
            (finished.code, finished.stdout.as_str()),
            (Some(3), ""),
            "{words}"
        );
        assert!(
            finished.stderr.contains(words),
            "{words}: {}",
            finished.stderr
        );
    };
    refused(
        dedup(&args, ids(0..1)).await,
        "is in use by another process",
    );
    assert_eq!(running.finish().code, Some(0));

    let other_key = [
        "--key", "user", "--expect", "1000", "--window", "24h", "--state", path,
    ];
    refused(
        dedup(&other_key, ids(0..1)).await,
        "remembers messages by `key /id; 1 slices of 86400000 ms`",
    );
    let other_window = [
        "--key", "id", "--expect", "1000", "--window", "12h", "--state", path,
    ];
    refused(
        dedup(&other_window, ids(0..1)).await,
        "1 slices of 43200000 ms",
    );
    // More ids expected is no reason to forget.
    let larger = [
        "--key", "id", "--expect", "100000", "--window", "24h", "--state", path,
    ];
    assert_eq!(passed(&larger, ids(0..103)).await, ids(102..103));

    let manifest = state.join("manifest");
    let sound = fs::read(&manifest).expect("a manifest");
    for length in [0, 1, sound.len() / 2, sound.len() - 1] {
        fs::write(&manifest, &sound[..length]).expect("written");
        refused(dedup(&args, ids(0..1)).await, "damaged");
    }
    for at in (0..sound.len()).step_by(7) {
        let mut changed = sound.clone();
        changed[at] ^= 1;
        fs::write(&manifest, &changed).expect("written");
        refused(dedup(&args, ids(0..1)).await, "manifest");
    }
    fs::write(&manifest, &sound).expect("written");
    let slice = fs::read_dir(&state).expect("a directory").flatten();
    let mut slices =
        slice.filter(|entry| entry.file_name().to_string_lossy().starts_with("slice-"));
    let snapshot = slices
        .next()
        .expect("a generation")
        .path()
        .join("filter.snapshot");
    let sound = fs::read(&snapshot).expect("a snapshot");
    for at in [0, 50, sound.len() / 2, sound.len() - 5] {
        let mut changed = sound.clone();
        changed[at] ^= 0x10;
        fs::write(&snapshot, &changed).expect("written");
        let finished = dedup(&args, ids(0..1)).await;
        assert_eq!(
            (finished.code, finished.stdout.as_str()),
            (Some(3), ""),
            "{at}"
        );
        assert!(
            finished.stderr.contains("move the state directory away"),
            "{}",
            finished.stderr
        );
    }
    fs::write(&snapshot, &sound[..sound.len() / 2]).expect("written");
    refused(dedup(&args, ids(0..1)).await, "cannot be used");
    fs::write(&snapshot, &sound).expect("written");
    assert_eq!(passed(&args, ids(0..103)).await, "", "sound again");
}

#[test]
fn when_nobody_reads_any_more_it_ends_quietly_and_saves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().join("state");
    let mut child = Command::new(service::binary())
        .args([
            "dedup", "--key", "id", "--expect", "1000", "--json", "--state",
        ])
        .arg(&state)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    let mut input = child.stdin.take().expect("piped");
    input.write_all(ids(0..100).as_bytes()).expect("it reads");
    let ended = child
        .wait_with_output()
        .expect("it ends although its input is open");
    drop(input);
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    assert!(
        !state.join("manifest").exists(),
        "no message was delivered, so none is remembered"
    );
}

#[tokio::test]
async fn with_exact_nothing_genuine_is_lost_even_by_a_filter_that_is_full() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().join("state");
    let path = state.to_str().expect("UTF-8");
    let args = [
        "dedup",
        "--key",
        "id",
        "--expect",
        "10",
        "--fpr",
        "0.5",
        "--exact",
        "--exact-last",
        "500",
        "--state",
        path,
    ];
    // The filter of one block takes every id for a duplicate after the first hundreds.
    let run = service::run(&args, ids(0..2_000).as_bytes()).await;
    assert!(run.stderr.contains("expected loss: none"), "{}", run.stderr);
    assert_eq!(run.expect_success(), ids(0..2_000));
    // The last ones are known exactly, over a restart too; older ones that were suspects are in the index.
    let again = service::run(&args, ids(1_000..2_000).as_bytes())
        .await
        .expect_success();
    assert_eq!(again, "");
    let double: String = (2_000..2_300)
        .flat_map(|id| [ids(id..id + 1), ids(id..id + 1)])
        .collect();
    let passed = service::run(&args, double.as_bytes())
        .await
        .expect_success();
    assert_eq!(passed, ids(2_000..2_300));
    // The very first ids were no suspects when they came, so nothing exact is known of them: they pass once more, not twice.
    let old = service::run(&args, ids(0..10).as_bytes())
        .await
        .expect_success();
    assert_eq!(old, ids(0..10));
    let old = service::run(&args, ids(0..10).as_bytes())
        .await
        .expect_success();
    assert_eq!(old, "");
}

#[tokio::test]
async fn more_ids_than_expected_are_warned_of_and_the_loss_is_told_as_it_is() {
    let args = ["dedup", "--key", "id", "--expect", "20000", "--fpr", "0.01"];
    let run = service::run(&args, ids(0..40_000).as_bytes()).await;
    assert!(
        run.stderr.contains("more ids than expected"),
        "{}",
        run.stderr
    );
    let json = [&args[..], &["--json"]].concat();
    let run = service::run(&json, ids(0..40_000).as_bytes()).await;
    let summary: Value = serde_json::from_str(&run.stderr).expect("nothing but JSON");
    let expected = summary["expected_lost"].as_f64().expect("a number");
    let lost = summary["duplicates"].as_f64().expect("a number"); // every id is genuine
    assert!(expected > 500.0);
    // Four and a half standard deviations, as the secret is another each time: one run in 100,000 fails by chance. The
    // rate ends at about a tenth, which widens them a little.
    assert!(
        (lost - expected).abs() < 4.5 * (1.15 * expected).sqrt(),
        "{lost} lost, {expected} expected"
    );
    let passed: HashSet<&str> = run.stdout.lines().collect();
    assert_eq!(
        passed.len(),
        run.stdout.lines().count(),
        "and still nothing passes twice"
    );
}
