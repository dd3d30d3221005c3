//! Agents as signed bundles with the real command: generated, packed, installed on a running node, called, upgraded,
//! removed; and bundles that must not be installed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use muster_operations::bundle::PLUGIN_SIGN_TAG;
use muster_tests::command::RpcCommand;
use muster_wire::status::ReplyStatus;
use muster_wire::token::UserRole;
use serde_json::json;

use crate::external_agent_changes::ExternalAgentFixture;

fn to_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn successful_stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", to_text(&output.stderr));
    to_text(&output.stdout).trim().to_owned()
}

/// A fleet of one node, and a release manager who may sign bundles.
struct BundleFixture {
    node: ExternalAgentFixture,
    rpc: RpcCommand,
}

impl BundleFixture {
    async fn new() -> Self {
        let node = ExternalAgentFixture::start().await;
        let rpc = Self::release_command(&node, &["agent:*", PLUGIN_SIGN_TAG]);
        Self { node, rpc }
    }

    fn release_command(node: &ExternalAgentFixture, tags: &[&str]) -> RpcCommand {
        let organisation = &node.fixture.organisation;
        let signer = organisation.user(UserRole::Caller, "release", tags);
        RpcCommand::new(&node.fixture.server, organisation, &signer, "")
    }

    fn source_directory(&self) -> PathBuf {
        self.rpc.home().join("greet")
    }

    async fn generate(&self) {
        let source = self.source_directory();
        let arguments = ["plugin", "generate", "greet", "--lang", "sh", "--dir", path_str(&source)];
        successful_stdout(&self.rpc.run(&arguments).await);
        fs::write(source.join("greet.policy"), "policy default allow\n").unwrap();
    }

    /// Packs the generated agent as this version.
    async fn pack(&self, rpc: &RpcCommand, version: &str) -> PathBuf {
        let ddl = self.source_directory().join("greet.json");
        let mut document: serde_json::Value =
            serde_json::from_slice(&fs::read(&ddl).unwrap()).unwrap();
        *document.pointer_mut("/metadata/version").unwrap() = json!(version);
        fs::write(&ddl, document.to_string()).unwrap();
        let bundle = rpc.home().join(format!("greet-{version}.bundle"));
        let packed = rpc
            .run(&["plugin", "pack", path_str(&self.source_directory()), "-o", path_str(&bundle)])
            .await;
        assert_eq!(successful_stdout(&packed), path_str(&bundle));
        bundle
    }

    async fn install(&self, bundle: &Path, more: &[&str]) -> Output {
        let mut arguments = vec![
            "plugin",
            "install",
            path_str(bundle),
            "--into",
            path_str(self.node.agent_directory()),
        ];
        arguments.extend(more);
        self.rpc.run(&arguments).await
    }

    async fn remove(&self, more: &[&str]) -> Output {
        let mut arguments =
            vec!["plugin", "remove", "greet", "--from", path_str(self.node.agent_directory())];
        arguments.extend(more);
        self.rpc.run(&arguments).await
    }

    /// The files below the node's directory, sorted.
    fn installed_files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut pending = vec![self.node.agent_directory().to_owned()];
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    pending.push(path);
                } else {
                    let below = path.strip_prefix(self.node.agent_directory()).unwrap();
                    found.push(below.display().to_string());
                }
            }
        }
        found.sort();
        found
    }
}

fn path_str(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_bundle_is_installed_upgraded_and_removed() {
    let fixture = BundleFixture::new().await;
    fixture.generate().await;
    let first = fixture.pack(&fixture.rpc, "1.0.0").await;
    let installed = successful_stdout(&fixture.install(&first, &[]).await);
    let directory = fixture.node.agent_directory().join("mcollective/agent/greet");
    assert_eq!(installed, path_str(&directory));
    let files = [".bundle.json", "greet", "greet.json", "greet.policy"];
    let files: Vec<_> =
        files.iter().map(|file| format!("mcollective/agent/greet/{file}")).collect();
    assert_eq!(fixture.installed_files(), files);
    let mode = fs::metadata(directory.join("greet")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
    fixture.node.await_version(Some("1.0.0")).await;
    let answer = fixture.node.call_action("greet", "hello", json!({})).await;
    assert_eq!(answer.statuscode, ReplyStatus::Ok, "{answer:?}");

    let second = fixture.pack(&fixture.rpc, "1.10.0").await;
    successful_stdout(&fixture.install(&second, &[]).await);
    fixture.node.await_version(Some("1.10.0")).await;
    let older = fixture.pack(&fixture.rpc, "1.9.0").await;
    let refused = fixture.install(&older, &[]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(to_text(&refused.stderr).contains("--downgrade"), "{refused:?}");
    successful_stdout(&fixture.install(&older, &["--downgrade"]).await);
    fixture.node.await_version(Some("1.9.0")).await;

    // An upgrade does not overwrite a file that was changed by hand.
    fs::write(directory.join("greet.policy"), "changed\n").unwrap();
    fs::write(directory.join("notes"), "mine\n").unwrap();
    let refused = fixture.install(&second, &[]).await;
    let stderr = to_text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("greet.policy was changed") && stderr.contains("notes was added"),
        "{stderr}"
    );

    let unconfirmed = fixture.remove(&[]).await;
    assert_eq!(unconfirmed.status.code(), Some(4), "{unconfirmed:?}");
    successful_stdout(&fixture.remove(&["--yes"]).await);
    assert_eq!(fixture.installed_files(), ["mcollective/agent/greet/notes"]);
    fixture.node.await_version(None).await;
    let removed = fixture.node.call_action("greet", "hello", json!({})).await;
    assert_eq!(removed.statuscode, ReplyStatus::UnknownAction);
    assert_eq!(fixture.remove(&["--yes"]).await.status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bundle_without_a_permitted_signature_installs_nothing() {
    let mut fixture = BundleFixture::new().await;
    fixture.generate().await;
    let good = fixture.pack(&fixture.rpc, "1.0.0").await;

    let plain = BundleFixture::release_command(&fixture.node, &["agent:*"]);
    let unsigned = fixture.pack(&plain, "1.0.1").await;
    let foreign = BundleFixture::new().await;
    let other = fixture.pack(&foreign.rpc, "1.0.2").await;
    let changed = fixture.rpc.home().join("changed.bundle");
    let mut bytes = fs::read(&good).unwrap();
    let at = bytes.windows(9).position(|part| part == b"#!/bin/sh").unwrap();
    bytes[at + 7] = b'c';
    fs::write(&changed, bytes).unwrap();
    for (bundle, expected) in [
        (&unsigned, "lacks the tag"),
        (&other, "account token is refused"),
        (&changed, "differs from the signed one"),
    ] {
        let refused = fixture.install(bundle, &[]).await;
        let stderr = to_text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(expected), "{expected}: {stderr}");
        assert_eq!(fixture.installed_files(), [] as [&str; 0]);
    }
    // A pinned key replaces the signing right, and excludes other keys.
    let key = fs::read_to_string(plain.home().join("caller.creds")).unwrap();
    let key = muster_wire::token::UserCredentials::parse(&key).unwrap().claims().sub.to_string();
    let refused = fixture.install(&good, &["--key", &key]).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    successful_stdout(&fixture.install(&unsigned, &["--key", &key]).await);
    successful_stdout(&fixture.remove(&["--yes"]).await);

    // The signer is revoked in the account token of the node.
    let signer = fs::read_to_string(fixture.rpc.home().join("caller.creds")).unwrap();
    let signer = muster_wire::token::UserCredentials::parse(&signer).unwrap();
    let signer = muster_wire::sign::Signer::new(signer).unwrap();
    let before = fixture.node.fixture.organisation.account_token();
    let token = fixture.node.fixture.organisation.revoke_user(&signer);
    let known = fixture.rpc.home().join("known.jwt");
    fs::write(&known, token).unwrap();
    let operator = fixture.node.fixture.organisation.trust().operator_key().to_string();
    let trust = ["--operator", &operator, "--account", path_str(&known)];
    let refused = fixture.install(&good, &trust).await;
    assert!(to_text(&refused.stderr).contains("revoked"), "{refused:?}");
    assert_eq!(fixture.installed_files(), [] as [&str; 0]);

    // An older account token on the command line does not hide the revocation: the daemon's newest token and the
    // configured one count too.
    let state = fixture.rpc.home().join("state");
    fs::create_dir(&state).unwrap();
    fs::copy(&known, state.join("account.jwt")).unwrap();
    let old = fixture.rpc.home().join("old.jwt");
    fs::write(&old, &before).unwrap();
    let old_trust = ["--operator", &operator, "--account", path_str(&old)];
    let with_state = [&old_trust[..], &["--state", path_str(&state)]].concat();
    let configured = fixture.rpc.home().join("account.jwt");
    let in_configuration = fs::read_to_string(&configured).unwrap();
    for (arguments, account) in [
        (&with_state[..], in_configuration.clone()),
        (&old_trust, fs::read_to_string(&known).unwrap()),
    ] {
        fs::write(&configured, account).unwrap();
        let refused = fixture.install(&good, arguments).await;
        assert!(to_text(&refused.stderr).contains("revoked"), "{refused:?}");
        assert_eq!(fixture.installed_files(), [] as [&str; 0]);
    }
    // Without an account token nothing is installed.
    fs::remove_file(&configured).unwrap();
    let empty_state = fixture.rpc.home();
    let without_token = ["--operator", &operator, "--state", path_str(&empty_state)];
    let refused = fixture.install(&good, &without_token).await;
    assert!(to_text(&refused.stderr).contains("no account token"), "{refused:?}");
    assert_eq!(fixture.installed_files(), [] as [&str; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keeps_manual_agents_and_refuses_to_pack_incomplete_ones() {
    let fixture = BundleFixture::new().await;
    fixture.generate().await;
    let bundle = fixture.pack(&fixture.rpc, "1.0.0").await;
    let by_hand = fixture.node.agent_directory().join("greet.json");
    fs::write(&by_hand, "{}").unwrap();
    let refused = fixture.install(&bundle, &[]).await;
    assert!(to_text(&refused.stderr).contains("not from a bundle"), "{refused:?}");
    assert_eq!(fixture.installed_files(), ["greet.json"]);

    fs::set_permissions(
        fixture.source_directory().join("greet"),
        fs::Permissions::from_mode(0o644),
    )
    .unwrap();
    let source = fixture.source_directory();
    let output = fixture.rpc.home().join("half.bundle");
    let arguments = ["plugin", "pack", path_str(&source), "-o", path_str(&output)];
    let refused = fixture.rpc.run(&arguments).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(to_text(&refused.stderr).contains("chmod 755"), "{refused:?}");
    assert!(!output.exists());
}
