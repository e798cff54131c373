//! Logs and metrics. Neither ever shows a name, an address of a client, or a secret.

mod logs;
mod metrics;
mod progress;
mod screen;
mod tally;

pub use logs::{LogFormat, start};
pub use metrics::{FilterReading, Metrics, Observation, Protection};
pub use progress::Progress;
pub use screen::{bar, print_line};
pub use tally::Tally;
