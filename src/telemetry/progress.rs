//! How far a long piece of work has come: a bar on a terminal, a log line now and then elsewhere.

use std::fmt::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::telemetry::screen;

const LOG_EVERY: Duration = Duration::from_secs(5);

/// Progress of one piece of work, counted in `unit`s.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    unit: &'static str,
    bar: ProgressBar,
    began: Instant,
    logged: Instant,
}

impl Progress {
    /// `total`: when it is known beforehand.
    #[must_use]
    pub fn new(what: &'static str, unit: &'static str, total: Option<u64>) -> Self {
        let template = match total {
            Some(_) => "{prefix} {bar:32} {human_pos}/{human_len} {msg}  {rate}  ETA {eta}",
            None => "{prefix} {spinner} {human_pos} {msg}  {rate}",
        };
        Self::with_template(what, unit, total, template)
    }

    fn with_template(
        what: &'static str,
        unit: &'static str,
        total: Option<u64>,
        template: &str,
    ) -> Self {
        let style = ProgressStyle::with_template(template)
            .expect("all templates are constants that parse")
            .with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
                let _ = write!(out, "{:.0}/s", state.per_sec()); // a bar that cannot be drawn has nobody to tell
            });
        let bar = screen::bar(total);
        let bar = bar.with_style(style).with_prefix(what).with_message(unit);
        let now = Instant::now();
        Self {
            what,
            unit,
            bar,
            began: now,
            logged: now,
        }
    }

    /// For work whose input's size in bytes is known, or not at all, and whose units are counted as they come.
    #[must_use]
    pub fn of_bytes(what: &'static str, total_bytes: Option<u64>) -> Self {
        let template = match total_bytes {
            Some(_) => "{prefix} {bar:32} {percent}%  {msg}  ETA {eta}",
            None => "{prefix} {spinner}  {msg}",
        };
        Self::with_template(what, "names", total_bytes, template)
    }

    /// `bytes` of the input are read and `done` names are done.
    pub fn reached_bytes(&self, bytes: u64, done: u64) {
        self.bar.set_position(bytes);
        self.bar.set_message(format!("{done} {}", self.unit));
    }

    /// `done` units are done.
    pub fn reached(&mut self, done: u64) {
        self.bar.set_position(done);
        if self.bar.is_hidden() && self.logged.elapsed() >= LOG_EVERY {
            self.logged = Instant::now();
            tracing::info!(
                done,
                unit = self.unit,
                elapsed_s = self.began.elapsed().as_secs(),
                "{}",
                self.what
            );
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
