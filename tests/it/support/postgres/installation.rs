//! PostgreSQL's programs: found, or installed when they are missing and may be, or asked for in one
//! sentence.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::lifeline::Leash;
use crate::support::packages::{apt_get, can_install, has_command};
use crate::support::process::{Account, Signal};

/// Where versions live side by side: Debian and Ubuntu, Red Hat's own packages, Homebrew on both
/// kinds of Mac.
const HOMES: [(&str, &str); 4] = [
    ("/usr/lib/postgresql", ""),
    ("/usr", "pgsql-"),
    ("/opt/homebrew/opt", "postgresql@"),
    ("/usr/local/opt", "postgresql@"),
];

/// The programs of one PostgreSQL version, and the user that its server may run as.
#[derive(Debug)]
pub(super) struct Installation {
    bin: PathBuf,
    /// Set for root only, whom the server refuses.
    pub(super) account: Option<Account>,
}

impl Installation {
    /// The server in `PATH`, else the newest one in the usual places, else a freshly installed one.
    ///
    /// Looked for once per test process; callers on other threads wait for the outcome.
    /// # Panics
    /// When there is none and none can be installed; the message holds the command to run.
    pub(super) fn ready() -> &'static Self {
        static READY: OnceLock<Installation> = OnceLock::new();
        READY.get_or_init(|| {
            let bin = find().or_else(|| install().then(find).flatten());
            let bin = bin.unwrap_or_else(|| {
                panic!(
                    "the tests need a PostgreSQL server, 14 or newer; install one with: {}",
                    advice()
                )
            });
            Self {
                bin,
                account: account_for_server(),
            }
        })
    }

    /// A command that runs one of the programs, as a user that the server accepts.
    ///
    /// `PG...` variables of whoever runs the tests are dropped: they would lead to another server.
    pub(super) fn program(&self, name: &str, last_signal: Signal) -> Leash {
        let leash = Leash::ended_by(last_signal, self.path(name)).run_as(self.account);
        without_client_defaults(leash)
    }

    /// As [`Installation::program`], as the user of the tests and with a file as standard input.
    pub(super) fn client_reading(&self, input: &Path, name: &str) -> Leash {
        without_client_defaults(Leash::reading(input, self.path(name)))
    }

    /// Some packages hold the server alone; its clients may then be in `PATH`.
    fn path(&self, name: &str) -> PathBuf {
        let own = self.bin.join(name);
        if own.is_file() { own } else { name.into() }
    }

    /// Whether the server can load `library`, which some systems package apart.
    pub(super) fn has_library(&self, library: &str) -> bool {
        let asked = Command::new(self.bin.join("pg_config"))
            .arg("--pkglibdir")
            .output();
        let told = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        let places = [
            told.unwrap_or_default().into(),
            self.bin.join("../lib"),
            self.bin.join("../lib/postgresql"),
        ];
        places.iter().any(|place| {
            ["so", "dylib"]
                .iter()
                .any(|end| place.join(library).with_extension(end).exists())
        })
    }
}

fn without_client_defaults(mut leash: Leash) -> Leash {
    let command = leash.command();
    command.current_dir("/"); // the directory of the tests may be closed to the server's user
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PG") {
            command.env_remove(name);
        }
    }
    leash
}

/// The directory that holds both `postgres` and `initdb`.
fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path)
        // Through links to the real home, where the other programs are too.
        .filter_map(|directory| fs::canonicalize(directory.join("postgres")).ok())
        .filter_map(|program| program.parent().map(Path::to_owned));
    in_path
        .chain(newest_first())
        .find(|bin| bin.join("postgres").is_file() && bin.join("initdb").is_file())
}

fn newest_first() -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = HOMES
        .iter()
        .flat_map(|&(home, prefix)| {
            let entries = fs::read_dir(home)
                .into_iter()
                .flatten()
                .filter_map(Result::ok);
            entries.filter_map(move |entry| {
                let version = entry
                    .file_name()
                    .to_str()?
                    .strip_prefix(prefix)?
                    .parse()
                    .ok()?;
                Some((version, entry.path().join("bin")))
            })
        })
        .collect();
    versions.sort_by(|one, other| other.cmp(one));
    versions.into_iter().map(|(_, bin)| bin).collect()
}

/// Installs the server where that takes no question: by apt-get, as root. Says whether it tried.
fn install() -> bool {
    const WHAT: &str = "a PostgreSQL server";
    if !can_install() {
        return false;
    }
    keep_debian_from_starting_a_cluster();
    apt_get(&["update"], WHAT);
    apt_get(
        &["install", "--yes", "--no-install-recommends", "postgresql"],
        WHAT,
    );
    true
}

/// Debian's package makes and starts a cluster that nobody here needs, unless this file says
/// otherwise first. Where the file exists, somebody has decided already.
fn keep_debian_from_starting_a_cluster() {
    let decision = Path::new("/etc/postgresql-common/createcluster.conf");
    if !decision.exists() {
        let parent = decision.parent().expect("the path has a directory");
        let written = fs::create_dir_all(parent)
            .and_then(|()| fs::write(decision, "create_main_cluster = false\n"));
        written.expect("root can write below /etc");
    }
}

/// The command that installs a server on this kind of system.
fn advice() -> &'static str {
    const BY_MANAGER: [(&str, &str); 7] = [
        ("apt-get", "sudo apt-get install postgresql"),
        (
            "dnf",
            "sudo dnf install postgresql-server postgresql-contrib",
        ),
        (
            "zypper",
            "sudo zypper install postgresql-server postgresql-contrib",
        ),
        ("pacman", "sudo pacman -S postgresql"),
        ("apk", "sudo apk add postgresql postgresql-contrib"),
        ("brew", "brew install postgresql@17"),
        ("nix-shell", "nix-shell -p postgresql"),
    ];
    let known = BY_MANAGER.iter().find(|(manager, _)| has_command(manager));
    known.map_or(
        "see https://www.postgresql.org/download/",
        |(_, command)| command,
    )
}

/// The server refuses to run as root: then the user that its package made, or the one that owns
/// nothing.
fn account_for_server() -> Option<Account> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let account = ["postgres", "nobody"].into_iter().find_map(account);
    Some(account.expect("every Unix has a user named nobody"))
}

fn account(user: &str) -> Option<Account> {
    let id = |which| {
        let output = Command::new("id").args([which, user]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    Some(Account {
        uid: id("-u")?,
        gid: id("-g")?,
    })
}
