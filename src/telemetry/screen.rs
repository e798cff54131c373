//! The terminal, which lines and progress bars share: while a bar is drawn, a line that is printed goes above it.
//!
//! A global, as the terminal is one for the process: whoever prints a line cannot know who draws a bar just now.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::LazyLock;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget};

static BARS: LazyLock<MultiProgress> =
    LazyLock::new(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));

/// Prints a line to standard output, above any bar.
pub fn print_line(line: impl Display) {
    BARS.suspend(|| println!("{line}"));
}

/// A bar on standard error, beneath everything that is printed; hidden when that is not a terminal.
#[must_use]
pub fn bar(total: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
    BARS.add(bar)
}

/// Standard error, for whole lines that go above any bar.
pub(super) struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        BARS.suspend(|| io::stderr().write(line))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
