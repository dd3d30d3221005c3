//! `rpcd` and `rpc` refuse every secret file that other users can read, with an error that states the remedy, and
//! protect the files that they write. (Keys for a Puppet CA or `PuppetDB`, and tokens of webhooks, are tested next to
//! the code that reads them.)

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
use muster_wire::token::{ServiceRight, UserCredentials, UserRole};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command as Process;

/// An address without a listener; the programs fail before they connect.
const UNREACHABLE_URL: &str = "nats://127.0.0.1:1";

/// A program that reads a secret file.
struct SecretReader {
    what: &'static str,
    secret: PathBuf,
    program: Process,
    code: i32,
}

/// Checks that the file is refused in every mode that gives others access, with path, mode and remedy.
async fn assert_refused(reader: &mut SecretReader) {
    let SecretReader { what, secret, .. } = reader;
    let before = fs::metadata(&*secret).unwrap().mode();
    for mode in [0o640, 0o604, 0o620, 0o644, 0o666] {
        fs::set_permissions(&*secret, Permissions::from_mode(mode)).unwrap();
        let run = reader.program.stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(Duration::from_mins(1), run.output());
        let output = output
            .await
            .unwrap_or_else(|_| panic!("{what} {mode:o}: the secret was accepted"))
            .unwrap();
        let output_text = describe_output(&output);
        assert_eq!(output.status.code(), Some(reader.code), "{what}: {output_text}");
        let name = secret.file_name().unwrap().to_str().unwrap();
        let states_mode = output_text.contains(&format!("(mode {mode:04o})"));
        // A file of state that others can write is refused before it is read as a secret.
        let remedies = ["chmod 600 /", "chmod go-w /"];
        let is_remedy = |part: &&str| remedies.iter().any(|remedy| part.starts_with(remedy));
        let remedy = output_text.split('`').find(is_remedy);
        let states_remedy = remedy.is_some_and(|remedy| remedy.ends_with(name));
        assert!(states_mode && states_remedy, "{what}:\n{output_text}");
        assert!(!output_text.contains("SU") || !output_text.contains(&seed(secret)), "{what}");
    }
    fs::set_permissions(secret, Permissions::from_mode(before)).unwrap();
}

/// The secret part of a key or credentials file.
fn seed(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let seed = |word: &&str| word.len() == 58 && word.starts_with('S');
    let found = text.split_whitespace().find(seed);
    found.unwrap_or("no seed at all").to_owned()
}

fn credentials_text(user: &Signer) -> String {
    let credentials = UserCredentials::new(&user.token(), user.key_pair().clone()).unwrap();
    credentials.to_text().to_string()
}

fn rpcd_command(home: &DaemonHome, more: &[&str]) -> Process {
    let mut process = Process::new(find_program("rpcd"));
    process.args(more).arg("--config").arg(home.path("rpcd.toml"));
    process
}

#[tokio::test]
async fn daemon_refuses_secrets_that_others_can_read() {
    let organisation = Organisation::new(&["muster"]);
    let node = organisation.node("web1.acme.net");
    let bootstrap_account = organisation.bootstrap_account();
    let mut readers = Vec::new();

    let home = DaemonHome::new(&organisation, &node, UNREACHABLE_URL, "");
    readers.push(SecretReader {
        what: "the node's credentials",
        secret: home.path("node.creds"),
        program: rpcd_command(&home, &[]),
        code: 1,
    });

    let bootstrap = bootstrap_account.bootstrap(&[], None);
    let bootstrapping =
        DaemonHome::bootstrapping(&organisation, &bootstrap, UNREACHABLE_URL, "", "");
    readers.push(SecretReader {
        what: "the bootstrap token",
        secret: bootstrapping.path("bootstrap.creds"),
        program: rpcd_command(&bootstrapping, &[]),
        code: 1,
    });

    let requesting = DaemonHome::bootstrapping(&organisation, &bootstrap, UNREACHABLE_URL, "", "");
    requesting.write("state/newcomer.json", "{}", 0o600);
    readers.push(SecretReader {
        what: "the key of a machine that requests enrolment",
        secret: requesting.path("state/newcomer.json"),
        program: rpcd_command(&requesting, &[]),
        code: 1,
    });

    let enrolled_home =
        DaemonHome::bootstrapping(&organisation, &bootstrap, UNREACHABLE_URL, "", "");
    let enrolment = json!({"identity": "web1.acme.net", "collectives": ["muster"], "urls": [UNREACHABLE_URL], "facts": {}});
    enrolled_home.write("state/enrolled.json", &enrolment.to_string(), 0o600);
    enrolled_home.write("state/account.jwt", &organisation.account_token(), 0o644);
    enrolled_home.write("state/node.creds", &credentials_text(&node), 0o600);
    readers.push(SecretReader {
        what: "an enrolled node's credentials",
        secret: enrolled_home.path("state/node.creds"),
        program: rpcd_command(&enrolled_home, &[]),
        code: 1,
    });

    let host = DaemonHome::new(&organisation, &node, UNREACHABLE_URL, "");
    let [service, door, key] =
        ["service.creds", "door.creds", "node.nk"].map(|name| host.path(name));
    host.write(
        "service.creds",
        &credentials_text(&organisation.service(ServiceRight::Provision, "provisioner")),
        0o600,
    );
    host.write(
        "door.creds",
        &credentials_text(&organisation.service(ServiceRight::Provision, "door")),
        0o600,
    );
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
        readers.push(SecretReader {
            what,
            secret,
            program: rpcd_command(&host, &["--check"]),
            code: 1,
        });
    }
    for reader in &mut readers {
        assert_refused(reader).await;
    }
    // The modes were the only reason for the refusals.
    let checked = rpcd_command(&host, &["--check"]).output().await.unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", describe_output(&checked));
}

#[tokio::test]
async fn command_refuses_secrets_that_others_can_read() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let caller = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
    let mut readers = vec![SecretReader {
        what: "a caller's credentials",
        secret: caller.path("caller.creds"),
        program: caller.prepare_command(&["ping"]),
        code: 1,
    }];

    let scratch = TempDir::new().unwrap();
    let org = scratch.path().join("org");
    let rpc = |arguments: &[&str]| {
        let mut process = Process::new(find_program("rpc"));
        process.args(arguments).env("MUSTER_ORG", &org);
        process.env("HOME", scratch.path()).env_remove("RPC_CONFIG");
        process
    };
    let (directory, token) = (org.to_str().unwrap(), scratch.path().join("boot.creds"));
    let token_path = token.to_str().unwrap();
    for arguments in [
        &["org", "init", directory, "--name", "acme", "--host", "localhost"][..],
        &["org", "add", "user", "rip", "--agent", "rpcutil"],
        &["provision", "token", "--names", "web*.acme.net", "--out", token_path],
    ] {
        let output = rpc(arguments).output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", describe_output(&output));
    }
    for (secret, arguments) in [
        ("keys/operator.nk", &["org", "revoke", "rip", "--yes"][..]),
        ("keys/role-node.nk", &["org", "add", "node", "web1.acme.net"]),
        ("keys/role-caller.nk", &["org", "add", "user", "anna"]),
        ("keys/role-caller.nk", &["org", "grant", "rip", "service", "--for", "1h"]),
        ("keys/role-service.nk", &["org", "add", "service", "directory", "--serve", "directory"]),
        ("keys/role-enroller.nk", &["org", "add", "enroller", "door"]),
        ("keys/role-newcomer.nk", &["provision", "token", "--names", "db*.acme.net"]),
        ("keys/ca.key", &["broker", "rename", "--host", "127.0.0.1"]),
        ("creds/system.creds", &["org", "push"]),
    ] {
        readers.push(SecretReader {
            what: secret,
            secret: org.join(secret),
            program: rpc(arguments),
            code: 1,
        });
    }
    readers.push(SecretReader {
        what: "a bootstrap token",
        program: rpc(&["provision", "user-data", "--token", token_path]),
        secret: token.clone(),
        code: 1,
    });
    for reader in &mut readers {
        assert_refused(reader).await;
    }
}

/// Adds the paths below a directory that others may access to `found`, and counts all entries in `seen`.
fn collect_accessible_to_others(directory: &Path, found: &mut Vec<String>, seen: &mut usize) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        *seen += 1;
        if metadata.mode() & 0o077 != 0 && !metadata.is_symlink() {
            found.push(path.display().to_string());
        }
        if metadata.is_dir() {
            collect_accessible_to_others(&path, found, seen);
        }
    }
}

#[tokio::test]
async fn files_of_the_programs_are_closed_to_others() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let node = organisation.node("web1.acme.net");
    let root = TempDir::new().unwrap();
    let more = format!("[paths]\nroot = {:?}\n", root.path());
    let home = DaemonHome::new(&organisation, &node, &server.url(), "");
    home.write("conf.d/root.toml", &more, 0o644);
    let daemon = home.start();
    let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
    let run = async |arguments: &[&str]| {
        let output = rpc.run(arguments).await;
        (output.status.code(), describe_output(&output))
    };
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    while run(&["ping", "-I", "web1.acme.net"]).await.0 != Some(0) {
        assert!(tokio::time::Instant::now() < deadline, "{}", daemon.log());
    }
    let motd = ["puppetral", "do", "type=file", "name=/motd", "content=hush", "ensure=present"];
    let (code, output_text) = run(&motd).await;
    assert_eq!(code, Some(0), "{output_text}");

    for directory in [daemon.home().path("state"), rpc.path("state")] {
        let own = fs::metadata(&directory).unwrap().mode();
        assert_eq!(own & 0o777, 0o700, "{}", directory.display());
        let (mut open, mut seen) = (Vec::new(), 0);
        collect_accessible_to_others(&directory, &mut open, &mut seen);
        assert!(seen > 2, "{}: only {seen}", directory.display());
        assert!(open.is_empty(), "accessible to others: {open:#?}");
    }
}
