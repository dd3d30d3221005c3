//! Runs the real `rpcd` as a node of a test's organisation: a process with its own configuration, state and log.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;

use muster_system::process::ProcessStat;
use muster_wire::sign::Signer;
use muster_wire::token::UserCredentials;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::await_state;
use crate::command::{end_program, print_log_of_failure};
use crate::organisation::Organisation;
use crate::program_version::ProgramVersion;

/// Puppet's directories of a daemon, unless its test sets others: locks and reports of one test's Puppet do not concern another's daemon.
const OWN_PUPPET: &str = "[plugins.puppet]\nvardir = \"../puppet\"\nrundir = \"../puppet/run\"\nlogdir = \"../puppet/log\"\nssldir = \"../puppet/ssl\"\n";

/// The directory of a daemon: its files, before and after it runs.
#[derive(Debug, Clone)]
pub struct DaemonHome(Arc<TempDir>);

/// A running daemon; dropping it kills it.
#[derive(Debug)]
pub struct Rpcd {
    child: Child,
    home: DaemonHome,
}

impl DaemonHome {
    /// Creates the files of a node that allows everything to everyone. `more` is added to the configuration.
    pub fn new(organisation: &Organisation, node: &Signer, url: &str, more: &str) -> Self {
        let identity = format!("identity = \"{}\"\n", node.identity());
        let home = Self::create_directory(organisation, &identity, url, more);
        let creds = UserCredentials::new(&node.token(), node.key_pair().clone()).unwrap();
        home.write("node.creds", &creds.to_text(), 0o600);
        home.write("account.jwt", &organisation.account_token(), 0o644);
        home
    }

    /// Creates the files of a machine with a bootstrap credential. `first` is placed at the beginning of its
    /// configuration.
    pub fn bootstrapping(
        organisation: &Organisation,
        bootstrap: &Signer,
        url: &str,
        first: &str,
        more: &str,
    ) -> Self {
        let more = format!("{more}\n[provisioning]\ncredentials = \"../bootstrap.creds\"\n");
        let home = Self::create_directory(organisation, first, url, &more);
        let creds = UserCredentials::new(&bootstrap.token(), bootstrap.key_pair().clone()).unwrap();
        home.write("bootstrap.creds", &creds.to_text(), 0o600);
        home.write("newcomers.jwt", organisation.bootstrap_account().token(), 0o644);
        home
    }

    /// A directory without files.
    pub fn empty() -> Self {
        Self(Arc::new(TempDir::new().unwrap()))
    }

    fn create_directory(organisation: &Organisation, first: &str, url: &str, more: &str) -> Self {
        let home = Self::empty();
        home.write("policies/default.policy", "policy default allow\n", 0o644);
        let collective = organisation.collective();
        let operator = organisation.trust().operator_key();
        let text = format!(
            "{first}collectives = [\"{collective}\"]\n\
             [broker]\nurls = [\"{url}\"]\nplaintext_on_loopback = true\n\
             [trust]\noperator = \"{operator}\"\n"
        );
        home.write("rpcd.toml", &text, 0o644);
        home.write(
            "conf.d/paths.toml",
            "[paths]\nstate = \"../state\"\naudit = \"../audit.log\"\nclasses = \"../classes.txt\"\n",
            0o644,
        );
        home.write("conf.d/00-puppet.toml", OWN_PUPPET, 0o644);
        home.write("conf.d/test.toml", more, 0o644);
        home.write("classes.txt", "", 0o644);
        for directory in ["facts.d", "puppet/state"] {
            std::fs::create_dir_all(home.path(directory)).unwrap();
        }
        home
    }

    /// The path of a file or directory of the daemon.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file of the daemon.
    pub fn write(&self, name: &str, text: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Starts the daemon, without waiting until it is connected.
    pub fn start(self) -> Rpcd {
        self.start_version(ProgramVersion::Present)
    }

    /// Like [`Self::start`], with the program of this version.
    pub fn start_version(self, version: ProgramVersion) -> Rpcd {
        let command = [version.find_program("rpcd").into_os_string()];
        self.start_through(&command)
    }

    /// Like [`Self::start`], through a command that becomes the daemon; the daemon's arguments are appended.
    #[expect(clippy::disallowed_types, reason = "starts the real daemon")]
    pub fn start_through(self, command: &[impl AsRef<std::ffi::OsStr>]) -> Rpcd {
        let [first, rest @ ..] = command else {
            panic!("nothing to start");
        };
        let log = File::create(self.path("log")).unwrap();
        let child = std::process::Command::new(first)
            .args(rest)
            .arg("--config")
            .arg(self.path("rpcd.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Rpcd { child, home: self }
    }
}

impl Rpcd {
    /// The daemon's files.
    pub fn home(&self) -> &DaemonHome {
        &self.home
    }

    /// The log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home.path("log")).unwrap_or_default()
    }

    /// The log by line, for `log.format = "json"`. An incomplete last line is left out.
    pub fn log_lines(&self) -> Vec<Value> {
        let log = self.log();
        let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
            .collect()
    }

    /// The process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Stops the process, as a machine that hangs does, and waits until all of its threads are stopped: one thread
    /// receives the signal, and the others stop some time later.
    pub async fn freeze(&self) {
        kill(Pid::from_raw(self.pid()), Signal::SIGSTOP).unwrap();
        let threads = PathBuf::from(format!("/proc/{}/task", self.pid()));
        let is_stopped = |thread: PathBuf| {
            let stat = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
            ProcessStat::parse(&stat).is_none_or(|stat| stat.state == 'T')
        };
        await_state("all threads of rpcd are stopped", || {
            let mut threads = std::fs::read_dir(&threads).unwrap();
            threads.all(|thread| is_stopped(thread.unwrap().path()))
        })
        .await;
    }

    /// Continues a frozen process.
    pub fn thaw(&self) {
        kill(Pid::from_raw(self.pid()), Signal::SIGCONT).unwrap();
    }

    /// Waits until the daemon serves requests.
    pub async fn await_ready(&mut self) {
        await_state("the daemon is ready", || {
            assert!(self.is_running(), "rpcd ended: {}", self.log());
            self.log().contains("ready identity=")
        })
        .await;
    }

    /// Stops the daemon as systemd does, and waits until it has ended.
    pub async fn stop_and_wait(&mut self) {
        kill(Pid::from_raw(self.pid()), Signal::SIGTERM).unwrap();
        await_state("the daemon stopped", || !self.is_running()).await;
    }

    /// Kills the process, as a power failure does, and waits until it has ended.
    pub fn kill_and_wait(&mut self) -> std::process::ExitStatus {
        self.child.kill().unwrap();
        self.child.wait().unwrap()
    }

    /// The exit status, if the daemon has exited.
    pub fn exit_status(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Whether the daemon is running.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Rpcd {
    fn drop(&mut self) {
        end_program(&mut self.child);
        print_log_of_failure("rpcd", || self.log());
    }
}
