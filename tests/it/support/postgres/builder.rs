//! What a new cluster is made of, and how it is set up.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use super::installation::Installation;
use super::{Cluster, PATIENCE, template};
use crate::support::command;
use crate::support::port;
use crate::support::scratch::ScratchDir;

/// A server killed by SIGKILL leaves its small System V memory segment behind; its id is the last
/// word of line 7.
const FREE_SHARED_MEMORY: &str = r#"
segment=$(sed -n 's/.* //; 7p' "$directory/data/postmaster.pid")
[ -z "$segment" ] || ipcrm -m "$segment"
"#;

/// Whether a commit waits for the disk.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// As in production.
    #[default]
    On,
    /// Faster; for clusters that are not crashed.
    Off,
}

/// What a new cluster's data directory is made from.
#[derive(Debug, Default)]
enum Origin {
    /// A copy of one that this process made before: quick, but all copies have the same system
    /// identifier.
    #[default]
    Copy,
    /// Its own run of `initdb`, with a system identifier of its own.
    Initdb,
    /// A base backup of the server at this port, which it then follows.
    StandbyOf(u16),
}

/// Choices for a cluster; see [`Cluster::builder`].
#[derive(Debug, Default)]
pub(crate) struct Builder {
    durability: Durability,
    initdb_options: Vec<String>,
    settings: Vec<(String, String)>,
    origin: Origin,
}

impl Builder {
    pub(crate) fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Further options of `initdb`, such as `["--locale-provider=icu", "--icu-locale=tr"]`.
    pub(crate) fn initdb<'a>(mut self, options: impl IntoIterator<Item = &'a str>) -> Self {
        self.initdb_options
            .extend(options.into_iter().map(str::to_owned));
        self
    }

    /// A line of `postgresql.conf`; of two for one name the later wins, over the defaults too.
    pub(crate) fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives the cluster a system identifier that no other has, at the cost of a second.
    pub(crate) fn own_identity(self) -> Self {
        Self {
            origin: Origin::Initdb,
            ..self
        }
    }

    /// Makes the cluster a streaming standby of `primary`; see [`Cluster::promote`].
    pub(crate) fn standby_of(self, primary: &Cluster) -> Self {
        Self {
            origin: Origin::StandbyOf(primary.port),
            ..self
        }
    }

    /// Makes the cluster and starts it.
    /// # Panics
    /// When PostgreSQL is missing and cannot be installed, or does not start with these choices.
    pub(crate) async fn start(self) -> Cluster {
        let mut cluster = command::off_the_runtime(|| self.make()).await;
        while !cluster.try_start(Instant::now() + PATIENCE).await {
            let log = cluster.log();
            assert!(
                log.contains("could not bind"),
                "PostgreSQL does not start; its log:\n{log}"
            );
            cluster.port = port::unused(); // somebody was quicker; nobody knows the old port yet
        }
        cluster
    }

    fn make(self) -> Cluster {
        let installation = Installation::ready();
        let directory = ScratchDir::new(installation.account, FREE_SHARED_MEMORY);
        let data = directory.path().join("data");
        match self.origin {
            Origin::Copy => template::copy(installation, &self.initdb_options, &data),
            Origin::Initdb => template::initdb(installation, &self.initdb_options, &data),
            Origin::StandbyOf(port) => template::base_backup(installation, port, &data),
        }
        let defaults = defaults(installation, self.durability);
        append_settings(&data, defaults.chain(self.settings));
        Cluster {
            postmaster: Mutex::new(None),
            directory,
            installation,
            port: port::unused(),
            is_shared: false,
            databases: AtomicU32::new(0),
        }
    }
}

/// What every cluster is set to unless told otherwise.
fn defaults(
    installation: &Installation,
    durability: Durability,
) -> impl Iterator<Item = (String, String)> {
    let always: &[_] = &[
        ("max_connections", "300"), // many tests share a server, each with its pools
        ("max_prepared_transactions", "10"), // PREPARE TRANSACTION is off by default
        ("dynamic_shared_memory_type", "mmap"), // in the data directory: a crash leaves no trace
        ("log_line_prefix", "%m [%p] %a "),
    ];
    let statistics: &[_] = if installation.has_library("pg_stat_statements") {
        &[("shared_preload_libraries", "pg_stat_statements")]
    } else {
        &[]
    };
    let unsafe_speed: &[_] = match durability {
        Durability::On => &[],
        Durability::Off => &[("fsync", "off"), ("full_page_writes", "off")],
    };
    let lists = [always, statistics, unsafe_speed].into_iter().flatten();
    lists
        .map(|&(name, value)| (name.to_owned(), value.to_owned()))
        .collect::<Vec<_>>()
        .into_iter()
}

fn append_settings(data: &Path, settings: impl Iterator<Item = (String, String)>) {
    let mut file = OpenOptions::new()
        .append(true)
        .open(data.join("postgresql.conf"))
        .expect("initdb wrote the file");
    for (name, value) in settings {
        let line = format!("{name} = '{}'\n", value.replace('\'', "''"));
        file.write_all(line.as_bytes())
            .expect("a file in a fresh directory can be written");
    }
}
