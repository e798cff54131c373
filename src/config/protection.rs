//! Who may ask, how much, and for how long: budgets, proxies, connections, origins, the operator's token.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ipnet::IpNet;

use crate::config::values::{OnOff, duration, network, origin, per_second};

/// What stands between the service and those who ask too much.
#[derive(Debug, Clone, Args)]
pub struct ProtectionArgs {
    /// open: anybody may ask and, with --signup, sign up. closed: both are refused, with 403, for every name alike;
    /// operators still ask on the admin listener.
    #[arg(
        long,
        env = "NAMEGATE_REGISTRATION",
        value_name = "open|closed",
        default_value = "open",
        value_enum
    )]
    pub registration: Registration,

    /// on: each client (an IPv4 address, an IPv6 /64) has a budget of questions. off: whoever asks is answered.
    #[arg(
        long,
        env = "NAMEGATE_RATE_LIMIT",
        value_name = "on|off",
        default_value = "on",
        value_enum
    )]
    pub rate_limit: OnOff,

    /// What a client that has been quiet may ask at once. A question costs 1, one that needs the database 2, a sign-up 5.
    #[arg(
        long,
        env = "NAMEGATE_RATE_LIMIT_BURST",
        value_name = "UNITS",
        default_value = "120"
    )]
    pub rate_limit_burst: NonZeroU32,

    /// How fast a client's budget fills up again.
    #[arg(long, env = "NAMEGATE_RATE_LIMIT_PER_SECOND", value_name = "UNITS", default_value = "4", value_parser = per_second)]
    pub rate_limit_per_second: f64,

    /// Proxies that are believed when they say whom they ask for: addresses or networks, separated by commas. They write
    /// X-Forwarded-For, or else Forwarded; where a request has both, only the former is read.
    #[arg(long, env = "NAMEGATE_TRUSTED_PROXIES", value_name = "CIDR", value_delimiter = ',', value_parser = network)]
    pub trusted_proxies: Vec<IpNet>,

    /// Origins whose pages may ask from a browser, separated by commas, as in `https://signup.example`. * allows every
    /// page.
    #[arg(long, env = "NAMEGATE_CORS_ORIGIN", value_name = "ORIGIN", value_delimiter = ',', value_parser = origin)]
    pub cors_origin: Vec<String>,

    /// Connections to the public listener at one time; more are told 503 and closed.
    #[arg(
        long,
        env = "NAMEGATE_MAX_CONNECTIONS",
        value_name = "CONNECTIONS",
        default_value = "10000"
    )]
    pub max_connections: NonZeroU32,

    /// How long the head of a request may take to come; then, how long its body and its answer may take together; and
    /// how long a client may read nothing of an answer.
    #[arg(long, env = "NAMEGATE_REQUEST_TIMEOUT", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub request_timeout: Duration,

    /// A connection that asks nothing for so long is closed, at the latest after twice the time.
    #[arg(long, env = "NAMEGATE_IDLE_TIMEOUT", value_name = "DURATION", default_value = "75s", value_parser = duration)]
    pub idle_timeout: Duration,

    /// A file that holds the token which everything on the admin listener then demands (Authorization: Bearer TOKEN), 16
    /// characters or more. Without it the admin listener is for loopback addresses only.
    #[arg(long, env = "NAMEGATE_ADMIN_TOKEN_FILE", value_name = "FILE")]
    pub admin_token_file: Option<PathBuf>,
}

/// Whether the public may ask and sign up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Registration {
    /// Yes.
    Open,
    /// No: 403 for every name alike.
    Closed,
}
