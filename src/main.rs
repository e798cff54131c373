//! Parses the command line, runs one command, turns its end into an exit code. Everything else is in the library.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = namegate::config::Cli::parse();
    match namegate::cli::run(cli.command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("namegate: {failure}");
            failure.exit().into()
        }
    }
}
