//! Data directories: made by `initdb` once per process and set of options, and copied from then on.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::SUPERUSER;
use super::installation::Installation;
use crate::support::command::{self, Finished};
use crate::support::lifeline::Leash;
use crate::support::process::Signal;
use crate::support::scratch::ScratchDir;

/// Far more than any of the programs takes on a slow machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// Makes `data` a copy of the directory that these options of `initdb` give.
pub(super) fn copy(installation: &Installation, options: &[String], data: &Path) {
    let template = template(installation, options);
    let mut cp = Leash::ended_by(Signal::KILL, "cp").run_as(installation.account);
    cp.command()
        .arg("-a")
        .arg(template.path().join("data"))
        .arg(data)
        .current_dir("/");
    command::finish_blocking(cp, PATIENCE).expect_success();
}

/// Makes `data` a new cluster with a system identifier of its own.
pub(super) fn initdb(installation: &Installation, options: &[String], data: &Path) {
    let attempt = |locale: &str| -> Finished {
        let mut initdb = installation.program("initdb", Signal::KILL);
        initdb
            .command()
            .arg("-D")
            .arg(data)
            .args([
                "--username",
                SUPERUSER,
                "--auth=trust",
                "--encoding=UTF8",
                "--no-sync",
            ])
            .args(["--locale", locale])
            .args(options);
        command::finish_blocking(initdb, PATIENCE)
    };
    let modern = attempt("C.UTF-8");
    if modern.code != Some(0) {
        attempt("C").expect_success(); // macOS and older systems lack the other
    }
}

/// Makes `data` a standby of the server at `port`, set to follow it.
pub(super) fn base_backup(installation: &Installation, port: u16, data: &Path) {
    let mut backup = installation.program("pg_basebackup", Signal::KILL);
    backup
        .command()
        .args([
            "--host=127.0.0.1",
            "--username",
            SUPERUSER,
            "--port",
            &port.to_string(),
        ])
        .args([
            "--checkpoint=fast",
            "--wal-method=stream",
            "--write-recovery-conf",
            "--no-sync",
        ])
        .arg("--pgdata")
        .arg(data);
    command::finish_blocking(backup, PATIENCE).expect_success();
}

/// Its directory is kept until the process ends.
fn template(installation: &Installation, options: &[String]) -> Arc<ScratchDir> {
    /// Guards the templates made so far; held while one is made, so that nobody makes it twice.
    static MADE: Mutex<Option<HashMap<Vec<String>, Arc<ScratchDir>>>> = Mutex::new(None);
    // Only whole templates are put in, so a panic while one was made spoils nothing.
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let made = made.get_or_insert_default();
    if let Some(template) = made.get(options) {
        return Arc::clone(template);
    }
    let directory = ScratchDir::new(installation.account, "");
    initdb(installation, options, &directory.path().join("data"));
    let template = Arc::new(directory);
    made.insert(options.to_vec(), Arc::clone(&template));
    template
}
