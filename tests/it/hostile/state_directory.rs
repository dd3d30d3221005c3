//! The daemon's state directory, which a local user could change: the daemon does not start with it, because the user could make it accept repeated requests,
//! used approvals and revoked keys.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;
use std::time::Duration;

use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::poll_until_ok;
use muster_tests::rpcd::DaemonHome;

const START_TIMEOUT: Duration = Duration::from_secs(40);
/// A user who is neither root nor the daemon's.
const THIRD_USER: u32 = 65_534;

struct StateFixture {
    _server: NatsServer,
    home: DaemonHome,
}

impl StateFixture {
    /// A daemon that has run once and is stopped.
    async fn start() -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let node = organisation.node("web1.example.net");
        let home = DaemonHome::new(&organisation, &node, &server.url(), "");
        let fixture = Self { _server: server, home };
        fixture.await_ready().await;
        fixture
    }

    /// Starts the daemon, waits until it is ready, and kills it.
    async fn await_ready(&self) {
        let mut daemon = self.home.clone().start();
        poll_until_ok("the daemon is ready", START_TIMEOUT, async || {
            let log = daemon.log();
            if log.contains("ready identity=") { Ok(()) } else { Err(log) }
        })
        .await;
        daemon.kill_and_wait();
    }

    /// Starts the daemon, and waits until it has ended with an error that has this command.
    async fn await_refusal(&self, remedy: &str, path: &Path) {
        let mut daemon = self.home.clone().start();
        let status = poll_until_ok("the daemon ends", START_TIMEOUT, async || {
            daemon.exit_status().ok_or_else(|| daemon.log())
        })
        .await;
        let name = path.file_name().unwrap().to_str().unwrap();
        let log = daemon.log();
        let advice = log.split(&format!("run `{remedy} /")).nth(1).unwrap_or_default();
        let is_named = advice.split('`').next().unwrap_or_default().ends_with(&format!("/{name}"));
        assert!(!status.success() && is_named, "{remedy} {name}: {status}\n{log}");
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemon_does_not_start_with_state_that_a_local_user_can_change() {
    assert!(nix::unistd::geteuid().is_root(), "only root can give files away");
    let fixture = StateFixture::start().await;
    let state = fixture.home.path("state");
    for mode in [0o777, 0o1777, 0o770] {
        set_mode(&state, mode);
        fixture.await_refusal("chmod go-w", &state).await;
    }
    set_mode(&state, 0o700);
    chown(&state, Some(THIRD_USER), None).unwrap();
    fixture.await_refusal("chown -h root", &state).await;
    chown(&state, Some(0), None).unwrap();
    // What a user has left there while the directory was open stays that user's.
    for name in ["seen", "begun", "again"] {
        let path = state.join(name);
        chown(&path, Some(THIRD_USER), None).unwrap();
        fixture.await_refusal("chown -h root", &path).await;
        chown(&path, Some(0), None).unwrap();
    }
    let seen = state.join("seen");
    set_mode(&seen, 0o666);
    fixture.await_refusal("chmod go-w", &seen).await;
    set_mode(&seen, 0o600);
    let moved = fixture.home.path("seen");
    fs::rename(&seen, &moved).unwrap();
    symlink(&moved, &seen).unwrap();
    lchown(&seen, Some(THIRD_USER), None).unwrap();
    fixture.await_refusal("chown -h root", &seen).await;
    fs::rename(&moved, &seen).unwrap();
    fixture.await_ready().await;
}
