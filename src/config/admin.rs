//! How commands reach the admin listener of a running service.

use std::path::PathBuf;

use clap::Args;

/// Where the admin listener is, and what it demands.
#[derive(Debug, Clone, Args)]
pub struct AdminArgs {
    /// The admin listener of the running service.
    #[arg(
        long,
        env = "NAMEGATE_ADMIN",
        value_name = "URL",
        default_value = "http://127.0.0.1:9090"
    )]
    pub admin: String,

    /// The file that holds the admin listener's token, where it demands one.
    #[arg(long, env = "NAMEGATE_ADMIN_TOKEN_FILE", value_name = "FILE")]
    pub admin_token_file: Option<PathBuf>,
}
