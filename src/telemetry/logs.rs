//! Where log lines go: standard error, as text or as JSON, filtered by `RUST_LOG`.

use std::io::IsTerminal;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
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
    // sqlx logs slow statements and, at debug, whole statements with their shape; names are bound, never inlined, but
    // its chatter is not what an operator looks for.
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,sqlx=error"));
    let registry = tracing_subscriber::registry().with(filter);
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
