//! One thin file per command, and what all commands end with: an exit code, and one line when something is wrong.

pub mod admin_client;
mod attach;
mod audit;
mod check;
mod dedup;
mod demo;
mod exit;
mod healthcheck;
mod import;
mod migrate;
mod open;
mod openapi;
mod reception;
mod serve;
mod size;

pub use exit::{Exit, Failure};

use crate::config::Command;

/// Runs one command to its end.
///
/// # Errors
/// [`Failure`]: one line for people, and the exit code that goes with it.
pub fn run(command: Command) -> Result<Exit, Failure> {
    // Two that need no runtime.
    match command {
        Command::Size(args) => return size::run(&args),
        Command::Openapi => return Ok(openapi::run()),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::new(
                Exit::Fault,
                anyhow::Error::from(error).context("could not start the runtime"),
            )
        })?;
    let ended = runtime.block_on(async {
        match command {
            Command::Serve(args) => serve::run(args).await,
            Command::Demo(args) => demo::run(args).await,
            Command::Check(args) => check::run(args).await,
            Command::Migrate(args) => migrate::run(args).await,
            Command::Attach(args) => attach::attach(args).await,
            Command::Detach(args) => attach::detach(args).await,
            Command::Import(args) => import::run(args).await,
            Command::Audit(args) => audit::run(args).await,
            Command::Healthcheck(args) => healthcheck::run(args).await,
            Command::Size(args) => size::run(&args),
            Command::Dedup(args) => dedup::run(args).await,
            Command::Openapi => Ok(openapi::run()),
        }
    });
    // A read of standard input cannot be interrupted; it must not keep a finished command from ending.
    runtime.shutdown_background();
    ended
}
