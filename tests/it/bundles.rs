//! Agents as signed bundles, by the real command: generated, packed, installed on a node that runs, asked, upgraded, removed. And all
//! that must not get into a node's directory.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use muster_bundle::PLUGIN_SIGN_TAG;
use muster_tests::command::RpcCommand;
use muster_wire::status::ReplyStatus;
use muster_wire::token::UserRole;
use serde_json::json;

use crate::watching::Watching;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn passed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

/// A fleet of one node, and a release manager who may sign.
struct Release {
    node: Watching,
    rpc: RpcCommand,
}

impl Release {
    async fn new() -> Self {
        let node = Watching::start().await;
        let rpc = Self::rpc(&node, &["agent:*", PLUGIN_SIGN_TAG]);
        Self { node, rpc }
    }

    fn rpc(node: &Watching, tags: &[&str]) -> RpcCommand {
        let organisation = &node.world.organisation;
        let signer = organisation.user(UserRole::Caller, "release", tags);
        RpcCommand::new(&node.world.server, organisation, &signer, "")
    }

    fn source(&self) -> PathBuf {
        self.rpc.home().join("greet")
    }

    async fn generate(&self) {
        let source = self.source();
        let made = ["plugin", "generate", "greet", "--lang", "sh", "--dir", path(&source)];
        passed(&self.rpc.run(&made).await);
        fs::write(source.join("greet.policy"), "policy default allow\n").unwrap();
    }

    /// Packs what is generated as this version.
    async fn pack(&self, rpc: &RpcCommand, version: &str) -> PathBuf {
        let ddl = self.source().join("greet.json");
        let mut document: serde_json::Value =
            serde_json::from_slice(&fs::read(&ddl).unwrap()).unwrap();
        *document.pointer_mut("/metadata/version").unwrap() = json!(version);
        fs::write(&ddl, document.to_string()).unwrap();
        let bundle = rpc.home().join(format!("greet-{version}.bundle"));
        let packed = rpc.run(&["plugin", "pack", path(&self.source()), "-o", path(&bundle)]).await;
        assert_eq!(passed(&packed), path(&bundle));
        bundle
    }

    async fn install(&self, bundle: &Path, more: &[&str]) -> Output {
        let mut words = vec!["plugin", "install", path(bundle), "--into", path(self.node.here())];
        words.extend(more);
        self.rpc.run(&words).await
    }

    async fn remove(&self, more: &[&str]) -> Output {
        let mut words = vec!["plugin", "remove", "greet", "--from", path(self.node.here())];
        words.extend(more);
        self.rpc.run(&words).await
    }

    /// Everything below the node's directory but Python's and the tests' own.
    fn there(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut waiting = vec![self.node.here().to_owned()];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    waiting.push(path);
                } else {
                    let below = path.strip_prefix(self.node.here()).unwrap();
                    found.push(below.display().to_string());
                }
            }
        }
        found.sort();
        found
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_generated_packed_installed_asked_upgraded_and_removed() {
    let release = Release::new().await;
    release.generate().await;
    let first = release.pack(&release.rpc, "1.0.0").await;
    let installed = passed(&release.install(&first, &[]).await);
    let directory = release.node.here().join("mcollective/agent/greet");
    assert_eq!(installed, path(&directory));
    let files = [".bundle.json", "greet", "greet.json", "greet.policy"];
    let files: Vec<_> =
        files.iter().map(|file| format!("mcollective/agent/greet/{file}")).collect();
    assert_eq!(release.there(), files);
    let mode = fs::metadata(directory.join("greet")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
    release.node.offered(Some("1.0.0")).await;
    let answer = release.node.ask("greet", "hello", json!({})).await;
    assert_eq!(answer.statuscode, ReplyStatus::Ok, "{answer:?}");

    let second = release.pack(&release.rpc, "1.10.0").await;
    passed(&release.install(&second, &[]).await);
    release.node.offered(Some("1.10.0")).await;
    let older = release.pack(&release.rpc, "1.9.0").await;
    let refused = release.install(&older, &[]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("--downgrade"), "{refused:?}");
    passed(&release.install(&older, &["--downgrade"]).await);
    release.node.offered(Some("1.9.0")).await;

    // What somebody changed by hand is not lost to an upgrade.
    fs::write(directory.join("greet.policy"), "changed\n").unwrap();
    fs::write(directory.join("notes"), "mine\n").unwrap();
    let refused = release.install(&second, &[]).await;
    let told = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{told}");
    assert!(
        told.contains("greet.policy was changed") && told.contains("notes was added"),
        "{told}"
    );

    let unasked = release.remove(&[]).await;
    assert_eq!(unasked.status.code(), Some(4), "{unasked:?}");
    passed(&release.remove(&["--yes"]).await);
    assert_eq!(release.there(), ["mcollective/agent/greet/notes"]);
    release.node.offered(None).await;
    let gone = release.node.ask("greet", "hello", json!({})).await;
    assert_eq!(gone.statuscode, ReplyStatus::UnknownAction);
    assert_eq!(release.remove(&["--yes"]).await.status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_signed_by_who_may_leaves_nothing_behind() {
    let mut release = Release::new().await;
    release.generate().await;
    let good = release.pack(&release.rpc, "1.0.0").await;

    let plain = Release::rpc(&release.node, &["agent:*"]);
    let unsigned = release.pack(&plain, "1.0.1").await;
    let foreign = Release::new().await;
    let other = release.pack(&foreign.rpc, "1.0.2").await;
    let changed = release.rpc.home().join("changed.bundle");
    let mut bytes = fs::read(&good).unwrap();
    let at = bytes.windows(9).position(|part| part == b"#!/bin/sh").unwrap();
    bytes[at + 7] = b'c';
    fs::write(&changed, bytes).unwrap();
    for (bundle, words) in [
        (&unsigned, "lacks the tag"),
        (&other, "account token is refused"),
        (&changed, "differs from the signed one"),
    ] {
        let refused = release.install(bundle, &[]).await;
        let told = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{told}");
        assert!(told.contains(words), "{words}: {told}");
        assert_eq!(release.there(), [] as [&str; 0]);
    }
    // A pinned key is enough without the right, and does not let in another's.
    let key = fs::read_to_string(plain.home().join("caller.creds")).unwrap();
    let key = muster_wire::token::UserCredentials::parse(&key).unwrap().claims().sub.to_string();
    let refused = release.install(&good, &["--key", &key]).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    passed(&release.install(&unsigned, &["--key", &key]).await);
    passed(&release.remove(&["--yes"]).await);

    // The signer is revoked; the node's account token says so.
    let signer = fs::read_to_string(release.rpc.home().join("caller.creds")).unwrap();
    let signer = muster_wire::token::UserCredentials::parse(&signer).unwrap();
    let signer = muster_wire::sign::Signer::new(signer).unwrap();
    let before = release.node.world.organisation.account_token();
    let token = release.node.world.organisation.revoke_user(&signer);
    let known = release.rpc.home().join("known.jwt");
    fs::write(&known, token).unwrap();
    let operator = release.node.world.organisation.trust().operator_key().to_string();
    let trust = ["--operator", &operator, "--account", path(&known)];
    let refused = release.install(&good, &trust).await;
    assert!(text(&refused.stderr).contains("revoked"), "{refused:?}");
    assert_eq!(release.there(), [] as [&str; 0]);

    // An older token beside the bundle does not hide it: the daemon's newest one counts, and the configuration's.
    let state = release.rpc.home().join("state");
    fs::create_dir(&state).unwrap();
    fs::copy(&known, state.join("account.jwt")).unwrap();
    let old = release.rpc.home().join("old.jwt");
    fs::write(&old, &before).unwrap();
    let old_trust = ["--operator", &operator, "--account", path(&old)];
    let with_state = [&old_trust[..], &["--state", path(&state)]].concat();
    let configured = release.rpc.home().join("account.jwt");
    let in_configuration = fs::read_to_string(&configured).unwrap();
    for (words, account) in [
        (&with_state[..], in_configuration.clone()),
        (&old_trust, fs::read_to_string(&known).unwrap()),
    ] {
        fs::write(&configured, account).unwrap();
        let refused = release.install(&good, words).await;
        assert!(text(&refused.stderr).contains("revoked"), "{refused:?}");
        assert_eq!(release.there(), [] as [&str; 0]);
    }
    // Where none is known, nothing is installed.
    fs::remove_file(&configured).unwrap();
    let empty_state = release.rpc.home();
    let nowhere = ["--operator", &operator, "--state", path(&empty_state)];
    let refused = release.install(&good, &nowhere).await;
    assert!(text(&refused.stderr).contains("no account token"), "{refused:?}");
    assert_eq!(release.there(), [] as [&str; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_there_by_hand_is_not_overwritten_and_half_an_agent_is_not_packed() {
    let release = Release::new().await;
    release.generate().await;
    let bundle = release.pack(&release.rpc, "1.0.0").await;
    let by_hand = release.node.here().join("greet.json");
    fs::write(&by_hand, "{}").unwrap();
    let refused = release.install(&bundle, &[]).await;
    assert!(text(&refused.stderr).contains("not from a bundle"), "{refused:?}");
    assert_eq!(release.there(), ["greet.json"]);

    fs::set_permissions(release.source().join("greet"), fs::Permissions::from_mode(0o644)).unwrap();
    let source = release.source();
    let output = release.rpc.home().join("half.bundle");
    let words = ["plugin", "pack", path(&source), "-o", path(&output)];
    let refused = release.rpc.run(&words).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("chmod 755"), "{refused:?}");
    assert!(!output.exists());
}
