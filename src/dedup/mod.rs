//! Drops repeated messages from a stream of lines, by their id, in a fixed amount of memory.
//!
//! The promises:
//!
//! - A message whose id passed within the window is dropped. A window of slices is remembered as a whole, and forgotten by
//!   twice its length.
//! - What passes is passed byte for byte, in order, as it comes.
//! - The price is known: a genuine message is taken for a duplicate with a probability that is planned, counted on, and
//!   told. With the index of suspects it is zero, and some duplicates pass once more instead.
//! - A crash loses no message: what is remembered on disk was written before.
//!
//! ```text
//!   input ──▶ stream ──▶ judge ──▶ key        which message is it?
//!               │          ├─────▶ clock      which slice of the window is it now?
//!               │          ├─────▶ memory     did its id pass before?    (filters)
//!               │          └─────▶ suspects   for certain?               (--exact: SQLite)
//!   output ◀────┤
//!   disk   ◀────┴─ saver ──▶ state            what a restart goes on from
//! ```
//!
//! Pure: `key`, `timestamp`, `clock`, `memory`, `recent`, and `judge` but for the index it may ask. The others do the reading and
//! writing.

mod clock;
mod judge;
mod key;
mod memory;
mod recent;
mod saver;
mod state;
mod stream;
mod suspects;
mod timestamp;

#[cfg(test)]
mod tests;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::filter::{FilterError, HashSecret, SecretError, SizingError};
use clock::StreamClock;
use judge::{Clock, Judge};
use recent::Recent;
use saver::Saver;
use state::{Restored, StateDirectory};
use stream::{CHUNK_BYTES, Dropped, Saving, Stream};
use suspects::{Index, Suspects};

pub use clock::Window;
pub use judge::{OnBad, Tally};
pub use key::{Identity, IdentityError, KeyPath, KeyPathError, MOST_KEYS, Unreadable};
pub use memory::{Admission, Generation, Memory, Plan};
pub use state::StateError;
pub use stream::{Ended, Ends};

/// What a stream is deduplicated by, and within which bounds.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What makes messages the same.
    pub identity: Identity,
    /// Ids expected in a window, or at all.
    pub expected: u64,
    /// The share of genuine messages that may be lost.
    pub fpr: f64,
    /// How long ids are remembered; `None`: for ever.
    pub window: Option<Window>,
    /// Bytes of everything that grows with the settings.
    pub ceiling_bytes: u64,
    /// What to do with a line that has no id.
    pub on_bad: OnBad,
    /// A line that is longer has no id. Bytes, without its end.
    pub longest_line: usize,
    /// Where dropped lines are added.
    pub dropped: Option<PathBuf>,
    /// Where the memory is saved.
    pub state: Option<PathBuf>,
    /// How often.
    pub save_every: Duration,
    /// Confirm suspects, and remember so many of the last ids exactly. Needs a state directory.
    pub exact: Option<usize>,
}

impl Settings {
    /// Bytes of everything but the filters.
    #[must_use]
    pub fn other_bytes(&self) -> u64 {
        const SNAPSHOT_CHUNK_BYTES: u64 = 1 << 20;
        let chunks = CHUNK_BYTES as u64 * if self.dropped.is_some() { 4 } else { 3 };
        let exact = self.exact.map_or(0, |last| {
            // The ids, and a copy on its way to the disk.
            Recent::most_bytes(last).saturating_add(last as u64 * 48)
        });
        (self.longest_line as u64 * 3)
            .saturating_add(chunks)
            .saturating_add(if self.state.is_some() {
                SNAPSHOT_CHUNK_BYTES
            } else {
                0
            })
            .saturating_add(exact)
    }

    /// The filters.
    ///
    /// # Errors
    /// [`SizingError`] for a rate that cannot be, or when it all needs more memory than allowed.
    pub fn plan(&self) -> Result<Plan, SizingError> {
        let left = self.ceiling_bytes.saturating_sub(self.other_bytes());
        Plan::new(self.expected, self.fpr, self.window, left)
    }

    /// By what messages are remembered, and for how long: two runs with the same contract may share a memory.
    fn contract(&self) -> String {
        let exact = if self.exact.is_some() { ", exact" } else { "" };
        let window = self.window.map_or_else(
            || "for ever".to_owned(),
            |window| format!("{} slices of {} ms", window.slices(), window.slice_ms()),
        );
        format!("{}; {window}{exact}", self.identity)
    }
}

/// Why a stream cannot be deduplicated, or not further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DedupError {
    /// No such plan.
    #[error(transparent)]
    Plan(#[from] SizingError),
    /// No key for the hash function.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// No memory.
    #[error("could not get the memory")]
    Filter(#[from] FilterError),
    /// The state directory.
    #[error("could not use the state")]
    State(#[from] StateError),
    /// The index of suspects.
    #[error("could not use the index of suspects")]
    Index(#[source] sqlx::Error),
    /// The input.
    #[error("could not read the input")]
    Read(#[source] io::Error),
    /// The output.
    #[error("could not write the output")]
    Write(#[source] io::Error),
    /// The file of dropped lines.
    #[error("could not write dropped lines to {}", path.display())]
    Dropped {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line has no id, and that is where to stop.
    #[error("line {line} has no id: {why}")]
    Bad {
        /// Counted from 1.
        line: u64,
        /// What is wrong with it.
        why: Unreadable,
    },
}

/// What an earlier run left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumed {
    /// Ids in the memory.
    pub ids: u64,
    /// How long ago it was saved.
    pub age: Duration,
    /// Lines of its input that were judged by then.
    pub lines: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// How far a stream has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// What became of the lines.
    pub tally: Tally,
    /// For how long.
    pub elapsed: Duration,
    /// Ids in the newest filter, as a share of those it is planned for.
    pub fill: f64,
    /// Ids in all filters.
    pub ids: u64,
    /// The probability, now, that a genuine message is lost.
    pub loss_rate: f64,
    /// How many were lost so far, by expectation.
    pub expected_lost: f64,
}

impl Progress {
    fn of(judge: &Judge, elapsed: Duration) -> Self {
        let memory = &judge.memory;
        let is_exact = judge.suspects.is_some();
        #[allow(clippy::cast_precision_loss, reason = "a share for people")]
        let fill = memory.generations().next_back().map_or(0.0, |newest| {
            newest.ids as f64 / newest.filter.sizing().capacity.max(1) as f64
        });
        Self {
            tally: judge.tally,
            elapsed,
            fill,
            ids: memory.generations().map(|generation| generation.ids).sum(),
            loss_rate: if is_exact { 0.0 } else { memory.loss_rate() },
            expected_lost: if is_exact {
                0.0
            } else {
                memory.expected_lost()
            },
        }
    }
}

/// A memory that is ready for a stream.
pub struct Dedup {
    judge: Judge,
    saving: Option<Saving>,
    dropped: Option<Dropped>,
    resumed: Option<Resumed>,
}

impl Dedup {
    /// Gets memory and files ready. `wake`: gets a byte when a save wants attention, see [`Ends::wake`]. `runtime`: does
    /// what the index of suspects needs; this and [`run`](Self::run) must not be called where futures run.
    ///
    /// # Errors
    /// [`DedupError`]; nothing was read then.
    pub fn open(
        settings: &Settings,
        wake: UnixStream,
        runtime: Handle,
    ) -> Result<Self, DedupError> {
        let plan = settings.plan()?;
        let contract = settings.contract();
        let dropped = settings.dropped.as_deref().map(|path| {
            Dropped::open(path).map_err(|source| DedupError::Dropped {
                path: path.to_owned(),
                source,
            })
        });
        let dropped = dropped.transpose()?;
        let directory = settings
            .state
            .as_deref()
            .map(StateDirectory::open)
            .transpose()?;
        let filters_bytes = settings
            .ceiling_bytes
            .saturating_sub(settings.other_bytes());
        let restored = match &directory {
            Some(directory) => directory.restore(&contract, plan, filters_bytes)?,
            None => None,
        };
        let (mut memory, manifest, last) = match restored {
            Some(Restored {
                memory,
                manifest,
                last,
            }) => (memory, Some(manifest), last),
            None => (Memory::new(plan, HashSecret::random()?)?, None, Vec::new()),
        };
        let now_ms = stream::wall_ms();
        let clock = match settings.window {
            None => Clock::None,
            Some(window) if settings.identity.has_time() => {
                let present = (memory.slice() > 0).then(|| memory.slice());
                Clock::Messages(window, StreamClock::new(window, present))
            }
            Some(window) => {
                if manifest.is_none() {
                    memory.begin(window.slice_of(now_ms));
                }
                Clock::Arrival(window)
            }
        };
        let resumed = manifest.as_ref().map(|manifest| Resumed {
            ids: memory.generations().map(|generation| generation.ids).sum(),
            age: Duration::from_millis(now_ms.saturating_sub(manifest.saved_at_ms)),
            lines: manifest.lines,
            bytes: manifest.bytes,
        });
        let suspects = match (settings.exact, &directory) {
            (Some(most), Some(directory)) => {
                let index = Index::open(&directory.index(), manifest.is_none(), runtime);
                let mut recent = Recent::new(most);
                for &(digest, slice) in &last {
                    recent.insert(digest, slice);
                }
                Some(Suspects::new(recent, index.map_err(DedupError::Index)?))
            }
            _ => None,
        };
        let mut judge = Judge::new(
            settings.identity.clone(),
            settings.on_bad,
            settings.longest_line,
            clock,
            memory,
            suspects,
        );
        for &(digest, slice) in last
            .iter()
            .filter(|&&(_, slice)| slice > judge.memory.slice())
        {
            judge.strays.insert(digest, slice);
        }
        let saving = directory.map(|directory| Saving {
            saver: Saver::start(directory, manifest.as_ref(), wake),
            contract,
            every: settings.save_every,
            due: Instant::now() + settings.save_every,
        });
        Ok(Self {
            judge,
            saving,
            dropped,
            resumed,
        })
    }

    /// What an earlier run left.
    #[must_use]
    pub const fn resumed(&self) -> Option<&Resumed> {
        self.resumed.as_ref()
    }

    /// The memory.
    #[must_use]
    pub const fn memory(&self) -> &Memory {
        &self.judge.memory
    }

    /// Runs to the end of the stream, saves, and tells how it went. `told` gets the progress now and then.
    ///
    /// # Errors
    /// [`DedupError`]; everything that was judged before is written then, unless writing is what failed.
    pub fn run(
        self,
        ends: Ends<'_>,
        told: &mut dyn FnMut(&Progress),
    ) -> Result<(Ended, Progress), DedupError> {
        let began = Instant::now();
        let mut stream = Stream::new(self.judge, self.saving, self.dropped, ends);
        let ended = stream.run(told)?;
        let progress = Progress::of(&stream.judge, began.elapsed());
        if let Some(suspects) = stream.judge.suspects.take() {
            suspects.close().map_err(DedupError::Index)?;
        }
        Ok((ended, progress))
    }
}
