//! Tests of the agent through its handlers, with a scratch directory as root.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;

use muster_api::system::real::RealSystem;
use muster_api::testing::TestNode;
use muster_api::wire::status::{ReplyReason, ReplyStatus};
use muster_api::{ActionError, Agent};
use muster_contract::filecopy::encode_chunk;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::filecopy::{Options, build_agent};

const CHUNK: usize = 4096;

struct Machine {
    root: tempfile::TempDir,
    state: tempfile::TempDir,
    agent: Agent,
}

fn options() -> Options {
    Options { write: vec!["/srv".into()], read: vec!["/srv".into()], ..Options::default() }
}

fn sha256(content: &[u8]) -> String {
    muster_api::base::encode_hex(Sha256::digest(content))
}

impl Machine {
    fn new(options: Options) -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["etc", "srv/app", "var"] {
            std::fs::create_dir_all(root.path().join(name)).unwrap();
        }
        std::fs::write(
            root.path().join("etc/passwd"),
            "root:x:0:0::/root:/bin/sh\nweb:x:7:8::/:/bin/sh\n",
        )
        .unwrap();
        std::fs::write(root.path().join("etc/group"), "web:x:8:\n").unwrap();
        let state = tempfile::tempdir().unwrap();
        let agent = build_agent(options, state.path().join("filecopy"), Vec::new()).unwrap();
        Self { root, state, agent }
    }

    /// Simulates a restart of the daemon: only the files remain.
    fn restart(&mut self, options: Options) {
        self.agent = build_agent(options, self.state.path().join("filecopy"), Vec::new()).unwrap();
    }

    async fn ask(&self, action: &str, input: Value) -> Result<Value, ActionError> {
        let declared = self.agent.ddl().find_action(action).unwrap();
        let input = declared.validate_input(input.as_object().unwrap()).unwrap();
        let node = TestNode::named("dev1.example.net").unwrap();
        let system = Arc::new(RealSystem::new(self.root.path().to_owned()));
        let cx = node.context("filecopy", action, system).unwrap();
        let output = self.agent.find_handler(action).unwrap().call(&cx, input).await?;
        Ok(Value::Object(declared.validate_output(&output).unwrap()))
    }

    async fn begin(&self, path: &str, content: &[u8], more: Value) -> Result<Value, ActionError> {
        let mut input = json!({
            "path": path, "size": content.len(), "sha256": sha256(content), "chunk_bytes": CHUNK,
        });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.ask("begin", input).await
    }

    async fn write(
        &self,
        begun: &Value,
        content: &[u8],
        index: usize,
    ) -> Result<Value, ActionError> {
        let part = content.chunks(CHUNK).nth(index).unwrap();
        let input =
            json!({"transfer": begun["transfer"], "index": index, "content": encode_chunk(part)});
        self.ask("write", input).await
    }

    async fn finish(&self, begun: &Value) -> Result<Value, ActionError> {
        self.ask("finish", json!({"transfer": begun["transfer"]})).await
    }

    /// Copies the whole content, the last part first.
    async fn copy(&self, path: &str, content: &[u8], more: Value) -> Result<Value, ActionError> {
        let begun = self.begin(path, content, more).await?;
        if begun["state"] != "ready" {
            return Ok(begun);
        }
        for index in (0..content.chunks(CHUNK).count()).rev() {
            self.write(&begun, content, index).await?;
        }
        self.finish(&begun).await
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// The names in a directory of the machine, hidden ones too.
    fn names(&self, directory: &str) -> Vec<String> {
        list(&self.path(directory))
    }

    fn records(&self) -> Vec<String> {
        list(&self.state.path().join("filecopy"))
    }

    fn mode(&self, path: &str) -> u32 {
        self.path(path).metadata().unwrap().permissions().mode() & 0o7777
    }
}

fn list(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Content of several parts, the last one shorter.
fn content() -> Vec<u8> {
    (0..3 * CHUNK + 100).map(|n| u8::try_from(n % 251).unwrap()).collect()
}

#[tokio::test]
async fn file_is_replaced_when_it_is_verified() {
    let machine = Machine::new(options());
    std::fs::write(machine.path("/srv/app/x"), "old").unwrap();
    std::fs::set_permissions(machine.path("/srv/app/x"), std::fs::Permissions::from_mode(0o640))
        .unwrap();
    let content = content();
    let begun = machine.begin("/srv/app/x", &content, json!({})).await.unwrap();
    assert_eq!((&begun["missing_chunks"], &begun["missing"]), (&json!(4), &json!([[0, 3]])));
    for index in [3, 1, 0, 1] {
        machine.write(&begun, &content, index).await.unwrap();
    }
    let early = machine.finish(&begun).await.unwrap_err();
    assert_eq!(early.message, "missing parts: 1 of 4; begin the copy again");
    assert_eq!(std::fs::read(machine.path("/srv/app/x")).unwrap(), b"old");
    let resumed = machine.begin("/srv/app/x", &content, json!({})).await.unwrap();
    assert_eq!(resumed["missing"], json!([[2, 2]]));
    machine.write(&begun, &content, 2).await.unwrap();
    let done = machine.finish(&begun).await.unwrap();
    assert_eq!((&done["sha256"], &done["size"]), (&json!(sha256(&content)), &json!(content.len())));
    assert_eq!(std::fs::read(machine.path("/srv/app/x")).unwrap(), content);
    assert_eq!(machine.mode("/srv/app/x"), 0o640, "an existing target keeps its mode");
    assert_eq!((machine.names("/srv/app"), machine.records()), (vec!["x".to_owned()], vec![]));
    let again = machine.finish(&begun).await.unwrap_err();
    assert_eq!(again.status, ReplyStatus::InvalidData);
}

#[tokio::test]
async fn unchanged_target_is_not_written_and_attributes_are_set_alone() {
    let machine = Machine::new(options());
    let new = machine.copy("/srv/app/x", b"hello", json!({"new_mode": "0600"})).await.unwrap();
    assert_eq!((new["size"].clone(), machine.mode("/srv/app/x")), (json!(5), 0o600));
    let same = machine.copy("/srv/app/x", b"hello", json!({"new_mode": "0644"})).await.unwrap();
    assert_eq!((same["state"].clone(), machine.mode("/srv/app/x")), (json!("unchanged"), 0o600));
    let mode = machine.copy("/srv/app/x", b"hello", json!({"mode": "0644"})).await.unwrap();
    assert_eq!((mode["state"].clone(), machine.mode("/srv/app/x")), (json!("attributes"), 0o644));
    let unknown = machine.begin("/srv/app/x", b"hello", json!({"owner": "nobody"})).await;
    assert_eq!(unknown.unwrap_err().message, "this node has no user nobody in /etc/passwd");
    let empty = machine.copy("/srv/app/empty", b"", json!({"mode": "600"})).await.unwrap();
    assert_eq!((empty["size"].clone(), machine.mode("/srv/app/empty")), (json!(0), 0o600));
}

#[tokio::test]
async fn wrong_checksum_removes_the_copy_and_keeps_the_target() {
    let machine = Machine::new(options());
    std::fs::write(machine.path("/srv/app/x"), "old").unwrap();
    let begun = machine.begin("/srv/app/x", b"hello", json!({})).await.unwrap();
    machine.write(&begun, b"jello", 0).await.unwrap();
    let error = machine.finish(&begun).await.unwrap_err();
    assert!(error.message.contains("was discarded: its SHA-256 is"), "{error}");
    assert_eq!(std::fs::read(machine.path("/srv/app/x")).unwrap(), b"old");
    assert_eq!((machine.names("/srv/app"), machine.records()), (vec!["x".to_owned()], vec![]));
}

#[tokio::test]
async fn refusals_leave_nothing_behind() {
    let machine = Machine::new(Options { max_bytes: u64::MAX, ..options() });
    symlink("/etc", machine.path("/srv/app/etc")).unwrap();
    let begin = async |path: &str| machine.begin(path, b"hello", json!({})).await.unwrap_err();
    assert_eq!(begin("/srv/app").await.message, "/srv/app is a directory");
    let missing = begin("/srv/none/x").await.message;
    assert_eq!(missing, "the directory of /srv/none/x does not exist on this node");
    for path in ["/etc/motd", "/srv/app/etc/motd", "/var/x"] {
        let rule = "plugins.filecopy.write".to_owned();
        assert_eq!(begin(path).await.reason, Some(ReplyReason::Denied { rule }), "{path}");
    }
    let input = json!({"path": "/srv/app/x", "size": 1_u64 << 60, "sha256": sha256(b""), "chunk_bytes": 524_288});
    let full = machine.ask("begin", input).await.unwrap_err();
    assert!(full.message.contains("and its file system has"), "{full}");
    assert_eq!((machine.names("/srv/app"), machine.records()), (vec!["etc".to_owned()], vec![]));

    let small = Machine::new(Options { max_bytes: 4, ..options() });
    let large = small.begin("/srv/app/x", b"hello", json!({})).await.unwrap_err();
    assert!(large.message.contains("plugins.filecopy.max_bytes"), "{large}");
}

#[tokio::test]
async fn parts_are_checked_before_they_are_written() {
    let machine = Machine::new(options());
    let content = content();
    let begun = machine.begin("/srv/app/x", &content, json!({})).await.unwrap();
    for (index, text) in [(0, "!"), (0, "aGVsbG8K"), (4, "aGVsbG8K")] {
        let input = json!({"transfer": begun["transfer"], "index": index, "content": text});
        let error = machine.ask("write", input).await.unwrap_err();
        assert_eq!(error.status, ReplyStatus::InvalidData, "{error}");
    }
    let unknown = json!({"transfer": "0".repeat(24), "index": 0, "content": ""});
    assert_eq!(machine.ask("write", unknown).await.unwrap_err().status, ReplyStatus::InvalidData);
    let aborted = machine.ask("abort", json!({"transfer": begun["transfer"]})).await.unwrap();
    assert_eq!(aborted, json!({"removed": true}));
    assert_eq!((machine.names("/srv/app"), machine.records()), (vec![], vec![]));
    let again = machine.ask("abort", json!({"transfer": begun["transfer"]})).await.unwrap();
    assert_eq!(again, json!({"removed": false}));
}

#[tokio::test]
async fn unfinished_copy_is_resumed_after_a_restart_and_removed_when_it_expires() {
    let mut machine = Machine::new(options());
    let content = content();
    let begun = machine.begin("/srv/app/x", &content, json!({})).await.unwrap();
    machine.write(&begun, &content, 0).await.unwrap();
    machine.restart(options());
    let resumed = machine.begin("/srv/app/x", &content, json!({})).await.unwrap();
    assert_eq!(resumed["missing"], json!([[1, 3]]));
    // A file with other content is another copy.
    machine.begin("/srv/app/x", b"other", json!({})).await.unwrap();
    assert_eq!(machine.names("/srv/app").len(), 2);
    // Nothing is younger than an expiry of zero seconds.
    machine.restart(Options { expiry_seconds: 0, ..options() });
    machine.copy("/srv/app/y", b"", json!({})).await.unwrap();
    assert_eq!((machine.names("/srv/app"), machine.records()), (vec!["y".to_owned()], vec![]));
}

#[tokio::test]
async fn number_of_unfinished_copies_is_bounded() {
    let machine = Machine::new(Options { transfers: 1, ..options() });
    let first = machine.begin("/srv/app/x", b"hello", json!({})).await.unwrap();
    let second = machine.begin("/srv/app/y", b"hello", json!({})).await.unwrap_err();
    assert!(matches!(second.reason, Some(ReplyReason::Busy { .. })), "{second:?}");
    machine.write(&first, b"hello", 0).await.unwrap();
    machine.finish(&first).await.unwrap();
    machine.copy("/srv/app/y", b"hello", json!({})).await.unwrap();
}

#[tokio::test]
async fn file_is_read_in_parts_until_it_changes() {
    let machine = Machine::new(options());
    let content = content();
    std::fs::write(machine.path("/srv/app/x"), &content).unwrap();
    let found = machine.ask("inspect", json!({"path": "/srv/app/x"})).await.unwrap();
    assert_eq!((&found["sha256"], &found["mode"]), (&json!(sha256(&content)), &json!("0644")));
    let read = |offset: usize| json!({"path": "/srv/app/x", "version": found["version"], "offset": offset, "bytes": 12_000});
    let first = machine.ask("read", read(0)).await.unwrap();
    assert_eq!(first, json!({"content": encode_chunk(&content[..12_000]), "bytes": 12_000}));
    let last = machine.ask("read", read(12_000)).await.unwrap();
    assert_eq!(last["bytes"], json!(content.len() - 12_000));
    std::fs::write(machine.path("/srv/app/x"), "other").unwrap();
    let changed = machine.ask("read", read(0)).await.unwrap_err();
    assert!(changed.message.contains("was changed while it was copied"), "{changed}");
    for (path, text) in
        [("/srv/app", "is a directory"), ("/srv/none", "does not exist"), ("/etc/passwd", "denied")]
    {
        let error = machine.ask("inspect", json!({ "path": path })).await.unwrap_err();
        assert!(error.message.contains(text), "{error}");
    }
}
