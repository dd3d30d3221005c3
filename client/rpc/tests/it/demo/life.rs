//! Tests of `rpc demo` with the commands up, status and down.

#![expect(clippy::disallowed_types, reason = "runs the command that is tested")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use super::actor;

/// A scratch directory with a demonstration, which is stopped on drop.
struct World {
    scratch: tempfile::TempDir,
    daemon: PathBuf,
}

impl World {
    fn new(daemon: Option<&str>) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let daemon = daemon.map_or_else(|| actor::program(scratch.path()), PathBuf::from);
        Self { scratch, daemon }
    }

    fn directory(&self) -> PathBuf {
        self.scratch.path().join("demo")
    }

    fn rpc(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_rpc"))
            .arg("demo")
            .args(args)
            .arg("--dir")
            .arg(self.directory())
            .env("RPCD", &self.daemon)
            .env("XDG_CONFIG_HOME", self.scratch.path().join("config"))
            .env("NATS_SERVER", nats_server())
            .output()
            .unwrap()
    }

    fn record(&self) -> Value {
        let text = fs::read_to_string(self.directory().join("demo.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn broker_url(&self) -> String {
        self.record()["broker"]["url"].as_str().unwrap().to_owned()
    }

    fn pids(&self) -> Vec<u64> {
        let record = self.record();
        let nodes = record["nodes"].as_array().unwrap();
        nodes.iter().chain([&record["broker"]]).map(|one| one["pid"].as_u64().unwrap()).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.rpc(&["down"]);
    }
}

/// `$NATS_SERVER`, the program that `make tools` fetched, or the one in `$PATH`. Panics without any of them.
fn nats_server() -> PathBuf {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/nats-server");
    let named = std::env::var_os("NATS_SERVER").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    named
        .or_else(|| fetched.is_file().then_some(fetched))
        .or_else(|| {
            std::env::split_paths(&path)
                .map(|directory| directory.join("nats-server"))
                .find(|path| path.is_file())
        })
        .expect("there is no nats-server: run `make tools`, or set NATS_SERVER")
}

/// A zombie process counts as ended.
fn is_running(pid: u64) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
}

fn talk(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn up_starts_all_processes_and_down_stops_them() {
    let world = World::new(None);
    let up = world.rpc(&["up", "--nodes", "3"]);
    assert_eq!(up.status.code(), Some(0), "{}", talk(&up));
    let config = world.directory().join("rpc.toml");
    let program = Path::new(env!("CARGO_BIN_EXE_rpc"));
    let port = world.broker_url().rsplit(':').next().unwrap().to_owned();
    assert_eq!(
        String::from_utf8_lossy(&up.stdout),
        format!(
            "export RPC_CONFIG={}\nexport DEMO_PORT={port}\nexport PATH={}:\"$PATH\"\n",
            config.display(),
            program.parent().unwrap().display()
        )
    );
    assert!(config.is_file());
    let pids = world.pids();
    assert_eq!(pids.len(), 4);
    assert!(pids.iter().all(|pid| is_running(*pid)));

    let status = world.rpc(&["status"]);
    assert_eq!(status.status.code(), Some(0));
    let shown = String::from_utf8_lossy(&status.stdout).into_owned();
    assert_eq!(shown.matches("running").count(), 4, "{shown}");
    assert!(shown.contains("db1.dev.acme.net") && shown.contains("MiB"), "{shown}");
    let passwd = world.directory().join("nodes/db1.dev.acme.net/root/etc/passwd");
    assert!(fs::read_to_string(passwd).unwrap().starts_with("root:"));

    let again = world.rpc(&["up"]);
    assert_eq!((again.status.code(), &again.stdout), (Some(0), &up.stdout), "{}", talk(&again));
    assert_eq!(world.pids(), pids);
    let down = world.rpc(&["down"]);
    assert_eq!(down.status.code(), Some(0), "{}", talk(&down));
    assert!(!pids.iter().any(|pid| is_running(*pid)));
    assert!(!world.directory().exists());
    assert_eq!(world.rpc(&["down"]).status.code(), Some(1));
}

#[test]
fn failed_node_is_reported_and_all_processes_are_stopped() {
    let world = World::new(Some("/bin/false"));
    let up = world.rpc(&["up", "--nodes", "2"]);
    assert_eq!(up.status.code(), Some(1));
    assert!(talk(&up).contains("db1.dev.acme.net exited (exit status: 1)"), "{}", talk(&up));
    assert!(!world.pids().into_iter().any(is_running));
    assert_eq!(world.rpc(&["status"]).status.code(), Some(1));
}

#[test]
fn foreign_directory_is_left_unchanged() {
    let world = World::new(Some("/bin/false"));
    fs::create_dir(world.directory()).unwrap();
    fs::write(world.directory().join("mine"), "x").unwrap();
    assert_eq!(world.rpc(&["up"]).status.code(), Some(1));
    assert_eq!(world.rpc(&["down"]).status.code(), Some(1));
    assert_eq!(fs::read_to_string(world.directory().join("mine")).unwrap(), "x");
}
