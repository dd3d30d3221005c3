//! A directory that was restored from an older backup pushes nothing to a broker that has a later account token: the restored token lacks revocations and
//! keys, so that revoked keys would be valid again.

use std::fs;
use std::path::Path;
use std::process::Output;

use muster_wire::stores;

use super::broker::{Broker, nats_server};
use super::world::{World, talk};

const RIP: &str = "creds/users/rip.creds";

/// An organisation with a broker, and a copy of its directory from before the last changes.
struct RestoredOrganisation {
    world: World,
    broker: Broker,
}

impl RestoredOrganisation {
    async fn new() -> Self {
        let world = World::new(&[]);
        for member in [["user", "rip"], ["user", "anna"], ["node", "web1.acme.net"]] {
            world.ok(&[&["org", "add"], &member[..]].concat());
        }
        let broker = Broker::start(&nats_server(), &world, true).await;
        world.ok(&["org", "push"]);
        let organisation = Self { world, broker };
        copy(&organisation.world.org(), &organisation.world.scratch.path().join("backup"));
        organisation
    }

    /// Puts the copy in the place of the directory. The broker keeps its files, as after the loss of another machine.
    fn restore(&self) {
        let org = self.world.org();
        fs::rename(org.join("broker"), self.world.scratch.path().join("broker")).unwrap();
        fs::remove_dir_all(&org).unwrap();
        copy(&self.world.scratch.path().join("backup"), &org);
        fs::remove_dir_all(org.join("broker")).unwrap();
        fs::rename(self.world.scratch.path().join("broker"), org.join("broker")).unwrap();
    }

    /// Whether the broker accepts these credentials.
    async fn accepts(&self, creds: &str) -> bool {
        match self.broker.connect(&self.world, creds).await {
            Ok(bus) => bus.close().await.is_ok(),
            Err(_) => false,
        }
    }

    /// The account token that nodes and callers read.
    async fn published_token(&self) -> String {
        let creds = "creds/nodes/web1.acme.net.creds";
        let bus = self.broker.connect(&self.world, creds).await.unwrap();
        let bucket = bus.bucket(stores::TRUST_BUCKET.name);
        let value = bucket.get(stores::TRUST_ACCOUNT_KEY).await.unwrap().unwrap().value.unwrap();
        bus.close().await.unwrap();
        String::from_utf8(value.to_vec()).unwrap()
    }

    /// Runs a command that must fail because the directory is an older copy.
    fn assert_refused(&self, args: &[&str], missing: &str) {
        let output: Output = self.world.rpc(args);
        let problem = talk(&output);
        assert_ne!(output.status.code(), Some(0), "{args:?}: {problem}");
        assert!(problem.contains("this directory is an older copy"), "{args:?}: {problem}");
        assert!(problem.contains(missing), "{args:?}: {problem}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

#[tokio::test]
async fn restored_older_directory_makes_no_revoked_key_valid() {
    let restored = RestoredOrganisation::new().await;
    let world = &restored.world;
    assert!(restored.accepts(RIP).await);
    world.ok(&["org", "revoke", "rip", "--yes"]);
    let newest = restored.published_token().await;
    restored.restore();
    // The token of the backup, and one that is signed from it and is the newest by its time.
    for args in [&["org", "push"][..], &["org", "revoke", "anna", "--yes"], &["org", "push"]] {
        restored.assert_refused(args, "lacks 1 revocation");
        assert!(!restored.accepts(RIP).await, "{args:?}");
        assert_eq!(restored.published_token().await, newest, "{args:?}");
    }
    // With the broker's token the directory is the newest again.
    fs::write(world.org().join("account.jwt"), format!("{newest}\n")).unwrap();
    world.ok(&["org", "push"]);
    world.ok(&["org", "revoke", "anna", "--yes"]);
    assert!(!restored.accepts(RIP).await && !restored.accepts("creds/users/anna.creds").await);
    world.ok(&["org", "push"]);
}

#[tokio::test]
async fn restored_older_directory_makes_no_replaced_role_key_valid() {
    let restored = RestoredOrganisation::new().await;
    let world = &restored.world;
    world.ok(&["org", "rotate", "user"]);
    world.ok(&["org", "rotate", "user", "--finish", "--force"]);
    let newest = restored.published_token().await;
    restored.restore();
    assert!(!restored.accepts(RIP).await, "the key of its token was replaced");
    for args in [&["org", "push"][..], &["org", "revoke", "anna", "--yes"]] {
        restored.assert_refused(args, "1 signing key");
        assert!(!restored.accepts(RIP).await, "{args:?}");
        assert_eq!(restored.published_token().await, newest, "{args:?}");
    }
}
