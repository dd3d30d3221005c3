//! Ten thousand revocations with one command: the broker, a running node and callers apply them, and the list is pruned when
//! the revoked tokens have expired.

#![expect(clippy::disallowed_types, reason = "runs the real programs")]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant, SystemTime};

use muster_wire::token::claims::AccountClaims;
use muster_wire::token::decode::decode_token;
use muster_wire::token::{KeyKind, KeyPair};
use serde_json::json;

use super::broker::{Broker, nats_server};
use super::world::{World, talk};

const REVOKED: usize = 10_000;
const DAY: u64 = 24 * 60 * 60;

/// A running daemon, stopped on drop.
pub(crate) struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The daemon's program, which `make unit` builds beside `rpc`.
fn rpcd() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_rpc")).with_file_name("rpcd");
    assert!(path.is_file(), "run `cargo build --bin rpcd`");
    path
}

fn start_node(world: &World) -> Daemon {
    start_daemon(world, "web1", "")
}

/// Starts the daemon of a new node that allows everything. `more` is added to its configuration.
pub(crate) fn start_daemon(world: &World, name: &str, more: &str) -> Daemon {
    let directory = world.scratch.path().join("node");
    world.ok(&["org", "add", "node", name, "--bundle", directory.to_str().unwrap()]);
    fs::create_dir_all(directory.join("conf.d")).unwrap();
    let paths =
        "[paths]\nstate = \"../state\"\naudit = \"../audit.log\"\n[policy]\ndefault = \"allow\"\n";
    fs::write(directory.join("conf.d/test.toml"), format!("{paths}{more}")).unwrap();
    let child = Command::new(rpcd())
        .arg("--config")
        .arg(directory.join("rpcd.toml"))
        .stderr(File::create(directory.join("log")).unwrap())
        .spawn()
        .unwrap();
    Daemon(child)
}

fn add_user(world: &World, name: &str) {
    let directory = world.scratch.path().join(name);
    world.ok(&["org", "add", "user", name, "--bundle", directory.to_str().unwrap()]);
}

fn ping(world: &World, name: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rpc"))
        .args(["ping", "-I", "web1"])
        .env("RPC_CONFIG", world.scratch.path().join(name).join("rpc.toml"))
        .env("HOME", world.scratch.path())
        .output()
        .unwrap()
}

/// Appends records of users whose tokens expire at this time, and returns their names.
fn issue_many(world: &World, expires: u64) -> Vec<String> {
    let mut text = fs::read_to_string(world.org().join("issued.jsonl")).unwrap();
    let names = (0..REVOKED).map(|number| format!("leaver{number}"));
    let names: Vec<String> = names.collect();
    for name in &names {
        let key = KeyPair::generate(KeyKind::User).unwrap().public_key();
        let record = json!({
            "kind": "user", "name": name, "key": key, "issued_at": expires - 90 * DAY,
            "expires": expires, "token": "a.b.c",
        });
        writeln!(text, "{record}").unwrap();
    }
    fs::write(world.org().join("issued.jsonl"), text).unwrap();
    names
}

fn account(path: &Path) -> (usize, Option<AccountClaims>) {
    let text = fs::read_to_string(path).unwrap_or_default();
    let decoded = decode_token::<AccountClaims>(text.trim()).ok();
    let claims = decoded.map(|decoded| decoded.unverified_claims().nats.clone());
    (text.trim().len(), claims)
}

pub(crate) async fn await_state(what: &str, mut holds: impl FnMut() -> bool) {
    let latest = Instant::now() + Duration::from_mins(1);
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    while !holds() {
        ticks.tick().await;
        assert!(Instant::now() < latest, "{what}");
    }
}

/// Run by `make test-all`.
mod long {
    use super::{
        Broker, DAY, Duration, Instant, REVOKED, SystemTime, World, account, add_user, await_state,
        fs, issue_many, nats_server, ping, start_node, talk,
    };

    #[tokio::test(flavor = "multi_thread")]
    async fn ten_thousand_revocations_are_applied_and_pruned_after_expiry() {
        let program = nats_server();
        let world = World::new(&["--no-tls"]);
        let _broker = Broker::start(&program, &world, true).await;
        world.ok(&["org", "push"]);
        for name in ["rip", "last", "anna"] {
            add_user(&world, name);
        }
        let _node = start_node(&world);
        await_state("the node answers", || ping(&world, "rip").status.success()).await;
        assert!(ping(&world, "last").status.success());

        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let mut names = issue_many(&world, now + 30 * DAY);
        names.push("last".to_owned());
        let list = world.scratch.path().join("list");
        fs::write(&list, names.join("\n")).unwrap();
        let begun = Instant::now();
        let revoked = world.rpc(&["org", "revoke", "--yes", "--from", list.to_str().unwrap()]);
        assert!(revoked.status.success(), "{}", talk(&revoked));
        assert!(!talk(&revoked).contains("cannot publish"), "{}", talk(&revoked));
        assert!(begun.elapsed() < Duration::from_mins(1), "{begun:?}");

        let (bytes, claims) = account(&world.org().join("account.jwt"));
        assert_eq!(claims.unwrap().revocations.len(), REVOKED + 1);
        assert!(bytes < 1_000_000, "{bytes}");
        let kept = world.scratch.path().join("node/state/account.jwt");
        await_state("the node keeps the newest token", || account(&kept).0 == bytes).await;
        let refused = ping(&world, "last");
        assert!(!refused.status.success(), "{refused:?}");
        assert!(talk(&refused).to_lowercase().contains("authorization"), "{refused:?}");
        let answered = ping(&world, "rip");
        assert!(answered.status.success(), "{answered:?}");

        // After their expiry the next account token is short again; `last`, whose token never expires, stays revoked.
        let ledger = world.org().join("issued.jsonl");
        let text = fs::read_to_string(&ledger).unwrap();
        let (then, past) = ((now + 30 * DAY).to_string(), (now - 2 * DAY).to_string());
        fs::write(&ledger, text.replace(&then, &past)).unwrap();
        world.ok(&["org", "revoke", "anna", "--yes"]);
        let (bytes, claims) = account(&world.org().join("account.jwt"));
        assert_eq!(claims.unwrap().revocations.len(), 2);
        await_state("the node keeps the short token", || account(&kept).0 == bytes).await;
        assert!(!ping(&world, "last").status.success());
        assert!(!ping(&world, "anna").status.success());
        assert!(ping(&world, "rip").status.success());
    }
}
