//! A real PostgreSQL server, owned by the test: it may be stopped, killed, frozen and started
//! again.
//!
//! ```text
//!            start                     stop_fast, stop_immediate, kill_minus_nine
//! stopped ───────────▶ running ────────────────────────────────────────────────▶ stopped
//!                        │ ▲
//!                  pause ▼ │ resume
//!                       frozen
//! ```
//!
//! Port, socket and data stay the same over all of that. Whatever state it is in, server and data
//! are gone when the [`Cluster`] is dropped or the test process ends in any way.
//!
//! Most tests need no server of their own: [`Cluster::shared`] gives the one that all of them
//! share, and [`Cluster::database`] a database apart in it. It does not write through to the disk
//! and must not be harmed.
//!
//! Not simulated: the loss of what the operating system has not written yet. A SIGKILL takes the
//! server's memory, not the page cache.

mod builder;
mod database;
mod installation;
mod template;

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::OnceCell;

use super::command::{self, Finished};
use super::http::percent_encoded;
use super::lifeline::Leashed;
use super::process::{self, Account, Pid, Signal};
use super::scratch::ScratchDir;

pub(crate) use builder::{Builder, Durability};
pub(crate) use database::{Database, TURKISH};
use installation::Installation;

/// The superuser that every cluster has, without a password.
pub(crate) const SUPERUSER: &str = "postgres";

/// More than any state change takes on a busy machine; passing it means that the server hangs.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often a starting server's state is looked at.
const GLANCE: Duration = Duration::from_millis(10);

/// A PostgreSQL server and its data.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// The server while it runs; before `directory`, so that it is stopped before its data is
    /// removed.
    postmaster: Mutex<Option<Leashed>>,
    directory: ScratchDir,
    installation: &'static Installation,
    port: u16,
    is_shared: bool,
    /// Databases made so far, to name the next one.
    databases: AtomicU32,
}

impl Cluster {
    /// The cluster that the tests of this process share, made on first use. It cannot be stopped or
    /// frozen.
    pub(crate) async fn shared() -> &'static Self {
        static SHARED: OnceCell<Cluster> = OnceCell::const_new();
        SHARED
            .get_or_init(|| async {
                let mut cluster = Self::builder().durability(Durability::Off).start().await;
                cluster.is_shared = true;
                cluster
            })
            .await
    }

    /// A cluster of this test's own, as durable as in production.
    pub(crate) async fn private() -> Self {
        Self::builder().start().await
    }

    pub(crate) fn builder() -> Builder {
        Builder::default()
    }

    /// The TCP port on 127.0.0.1, the same for the cluster's whole life.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Holds the data in `data`, the Unix socket and the server's log.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// `database` through TCP, as the superuser.
    pub(crate) fn url_for(&self, database: &str) -> String {
        url(self.port, database)
    }

    /// `database` through the Unix socket.
    pub(crate) fn socket_url_for(&self, database: &str) -> String {
        let directory = percent_encoded(&self.directory().to_string_lossy());
        format!(
            "postgres://{SUPERUSER}@localhost:{}/{database}?host={directory}",
            self.port
        )
    }

    /// A new, empty database whose name starts with `prefix`. It goes with the cluster.
    pub(crate) async fn database(&self, prefix: &str) -> Database {
        self.database_with(prefix, "").await
    }

    /// As [`Cluster::database`], with options of `CREATE DATABASE` such as `TEMPLATE other` or
    /// [`TURKISH`].
    pub(crate) async fn database_with(&self, prefix: &str, options: &str) -> Database {
        // Only the number must differ: nothing else is published with it.
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}_{number}");
        self.maintenance()
            .execute(&format!(r#"CREATE DATABASE "{name}" {options}"#))
            .await;
        Database::new(self.port, name)
    }

    /// The database that every cluster has, to manage it from.
    pub(crate) fn maintenance(&self) -> Database {
        Database::new(self.port, "postgres".to_owned())
    }

    /// Feeds `script`, SQL and backslash commands, to the real `psql`; it stops at the first error
    /// with code 3. Rows come as plain lines, columns parted by `|`.
    pub(crate) async fn psql(&self, database: &str, script: &str) -> Finished {
        let quietly = ["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"];
        let arguments = [&quietly[..], &["--set=ON_ERROR_STOP=1", database]].concat();
        self.client("psql", &arguments, script.as_bytes()).await
    }

    /// Runs one of PostgreSQL's client programs, such as `pg_dump`, against this server.
    pub(crate) async fn client(&self, name: &str, arguments: &[&str], input: &[u8]) -> Finished {
        let input = command::input_file(input).expect("a temporary file can be written");
        let mut client = self.installation.client_reading(input.path(), name);
        client
            .command()
            .args(arguments)
            .envs([("PGHOST", "127.0.0.1"), ("PGUSER", SUPERUSER)])
            .env("PGPORT", self.port.to_string());
        command::finish(client, PATIENCE).await
    }

    /// Starts the server, as often as it takes: after a crash it may find traces of its former life
    /// at first. Returns once it takes connections. A server that runs already is left alone.
    /// # Panics
    /// When it does not take connections within a minute; the message holds its log.
    pub(crate) async fn start(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.is_running() && !self.try_start(deadline).await {
            assert!(
                Instant::now() < deadline,
                "PostgreSQL does not start; its log:\n{}",
                self.log()
            );
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Ends all sessions, rolls back what is open, writes everything out.
    pub(crate) async fn stop_fast(&self) {
        let postmaster = self.take_running();
        self.end(postmaster, Signal::INT).await;
    }

    /// Drops everything where it is; the next start recovers from the log.
    pub(crate) async fn stop_immediate(&self) {
        let postmaster = self.take_running();
        self.end(postmaster, Signal::QUIT).await;
    }

    /// A crash: every process of the server dies by SIGKILL, and nobody tidies up. None is left when
    /// this returns.
    pub(crate) async fn kill_minus_nine(&self) {
        let mut postmaster = self.take_running();
        // Stopped first, or it would answer the death of its first child with a restart of its own.
        postmaster.signal(Signal::STOP);
        while let children @ [_, ..] = &process::children_of(postmaster.pid())[..] {
            for &child in children {
                process::signal(child, Signal::KILL);
            }
            tokio::time::sleep(GLANCE).await;
        }
        self.end(postmaster, Signal::KILL).await;
    }

    /// As an administrator restarts it: sessions are ended, data is written out.
    pub(crate) async fn restart_fast(&self) {
        self.stop_fast().await;
        self.start().await;
    }

    /// As an administrator in a hurry restarts it: the next start recovers from the log.
    pub(crate) async fn restart_immediate(&self) {
        self.stop_immediate().await;
        self.start().await;
    }

    /// Freezes every process: connections stay open, nothing is answered.
    pub(crate) fn pause(&self) {
        let postmaster = self.pid();
        // First, so that it starts no children while they are counted.
        process::signal(postmaster, Signal::STOP);
        for child in process::children_of(postmaster) {
            process::signal(child, Signal::STOP);
        }
    }

    /// Thaws every process, those frozen one by one too.
    pub(crate) fn resume(&self) {
        let postmaster = self.pid();
        for child in process::children_of(postmaster) {
            process::signal(child, Signal::CONT);
        }
        process::signal(postmaster, Signal::CONT);
    }

    /// Freezes the one session whose `pg_backend_pid()` is `backend`.
    pub(crate) fn pause_backend(&self, backend: i32) {
        process::signal(self.backend(backend), Signal::STOP);
    }

    pub(crate) fn resume_backend(&self, backend: i32) {
        process::signal(self.backend(backend), Signal::CONT);
    }

    /// Makes a standby a primary of its own, and waits until it is.
    pub(crate) async fn promote(&self) {
        self.maintenance().execute("SELECT pg_promote()").await;
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running().is_some()
    }

    /// Process id of the postmaster.
    /// # Panics
    /// When the server is stopped or shared.
    pub(crate) fn pid(&self) -> Pid {
        self.assert_own();
        self.running().expect("the server runs")
    }

    /// All that the server has logged, over all its starts.
    pub(crate) fn log(&self) -> String {
        let bytes = fs::read(self.directory().join("server.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn launch(&self) -> Leashed {
        let log = self.directory().join("server.log");
        let append = || -> File {
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(&log)
                .expect("the cluster's directory can be written")
        };
        let mut leash = self.installation.program("postgres", Signal::QUIT);
        leash
            .command()
            .arg("-D")
            .arg(self.directory().join("data"))
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string()])
            .arg("-k")
            .arg(self.directory())
            .stdout(append())
            .stderr(append());
        leash.start().expect("a POSIX shell named sh is in PATH")
    }

    /// Starts the server; `false` when it ended or the deadline passed before it took connections.
    async fn try_start(&self, deadline: Instant) -> bool {
        let mut postmaster = self.launch();
        while postmaster.ended().is_none() && Instant::now() < deadline {
            if self.says_it_is_ready(postmaster.pid()) {
                *self.lock() = Some(postmaster);
                return true;
            }
            tokio::time::sleep(GLANCE).await;
        }
        false
    }

    /// Reads what `pg_ctl` waits for: line 1 of the file is the postmaster's process id, line 8 its
    /// state.
    fn says_it_is_ready(&self, postmaster: Pid) -> bool {
        let file =
            fs::read_to_string(self.directory().join("data/postmaster.pid")).unwrap_or_default();
        let mut lines = file.lines();
        let is_ours = lines.next() == Some(&postmaster.as_raw_pid().to_string());
        is_ours && matches!(lines.nth(6).map(str::trim), Some("ready" | "standby"))
    }

    async fn end(&self, mut postmaster: Leashed, signal: Signal) {
        postmaster.signal(signal);
        let ended = postmaster.end_within(PATIENCE).await;
        assert!(
            ended.is_some(),
            "PostgreSQL does not stop on {signal:?}; its log:\n{}",
            self.log()
        );
    }

    fn running(&self) -> Option<Pid> {
        let mut postmaster = self.lock();
        let postmaster = postmaster.as_mut()?;
        postmaster.ended().is_none().then(|| postmaster.pid())
    }

    fn take_running(&self) -> Leashed {
        self.assert_own();
        self.lock().take().expect("the server runs")
    }

    fn backend(&self, pid: i32) -> Pid {
        let backends = process::children_of(self.pid());
        backends
            .into_iter()
            .find(|child| child.as_raw_pid() == pid)
            .expect("the process is a session of this server")
    }

    fn assert_own(&self) {
        assert!(
            !self.is_shared,
            "other tests use the shared server: take Cluster::private() to do it harm"
        );
    }

    /// What it guards is whole at any time, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Option<Leashed>> {
        self.postmaster
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A frozen session would hold up the stop for seconds.
        if let Some(postmaster) = self.running() {
            for child in process::children_of(postmaster) {
                process::signal(child, Signal::CONT);
            }
        }
    }
}

/// The user that servers run as: root's stand-in where the tests run as root.
pub(crate) fn server_account() -> Option<Account> {
    Installation::ready().account
}

/// `database` of the server that `port` of 127.0.0.1 leads to, as the superuser.
fn url(port: u16, database: &str) -> String {
    format!("postgres://{SUPERUSER}@127.0.0.1:{port}/{database}")
}
