//! `namegate dedup`: which message is which, for how long, at what price.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};

use crate::config::values::{bytes, duration, parse, rate};
use crate::dedup::{KeyPath, OnBad};

/// `namegate dedup`.
#[derive(Debug, Clone, Args)]
#[command(group = ArgGroup::new("identity").required(true).multiple(true).args(["key", "whole_line"]))]
pub struct DedupArgs {
    /// Where a message's id is: user.click.id, or a JSON Pointer such as /user/click/id. Repeat it for ids of several parts.
    #[arg(long, value_name = "PATH", value_parser = parse::<KeyPath>)]
    pub key: Vec<KeyPath>,

    /// Messages are the same when their whole lines are; they need not be JSON.
    #[arg(long, conflicts_with_all = ["key", "time_key"])]
    pub whole_line: bool,

    /// How many different ids to expect: in a window, or with no --window at all.
    #[arg(long, value_name = "IDS", allow_negative_numbers = true)]
    pub expect: u64,

    /// The share of genuine messages that may be lost once so many came: a probability between 0 and 1, not a percentage.
    #[arg(long, value_name = "RATE", default_value = "0.0001", value_parser = rate, allow_negative_numbers = true)]
    pub fpr: f64,

    /// How long an id is remembered at least, such as 10m, 24h or 7d. It is forgotten before twice as long. Without it:
    /// never forgotten.
    #[arg(long, value_name = "DURATION", value_parser = window)]
    pub window: Option<Duration>,

    /// Cut the window into so many slices. More take less memory and forget sooner, at a window and one slice; but each is
    /// sized for its share, and one that brings more loses more: for even streams by their own time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64), requires = "window")]
    pub slices: u32,

    /// Where a message's time is, to count the window by: RFC 3339, or seconds or milliseconds since 1970. Without it:
    /// the time of arrival.
    #[arg(long, value_name = "PATH", value_parser = parse::<KeyPath>, requires = "window")]
    pub time_key: Option<KeyPath>,

    /// Use at most this much memory for filters and buffers; what does not fit is refused at the start.
    #[arg(long, value_name = "BYTES", default_value = "8GiB", value_parser = bytes)]
    pub memory: u64,

    /// What becomes of a line without an id: malformed, too long, or without the key.
    #[arg(
        long,
        value_enum,
        value_name = "pass|drop|stop",
        default_value = "pass"
    )]
    pub on_bad: BadLines,

    /// A longer line has no id.
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = line_bytes)]
    pub max_line: usize,

    /// Add dropped lines to this file.
    #[arg(long, value_name = "FILE")]
    pub dropped: Option<PathBuf>,

    /// Lose nothing genuine: what the filters suspect is confirmed exactly, among the last ids or in an index in the state
    /// directory. A duplicate that is older than the last ids passes once more.
    #[arg(long, requires = "state")]
    pub exact: bool,

    /// With --exact: how many of the last ids to remember exactly, at 40 to 80 bytes each.
    #[arg(long, value_name = "IDS", default_value_t = 917_504, value_parser = exact_last, requires = "exact")]
    pub exact_last: usize,

    /// Keep the memory in this directory over restarts.
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    /// How often to save the memory: what a crash forgets at most.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = duration, requires = "state")]
    pub save_every: Duration,

    /// Print nothing on standard error but the summary, as JSON.
    #[arg(long)]
    pub json: bool,
}

/// What becomes of a line without an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BadLines {
    /// It is passed on.
    Pass,
    /// It is dropped.
    Drop,
    /// It is the end: exit code 1.
    Stop,
}

impl From<BadLines> for OnBad {
    fn from(lines: BadLines) -> Self {
        match lines {
            BadLines::Pass => Self::Pass,
            BadLines::Drop => Self::Drop,
            BadLines::Stop => Self::Stop,
        }
    }
}

fn window(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_hours(24 * 366 * 10);
    let window = humantime::parse_duration(text)
        .map_err(|_| "expected a duration such as 10m, 24h or 7d".to_owned())?;
    if window < Duration::from_millis(1) {
        Err("a window is at least a millisecond".into())
    } else if window > LONGEST {
        Err("more than ten years is certainly a slip; leave it out to remember for ever".into())
    } else {
        Ok(window)
    }
}

fn line_bytes(text: &str) -> Result<usize, String> {
    const LONGEST: u64 = 1 << 30;
    match bytes(text)? {
        0 => Err("a line has at least one byte".into()),
        length if length > LONGEST => Err("at most 1GiB".into()),
        length => usize::try_from(length).map_err(|_| "more than this machine can address".into()),
    }
}

fn exact_last(text: &str) -> Result<usize, String> {
    const MOST: usize = 1 << 32;
    match text.parse() {
        Ok(last @ 1..=MOST) => Ok(last),
        _ => Err(format!("expected a number from 1 to {MOST}")),
    }
}
