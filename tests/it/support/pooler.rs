//! A real PgBouncer in transaction mode: every transaction gets whichever session is free.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::lifeline::{Leash, Leashed};
use super::output::Output;
use super::packages::{apt_get, can_install};
use super::port;
use super::postgres::{Cluster, SUPERUSER, server_account};
use super::process::Signal;
use super::scratch::ScratchDir;

const PATIENCE: Duration = Duration::from_secs(20);

/// Between a cluster and its clients. Gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Pooler {
    port: u16,
    _process: Leashed,
    _directory: ScratchDir,
}

impl Pooler {
    /// In front of all databases of `cluster`.
    /// # Panics
    /// When PgBouncer is missing and cannot be installed, or does not start.
    pub(crate) fn in_front_of(cluster: &Cluster) -> Self {
        let program = program();
        // It refuses to run as root, as the server does.
        let account = server_account();
        let directory = ScratchDir::new(account, "");
        let port = port::unused();
        let users = directory.path().join("users.txt");
        let settings = directory.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = 5\n\
             server_login_retry = 1\nserver_reset_query =\n",
            cluster.port(),
            users.display()
        );
        write(&users, &format!("\"{SUPERUSER}\" \"\"\n"));
        write(&settings, &text);
        let mut leash = Leash::ended_by(Signal::KILL, program).run_as(account);
        leash
            .command()
            .arg(&settings)
            .current_dir("/")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = leash.start().expect("a POSIX shell named sh is in PATH");
        let output = Output::of(&mut process);
        let began = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(
                process.ended().is_none() && began.elapsed() < PATIENCE,
                "PgBouncer does not listen:\n{}",
                output.text()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Self {
            port,
            _process: process,
            _directory: directory,
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

/// Readable for the user that the pooler runs as: no secret is in it.
fn write(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).expect("the directory can be written to");
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("the file is ours");
}

/// Found once per test process, or installed.
fn program() -> &'static Path {
    static READY: OnceLock<PathBuf> = OnceLock::new();
    READY.get_or_init(|| {
        find()
            .or_else(|| {
                can_install().then(|| {
                    const WHAT: &str = "PgBouncer";
                    apt_get(&["update"], WHAT);
                    apt_get(
                        &["install", "--yes", "--no-install-recommends", "pgbouncer"],
                        WHAT,
                    );
                })?;
                find()
            })
            .unwrap_or_else(|| {
                panic!("the tests need PgBouncer; install it with: sudo apt-get install pgbouncer")
            })
    })
}

/// Debian keeps it with the programs for root, which are not in everybody's `PATH`.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|directory| directory.join("pgbouncer"))
        .find(|program| program.is_file())
}
