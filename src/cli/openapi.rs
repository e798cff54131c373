//! `namegate openapi`: prints what the public listener serves as `/openapi.json`.

use std::io::Write;

use crate::cli::Exit;
use crate::http::document;

pub(super) fn run() -> Exit {
    // Whoever reads may have seen enough: a closed pipe is no fault.
    drop(std::io::stdout().write_all(document().as_bytes()));
    Exit::Done
}
