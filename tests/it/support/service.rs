//! The real `namegate` binary as a process: started, asked, frozen and ended as its users do it.
//!
//! The one place that knows the binary's path, the lines that it prints about its addresses, and
//! its endpoints. A service is killed when it is dropped or the test process is gone.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::command::{self, Finished};
use super::http::{self, Connection, Reply, percent_encoded};
use super::lifeline::{Leash, Leashed};
use super::metrics;
use super::output::Output;
use super::process::{Pid, Signal};

/// More than any start, stop or command takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often a state that is waited for is looked at.
const GLANCE: Duration = Duration::from_millis(10);

/// Variables of whoever runs the tests that the binary would take for its own.
const OWN_VARIABLES: [&str; 4] = ["NAMEGATE_", "DATABASE_URL", "PG", "RUST_LOG"];

/// The binary under test.
pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_namegate"))
}

/// Runs one command of the binary to its end, with `stdin` as its standard input.
/// # Panics
/// When it has not ended after a minute.
pub(crate) async fn run(args: &[&str], stdin: &[u8]) -> Finished {
    run_with(args, &[], stdin).await
}

/// As [`run`], with variables added to its environment.
pub(crate) async fn run_with(args: &[&str], envs: &[(&str, &str)], stdin: &[u8]) -> Finished {
    let input = command::input_file(stdin).expect("a temporary file can be written");
    let leash = Leash::reading(input.path(), binary());
    command::finish(prepared(leash, args, envs), PATIENCE).await
}

fn prepared(mut leash: Leash, args: &[&str], envs: &[(&str, &str)]) -> Leash {
    let command = leash.command();
    for (name, _) in std::env::vars_os() {
        if OWN_VARIABLES
            .iter()
            .any(|own| name.as_encoded_bytes().starts_with(own.as_bytes()))
        {
            command.env_remove(name);
        }
    }
    // Tests run side by side in one directory; those that restart from disk name theirs and say how often.
    command.env("NAMEGATE_SAVE_INTERVAL", "0s");
    command.args(args).envs(envs.iter().copied());
    leash
}

/// A running service.
#[derive(Debug)]
pub(crate) struct Service {
    process: Mutex<Leashed>,
    output: Output,
    public: SocketAddr,
    admin: SocketAddr,
}

impl Service {
    /// Starts the binary with these arguments, and waits until it has said both addresses:
    /// a line with `listening on http://HOST:PORT` and one with `admin on http://HOST:PORT`.
    /// # Panics
    /// When it ends or a minute passes before; the message holds its output.
    pub(crate) async fn spawn(args: &[&str], envs: &[(&str, &str)]) -> Self {
        let mut leash = prepared(Leash::ended_by(Signal::KILL, binary()), args, envs);
        leash
            .command()
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = leash.start().expect("a POSIX shell named sh is in PATH");
        let output = Output::of(&mut process);
        let deadline = Instant::now() + PATIENCE;
        let (public, admin) = loop {
            // Asked before the output is looked at: what it printed before its end then counts.
            let has_ended = process.ended().is_some();
            let text = output.text();
            match (
                address_after("listening on http://", &text),
                address_after("admin on http://", &text),
            ) {
                (Some(public), Some(admin)) => break (public, admin),
                _ if has_ended || Instant::now() > deadline => {
                    drop(process);
                    panic!(
                        "namegate {} did not say where it listens:\n{}",
                        args.join(" "),
                        output.whole()
                    );
                }
                _ => tokio::time::sleep(GLANCE).await,
            }
        };
        Self {
            process: Mutex::new(process),
            output,
            public,
            admin,
        }
    }

    /// Where users ask.
    pub(crate) fn public(&self) -> SocketAddr {
        self.public
    }

    /// Where operators look.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Waits until `/readyz` answers 200.
    /// # Panics
    /// When it does not within a minute; the message holds the last answer and the output.
    pub(crate) async fn wait_ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.readiness().await;
            if answer.as_ref().is_ok_and(|reply| reply.status == 200) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "never ready: {answer:?}\n{}",
                self.output()
            );
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Whether this name is free, asked on a connection of its own.
    /// # Panics
    /// When there is no answer.
    pub(crate) async fn ask(&self, name: &str) -> Reply {
        http::get(self.public, &question(name)).await
    }

    /// A connection for [`question`]s, thousands a second; an answer that fails to come is its
    /// error.
    pub(crate) async fn connect(&self) -> std::io::Result<Connection> {
        Connection::open(self.public).await
    }

    /// The metrics page.
    /// # Panics
    /// When there is no answer or it is not 200.
    pub(crate) async fn metrics(&self) -> String {
        let reply = http::get(self.admin, "/metrics").await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body
    }

    /// The sum of the samples that `series`, a name with any of its labels, includes; see
    /// [`metrics::sum`].
    /// # Panics
    /// As [`Service::metrics`].
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        metrics::sum(&self.metrics().await, series)
    }

    /// Asks the service to end (SIGTERM) and waits until it has.
    /// # Panics
    /// When it has not after a minute.
    pub(crate) async fn terminate(&self) -> Ended {
        self.signal(Signal::TERM);
        self.wait_until_ended().await
    }

    /// Kills the service (SIGKILL) and waits until it is gone.
    pub(crate) async fn kill(&self) -> Ended {
        self.signal(Signal::KILL);
        self.wait_until_ended().await
    }

    /// Waits until the service has ended by itself.
    /// # Panics
    /// When it has not after a minute.
    pub(crate) async fn wait_until_ended(&self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process().ended() {
                return Ended {
                    code: status.code(),
                    output: self.output.whole(),
                };
            }
            assert!(
                Instant::now() < deadline,
                "the service does not end:\n{}",
                self.output()
            );
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Freezes the service: it keeps its connections and answers nothing.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process().signal(signal);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.process().ended().is_none()
    }

    pub(crate) fn pid(&self) -> Pid {
        self.process().pid()
    }

    /// What it has printed so far, both streams, line by line in the order in which the lines were
    /// read.
    pub(crate) fn output(&self) -> String {
        self.output.text()
    }

    async fn readiness(&self) -> std::io::Result<Reply> {
        Connection::open(self.public).await?.get("/readyz").await
    }

    /// What it guards is whole at any time, so a panic elsewhere does not spoil it.
    fn process(&self) -> MutexGuard<'_, Leashed> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A service that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Exit code; `None` when a signal ended it.
    pub(crate) code: Option<i32>,
    /// As [`Service::output`], to the end.
    pub(crate) output: String,
}

/// Path and query of the question whether `name` is free.
pub(crate) fn question(name: &str) -> String {
    format!("/username/available?username={}", percent_encoded(name))
}

/// The address that the program printed after `words`, once its line is complete.
fn address_after(words: &str, output: &str) -> Option<SocketAddr> {
    let (_, rest) = output.split_once(words)?;
    let (line, _) = rest.split_once('\n')?;
    let end = line
        .find(|c: char| !(c.is_ascii_alphanumeric() || "[]:.".contains(c)))
        .unwrap_or(line.len());
    line[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_from_any_kind_of_line() {
        let plain = "noise\nlistening on http://127.0.0.1:4711\n";
        let json = "{\"message\":\"listening on http://[::1]:4711\",\"level\":\"INFO\"}\n";
        let coloured = "\u{1b}[32mINFO\u{1b}[0m listening on http://127.0.0.1:4711/\u{1b}[0m\n";
        let cut_off = "listening on http://127.0.0.1:47";
        let found = [plain, json, coloured, cut_off]
            .map(|text| address_after("listening on http://", text));
        let expected = [
            Some("127.0.0.1:4711"),
            Some("[::1]:4711"),
            Some("127.0.0.1:4711"),
            None,
        ];
        assert_eq!(
            found,
            expected.map(|text| text.map(|text| text.parse().expect("an address")))
        );
    }
}
