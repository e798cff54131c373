//! Chromium: found, or installed when it is missing and may be, or asked for in one sentence.

use std::path::{Path, PathBuf};

use crate::support::packages::{apt_get, can_install, has_command};

const NAMES: [&str; 5] = [
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
    "chrome",
];
const ELSEWHERE: [&str; 2] = [
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];

/// # Panics
/// When there is none and none can be installed; the message holds the command to run.
pub(super) fn program() -> PathBuf {
    let program = find().or_else(|| install().then(find).flatten());
    program.unwrap_or_else(|| {
        panic!(
            "the tests of the pages need Chromium or Chrome; install it with: {}",
            advice()
        )
    })
}

fn find() -> Option<PathBuf> {
    let in_path = NAMES
        .into_iter()
        .find(|name| has_command(name))
        .map(PathBuf::from);
    in_path.or_else(|| {
        ELSEWHERE
            .into_iter()
            .find(|path| Path::new(path).is_file())
            .map(PathBuf::from)
    })
}

/// Says whether it tried.
fn install() -> bool {
    const WHAT: &str = "Chromium";
    if !can_install() {
        return false;
    }
    apt_get(&["update"], WHAT);
    apt_get(
        &["install", "--yes", "--no-install-recommends", "chromium"],
        WHAT,
    );
    true
}

fn advice() -> &'static str {
    const BY_MANAGER: [(&str, &str); 6] = [
        ("apt-get", "sudo apt-get install chromium"),
        ("dnf", "sudo dnf install chromium"),
        ("zypper", "sudo zypper install chromium"),
        ("pacman", "sudo pacman -S chromium"),
        ("apk", "sudo apk add chromium"),
        ("brew", "brew install --cask chromium"),
    ];
    let known = BY_MANAGER.iter().find(|(manager, _)| has_command(manager));
    known.map_or(
        "see https://www.chromium.org/getting-involved/download-chromium/",
        |(_, command)| command,
    )
}
