//! Stand-in for the daemon: reports readiness to the given address and runs until it is stopped.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Writes a program that runs the test below when it is started as `rpcd`.
pub(crate) fn program(directory: &Path) -> PathBuf {
    let path = directory.join("rpcd");
    let this = env::current_exe().unwrap();
    let script = format!(
        "#!/bin/sh\nexec '{}' --exact demo::actor::runs_as_the_daemon --ignored\n",
        this.display()
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
#[ignore = "is run by the demonstration, as its daemon"]
fn runs_as_the_daemon() {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    UnixDatagram::unbound().unwrap().send_to(b"READY=1\nSTATUS=connected here", path).unwrap();
    loop {
        std::thread::park();
    }
}
