//! The decision about each line: passed on, or dropped. No input, no output, no clock of its own.
//!
//! Lines are read first and judged a batch at a time: while the next lines are read, what the memory will be asked about
//! the earlier ones is on its way from main memory. Verdicts come in the order of the lines, and a line knows all before
//! it, those of its own batch too.

use crate::dedup::clock::{Reading, StreamClock, Window};
use crate::dedup::key::{Identity, Unreadable};
use crate::dedup::memory::{Admission, Memory};
use crate::dedup::recent::Recent;
use crate::dedup::suspects::Suspects;
use crate::dedup::timestamp;
use crate::filter::{Digest, FilterError};

/// Lines read ahead. With three filters that is 192 blocks of 64 bytes under way, which fit in the nearest cache.
const BATCH: usize = 64;
/// Messages that leapt in time, whose slices have no filter yet. Kept twice as many, at most.
const STRAYS: usize = 4096;

/// What to do with a line that has no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBad {
    /// Pass it on: nobody knows whether it came before.
    Pass,
    /// Drop it.
    Drop,
    /// Stop before it.
    Stop,
}

/// What became of the lines so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lines judged.
    pub lines: u64,
    /// Their bytes, ends included.
    pub bytes: u64,
    /// Lines passed on, those without an id included.
    pub passed: u64,
    /// Lines dropped because their id came before.
    pub duplicates: u64,
    /// Lines without an id.
    pub bad: u64,
    /// The first of them, counted from 1, and what was wrong with it.
    pub first_bad: Option<(u64, Unreadable)>,
    /// Suspects that could not be confirmed, and passed.
    pub unconfirmed: u64,
    /// Messages without a time that can be read; they were taken to be of the present.
    pub untimed: u64,
    /// Messages from the future; they were taken to be of the present.
    pub ahead: u64,
}

/// Lines by what becomes of them, byte for byte.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pub(super) passed: Vec<u8>,
    /// Collected only when somebody wants them.
    pub(super) dropped: Option<Vec<u8>>,
}

impl Sorted {
    pub(super) fn put(&mut self, line: &[u8], passes: bool) {
        if passes {
            self.passed.extend_from_slice(line);
        } else if let Some(dropped) = &mut self.dropped {
            dropped.extend_from_slice(line);
        }
    }

    pub(super) fn clear(&mut self) {
        self.passed.clear();
        if let Some(dropped) = &mut self.dropped {
            dropped.clear();
        }
    }
}

/// Why no more lines can be judged. Those before were, and are sorted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Halt {
    #[error("line {line} is malformed: {why}")]
    Bad { line: u64, why: Unreadable },
    #[error("could not begin a new filter")]
    Memory(#[from] FilterError),
    #[error("could not use the index of suspects")]
    Index(#[from] sqlx::Error),
}

/// Where the time comes from.
#[derive(Debug)]
pub(super) enum Clock {
    /// Ids are never forgotten.
    None,
    /// The clock on the wall.
    Arrival(Window),
    /// The messages.
    Messages(Window, StreamClock),
}

/// The next lines, read and not judged yet.
#[derive(Debug, Clone, Copy)]
struct Entry {
    from: usize,
    to: usize,
    verdict: Verdict,
}

#[derive(Debug, Clone, Copy)]
enum Verdict {
    Judge(Digest),
    Pass,
    Drop,
}

pub(super) struct Judge {
    pub(super) identity: Identity,
    pub(super) on_bad: OnBad,
    pub(super) longest_line: usize,
    pub(super) clock: Clock,
    pub(super) memory: Memory,
    pub(super) suspects: Option<Suspects>,
    pub(super) strays: Recent,
    pub(super) tally: Tally,
    batch: Vec<Entry>,
    id: Vec<u8>,
}

impl Judge {
    pub(super) fn new(
        identity: Identity,
        on_bad: OnBad,
        longest_line: usize,
        clock: Clock,
        memory: Memory,
        suspects: Option<Suspects>,
    ) -> Self {
        Self {
            identity,
            on_bad,
            longest_line,
            clock,
            memory,
            suspects,
            strays: Recent::new(STRAYS),
            tally: Tally::default(),
            batch: Vec::with_capacity(BATCH),
            id: Vec::new(),
        }
    }

    /// Sorts whole lines. `wall_ms`: what the clock on the wall shows.
    pub(super) fn sort(
        &mut self,
        lines: &[u8],
        wall_ms: u64,
        sorted: &mut Sorted,
    ) -> Result<(), Halt> {
        if let Clock::Arrival(window) = self.clock {
            self.advance(window, window.slice_of(wall_ms))?;
        }
        let mut from = 0;
        let ends = memchr::memchr_iter(b'\n', lines).map(|end| end + 1);
        let rest = (!lines.ends_with(b"\n") && !lines.is_empty()).then_some(lines.len());
        for to in ends.chain(rest) {
            let read = self.line(lines, from, to, wall_ms, sorted);
            if read.is_err() || self.batch.len() == BATCH {
                self.settle(lines, sorted)?;
            }
            read?;
            from = to;
        }
        self.settle(lines, sorted)
    }

    /// Whether a line that is too long to be kept passes; its bytes are for the caller to pass on or drop.
    pub(super) fn too_long(&mut self) -> Result<bool, Halt> {
        match self.bad(Unreadable::TooLong)? {
            Verdict::Pass => {
                self.tally.passed += 1;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn line(
        &mut self,
        lines: &[u8],
        from: usize,
        to: usize,
        wall_ms: u64,
        sorted: &mut Sorted,
    ) -> Result<(), Halt> {
        let line = without_end(&lines[from..to]);
        let read = if line.len() > self.longest_line {
            Err(Unreadable::TooLong)
        } else {
            self.identity.read(line, &mut self.id)
        };
        let verdict = match read {
            Err(why) => self.bad(why)?,
            Ok(time) => {
                let id = self.memory.digest(&self.id);
                self.tally.lines += 1;
                if self.identity.has_time() {
                    let ms = time.and_then(timestamp::milliseconds);
                    self.timed(id, ms, wall_ms, lines, sorted)?
                } else {
                    Verdict::Judge(id)
                }
            }
        };
        self.tally.bytes += (to - from) as u64;
        self.batch.push(Entry { from, to, verdict });
        Ok(())
    }

    fn bad(&mut self, why: Unreadable) -> Result<Verdict, Halt> {
        let line = self.tally.lines + 1;
        let verdict = match self.on_bad {
            OnBad::Pass => Verdict::Pass,
            OnBad::Drop => Verdict::Drop,
            OnBad::Stop => return Err(Halt::Bad { line, why }),
        };
        self.tally.lines = line;
        self.tally.bad += 1;
        self.tally.first_bad.get_or_insert((line, why));
        Ok(verdict)
    }

    /// Takes the stream's time from a message, and judges those that leap ahead of it at once.
    fn timed(
        &mut self,
        id: Digest,
        ms: Option<u64>,
        wall_ms: u64,
        lines: &[u8],
        sorted: &mut Sorted,
    ) -> Result<Verdict, Halt> {
        let Clock::Messages(window, clock) = &mut self.clock else {
            return Ok(Verdict::Judge(id));
        };
        let Some(ms) = ms else {
            self.tally.untimed += 1;
            return Ok(Verdict::Judge(id));
        };
        let window = *window;
        let is_first = clock.present().is_none();
        let reading = clock.read(ms, wall_ms);
        let present = clock.present();
        match reading {
            Reading::Ahead => self.tally.ahead += 1,
            Reading::Present => {
                let present = present.unwrap_or_default();
                if is_first {
                    self.memory.begin(present);
                } else if present > self.memory.slice() {
                    self.settle(lines, sorted)?;
                    self.advance(window, present)?;
                }
            }
            Reading::Leap(slice) => {
                self.settle(lines, sorted)?;
                return self.leap(id, slice, window);
            }
            Reading::Arrived(slice) => {
                self.settle(lines, sorted)?;
                self.arrive(window, slice)?;
            }
        }
        Ok(Verdict::Judge(id))
    }

    /// Judges a message by its own time: by what is remembered of the window before it, and by the other messages that
    /// leapt.
    fn leap(&mut self, id: Digest, slice: u64, window: Window) -> Result<Verdict, Halt> {
        let oldest = window.oldest(slice);
        let is_stray = self
            .strays
            .slice_of(id)
            .is_some_and(|passed| passed >= oldest);
        let mut is_known = is_stray;
        if !is_known && self.memory.may_hold(id, oldest) {
            is_known = match &mut self.suspects {
                Some(suspects) => suspects.confirm(id, slice, oldest)?,
                None => true,
            };
        }
        if is_known {
            self.tally.duplicates += 1;
            return Ok(Verdict::Drop);
        }
        self.strays.insert(id, slice);
        if let Some(suspects) = &mut self.suspects {
            suspects.passed(id, slice);
        }
        Ok(Verdict::Pass)
    }

    /// Time has leapt to `slice`: those that leapt before are remembered from the slices they said.
    fn arrive(&mut self, window: Window, slice: u64) -> Result<(), Halt> {
        let in_window = window.oldest(slice)..=slice;
        let strays = self.strays.iter();
        let mut strays: Vec<_> = strays
            .filter(|(_, passed)| in_window.contains(passed))
            .collect();
        strays.sort_unstable_by_key(|&(_, passed)| passed);
        for (id, passed) in strays {
            self.advance(window, passed)?;
            self.memory.admit_suspect(id);
        }
        self.strays.clear();
        self.advance(window, slice)
    }

    fn advance(&mut self, window: Window, slice: u64) -> Result<(), Halt> {
        if self.memory.advance(slice)?
            && let Some(suspects) = &mut self.suspects
        {
            suspects.forget_before(window.oldest(slice))?;
        }
        Ok(())
    }

    /// Judges the lines read so far.
    fn settle(&mut self, lines: &[u8], sorted: &mut Sorted) -> Result<(), Halt> {
        for index in 0..self.batch.len() {
            let Entry { from, to, verdict } = self.batch[index];
            let passes = match verdict {
                Verdict::Judge(id) => self.is_new(id)?,
                Verdict::Pass => true,
                Verdict::Drop => false,
            };
            self.tally.passed += u64::from(passes);
            sorted.put(&lines[from..to], passes);
        }
        self.batch.clear();
        Ok(())
    }

    fn is_new(&mut self, id: Digest) -> Result<bool, Halt> {
        let is_new = match self.memory.admit(id) {
            Admission::New => true,
            Admission::Suspect => self.is_cleared(id)?,
        };
        if is_new {
            if let Some(suspects) = &mut self.suspects {
                suspects.passed(id, self.memory.slice());
            }
        } else {
            self.tally.duplicates += 1;
        }
        Ok(is_new)
    }

    /// Whether a suspect passes after all.
    fn is_cleared(&mut self, id: Digest) -> Result<bool, Halt> {
        let Some(suspects) = &mut self.suspects else {
            return Ok(false);
        };
        let slice = self.memory.slice();
        let oldest = self
            .memory
            .plan()
            .window
            .map_or(0, |window| window.oldest(slice));
        if suspects.confirm(id, slice, oldest)? {
            return Ok(false);
        }
        self.memory.admit_suspect(id);
        self.tally.unconfirmed += 1;
        Ok(true)
    }
}

/// A line without LF or CRLF.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
