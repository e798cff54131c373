//! From standard input to standard output: chunks in, verdicts, lines out.
//!
//! Whatever was read is judged and written before more is read, so nothing waits for input that does not come, a slow
//! reader slows the writer down, and memory is bounded by the longest line. While there is nothing to read the loop sleeps
//! until there is, or until a save or the end of the process wants attention.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::dedup::judge::{Halt, Judge, Sorted};
use crate::dedup::saver::Saver;
use crate::dedup::state::{StateError, encode_digests};
use crate::dedup::suspects::Suspects;
use crate::dedup::{DedupError, Progress};

/// Bytes asked for at a time. A pipe has 64 KiB unless it was made larger.
pub(super) const CHUNK_BYTES: usize = 256 << 10;
/// When asked to stop: a pause this long means that nothing more is on its way.
const PAUSE: Duration = Duration::from_millis(100);
/// When asked to stop: how long to go on reading from an input that does not pause.
const DRAIN_WITHIN: Duration = Duration::from_secs(5);
/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The input did.
    Input,
    /// Whoever read the output is gone.
    Closed,
    /// The process was asked to; so many bytes of an unfinished line were read and are lost.
    Asked {
        /// Bytes of the unfinished line.
        unfinished: u64,
    },
}

/// Where lines come from and go to, and what can end that.
#[derive(Debug)]
pub struct Ends<'a> {
    /// Lines come from here.
    pub input: File,
    /// Lines go here.
    pub output: File,
    /// Set, then [`wake`](Self::wake) written to: stop.
    pub stop: &'a AtomicBool,
    /// Readable when there is something to look after.
    pub wake: UnixStream,
}

/// A state directory's saver, and what it needs to know.
pub(super) struct Saving {
    pub(super) saver: Saver,
    pub(super) contract: String,
    pub(super) every: Duration,
    /// When the next save is due.
    pub(super) due: Instant,
}

/// A file that dropped lines go to.
#[derive(Debug)]
pub(super) struct Dropped {
    pub(super) path: PathBuf,
    pub(super) file: File,
}

impl Dropped {
    /// Opens `path` to add to it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
        })
    }
}

/// A line that is longer than may be kept: the rest of it goes where its beginning went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Long {
    Passes,
    IsDropped,
}

pub(super) struct Stream<'a> {
    pub(super) judge: Judge,
    pub(super) saving: Option<Saving>,
    dropped: Option<Dropped>,
    ends: Ends<'a>,
    sorted: Sorted,
    /// What was read of lines that have no end yet, from the start on.
    buffer: Vec<u8>,
    filled: usize,
    long: Option<Long>,
    began: Instant,
    began_ms: u64,
    told: Instant,
    is_dirty: bool,
}

impl<'a> Stream<'a> {
    pub(super) fn new(
        judge: Judge,
        saving: Option<Saving>,
        dropped: Option<Dropped>,
        ends: Ends<'a>,
    ) -> Self {
        let now = Instant::now();
        Self {
            buffer: vec![0; judge.longest_line + CHUNK_BYTES],
            judge,
            saving,
            sorted: Sorted {
                passed: Vec::new(),
                dropped: dropped.is_some().then(Vec::new),
            },
            dropped,
            ends,
            filled: 0,
            long: None,
            began: now,
            began_ms: wall_ms(),
            told: now,
            is_dirty: false,
        }
    }

    /// Runs to the end of the stream, and saves. `told` gets the progress now and then.
    pub(super) fn run(&mut self, told: &mut dyn FnMut(&Progress)) -> Result<Ended, DedupError> {
        let is_file = self
            .ends
            .input
            .metadata()
            .is_ok_and(|metadata| metadata.is_file());
        let mut asked = None;
        let ended = loop {
            if asked.is_none() && self.ends.stop.load(Ordering::Acquire) {
                asked = Some(Instant::now()); // pairs with the release of whoever asks
            }
            if let Some(asked) = asked
                && (is_file || asked.elapsed() > DRAIN_WITHIN)
            {
                break self.unfinished();
            }
            let readiness = self.wait(asked.map(|_| PAUSE))?;
            if readiness == Readiness::Readable {
                match self.step() {
                    Ok(true) => {}
                    Ok(false) => break Ended::Input,
                    Err(DedupError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => {
                        return Ok(Ended::Closed);
                    }
                    // What came before the line is written, and is worth saving.
                    Err(error @ DedupError::Bad { .. }) => {
                        self.save_at_end()?;
                        return Err(error);
                    }
                    Err(error) => return Err(error),
                }
            } else if asked.is_some() && readiness == Readiness::TimedOut {
                break self.unfinished();
            }
            self.look_after_saving();
            if self.told.elapsed() >= TELL_EVERY {
                self.told = Instant::now();
                told(&Progress::of(&self.judge, self.began.elapsed()));
            }
        };
        self.save_at_end()?;
        Ok(ended)
    }

    fn unfinished(&self) -> Ended {
        Ended::Asked {
            unfinished: self.filled as u64,
        }
    }

    /// Reads once, judges every whole line, and writes. Returns whether there may be more.
    fn step(&mut self) -> Result<bool, DedupError> {
        let room = &mut self.buffer[self.filled..];
        let most = room.len().min(CHUNK_BYTES);
        let length = match self.ends.input.read(&mut room[..most]) {
            Ok(length) => length,
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) =>
            {
                return Ok(true);
            }
            Err(error) => return Err(DedupError::Read(error)),
        };
        self.is_dirty = true;
        let judged = if length == 0 {
            self.judge_rest()
        } else {
            self.judge_read(length)
        };
        // Even if the judge halted: what came before was judged, and is remembered.
        self.write()?;
        judged.map(|()| length > 0).map_err(DedupError::from)
    }

    fn judge_read(&mut self, length: usize) -> Result<(), Halt> {
        let old = self.filled;
        self.filled += length;
        if let Some(long) = self.long {
            return self.go_on(long);
        }
        let Some(last) = memchr::memrchr(b'\n', &self.buffer[old..self.filled]) else {
            return self.keep_or_give_up();
        };
        let whole = old + last + 1;
        let wall_ms = self.wall_ms();
        self.judge
            .sort(&self.buffer[..whole], wall_ms, &mut self.sorted)?;
        self.buffer.copy_within(whole..self.filled, 0);
        self.filled -= whole;
        self.keep_or_give_up()
    }

    /// The last line has no end.
    fn judge_rest(&mut self) -> Result<(), Halt> {
        let rest = std::mem::take(&mut self.filled);
        let wall_ms = self.wall_ms();
        self.judge
            .sort(&self.buffer[..rest], wall_ms, &mut self.sorted)
    }

    /// Keeps the beginning of a line, unless it is too long already. (Its end may be CRLF.)
    fn keep_or_give_up(&mut self) -> Result<(), Halt> {
        if self.filled <= self.judge.longest_line + 1 {
            return Ok(());
        }
        let long = if self.judge.too_long()? {
            Long::Passes
        } else {
            Long::IsDropped
        };
        self.long = Some(long);
        self.go_on(long)
    }

    /// Moves on what was read of a line that is too long.
    fn go_on(&mut self, long: Long) -> Result<(), Halt> {
        let end = memchr::memchr(b'\n', &self.buffer[..self.filled]).map(|end| end + 1);
        let part = end.unwrap_or(self.filled);
        self.sorted.put(&self.buffer[..part], long == Long::Passes);
        self.judge.tally.bytes += part as u64;
        self.buffer.copy_within(part..self.filled, 0);
        self.filled -= part;
        if end.is_none() {
            return Ok(());
        }
        self.long = None;
        let rest = std::mem::take(&mut self.filled);
        self.judge_read(rest)
    }

    fn write(&mut self) -> Result<(), DedupError> {
        write_all(&mut self.ends.output, &self.sorted.passed).map_err(DedupError::Write)?;
        if let (Some(dropped), Some(lines)) = (&mut self.dropped, &self.sorted.dropped) {
            write_all(&mut dropped.file, lines).map_err(|source| DedupError::Dropped {
                path: dropped.path.clone(),
                source,
            })?;
        }
        self.sorted.clear();
        if let Some(suspects) = &mut self.judge.suspects {
            suspects.commit().map_err(DedupError::Index)?;
        }
        Ok(())
    }

    /// Sleeps until there is something to read or to look after.
    fn wait(&self, most: Option<Duration>) -> Result<Readiness, DedupError> {
        let until_save = self.saving.as_ref().and_then(|saving| {
            let is_due = self.is_dirty && saving.saver.is_idle();
            is_due.then(|| saving.due.saturating_duration_since(Instant::now()))
        });
        // Asked to stop, only a pause counts.
        let timeout = most.or(until_save);
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut ready = [
            PollFd::from_borrowed_fd(self.ends.input.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.ends.wake.as_fd(), PollFlags::IN),
        ];
        match poll(&mut ready, timeout.as_ref()) {
            Ok(0) => return Ok(Readiness::TimedOut),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Readiness::Woken),
            Err(error) => return Err(DedupError::Read(error.into())),
        }
        if !ready[1].revents().is_empty() {
            let mut bytes = [0; 64];
            let _ = (&self.ends.wake).read(&mut bytes); // what woke us is looked at anyway
        }
        // An end or an error is for the read to find.
        if ready[0].revents().is_empty() {
            Ok(Readiness::Woken)
        } else {
            Ok(Readiness::Readable)
        }
    }

    /// Goes on with a save, or begins one that is due. Everything was written before.
    fn look_after_saving(&mut self) {
        let Some(saving) = &mut self.saving else {
            return;
        };
        if let Some(Err(error)) = saving.saver.tend() {
            // Not fatal: the last one that succeeded is there, and the next one is tried in time.
            let error = anyhow::Error::new(error);
            tracing::warn!("the state could not be saved, going on without: {error:#}");
        }
        if self.is_dirty && saving.saver.is_idle() && Instant::now() >= saving.due {
            self.begin_save();
        }
    }

    fn begin_save(&mut self) {
        let saved_at_ms = self.wall_ms();
        let Some(saving) = &mut self.saving else {
            return;
        };
        let judge = &self.judge;
        saving
            .saver
            .begin(&saving.contract, &judge.memory, |manifest| {
                manifest.lines = judge.tally.lines;
                manifest.bytes = judge.tally.bytes;
                manifest.saved_at_ms = saved_at_ms;
                let last = judge.suspects.as_ref().map(Suspects::last);
                let is_needed = last.is_some() || judge.identity.has_time();
                is_needed.then(|| encode_digests([Some(&judge.strays), last]))
            });
        saving.due = Instant::now() + saving.every;
        self.is_dirty = false;
    }

    fn save_at_end(&mut self) -> Result<(), DedupError> {
        if let Some(saving) = &mut self.saving {
            let earlier: Result<(), StateError> = saving.saver.settle();
            drop(earlier); // the last one counts
            self.begin_save();
        }
        if let Some(saving) = &mut self.saving {
            saving.saver.settle()?;
        }
        Ok(())
    }

    /// What the clock on the wall showed at the start, and the time that has passed since: set clocks do no harm.
    fn wall_ms(&self) -> u64 {
        let passed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.began_ms.saturating_add(passed)
    }
}

impl From<Halt> for DedupError {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Bad { line, why } => Self::Bad { line, why },
            Halt::Memory(error) => Self::Filter(error),
            Halt::Index(error) => Self::Index(error),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readiness {
    Readable,
    Woken,
    TimedOut,
}

/// As the standard library's, but waits for a descriptor that somebody else made non-blocking.
fn write_all(file: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(length) => bytes = &bytes[length..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut ready = [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::OUT)];
                match poll(&mut ready, None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(super) fn wall_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
