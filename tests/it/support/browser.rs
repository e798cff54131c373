//! Pages in a real Chromium, driven by keyboard and mouse through its `DevTools` protocol.
//!
//! ```text
//!   test ── Page ──▶ commands, a named pipe ──▶ Chromium (headless)
//!                ◀── standard output ──────────   one process, shared; each page a profile of its own
//! ```
//!
//! The protocol goes through pipes (`--remote-debugging-pipe`), JSON messages with a NUL behind each: no port, no
//! WebSocket, no driver program. A page is closed when it is dropped; the browser ends with the test process.
//!
//! Nothing here waits for a fixed time to see something happen: [`Page::until`] looks again and again.

mod installation;
mod page;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::lifeline::{Leash, Leashed};
use super::scratch::ScratchDir;

pub(crate) use page::{Key, Node, Page};

/// More than any command takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// Standard input is the pipe of commands, standard output that of answers. What Chromium itself prints goes to
/// standard error.
const PROTOCOL_ON_3_AND_4: &str = r#"exec "$@" 3<&0 4>&1 >&2 </dev/null"#;

const FLAGS: [&str; 14] = [
    "--headless",
    "--no-sandbox", // root, and containers, have none
    "--disable-gpu",
    "--disable-dev-shm-usage", // small in containers
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    // Pages that are not in front shall not be slow.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
];

/// A running Chromium.
struct Browser {
    commands: Mutex<File>,
    /// Commands sent so far, to number the next one.
    sent: AtomicU64,
    inbox: Arc<Inbox>,
    _process: Leashed,
    _directory: ScratchDir,
}

/// What came from the browser.
#[derive(Default)]
struct Inbox {
    /// Who waits for the answer to which command.
    waiting: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    /// What happened on each page, by its session; only sessions in here are kept.
    events: Mutex<HashMap<String, Vec<Value>>>,
    /// What Chromium printed.
    story: Mutex<String>,
}

impl Browser {
    /// The browser that the tests of this process share, started on first use.
    /// # Panics
    /// When there is none and none can be installed.
    fn shared() -> &'static Self {
        static SHARED: OnceLock<Browser> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    fn start() -> Self {
        let directory = ScratchDir::new(None, "");
        let commands = directory.path().join("commands");
        let made = Command::new("mkfifo").arg(&commands).status();
        assert!(
            made.is_ok_and(|status| status.success()),
            "mkfifo makes a pipe"
        );
        // For reading too: opening it for writing alone would wait for a reader.
        let ours = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&commands)
            .expect("a pipe of our own can be opened");
        let mut leash = Leash::reading(&commands, "sh");
        leash
            .command()
            .args(["-c", PROTOCOL_ON_3_AND_4, "sh"])
            .arg(installation::program())
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", directory.path().display()))
            .env("HOME", directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut process = leash.start().expect("a POSIX shell named sh is in PATH");
        let (answers, story) = process.outputs();
        let inbox = Arc::<Inbox>::default();
        if let (Some(answers), Some(story)) = (answers, story) {
            let (answered, told) = (Arc::clone(&inbox), Arc::clone(&inbox));
            thread::spawn(move || answered.read_messages(answers));
            thread::spawn(move || told.read_story(story));
        }
        Self {
            commands: Mutex::new(ours),
            sent: AtomicU64::new(0),
            inbox,
            _process: process,
            _directory: directory,
        }
    }

    /// Sends a command, to the browser or to one page, and waits for what it brings.
    /// # Panics
    /// When the browser refuses it or does not answer.
    async fn call(&self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        self.try_call(session, method, &parameters)
            .await
            .unwrap_or_else(|refusal| panic!("the browser refuses {method}: {refusal}"))
    }

    /// As [`Browser::call`]; a refusal is the error.
    async fn try_call(
        &self,
        session: Option<&str>,
        method: &str,
        parameters: &Value,
    ) -> Result<Value, Value> {
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        let (answer, answered) = oneshot::channel();
        lock(&self.inbox.waiting).insert(number, answer);
        self.send(number, session, method, parameters);
        let Ok(Ok(reply)) = timeout(PATIENCE, answered).await else {
            panic!(
                "the browser does not answer {method}:\n{}",
                lock(&self.inbox.story)
            )
        };
        match reply.get("error") {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(reply["result"].clone()),
        }
    }

    fn send(&self, number: u64, session: Option<&str>, method: &str, parameters: &Value) {
        let mut message = json!({"id": number, "method": method, "params": parameters});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        // When the browser is gone, the answer fails to come and its story is told.
        let _ = lock(&self.commands).write_all(&bytes);
    }
}

impl Inbox {
    fn read_messages(&self, answers: impl Read) {
        let mut answers = BufReader::new(answers);
        let mut message = Vec::new();
        while answers
            .read_until(0, &mut message)
            .is_ok_and(|length| length > 0)
        {
            message.pop_if(|last| *last == 0);
            if let Ok(message) = serde_json::from_slice(&message) {
                self.take(message);
            }
            message.clear();
        }
        lock(&self.waiting).clear(); // nobody shall wait for a browser that is gone
    }

    fn take(&self, message: Value) {
        if let Some(number) = message["id"].as_u64() {
            if let Some(answer) = lock(&self.waiting).remove(&number) {
                let _ = answer.send(message); // nobody may wait any more
            }
        } else if let Some(session) = message["sessionId"].as_str()
            && let Some(events) = lock(&self.events).get_mut(session)
        {
            events.push(message);
        }
    }

    fn read_story(&self, story: impl Read) {
        for line in BufReader::new(story).lines().map_while(Result::ok) {
            let mut story = lock(&self.story);
            story.push_str(&line);
            story.push('\n');
        }
    }
}

/// What is guarded here is whole at any time, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
