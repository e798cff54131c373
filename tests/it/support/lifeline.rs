//! A program never outlives the test process, even when that is ended by SIGKILL.
//!
//! A killed process runs no destructor, but the kernel closes its files. So beside each program a
//! small shell reads from a pipe whose other end is open in the test process alone:
//!
//! ```text
//! test process ═══ pipe ═══▶ watch: sh, `read`
//!      │                        │
//!      │ starts                 │ a line: the program has ended, the watch ends too
//!      ▼                        │ end of file: the test process is gone
//!   program ◀───────────────────┘ signal the program
//! ```
//!
//! The program leads a process group of its own: a Ctrl-C in the terminal ends the test process,
//! and the program by way of the pipe. Not covered: children that a program leaves behind.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::process::{self, Account, Pid, Signal};

/// How often an end is looked for.
const GLANCE: Duration = Duration::from_millis(5);

/// What a program may take to end after its last signal, before SIGKILL follows.
/// More than the 5 s after which a PostgreSQL that stops in haste kills its own stragglers.
const LAST_WORDS: Duration = Duration::from_secs(15);

/// Turns into the program: `exec` keeps the process id, so signals and exit status are the
/// program's own. The watch is a grandchild, so that a program which counts or stops its children
/// does not find it among them. It ignores the SIGHUP that the kernel sends to the group of a
/// stopped program whose parent dies. SIGCONT comes second: a stopped program acts on the first
/// signal only once it runs again.
const WATCH_AND_EXEC: &str = r#"
signal=$1 input=$2
shift 2
exec 3<&0 <"$input"
( (trap '' HUP; read -r _ <&3 || { kill "-$signal" $$; kill -CONT $$; }) >/dev/null 2>&1 & )
exec "$@" 3<&-
"#;

/// Arguments of the shell before the program: `-c`, the script, the shell's name, the signal, the
/// input.
const WRAPPER_WORDS: usize = 5;

/// A program about to be started on a lifeline.
#[derive(Debug)]
pub(crate) struct Leash {
    command: Command,
    last_signal: Signal,
}

impl Leash {
    /// `program` with the file `input` as its standard input, to be ended by SIGKILL.
    pub(crate) fn reading(input: &Path, program: impl AsRef<OsStr>) -> Self {
        Self::new(program.as_ref(), input, Signal::KILL)
    }

    /// `program` without input, to be ended by `last_signal`.
    pub(crate) fn ended_by(last_signal: Signal, program: impl AsRef<OsStr>) -> Self {
        Self::new(program.as_ref(), Path::new("/dev/null"), last_signal)
    }

    fn new(program: &OsStr, input: &Path, last_signal: Signal) -> Self {
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                WATCH_AND_EXEC,
                "sh",
                &last_signal.as_raw().to_string(),
            ])
            .arg(input)
            .arg(program)
            .process_group(0);
        Self {
            command,
            last_signal,
        }
    }

    /// The program and its arguments, for messages.
    pub(crate) fn shown(&self) -> String {
        let words = self.command.get_args().skip(WRAPPER_WORDS);
        words
            .map(OsStr::to_string_lossy)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The command, to add arguments, environment and output streams to; its standard input is
    /// taken.
    pub(crate) fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// Runs the program as `account`.
    pub(crate) fn run_as(mut self, account: Option<Account>) -> Self {
        process::run_as(&mut self.command, account);
        self
    }

    /// Starts the program. A program that cannot be found ends at once with code 127.
    pub(crate) fn start(mut self) -> io::Result<Leashed> {
        let mut child = self.command.stdin(Stdio::piped()).spawn()?;
        let lifeline = child.stdin.take();
        Ok(Leashed {
            child,
            lifeline,
            last_signal: self.last_signal,
            ended: None,
        })
    }
}

/// A running program that ends when this is dropped or the test process is gone.
#[derive(Debug)]
pub(crate) struct Leashed {
    child: Child,
    /// Closing it makes the watch end the program; present until the program has ended.
    lifeline: Option<ChildStdin>,
    last_signal: Signal,
    ended: Option<ExitStatus>,
}

impl Leashed {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends `signal`, unless the program has been seen to end.
    pub(crate) fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            process::signal(self.pid(), signal);
        }
    }

    /// The output streams that were asked to be piped; each can be taken once.
    pub(crate) fn outputs(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// How the program ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self
                .child
                .try_wait()
                .expect("a child that is waited for here alone can be waited for");
            if self.ended.is_some() {
                self.dismiss_watch();
            }
        }
        self.ended
    }

    /// Waits for the end without holding up other tasks; `None` when `patience` ran out first.
    pub(crate) async fn end_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            match self.ended() {
                None if Instant::now() < deadline => tokio::time::sleep(GLANCE).await,
                outcome => return outcome,
            }
        }
    }

    /// As [`Leashed::end_within`], holding up the thread.
    pub(crate) fn block_until_end(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            match self.ended() {
                None if Instant::now() < deadline => std::thread::sleep(GLANCE),
                outcome => return outcome,
            }
        }
    }

    /// A process id may be given away again once its process was waited for: the watch must not
    /// signal it then.
    fn dismiss_watch(&mut self) {
        if let Some(mut lifeline) = self.lifeline.take() {
            // A watch that is gone already needs no dismissal.
            let _ = lifeline.write_all(b"\n");
        }
    }
}

impl Drop for Leashed {
    fn drop(&mut self) {
        self.signal(self.last_signal);
        self.signal(Signal::CONT);
        if self.block_until_end(LAST_WORDS).is_none() {
            self.signal(Signal::KILL);
            self.block_until_end(LAST_WORDS);
        }
    }
}
