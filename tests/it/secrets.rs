//! Every secret that `rpcd` and `rpc` read is refused as soon as somebody else could read it, in words that say what to do; and what they
//! write themselves is closed. (Keys for a Puppet CA or `PuppetDB`, and tokens of webhooks, are with the code that reads them.)

#![expect(clippy::disallowed_types, reason = "runs the real programs")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output, find_program};
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::DaemonHome;
use muster_wire::sign::Signer;
use muster_wire::token::{UserCredentials, UserRole};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::RpcCommand as Process;

/// Nobody listens there, and nobody gets so far as to ask.
const NOWHERE: &str = "nats://127.0.0.1:1";

/// A program that reads this secret.
struct Reader {
    what: &'static str,
    secret: PathBuf,
    program: Process,
    code: i32,
}

/// The secret is refused in every mode that lets others at it, with path, mode and remedy.
async fn refuses(reader: &mut Reader) {
    let Reader { what, secret, .. } = reader;
    let before = fs::metadata(&*secret).unwrap().mode();
    for mode in [0o640, 0o604, 0o620, 0o644, 0o666] {
        fs::set_permissions(&*secret, Permissions::from_mode(mode)).unwrap();
        let run = reader.program.stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(Duration::from_mins(1), run.output());
        let output =
            output.await.unwrap_or_else(|_| panic!("{what} {mode:o}: it was taken")).unwrap();
        let said = describe_output(&output);
        assert_eq!(output.status.code(), Some(reader.code), "{what}: {said}");
        let name = secret.file_name().unwrap().to_str().unwrap();
        let told_mode = said.contains(&format!("(mode {mode:04o})"));
        let remedy = said.split('`').find(|part| part.starts_with("chmod 600 /"));
        let told_remedy = remedy.is_some_and(|remedy| remedy.ends_with(name));
        assert!(told_mode && told_remedy, "{what}:\n{said}");
        assert!(!said.contains("SU") || !said.contains(&seed(secret)), "{what}");
    }
    fs::set_permissions(secret, Permissions::from_mode(before)).unwrap();
}

/// The secret part of a file of ours.
fn seed(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let seed = |word: &&str| word.len() == 58 && word.starts_with('S');
    let found = text.split_whitespace().find(seed);
    found.unwrap_or("no seed at all").to_owned()
}

fn creds(party: &Signer) -> String {
    let creds = UserCredentials::new(&party.token(), party.key_pair().clone()).unwrap();
    creds.to_text().to_string()
}

fn rpcd(home: &DaemonHome, more: &[&str]) -> Process {
    let mut process = Process::new(find_program("rpcd"));
    process.args(more).arg("--config").arg(home.path("rpcd.toml"));
    process
}

#[tokio::test]
async fn the_daemon_refuses_every_secret_that_others_can_read() {
    let organisation = Organisation::new(&["muster"]);
    let node = organisation.node("web1.acme.net");
    let newcomers = organisation.bootstrap_account();
    let mut readers = Vec::new();

    let home = DaemonHome::new(&organisation, &node, NOWHERE, "");
    readers.push(Reader {
        what: "the node's credentials",
        secret: home.path("node.creds"),
        program: rpcd(&home, &[]),
        code: 1,
    });

    let bootstrap = newcomers.bootstrap(&[], None);
    let newcomer = DaemonHome::bootstrapping(&organisation, &bootstrap, NOWHERE, "", "");
    readers.push(Reader {
        what: "the bootstrap token",
        secret: newcomer.path("bootstrap.creds"),
        program: rpcd(&newcomer, &[]),
        code: 1,
    });

    let wishing = DaemonHome::bootstrapping(&organisation, &bootstrap, NOWHERE, "", "");
    wishing.write("state/newcomer.json", "{}", 0o600);
    readers.push(Reader {
        what: "the key of a machine that asks",
        secret: wishing.path("state/newcomer.json"),
        program: rpcd(&wishing, &[]),
        code: 1,
    });

    let enrolled = DaemonHome::bootstrapping(&organisation, &bootstrap, NOWHERE, "", "");
    let learnt = json!({"identity": "web1.acme.net", "collectives": ["muster"], "urls": [NOWHERE], "facts": {}});
    enrolled.write("state/enrolled.json", &learnt.to_string(), 0o600);
    enrolled.write("state/account.jwt", &organisation.account_token(), 0o644);
    enrolled.write("state/node.creds", &creds(&node), 0o600);
    readers.push(Reader {
        what: "an enrolled node's credentials",
        secret: enrolled.path("state/node.creds"),
        program: rpcd(&enrolled, &[]),
        code: 1,
    });

    let host = DaemonHome::new(&organisation, &node, NOWHERE, "");
    let [service, door, key] =
        ["service.creds", "door.creds", "node.nk"].map(|name| host.path(name));
    host.write("service.creds", &creds(&organisation.service("provisioner")), 0o600);
    host.write("door.creds", &creds(&organisation.service("door")), 0o600);
    let seed = organisation.role_key(UserRole::Node).seed_text();
    host.write("node.nk", &seed, 0o600);
    let more = format!(
        "[plugins.provisioner]\nenabled = true\ncredentials = {service:?}\n\
         [plugins.provisioner.newcomers]\ncredentials = {door:?}\naccount = {:?}\nnode_key = {key:?}\n",
        host.path("newcomers.jwt"),
    );
    host.write("conf.d/provisioner.toml", &more, 0o644);
    for (what, secret) in [
        ("the provisioner's credentials", service),
        ("the enroller's credentials", door),
        ("the key that signs nodes", key),
    ] {
        readers.push(Reader { what, secret, program: rpcd(&host, &["--check"]), code: 1 });
    }
    for reader in &mut readers {
        refuses(reader).await;
    }
    // It is the modes that were refused.
    let checked = rpcd(&host, &["--check"]).output().await.unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", describe_output(&checked));
}

#[tokio::test]
async fn the_command_refuses_every_secret_that_others_can_read() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let caller = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
    let mut readers = vec![Reader {
        what: "a caller's credentials",
        secret: caller.path("caller.creds"),
        program: caller.prepare_command(&["ping"]),
        code: 1,
    }];

    let scratch = TempDir::new().unwrap();
    let org = scratch.path().join("org");
    let rpc = |words: &[&str]| {
        let mut process = Process::new(find_program("rpc"));
        process.args(words).env("MUSTER_ORG", &org);
        process.env("HOME", scratch.path()).env_remove("RPC_CONFIG");
        process
    };
    let (place, token) = (org.to_str().unwrap(), scratch.path().join("boot.creds"));
    let token_path = token.to_str().unwrap();
    for words in [
        &["org", "init", place, "--name", "acme", "--host", "localhost"][..],
        &["org", "add", "user", "rip", "--agent", "rpcutil"],
        &["provision", "token", "--names", "web*.acme.net", "--out", token_path],
    ] {
        let made = rpc(words).output().await.unwrap();
        assert_eq!(made.status.code(), Some(0), "{words:?}: {}", describe_output(&made));
    }
    for (secret, words) in [
        ("keys/operator.nk", &["org", "revoke", "rip", "--yes"][..]),
        ("keys/role-node.nk", &["org", "add", "node", "web1.acme.net"]),
        ("keys/role-caller.nk", &["org", "add", "user", "anna"]),
        ("keys/role-caller.nk", &["org", "grant", "rip", "service", "--for", "1h"]),
        ("keys/role-service.nk", &["org", "add", "service", "directory"]),
        ("keys/role-enroller.nk", &["org", "add", "enroller", "door"]),
        ("keys/role-newcomer.nk", &["provision", "token", "--names", "db*.acme.net"]),
        ("keys/ca.key", &["broker", "rename", "--host", "127.0.0.1"]),
        ("creds/system.creds", &["org", "push"]),
    ] {
        readers.push(Reader {
            what: secret,
            secret: org.join(secret),
            program: rpc(words),
            code: 1,
        });
    }
    readers.push(Reader {
        what: "a bootstrap token",
        program: rpc(&["provision", "user-data", "--token", token_path]),
        secret: token.clone(),
        code: 1,
    });
    for reader in &mut readers {
        refuses(reader).await;
    }
}

/// Everything below a directory that somebody else may read, by its name there.
fn open_to_others(directory: &Path, found: &mut Vec<String>, seen: &mut usize) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        *seen += 1;
        if metadata.mode() & 0o077 != 0 && !metadata.is_symlink() {
            found.push(path.display().to_string());
        }
        if metadata.is_dir() {
            open_to_others(&path, found, seen);
        }
    }
}

#[tokio::test]
async fn what_the_programs_keep_is_closed_to_others() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let node = organisation.node("web1.acme.net");
    let root = TempDir::new().unwrap();
    let more = format!("[paths]\nroot = {:?}\n", root.path());
    let home = DaemonHome::new(&organisation, &node, &server.url(), "");
    home.write("conf.d/root.toml", &more, 0o644);
    let daemon = home.start();
    let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
    let ask = async |words: &[&str]| {
        let output = rpc.run(words).await;
        (output.status.code(), describe_output(&output))
    };
    let until = tokio::time::Instant::now() + Duration::from_mins(1);
    while ask(&["ping", "-I", "web1.acme.net"]).await.0 != Some(0) {
        assert!(tokio::time::Instant::now() < until, "{}", daemon.log());
    }
    let motd = ["puppetral", "do", "type=file", "name=/motd", "content=hush", "ensure=present"];
    let (code, said) = ask(&motd).await;
    assert_eq!(code, Some(0), "{said}");

    for directory in [daemon.home().path("state"), rpc.path("state")] {
        let own = fs::metadata(&directory).unwrap().mode();
        assert_eq!(own & 0o777, 0o700, "{}", directory.display());
        let (mut open, mut seen) = (Vec::new(), 0);
        open_to_others(&directory, &mut open, &mut seen);
        assert!(seen > 2, "{}: only {seen}", directory.display());
        assert!(open.is_empty(), "open to others: {open:#?}");
    }
}
