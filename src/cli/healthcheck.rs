//! `namegate healthcheck`: asks a running service whether it is ready.

use std::time::Duration;

use anyhow::Context;

use crate::cli::{Exit, Failure};
use crate::config::HealthcheckArgs;

pub(super) async fn run(args: HealthcheckArgs) -> Result<Exit, Failure> {
    let url = format!("{}/readyz", args.url.trim_end_matches('/'));
    let client = client()?;
    let reply = client
        .get(&url)
        .send()
        .await
        .with_context(|| format!("could not reach the service at {}", args.url))
        .map_err(|error| Failure::new(Exit::Service, error))?;
    if reply.status().is_success() {
        println!("ready");
        Ok(Exit::Done)
    } else {
        println!("not ready");
        Ok(Exit::No)
    }
}

/// A client that talks to nobody but the service, and not for long.
pub(super) fn client() -> Result<reqwest::Client, Failure> {
    reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(5))
        .build()
        .context("could not set up the HTTP client")
        .map_err(|error| Failure::new(Exit::Fault, error))
}
