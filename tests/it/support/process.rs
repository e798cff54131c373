//! Processes: which there are, how they are signalled and whom they run as, on Linux and on other
//! Unix systems.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

pub(crate) use rustix::process::{Pid, Signal};

/// Sends `signal`; a process that is gone already is no error, the test goes on to see what became
/// of it.
/// # Panics
/// When the process belongs to somebody else.
pub(crate) fn signal(pid: Pid, signal: Signal) {
    match rustix::process::kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => panic!(
            "could not send {signal:?} to process {}: {error}",
            pid.as_raw_pid()
        ),
    }
}

/// Ids of the processes that `parent` started itself and that still run.
pub(crate) fn children_of(parent: Pid) -> Vec<Pid> {
    table()
        .into_iter()
        .filter(|row| row.parent == parent.as_raw_pid() && !row.is_zombie)
        .filter_map(Row::id)
        .collect()
}

/// When a running process began, in the system's own words; `None` when there is none. Together with its id it names
/// one process for good: ids are given out again.
pub(crate) fn began(pid: Pid) -> Option<String> {
    if !is_running(pid) {
        return None;
    }
    let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())) else {
        return Some("unknown".to_owned()); // a system without /proc, or gone since
    };
    // The name, in parentheses, may hold anything; the start is the 20th field behind it.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19).map(str::to_owned)
}

/// Whether the process exists and can still do something: one that only waits to be collected
/// cannot.
pub(crate) fn is_running(pid: Pid) -> bool {
    table()
        .iter()
        .any(|row| row.pid == pid.as_raw_pid() && !row.is_zombie)
}

/// The user that a program runs as or a directory belongs to, where that is not the user of the
/// tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Makes `command` run as `account`, without root's other groups: the standard library drops them.
pub(crate) fn run_as(command: &mut Command, account: Option<Account>) {
    if let Some(Account { uid, gid }) = account {
        command.uid(uid).gid(gid);
    }
}

/// A process in the system's table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    pid: i32,
    parent: i32,
    is_zombie: bool,
}

impl Row {
    fn id(self) -> Option<Pid> {
        Pid::from_raw(self.pid)
    }
}

/// All processes: from `/proc`, since small images lack `ps`; from `ps` where there is no `/proc`.
fn table() -> Vec<Row> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return table_by_ps();
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
        // It may have ended just now.
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
        .filter_map(|stat| from_stat(&stat))
        .collect()
}

/// `PID (NAME) STATE PARENT ...`, where the name may hold anything, parentheses and spaces too.
fn from_stat(stat: &str) -> Option<Row> {
    let (pid, rest) = stat.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    Some(Row {
        pid: pid.parse().ok()?,
        parent: fields.next()?.parse().ok()?,
        is_zombie: matches!(state, "Z" | "X"),
    })
}

fn table_by_ps() -> Vec<Row> {
    let output = Command::new("ps")
        .args(["-axo", "pid=,ppid=,state="])
        .output()
        .expect("ps is in PATH");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(from_ps)
        .collect()
}

fn from_ps(line: &str) -> Option<Row> {
    let mut fields = line.split_whitespace();
    let (pid, parent, state) = (fields.next()?, fields.next()?, fields.next()?);
    Some(Row {
        pid: pid.parse().ok()?,
        parent: parent.parse().ok()?,
        is_zombie: state.starts_with('Z'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_hold_parentheses_and_spaces() {
        let row = from_stat("812 (sd (pam) x) S 1 812 812 0 -1");
        assert_eq!(
            row,
            Some(Row {
                pid: 812,
                parent: 1,
                is_zombie: false
            })
        );
    }

    #[test]
    fn ps_and_proc_see_this_process_alike() {
        let ours = i32::try_from(std::process::id()).expect("process ids are small");
        let find = |rows: Vec<Row>| rows.into_iter().find(|row| row.pid == ours);
        assert!(find(table()).is_some());
        assert_eq!(find(table()), find(table_by_ps()));
    }
}
