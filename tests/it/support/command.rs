//! One command, run to its end: what it printed and how it ended. Never longer than its deadline.

use std::io::{self, Read, Write};
use std::panic;
use std::process::Stdio;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::lifeline::Leash;

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finished {
    /// Exit code; `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// Standard output of a command that must succeed.
    /// # Panics
    /// When it did not, with what it printed.
    #[track_caller]
    pub(crate) fn expect_success(self) -> String {
        assert_eq!(
            self.code,
            Some(0),
            "the command failed\n-- stdout\n{}\n-- stderr\n{}",
            self.stdout,
            self.stderr
        );
        self.stdout
    }
}

/// Runs the command to its end, without holding up other tasks.
/// # Panics
/// When it cannot be started or has not ended after `patience`; it is killed then.
pub(crate) async fn finish(leash: Leash, patience: Duration) -> Finished {
    off_the_runtime(move || finish_blocking(leash, patience)).await
}

/// Runs `work`, which holds up its thread, where it holds up no task; its panic is the caller's.
pub(crate) async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => panic::resume_unwind(error.into_panic()), // it is never cancelled
    }
}

/// As [`finish`], holding up the thread.
pub(crate) fn finish_blocking(mut leash: Leash, patience: Duration) -> Finished {
    leash
        .command()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let what = leash.shown();
    let mut running = leash
        .start()
        .unwrap_or_else(|error| panic!("could not start {what}: {error}"));
    let (stdout, stderr) = running.outputs();
    let (stdout, stderr) = (stdout.map(drain), stderr.map(drain));
    let ended = running.block_until_end(patience);
    drop(running);
    let text = |reader: Option<JoinHandle<Vec<u8>>>| {
        let bytes = reader
            .map(|reader| reader.join().expect("reading does not panic"))
            .unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (stdout, stderr) = (text(stdout), text(stderr));
    match ended {
        Some(status) => Finished {
            code: status.code(),
            stdout,
            stderr,
        },
        None => panic!(
            "{what} has not ended after {patience:?}\n-- stdout\n{stdout}\n-- stderr\n{stderr}"
        ),
    }
}

/// A file that holds `input`, to be a command's standard input.
pub(crate) fn input_file(input: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(input)?;
    Ok(file)
}

/// Reads `stream` to its end on a thread of its own; a program must not block on a full pipe.
fn drain(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is worth more to a failing test than the error.
        let _ = stream.read_to_end(&mut bytes);
        bytes
    })
}
