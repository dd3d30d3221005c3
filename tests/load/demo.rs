//! The fleet of a demonstration, as `rpc demo up` starts it: real daemon processes, and a broker with TLS.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "complete programs are measured and waited for"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use muster_tests::nats_server;
use serde_json::Value;
use tempfile::TempDir;

use crate::process::find_program;

/// How long a daemon may take to start, and the previous one to end.
const READY_TIMEOUT: Duration = Duration::from_mins(1);

/// A running demonstration; dropping it stops it.
pub(crate) struct Demo {
    directory: TempDir,
    record: Value,
}

impl Demo {
    /// Starts a demonstration with this number of nodes; returns when they are ready.
    pub(crate) fn start(nodes: usize) -> Self {
        let mut demo = Self { directory: TempDir::new().unwrap(), record: Value::Null };
        let directory = demo.directory();
        let output = demo
            .rpc(&["demo", "up", "--nodes", &nodes.to_string(), "--dir"])
            .arg(&directory)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let record = std::fs::read(directory.join("demo.json")).unwrap();
        demo.record = serde_json::from_slice(&record).unwrap();
        demo
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.directory.path().join("fleet")
    }

    /// The command as the demonstration's user.
    pub(crate) fn rpc(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(find_program("rpc"));
        let broker = nats_server::find_binary();
        let tools = broker.parent().unwrap_or(Path::new(""));
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(arguments)
            .env("RPC_CONFIG", self.directory().join("rpc.toml"))
            .env("RPCD", find_program("rpcd"))
            .env("HOME", self.directory.path())
            .env("XDG_STATE_HOME", self.directory.path().join("state"))
            .env_remove("XDG_CACHE_HOME")
            .env("PATH", format!("{}:{path}", tools.display()))
            .stdin(Stdio::null());
        command
    }

    /// Process id of the broker.
    pub(crate) fn broker(&self) -> u32 {
        process_id(self.record.pointer("/broker/pid"))
    }

    /// The nodes' names and process ids.
    pub(crate) fn nodes(&self) -> Vec<(String, u32)> {
        let nodes = self.record.pointer("/nodes").and_then(Value::as_array);
        let node = |node: &Value| {
            let name = node.pointer("/name").and_then(Value::as_str).unwrap();
            (name.to_owned(), process_id(node.pointer("/pid")))
        };
        nodes.unwrap().iter().map(node).collect()
    }

    /// Stops this node and restarts it with every plugin that a node can have.
    pub(crate) fn restart_with_all_plugins(&self, node: &str) -> RestartedDaemon {
        let plugins = ["shell", "puppet", "provision", "puppetca", "tunnel"];
        let text = plugins.map(|name| format!("[plugins.{name}]\nenabled = true\n")).concat();
        self.restart_with(node, &text)
    }

    /// Stops this node and restarts it with more configuration, and a policy that allows everything.
    pub(crate) fn restart_with(&self, node: &str, text: &str) -> RestartedDaemon {
        let home = self.directory().join("nodes").join(node);
        let pid = self.nodes().into_iter().find(|(name, _)| name == node);
        let (_, pid) = pid.unwrap();
        let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        let config = home.join("rpcd.toml");
        // A file of its own: the demo's file has some of these tables.
        let drop_in = home.join("conf.d/bench.toml");
        std::fs::create_dir_all(drop_in.parent().unwrap()).unwrap();
        std::fs::write(&drop_in, text).unwrap();
        let policy = "policy default allow\n";
        std::fs::write(home.join("policies/default.policy"), policy).unwrap();
        let log = home.join("everything.log");
        let deadline = Instant::now() + READY_TIMEOUT;
        // The previous daemon keeps the lock of its state until it has ended.
        loop {
            if let Some(child) = start_daemon(&config, &log, deadline) {
                return RestartedDaemon(child);
            }
        }
    }
}

/// Starts a daemon and returns it when it is ready; `None` if another daemon still holds the lock of its state.
fn start_daemon(config: &Path, log: &Path, deadline: Instant) -> Option<Child> {
    let mut child = Command::new(find_program("rpcd"))
        // As the unit and `rpc demo up` do.
        .env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
        .arg("--config")
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(log).unwrap())
        .spawn()
        .unwrap();
    loop {
        let text = std::fs::read_to_string(log).unwrap();
        if text.contains("ready") {
            return Some(child);
        }
        if child.try_wait().unwrap().is_some() {
            assert!(text.contains("another rpcd is running"), "{text}");
            assert!(Instant::now() < deadline, "the previous daemon did not end");
            return None;
        }
        assert!(Instant::now() < deadline, "not ready in time: {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let directory = self.directory();
        let _ = self.rpc(&["demo", "down", "--dir"]).arg(directory).output();
    }
}

/// A restarted daemon; dropping it kills it.
pub(crate) struct RestartedDaemon(Child);

impl RestartedDaemon {
    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for RestartedDaemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn process_id(value: Option<&Value>) -> u32 {
    u32::try_from(value.and_then(Value::as_u64).unwrap()).unwrap()
}
