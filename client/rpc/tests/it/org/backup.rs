//! `rpc org backup` and `rpc org restore`: a lost directory comes back from its backup, with the revocations that were made since.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::broker::{Broker, nats_server};
use super::world::{World, mode, talk};

const RIP: &str = "creds/users/rip.creds";
const WEB1: &str = "creds/nodes/web1.acme.net.creds";

/// A file with a passphrase, and the path of the backup.
fn passphrase(world: &World, text: &str) -> (String, String) {
    let file = world.scratch.path().join("passphrase");
    fs::write(&file, format!("{text}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let backup = world.scratch.path().join("acme.age");
    (format!("--passphrase-file={}", file.display()), backup.display().to_string())
}

async fn accepts(broker: &Broker, world: &World, creds: &str) -> bool {
    match broker.connect(world, creds).await {
        Ok(bus) => bus.close().await.is_ok(),
        Err(_) => false,
    }
}

#[tokio::test]
async fn restored_organisation_has_the_revocations_since_its_backup() {
    let world = World::new(&[]);
    for member in [["user", "rip"], ["user", "anna"], ["node", "web1.acme.net"]] {
        world.ok(&[&["org", "add"], &member[..]].concat());
    }
    let broker = Broker::start(&nats_server(), &world, true).await;
    world.ok(&["org", "push"]);
    let (secret, backup) = passphrase(&world, "correct horse battery");
    world.ok(&["org", "backup", &backup, &secret]);
    assert_eq!(mode(backup.as_ref()), 0o600);
    world.ok(&["org", "revoke", "rip", "--yes"]);

    // The directory is lost. The broker has its tokens, as on another machine.
    let org = world.scratch.path().join("restored").display().to_string();
    let restored = world.rpc(&["org", "restore", &backup, &org, &secret]);
    assert_eq!(restored.status.code(), Some(0), "{}", talk(&restored));
    let expected = "of the fleet, signed at";
    assert!(talk(&restored).contains(expected), "{}", talk(&restored));
    assert!(talk(&restored).contains("1 revocation and 0 signing keys"), "{}", talk(&restored));
    let ok = |args: &[&str]| world.ok(&[args, &["--org", &org]].concat());
    assert_eq!(ok(&["org", "list", "-j"]).matches("\"revoked\"").count(), 1);
    ok(&["org", "push"]);
    ok(&["org", "revoke", "anna", "--yes"]);
    assert!(!accepts(&broker, &world, RIP).await);
    assert!(!accepts(&broker, &world, "creds/users/anna.creds").await);
    assert!(accepts(&broker, &world, WEB1).await, "nodes need nothing new");
    ok(&["org", "add", "node", "web2.acme.net"]);
    assert!(accepts(&broker, &world, "../restored/creds/nodes/web2.acme.net.creds").await);

    // The broker is lost, too: a node has the newest account token.
    let newest = format!("{org}/account.jwt");
    let second = world.scratch.path().join("second").display().to_string();
    drop(broker);
    let args = ["org", "restore", &backup, &second, &secret, "--token", &newest];
    let restored = world.rpc(&args);
    assert_eq!(restored.status.code(), Some(0), "{}", talk(&restored));
    for part in ["2 revocations", "the broker was not asked"] {
        assert!(talk(&restored).contains(part), "{part}: {}", talk(&restored));
    }
    let parties = world.ok(&["org", "list", "--org", &second, "-j"]);
    assert_eq!(parties.matches("\"revoked\"").count(), 2, "{parties}");
}

#[test]
fn backup_is_refused_with_the_reason() {
    let world = World::new(&["--no-tls"]);
    let (secret, backup) = passphrase(&world, "correct horse battery");
    world.ok(&["org", "backup", &backup, &secret]);
    let target = world.scratch.path().join("again").display().to_string();
    let refused = |args: &[&str], reason: &str| {
        let output = world.rpc(args);
        assert_ne!(output.status.code(), Some(0), "{args:?}");
        assert!(talk(&output).contains(reason), "{args:?}: {}", talk(&output));
        assert!(!world.scratch.path().join("again").exists(), "{args:?}");
    };
    // Not empty; no passphrase on the standard input; a file that others can read; no backup.
    let org = world.org().display().to_string();
    refused(&["org", "restore", &backup, &org, &secret], "is not empty");
    refused(&["org", "restore", &backup, &target], "passphrase");
    let profile = world.org().join("organisation.toml").display().to_string();
    refused(&["org", "restore", &profile, &target, &secret], "no backup of an organisation");
    passphrase(&world, "another horse battery");
    refused(&["org", "restore", &backup, &target, &secret], "the passphrase is wrong");
    passphrase(&world, "short");
    refused(&["org", "backup", &backup, &secret], "fewer than 12 characters");
    let file = world.scratch.path().join("passphrase");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    refused(&["org", "backup", &backup, &secret], "644");
}
