//! Which new names are allowed.

use std::path::PathBuf;

use clap::Args;

use crate::config::values::parse;
use crate::names::Profile;

/// Which new names are allowed.
#[derive(Debug, Clone, Args)]
pub struct PolicyArgs {
    /// Which new names are allowed: a-z 0-9 and single . _ - inside, or letters and digits of one script.
    #[arg(long, env = "NAMEGATE_PROFILE", value_name = "ascii|unicode", default_value = "ascii", value_parser = parse::<Profile>)]
    pub profile: Profile,

    /// More reserved names: one `[exact|token|substring] ENTRY` a line, exact where nothing is said; * stands for any
    /// characters in exact entries, # begins a comment.
    #[arg(long, env = "NAMEGATE_RESERVED", value_name = "FILE")]
    pub reserved: Option<PathBuf>,
}
