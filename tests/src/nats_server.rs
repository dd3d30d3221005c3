//! A real nats-server on a free loopback port; stopped through its process handle.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use muster_wire::limits::MAX_CONNECT_BYTES;
use tempfile::TempDir;

use crate::command::{end_program, print_log_of_failure};
use crate::organisation::Broker;
use crate::{await_state, poll_until_ok};

/// A running server.
#[derive(Debug)]
pub struct NatsServer {
    child: Child,
    /// The server, or a program that becomes it; the arguments follow.
    command: Vec<OsString>,
    directory: TempDir,
    host: String,
    port: u16,
}

impl NatsServer {
    /// Starts a server with this configuration; address, log and directories are added.
    pub async fn start(configuration: &str) -> Self {
        Self::start_on(configuration, "127.0.0.1", None).await
    }

    /// Like [`Self::start`], through a command that becomes the server; the server's arguments are appended.
    pub async fn start_through(command: &[OsString], configuration: &str) -> Self {
        Self::launch(command.to_vec(), configuration, "127.0.0.1", None).await
    }

    /// Like [`Self::start`], on this address, and on this port or a free one.
    pub async fn start_on(configuration: &str, host: &str, port: Option<u16>) -> Self {
        Self::launch(vec![find_binary().into_os_string()], configuration, host, port).await
    }

    async fn launch(
        command: Vec<OsString>,
        configuration: &str,
        host: &str,
        port: Option<u16>,
    ) -> Self {
        let directory = TempDir::new().unwrap();
        let root = directory.path().display();
        let requested_port = port.map_or("-1".to_owned(), |port| port.to_string());
        // As in the generated configuration: the token of an administrator names the subjects of all stores.
        let text = format!(
            "host: {host}\nport: {requested_port}\nports_file_dir: \"{root}\"\nlog_file: \"{root}/log\"\n\
             max_connections: 100000\nmax_control_line: {MAX_CONNECT_BYTES}\nwrite_deadline: \"10s\"\n{}",
            configuration.replace("@DIRECTORY@", &root.to_string())
        );
        let file = directory.path().join("nats.conf");
        std::fs::write(&file, text).unwrap();
        let child = spawn(&command, &file);
        let ports = directory.path().join(format!("nats-server_{}.ports", child.id()));
        let mut server = Self { child, command, directory, host: host.to_owned(), port: 0 };
        let mut found = None;
        await_state(&format!("nats-server writes its port to {}", ports.display()), || {
            assert!(
                server.child.try_wait().unwrap().is_none(),
                "nats-server ended: {}",
                server.log()
            );
            found = read_port(&ports);
            found.is_some()
        })
        .await;
        server.port = found.unwrap();
        server
    }

    /// Kills the server and starts it again on the same port with the same state.
    pub async fn restart(mut self) -> Self {
        self.kill();
        self.revive().await;
        self
    }

    /// Kills the server without a shutdown, as a power failure does.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Makes the server ask its clients to leave, and refuse new ones.
    pub fn enter_lame_duck_mode(&self) {
        let pid = nix::unistd::Pid::from_raw(self.pid().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGUSR2).unwrap();
    }

    /// Waits until the server has ended by itself.
    pub async fn await_end(&mut self, timeout: Duration) {
        poll_until_ok("nats-server ends", timeout, async || match self.child.try_wait() {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }

    /// The directory of the streams.
    pub fn streams_path(&self) -> PathBuf {
        self.directory.path().join("jetstream")
    }

    /// Removes the streams of a killed server, as the loss of its disk does.
    pub fn remove_streams(&self) {
        std::fs::remove_dir_all(self.streams_path()).unwrap();
    }

    /// Copies the streams of a killed server.
    pub fn copy_streams(&self) -> TempDir {
        let copy = TempDir::new().unwrap();
        copy_directory(&self.streams_path(), copy.path());
        copy
    }

    /// Replaces the streams of a killed server with an earlier copy: everything that was stored since then is lost.
    pub fn restore_streams(&self, copy: &TempDir) {
        self.remove_streams();
        copy_directory(copy.path(), &self.streams_path());
    }

    /// Starts a killed server again on the same port with the same state.
    pub async fn revive(&mut self) {
        let port = self.port;
        let file = self.directory.path().join("nats.conf");
        let text = std::fs::read_to_string(&file)
            .unwrap()
            .replace("port: -1\n", &format!("port: {port}\n"));
        std::fs::write(&file, text).unwrap();
        self.child = spawn(&self.command, &file);
        let ports = self.directory.path().join(format!("nats-server_{}.ports", self.child.id()));
        await_state("nats-server is back", || read_port(&ports).is_some()).await;
    }

    /// The client port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("nats://{}:{}", self.host, self.port)
    }

    /// The process id, for measurements.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The server's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }
}

impl Broker for NatsServer {
    fn port(&self) -> u16 {
        self.port
    }

    fn urls(&self) -> Vec<String> {
        vec![self.url()]
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        end_program(&mut self.child);
        print_log_of_failure("nats-server", || self.log());
    }
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn read_port(ports: &Path) -> Option<u16> {
    let text = std::fs::read_to_string(ports).ok()?;
    let ports: serde_json::Value = serde_json::from_str(&text).ok()?;
    ports.pointer("/nats/0")?.as_str()?.rsplit(':').next()?.parse().ok()
}

#[expect(clippy::disallowed_types, reason = "the harness starts the broker")]
fn spawn(command: &[OsString], file: &Path) -> Child {
    let [program, arguments @ ..] = command else {
        panic!("nothing to start");
    };
    std::process::Command::new(program)
        .args(arguments)
        .arg("-c")
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nats-server can be started; run `make tools`, or set NATS_SERVER")
}

/// `$NATS_SERVER`, or the one that `make tools` downloaded, or the one in the search path.
pub fn find_binary() -> PathBuf {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/nats-server");
    let fallback = || {
        if fetched.exists() { fetched } else { PathBuf::from("nats-server") }
    };
    std::env::var_os("NATS_SERVER").map_or_else(fallback, PathBuf::from)
}

/// How long an operation on loopback may take before a test fails, on a machine that does much else.
pub const NETWORK_TIMEOUT: Duration = Duration::from_mins(1);
