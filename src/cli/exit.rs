//! How a command ends. The list is printed by `--help` and documented in the README.

use std::fmt;
use std::process::ExitCode;

use crate::gate::StoreError;

/// Exit codes, as documented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The answer is no.
    No = 1,
    /// A flag, a variable or a combination of them is wrong.
    Usage = 2,
    /// A file cannot be read or written.
    File = 3,
    /// The database cannot be reached, or lets nobody in.
    Unreachable = 4,
    /// The database is reached but does not fit.
    Unfit = 5,
    /// An address cannot be listened on.
    Address = 6,
    /// The service cannot be reached, or could not find out.
    Service = 7,
    /// A fault in namegate itself.
    Fault = 70,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command could not do its job.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    error: anyhow::Error,
}

impl Failure {
    /// A failure that ends the process with `exit`.
    #[must_use]
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit,
            error: error.into(),
        }
    }

    /// A failure of the store, with the exit code that tells its kind. `doing`: what could not be done.
    #[must_use]
    pub fn store(error: StoreError, doing: impl fmt::Display + Send + Sync + 'static) -> Self {
        let exit = match &error {
            StoreError::Unreachable(_) | StoreError::Overdue(_) | StoreError::Refused(_) => {
                Exit::Unreachable
            }
            StoreError::Unfit(_) | StoreError::Distrusted(_) => Exit::Unfit,
            _ => Exit::Fault,
        };
        Self {
            exit,
            error: anyhow::Error::new(error).context(doing.to_string()),
        }
    }

    /// The code the process ends with.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The whole chain in one line, whatever a driver puts into its messages.
        let chain = format!("{:#}", self.error);
        f.write_str(&chain.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}
