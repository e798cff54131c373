//! A directory never outlives the test process, even when that is ended by SIGKILL.
//!
//! A shell makes it, waits for the end of a pipe that only the test process holds open, and removes
//! it: the same device as in [`super::lifeline`].

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::process::{self, Account};

/// Makes a directory, says where, and removes it at the end of the pipe. A program that is just
/// ending may still write into it, hence the loop: once the directory itself is gone, nothing can
/// be created in it any more.
const HOLD_DIRECTORY: &str = r#"
umask 077
name=namegate-test.XXXXXX
directory=$(mktemp -d "$1/$name") || directory=$(mktemp -d "/tmp/$name") || exit
echo "$directory"
read -r _
eval "$2"
tries=0
until rm -rf "$directory" || [ $((tries += 1)) -ge 100 ]; do sleep 0.1; done
"#;

/// A directory that is removed when this is dropped or the test process is gone.
#[derive(Debug)]
pub(crate) struct ScratchDir {
    path: PathBuf,
    keeper: Child,
}

impl ScratchDir {
    /// An empty directory that only `account` (and root) can enter.
    ///
    /// `farewell`: shell commands to run before the removal; `$directory` is where.
    /// # Panics
    /// When neither the system's directory for temporary files nor `/tmp` can be written to.
    pub(crate) fn new(account: Option<Account>, farewell: &str) -> Self {
        let mut command = Command::new("sh");
        command
            .args(["-c", HOLD_DIRECTORY, "sh"])
            .arg(std::env::temp_dir())
            .arg(farewell)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        process::run_as(&mut command, account);
        let mut keeper = command.spawn().expect("a POSIX shell named sh is in PATH");
        let mut path = String::new();
        let stdout = keeper
            .stdout
            .take()
            .expect("the stream was asked to be piped");
        BufReader::new(stdout)
            .read_line(&mut path)
            .expect("a shell's output can be read");
        let path = PathBuf::from(path.trim_end_matches('\n'));
        assert!(
            path.is_dir(),
            "no directory for temporary files can be written to by {account:?}"
        );
        Self { path, keeper }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // The keeper was started here and is waited for nowhere else.
        let _ = self.keeper.wait();
    }
}
