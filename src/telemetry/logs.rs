//! Where log lines go: standard error, as text or as JSON, filtered by `RUST_LOG`.
//!
//! `RUST_LOG` can make namegate itself as talkative as it likes, for what it says holds no name and no address. The
//! libraries below it make no such promise (a driver shows its statements, a client the addresses it connects to), so
//! whatever `RUST_LOG` says, only their warnings and errors are shown.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::telemetry::screen::Lines;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line of text each.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging for the process. Later calls change nothing.
pub fn start(format: LogFormat) {
    // sqlx warns of slow statements, which is not what an operator looks for.
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,sqlx=error"));
    let registry = tracing_subscriber::registry()
        .with(filter)
        .with(filter_fn(is_fit_to_print));
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(|| Lines)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let started = match format {
        LogFormat::Text => registry.with(layer.compact()).try_init(),
        LogFormat::Json => registry.with(layer.json()).try_init(),
    };
    drop(started); // an error means that logging is started already
}

fn is_fit_to_print(line: &Metadata<'_>) -> bool {
    let is_ours = line.target().split("::").next() == Some(env!("CARGO_CRATE_NAME"));
    is_ours || *line.level() <= Level::WARN
}
