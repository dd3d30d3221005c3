//! Tests of the agent through its handlers, with a scratch directory as root.

mod race;

use std::os::unix::fs::symlink;
use std::sync::Arc;

use muster_api::system::real::RealSystem;
use muster_api::testing::TestNode;
use muster_api::wire::status::{ReplyReason, ReplyStatus};
use muster_api::{ActionError, Agent};
use serde_json::{Value, json};

use crate::filemgr::{Options, build_agent};

pub(crate) struct Machine {
    pub(crate) root: tempfile::TempDir,
    agent: Agent,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["etc", "srv/app/full", "srv/app/empty"] {
            std::fs::create_dir_all(root.path().join(name)).unwrap();
        }
        for (name, text) in [
            ("etc/shadow", "secret"),
            ("srv/app/log", "one\ntwo\nthree\n"),
            ("srv/app/full/file", "x"),
        ] {
            std::fs::write(root.path().join(name), text).unwrap();
        }
        symlink("/srv/state", root.path().join("srv/app/state")).unwrap();
        symlink("/etc/shadow", root.path().join("srv/app/link")).unwrap();
        let state = root.path().canonicalize().unwrap().join("srv/state");
        Self { root, agent: build_agent(Options::default(), vec![state]).unwrap() }
    }

    pub(crate) async fn ask(&self, action: &str, input: Value) -> Result<Value, ActionError> {
        let declared = self.agent.ddl().find_action(action).unwrap();
        let input = declared.validate_input(input.as_object().unwrap()).unwrap();
        let node = TestNode::named("dev1.example.net").unwrap();
        let system = Arc::new(RealSystem::new(self.root.path().to_owned()));
        let cx = node.context("filemgr", action, system).unwrap();
        let output = self.agent.find_handler(action).unwrap().call(&cx, input).await?;
        Ok(Value::Object(declared.validate_output(&output).unwrap()))
    }

    pub(crate) async fn path(&self, action: &str, path: &str) -> Result<Value, ActionError> {
        self.ask(action, json!({ "path": path })).await
    }

    /// Calls an action on this path with `noop`; returns whether it would change something.
    async fn would_change(&self, action: &str, path: &str) -> Result<Value, ActionError> {
        Ok(self.ask(action, json!({"path": path, "noop": true})).await?["changed"].clone())
    }

    fn has(&self, path: &str) -> bool {
        self.root.path().join(path).symlink_metadata().is_ok()
    }
}

#[tokio::test]
async fn files_are_described_listed_and_read() {
    let machine = Machine::new();
    let log = machine.path("status", "/srv/app/log").await.unwrap();
    assert_eq!((&log["kind"], &log["size"]), (&json!("file"), &json!(14)));
    // As printed by `sha256sum` and `md5sum`.
    let sum = "b6285c57e8797db5d4c51c80d6f11938afda9b11c6a003549709189e9b4b92a2";
    assert_eq!(log["sha256"], json!(sum));
    assert_eq!(log["md5"], json!("deed54b823522e0525693b090363f9df"));
    let gone = machine.path("status", "/srv/app/none").await.unwrap();
    assert_eq!((&gone["present"], &gone["kind"]), (&json!(false), &Value::Null));
    let link = machine.path("status", "/srv/app/link").await.unwrap();
    assert_eq!((&link["kind"], &link["target"]), (&json!("link"), &json!("/etc/shadow")));

    let all = machine.path("read", "/srv/app/log").await.unwrap();
    assert_eq!(all, json!({"text": "one\ntwo\nthree\n", "size": 14, "offset": 14}));
    for (offset, bytes, text) in [(-6, 100, "three\n"), (4, 3, "two"), (99, 5, ""), (-99, 3, "one")]
    {
        let input = json!({"path": "/srv/app/log", "offset": offset, "bytes": bytes});
        let piece = machine.ask("read", input).await.unwrap();
        assert_eq!(piece["text"], json!(text), "{offset} {bytes}");
    }
    let listed = machine.path("list", "/srv/app").await.unwrap();
    let names: Vec<&Value> =
        listed["entries"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["empty", "full", "link", "log", "state"]);
    assert_eq!(
        machine.path("read", "/srv/app").await.unwrap_err().message,
        "/srv/app is not a regular file"
    );
}

#[tokio::test]
async fn paths_outside_the_policy_are_denied() {
    let machine = Machine::new();
    for (action, path) in [
        ("read", "/etc/shadow"),
        ("read", "/srv/app/link"),
        ("status", "/etc/shadow"),
        ("touch", "/etc/muster/x"),
        ("list", "/proc"),
        ("remove", "/etc/shadow"),
        ("read", "/etc/shadow-"),
        ("status", "/etc/gshadow-"),
        ("touch", "/etc/sudoers.d/all"),
        ("remove", "/etc/sudoers"),
        ("read", "/etc/ssh/ssh_host_ed25519_key"),
        ("read", "/srv/state/seen"),
        ("remove", "/srv/state.1"),
        ("read", "/srv/app/state/seen"),
    ] {
        let error = machine.path(action, path).await.unwrap_err();
        assert!(
            matches!(error.reason, Some(ReplyReason::Denied { .. })),
            "{action} {path}: {error:?}"
        );
    }
    let whole = machine.ask("remove", json!({"path": "/etc", "recursive": true})).await;
    assert_eq!(whole.unwrap_err().status, ReplyStatus::InvalidData);
    assert!(machine.has("etc/shadow"));
}

#[tokio::test]
async fn noop_reports_the_change_and_changes_nothing() {
    let machine = Machine::new();
    for (action, path, expected) in [
        ("touch", "/srv/app/new", true),
        ("mkdir", "/srv/app/new", true),
        ("mkdir", "/srv/app/empty", false),
        ("remove", "/srv/app/log", true),
        ("remove", "/srv/app/empty", true),
        ("remove", "/srv/app/none", false),
    ] {
        assert_eq!(machine.would_change(action, path).await.unwrap(), expected, "{action} {path}");
    }
    std::fs::write(machine.root.path().join("srv/app/full/file"), "x").unwrap();
    machine.would_change("remove", "/srv/app/full").await.unwrap_err();
    assert!(machine.has("srv/app/log") && machine.has("srv/app/empty"));
    assert!(!machine.has("srv/app/new"));
}

#[tokio::test]
async fn files_and_directories_are_created_and_removed() {
    let machine = Machine::new();
    let changed = |yes: bool| json!({ "changed": yes });
    assert_eq!(machine.path("touch", "/srv/app/new").await.unwrap(), changed(true));
    assert!(machine.has("srv/app/new"));
    assert_eq!(machine.path("touch", "/srv/app/new").await.unwrap(), changed(true));
    for yes in [true, false] {
        assert_eq!(machine.path("mkdir", "/srv/app/dir").await.unwrap(), changed(yes));
    }
    for yes in [true, false] {
        for path in ["/srv/app/new", "/srv/app/dir", "/srv/app/empty"] {
            assert_eq!(machine.path("remove", path).await.unwrap(), changed(yes), "{path}");
        }
    }
    let full = machine.path("remove", "/srv/app/full").await.unwrap_err();
    assert_eq!(full.status, ReplyStatus::InvalidData);
    assert!(machine.has("srv/app/full/file"));
    let input = json!({"path": "/srv/app/full", "recursive": true});
    assert_eq!(machine.ask("remove", input).await.unwrap(), changed(true));
    assert!(!machine.has("srv/app/full"));
    // A link is removed, and its target stays.
    assert_eq!(machine.path("remove", "/srv/app/link").await.unwrap(), changed(true));
    assert!(machine.has("etc/shadow"));
    let top = machine.ask("remove", json!({"path": "/srv", "recursive": true})).await;
    assert!(top.unwrap_err().message.contains("directly below it"));
}
