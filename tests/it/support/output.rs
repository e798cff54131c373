//! What a running program prints, readable while it runs.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::lifeline::Leashed;

/// Both output streams of one program, line by line in the order in which they were read.
#[derive(Debug)]
pub(crate) struct Output {
    text: Arc<Mutex<String>>,
    /// One per stream; each ends with its stream.
    readers: Mutex<Vec<JoinHandle<()>>>,
}

impl Output {
    /// Reads the streams that the program was started with pipes for.
    pub(crate) fn of(program: &mut Leashed) -> Self {
        let text = Arc::<Mutex<String>>::default();
        let (stdout, stderr) = program.outputs();
        let stdout = stdout.map(|stream| read_lines(stream, &text));
        let stderr = stderr.map(|stream| read_lines(stream, &text));
        Self {
            readers: Mutex::new(stdout.into_iter().chain(stderr).collect()),
            text,
        }
    }

    /// So far: whole lines only, but for a last one without an end.
    pub(crate) fn text(&self) -> String {
        lock(&self.text).clone()
    }

    /// To the end of both streams, which is where the program ends.
    pub(crate) fn whole(&self) -> String {
        for reader in lock(&self.readers).drain(..) {
            reader.join().expect("reading lines does not panic");
        }
        self.text()
    }
}

/// On a thread of its own, so that the program never waits for the test to read.
fn read_lines(stream: impl Read + Send + 'static, text: &Arc<Mutex<String>>) -> JoinHandle<()> {
    let text = Arc::clone(text);
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream
            .read_until(b'\n', &mut line)
            .is_ok_and(|length| length > 0)
        {
            lock(&text).push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    })
}

/// What is guarded here is whole at any time, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
