//! Puppet's user owns the state of Puppet, which the daemon reads as root. The user leads the daemon neither to files that the user cannot read, nor to a
//! write elsewhere.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const TIMEOUT: Duration = Duration::from_secs(40);
const NODE: &str = "web1.example.net";
/// The user who owns Puppet's directories.
const PUPPET_USER: u32 = 65_534;
/// A line of a file that only root can read.
const SECRET: &str = "root_password_hash";

struct PuppetUserFleet {
    _organisation: Organisation,
    _server: NatsServer,
    rpc: RpcCommand,
    daemon: Rpcd,
}

impl PuppetUserFleet {
    async fn start() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
        let home = DaemonHome::new(&organisation, &organisation.node(NODE), &server.url(), "");
        fs::create_dir_all(home.path("puppet/state")).unwrap();
        for directory in ["puppet", "puppet/state"] {
            chown(home.path(directory), Some(PUPPET_USER), None).unwrap();
        }
        let paths = "[paths]\nstate = \"../state\"\naudit = \"../audit.log\"\nclasses = \"../puppet/state/classes.txt\"\n";
        home.write("conf.d/paths.toml", paths, 0o644);
        let vardir = home.path("puppet").display().to_string();
        let options =
            format!("[plugins.puppet]\nvardir = \"{vardir}\"\nrundir = \"{vardir}/run\"\n");
        home.write("conf.d/puppet.toml", &options, 0o644);
        home.write("root/classes.txt", SECRET, 0o600);
        let fleet =
            Self { _organisation: organisation, _server: server, rpc, daemon: home.start() };
        // Before that, the signal for reading the files again would end the daemon.
        poll_until_ok("the daemon is ready", TIMEOUT, async || {
            let log = fleet.daemon.log();
            if log.contains("ready identity=") { Ok(()) } else { Err(log) }
        })
        .await;
        fleet
    }

    fn path(&self, name: &str) -> PathBuf {
        self.daemon.home().path(name)
    }

    fn plant_file(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        chown(&path, Some(PUPPET_USER), None).unwrap();
    }

    fn plant_link(&self, target: &Path, name: &str) {
        let path = self.path(name);
        symlink(target, &path).unwrap();
        lchown(&path, Some(PUPPET_USER), None).unwrap();
    }

    /// What `rpc` shows of the node, with its classes.
    async fn inventory(&self) -> String {
        describe_output(&self.rpc.run(&["inventory", NODE]).await)
    }

    /// Makes the daemon read its files again, and waits until the node has this class.
    async fn await_classes(&self, class: &str) {
        poll_until_ok(&format!("the node has the class `{class}`"), TIMEOUT, async || {
            kill(Pid::from_raw(self.daemon.pid()), Signal::SIGHUP).unwrap();
            let shown = self.inventory().await;
            let is_shown = shown.contains(class);
            if is_shown { Ok(()) } else { Err(format!("{shown}\n{}", self.daemon.log())) }
        })
        .await;
    }

    /// Waits until the daemon has refused the classes `count` times, and asserts that it has published nothing of the secret.
    async fn await_refusal(&self, problem: &str) {
        let before = self.daemon.log().matches(problem).count();
        poll_until_ok(problem, TIMEOUT, async || {
            kill(Pid::from_raw(self.daemon.pid()), Signal::SIGHUP).unwrap();
            let shown = self.inventory().await;
            assert!(!shown.contains(SECRET), "{shown}");
            let log = self.daemon.log();
            if log.matches(problem).count() > before { Ok(()) } else { Err(log) }
        })
        .await;
        assert!(!self.inventory().await.contains(SECRET));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn link_of_puppets_user_reveals_no_file_of_root_as_classes() {
    assert!(nix::unistd::geteuid().is_root(), "only root can give files away");
    let fleet = PuppetUserFleet::start().await;
    let classes = fleet.path("puppet/state/classes.txt");
    fleet.plant_file("puppet/state/classes.txt", "first_class\n");
    fleet.await_classes("first_class").await;
    // The file itself, a directory above it, and a chain of links.
    fs::remove_file(&classes).unwrap();
    let secret = fleet.path("root/classes.txt");
    fleet.plant_link(&secret, "puppet/state/classes.txt");
    fleet.await_refusal("a link on its path belongs to user 65534").await;
    fs::remove_file(&classes).unwrap();
    fleet.plant_link(&secret, "puppet/hop");
    fleet.plant_link(Path::new("../hop"), "puppet/state/classes.txt");
    fleet.await_refusal("a link on its path belongs to user 65534").await;
    fs::remove_dir_all(fleet.path("puppet/state")).unwrap();
    fleet.plant_link(&fleet.path("root"), "puppet/state");
    fleet.await_refusal("a link on its path belongs to user 65534").await;
    // Links of root are followed, and those of the user to the user's own files.
    fs::remove_file(fleet.path("puppet/state")).unwrap();
    symlink(fleet.path("root"), fleet.path("puppet/state")).unwrap();
    fs::write(&secret, "class_of_root\n").unwrap();
    fleet.await_classes("class_of_root").await;
    fs::remove_file(fleet.path("puppet/state")).unwrap();
    fs::create_dir(fleet.path("puppet/own")).unwrap();
    fleet.plant_file("puppet/own/classes.txt", "class_of_user\n");
    fleet.plant_link(Path::new("own"), "puppet/state");
    fleet.await_classes("class_of_user").await;
}

/// A pipe has no end, and a device may act when it is opened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipe_or_device_as_list_of_classes_stops_nothing() {
    let fleet = PuppetUserFleet::start().await;
    let classes = fleet.path("puppet/state/classes.txt");
    nix::unistd::mkfifo(&classes, nix::sys::stat::Mode::S_IRWXU).unwrap();
    chown(&classes, Some(PUPPET_USER), None).unwrap();
    fleet.await_refusal("it is not a regular file").await;
    fs::remove_file(&classes).unwrap();
    symlink("/dev/zero", &classes).unwrap();
    fleet.await_refusal("it is not a regular file").await;
    fs::remove_file(&classes).unwrap();
    fleet.plant_file("puppet/state/classes.txt", "next_class\n");
    fleet.await_classes("next_class").await;
}
