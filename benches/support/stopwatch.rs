//! Time that counts: what this thread spent, not what it waited while others had its core.

use rustix::time::{ClockId, clock_gettime};

/// A moment of this thread's life. Reading it takes a system call, so what is timed should take
/// some microseconds.
pub(crate) struct Stopwatch(u64);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(thread_ns())
    }

    /// Nanoseconds of processor time since the start.
    pub(crate) fn ns(&self) -> u64 {
        thread_ns() - self.0
    }
}

fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("time goes forward")
}
