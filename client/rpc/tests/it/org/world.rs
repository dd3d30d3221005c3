//! A scratch directory with an organisation, and the command that operates on it.

#![expect(clippy::disallowed_types, reason = "runs the command that is tested")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A scratch directory with an organisation.
pub(crate) struct World {
    pub(crate) scratch: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(init: &[&str]) -> Self {
        let world = Self { scratch: tempfile::tempdir().unwrap() };
        let directory = world.org();
        let args = ["org", "init", directory.to_str().unwrap(), "--name", "acme"];
        let made = world.rpc(&[&args, init].concat());
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        world
    }

    pub(crate) fn org(&self) -> PathBuf {
        self.scratch.path().join("org")
    }

    pub(crate) fn rpc(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_rpc"))
            .args(args)
            .env("MUSTER_ORG", self.org())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs a command that must succeed, and returns its standard output.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.rpc(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", talk(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }

    /// Name and state of each entry in the list.
    pub(crate) fn states(&self) -> Vec<(String, String)> {
        let list = self.json(&["org", "list", "-j"]);
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        let parties = list["parties"].as_array().unwrap();
        parties.iter().map(|row| (text(row, "name"), text(row, "state"))).collect()
    }
}

pub(crate) fn talk(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn pair(name: &str, state: &str) -> (String, String) {
    (name.to_owned(), state.to_owned())
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Every file below a directory.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}
