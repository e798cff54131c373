//! Programs from the system's packages, installed where that takes no question: by apt-get, as root.

use std::process::Command;

/// Whether a program of this name is in `PATH`.
pub(crate) fn has_command(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

/// Whether [`apt_get`] can be expected to work.
pub(crate) fn can_install() -> bool {
    rustix::process::geteuid().is_root() && has_command("apt-get")
}

/// Runs apt-get. Not on a lifeline: a package manager must not be ended half-way.
/// # Panics
/// When it fails; the message says that the tests need `what`.
pub(crate) fn apt_get(arguments: &[&str], what: &str) {
    let output = Command::new("apt-get")
        .args(["-o", "DPkg::Lock::Timeout=300"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .expect("apt-get is in PATH");
    assert!(
        output.status.success(),
        "apt-get {} failed, and the tests need {what}\n{}{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}
