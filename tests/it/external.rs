//! External agents, as real programs: what they are told, what they may do, and that each misdeed costs one reply.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_api::testing::TestNode;
use muster_host::external::{
    AgentChange, AgentDirectory, ExternalOptions, SandboxHelper, ScanMode,
};
use muster_host::{AgentRegistry, CallLimits, CallOutcome};
use muster_system::fake::FakeSystem;
use muster_tests::await_state;
use muster_wire::status::{ReplyReason, ReplyStatus};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use muster_tests::command::find_program;

pub(crate) fn helper() -> SandboxHelper {
    SandboxHelper { find_program: find_program("rpcd"), arguments: vec!["exec-sandboxed".into()] }
}

pub(crate) fn ddl(name: &str, version: &str, actions: &[&str]) -> Value {
    let action = |name: &&str| {
        json!({"action": name, "input": {
                "text": {"prompt": "t", "description": "t", "type": "string", "validation": ".", "maxlength": 90, "optional": true},
                "password": {"prompt": "p", "description": "p", "type": "string", "validation": ".", "maxlength": 90, "optional": true,
                             "sensitive": true}},
               "output": {"said": {"description": "d", "display_as": "Said", "type": "string", "default": "nothing"},
                          "count": {"description": "d", "display_as": "Count", "type": "integer"}}})
    };
    json!({"metadata": {"name": name, "description": "d", "author": "a", "license": "l", "version": version, "url": "u",
                        "timeout": 20, "provider": "external"},
           "actions": actions.iter().map(action).collect::<Vec<_>>()})
}

/// Puts a file in place at once, as an installation should.
pub(crate) fn put(path: &Path, text: &str, mode: u32) {
    let fresh = path.with_extension("fresh");
    std::fs::write(&fresh, text).unwrap();
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(mode)).unwrap();
    std::fs::rename(&fresh, path).unwrap();
}

/// Begins every agent of these tests: says yes when it is asked whether it is of use, and takes the action from the environment.
pub(crate) const HEAD: &str = r#"#!/bin/sh
reply() { echo "$1" > "$CHORIA_EXTERNAL_REPLY"; }
if [ "$CHORIA_EXTERNAL_PROTOCOL" = io.choria.mcorpc.external.v1.activation_request ]; then
    [ "$3" = "$CHORIA_EXTERNAL_PROTOCOL" ] && reply '{"activate": true}'
    exit
fi
action=$MUSTER_ACTION
"#;

const ROGUE: &str = r#"
here=$(dirname "$0")
case $action in
    hello) reply '{"statuscode": 0, "statusmsg": "OK", "data": {"count": 3}}' ;;
    refuse) reply '{"statuscode": 4, "statusmsg": "no such disk", "data": {"count": 1}}' ;;
    crash) kill -SEGV $$ ;;
    exits) echo "the disk is gone, password hunter22" >&2; exit 7 ;;
    hang) trap '' TERM; echo $$ > "$here/pid"; while :; do sleep 1; done ;;
    orphans) i=0; while [ $i -lt 30 ]; do sleep 1000 & echo $! >> "$here/orphans"; i=$((i + 1)); done
             reply '{"data": {"said": "many"}}' ;;
    undeclared) reply '{"data": {"lie": 1}}' ;;
    mistyped) reply '{"data": {"count": "three"}}' ;;
    nojson) reply 'it went well' ;;
    silent) : ;;
    protocol) reply '{"protocol": "io.example.v9", "data": {}}' ;;
    status) reply '{"statuscode": 77}' ;;
    huge) head -c 6000000 /dev/zero > "$CHORIA_EXTERNAL_REPLY" ;;
    flood) head -c 30000000 /dev/zero | tr '\0' 'x'; reply '{"data": {"said": "much"}}' ;;
    link) rm "$CHORIA_EXTERNAL_REPLY"; ln -s /etc/passwd "$CHORIA_EXTERNAL_REPLY" ;;
    pipe) rm "$CHORIA_EXTERNAL_REPLY"; mkfifo "$CHORIA_EXTERNAL_REPLY" ;;
    where) printf '{"data": {"said": "%s %s %s %s"}}' "$(id -u)" "$(stat -c %a .)" "$(stat -c %a "$1")" "$(env | cut -d= -f1 | sort | tr '\n' ' ')" > "$2" ;;
    files) n=$(ulimit -n); if cat "$here/secret" > /dev/null 2>&1; then s=read; else s=closed; fi
           printf '{"data": {"said": "%s %s"}}' "$n" "$s" > "$2" ;;
esac
"#;

const ACTIONS: [&str; 19] = [
    "hello",
    "refuse",
    "crash",
    "exits",
    "hang",
    "orphans",
    "undeclared",
    "mistyped",
    "nojson",
    "silent",
    "protocol",
    "status",
    "huge",
    "flood",
    "link",
    "pipe",
    "where",
    "files",
    "script",
];

/// A directory of agents, and what a daemon would offer of them.
struct Plugins {
    directory: TempDir,
    registry: AgentRegistry,
    shelf: AgentDirectory,
}

impl Plugins {
    async fn load(directory: TempDir, options: Value) -> Self {
        let options: ExternalOptions = serde_json::from_value(options).unwrap();
        let builtin = BTreeSet::from(["rpcutil".to_owned(), "package".to_owned()]);
        let config = PathBuf::from("/etc/muster/rpcd.toml");
        let mut shelf =
            AgentDirectory::new(directory.path().to_owned(), options, builtin, helper(), config);
        let mut registry = AgentRegistry::new();
        for change in shelf.scan(ScanMode::Complete).await {
            if let AgentChange::Offered(agent) = change {
                registry.add(agent, CallLimits::default()).unwrap();
            }
        }
        Self { directory, registry, shelf }
    }

    async fn rogue(options: Value, change: impl FnOnce(&mut Value)) -> Self {
        let directory = open_directory();
        let path = |name: &str| directory.path().join(name);
        let mut document = ddl("rogue", "1.0.0", &ACTIONS);
        let script = document.pointer_mut("/actions/18").unwrap();
        script.as_object_mut().unwrap().insert("implemented_by".to_owned(), json!("old.py"));
        change(&mut document);
        put(&path("rogue"), &format!("{HEAD}{ROGUE}"), 0o755);
        put(&path("old.py"), SCRIPT, 0o755);
        put(&path("secret"), "x", 0o644);
        put(&path("rogue.json"), &document.to_string(), 0o644);
        let plugins = Self::load(directory, options).await;
        assert_eq!(plugins.shelf.problems(), []);
        plugins
    }

    async fn call(&self, action: &str, input: Value, within: Duration) -> CallOutcome {
        let node = TestNode::named("node1").unwrap();
        let system = Arc::new(FakeSystem::new());
        let mut context = node.context("rogue", action, system).unwrap();
        context.deadline = Instant::now() + within;
        let input = input.as_object().cloned().unwrap();
        self.registry.dispatch_call(muster_host::ActionCall { context, input }).await
    }

    async fn quick(&self, action: &str) -> CallOutcome {
        self.call(action, json!({}), Duration::from_secs(30)).await
    }

    fn problem(&self) -> String {
        let problems = self.shelf.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.into_iter().map(|found| found.problem).collect()
    }
}

/// A directory that everybody may enter, as programs of other users must.
pub(crate) fn open_directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), mode).unwrap();
    directory
}

/// A script of `MCollective`'s time.
const SCRIPT: &str = r#"#!/usr/bin/env python3
import json, os, sys
request = json.load(open(os.environ["MCOLLECTIVE_REQUEST_FILE"]))
json.dump({"said": request["action"], "count": len(request["uniqid"])}, open(os.environ["MCOLLECTIVE_REPLY_FILE"], "w"))
if "text" in request["data"]:
    sys.stderr.write("not with " + request["data"]["text"])
    sys.exit(3)
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_are_told_what_choria_tells_them_and_their_answers_count() {
    let plugins = Plugins::rogue(json!({}), |_| {}).await;
    let good = plugins.quick("hello").await;
    assert_eq!(
        (good.status, Value::Object(good.data)),
        (ReplyStatus::Ok, json!({"count": 3, "said": "nothing"}))
    );
    let refused = plugins.quick("refuse").await;
    assert_eq!(
        (refused.status, refused.message.as_str(), refused.data["count"].clone()),
        (ReplyStatus::InvalidData, "no such disk", json!(1))
    );
    let told = plugins.quick("where").await.data["said"].to_string();
    let names = "CHORIA_EXTERNAL_CONFIG CHORIA_EXTERNAL_FACTS CHORIA_EXTERNAL_PROTOCOL CHORIA_EXTERNAL_REPLY \
                 CHORIA_EXTERNAL_REQUEST HOME LC_ALL MUSTER_ACTION MUSTER_REQUEST_ID PATH PWD TMPDIR";
    assert!(told.contains(&format!(" 700 600 {names}")), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_of_mcollective_answer_with_files_exit_code_and_error_output() {
    let plugins = Plugins::rogue(json!({}), |_| {}).await;
    let good = plugins.quick("script").await;
    assert_eq!(Value::Object(good.data), json!({"said": "script", "count": 32}));
    let failed = plugins.call("script", json!({"text": "that"}), Duration::from_secs(30)).await;
    assert_eq!(
        (failed.status, failed.message.as_str(), failed.data["said"].clone()),
        (ReplyStatus::MissingData, "not with that", json!("script"))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lie_costs_one_reply_with_its_reason() {
    let plugins = Plugins::rogue(json!({}), |_| {}).await;
    for (action, words) in [
        ("crash", "signal: 11"),
        ("exits", "exit status: 7"),
        ("undeclared", "does not declare"),
        ("mistyped", "count"),
        ("nojson", "not JSON"),
        ("silent", "wrote no reply"),
        ("protocol", "io.example.v9"),
        ("status", "status 77"),
        ("link", "not a regular file"),
        ("pipe", "not a regular file"),
    ] {
        let outcome = plugins.quick(action).await;
        assert_eq!(
            (outcome.status, &outcome.reason),
            (ReplyStatus::Other, &Some(ReplyReason::Broken)),
            "{action}: {outcome:?}"
        );
        assert!(outcome.message.contains(words), "{action}: {outcome:?}");
    }
    let outcome = plugins.quick("huge").await;
    assert_eq!(outcome.reason, Some(ReplyReason::Oversized { bytes: 6_000_000 }));
    assert_eq!(plugins.quick("flood").await.data["said"], json!("much"));
    assert_eq!(plugins.quick("hello").await.status, ReplyStatus::Ok);
    let password = json!({"password": "hunter22"});
    let outcome = plugins.call("exits", password, Duration::from_secs(30)).await;
    assert!(outcome.message.ends_with("the disk is gone, password [redacted]"), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_hangs_is_ended_with_all_that_it_started() {
    // It writes beside itself, which the tests' own user may.
    let own = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let options = json!({"agents": {"rogue": {"user": own}}});
    let plugins = Plugins::rogue(options, |_| {}).await;
    let outcome = plugins.call("hang", json!({}), Duration::from_secs(3)).await;
    assert!(
        matches!(outcome.reason, Some(ReplyReason::Timeout { after_ms: 3000.. })),
        "{outcome:?}"
    );
    let pid = std::fs::read_to_string(plugins.directory.path().join("pid")).unwrap();
    await_state("the program that ignores TERM is gone", || is_gone(&pid)).await;

    let outcome = plugins.quick("orphans").await;
    assert_eq!(outcome.data["said"], json!("many"), "{outcome:?}");
    let pids = std::fs::read_to_string(plugins.directory.path().join("orphans")).unwrap();
    assert_eq!(pids.lines().count(), 30);
    await_state("what it left behind is gone", || pids.lines().all(is_gone)).await;
}

/// Not there, or a corpse that the machine's first process has not buried.
fn is_gone(pid: &str) -> bool {
    match std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')),
        Err(_) => true,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_user_and_confinement_are_those_of_the_configuration() {
    let limited = json!({"agents": {"rogue": {"open_files": 77}}});
    let plugins = Plugins::rogue(limited, |_| {}).await;
    assert_eq!(plugins.quick("files").await.data["said"], json!("77 read"));
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    // Unprivileged, without a word in the configuration.
    let other = json!({});
    let plugins = Plugins::rogue(other, |_| {}).await;
    let outcome = plugins.quick("where").await;
    let told = outcome.data.get("said").unwrap_or(&Value::Null).to_string();
    let user = |name| nix::unistd::User::from_name(name).unwrap();
    let nobody = user("muster-agent").or(user("nobody")).unwrap().uid;
    assert!(told.starts_with(&format!("\"{nobody} 700 600")), "{outcome:?}");
}

/// What a kernel without Landlock cannot do is not started when it is required, and told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_reads_what_it_declares_where_the_kernel_sees_to_that() {
    let outside = TempDir::new().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "x").unwrap();
    let required = json!({"agents": {"rogue": {"confine": "required"}}});
    let directory = open_directory();
    let find_program = ROGUE.replace("$here/secret", secret.to_str().unwrap());
    put(&directory.path().join("rogue"), &format!("{HEAD}{find_program}"), 0o755);
    let mut document = ddl("rogue", "1.0.0", &["files"]);
    put(&directory.path().join("rogue.json"), &document.to_string(), 0o644);
    let plugins = Plugins::load(directory, required.clone()).await;
    if plugins.registry.agent("rogue").is_none() {
        let problem = plugins.problem();
        assert!(problem.contains("Landlock"), "{problem}");
        return;
    }
    assert_eq!(plugins.quick("files").await.data["said"], json!("1024 closed"));
    document["metadata"]["capabilities"] = json!({"read": [outside.path()]});
    put(&plugins.directory.path().join("rogue.json"), &document.to_string(), 0o644);
    let plugins = Plugins::load(plugins.directory, required).await;
    assert_eq!(plugins.quick("files").await.data["said"], json!("1024 read"));
}

/// An agent of one action, whose program is this text.
fn place(directory: &Path, name: &str, mode: u32, text: &str) {
    put(&directory.join(name), text, mode);
    let document = ddl(name, "1.0.0", &["greet"]);
    put(&directory.join(format!("{name}.json")), &document.to_string(), 0o644);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_must_not_be_an_agent_is_refused_and_told_why() {
    let greet = format!("{HEAD}reply '{{}}'\n");
    let cases: [(&str, u32, &str, Value, &str); 8] = [
        ("greet", 0o777, &greet, json!({}), "chmod go-w"),
        ("greet", 0o644, &greet, json!({}), "not executable"),
        ("greet", 0o755, &greet, json!({"deny": ["greet"]}), "denies"),
        ("rpcutil", 0o755, &greet, json!({"replace": ["rpcutil"]}), "`rpcutil` is reserved"),
        ("package", 0o755, &greet, json!({}), "built in"),
        ("greet", 0o755, "#!/bin/sh\nexit 3\n", json!({}), "exit status: 3"),
        ("greet", 0o755, "#!/bin/sh\nsleep 60\n", json!({}), "did not end within"),
        (
            "greet",
            0o755,
            &greet,
            json!({"agents": {"greet": {"user": "no-such-user"}}}),
            "`no-such-user` does not exist",
        ),
    ];
    for (name, mode, text, options, words) in cases {
        let directory = open_directory();
        place(directory.path(), name, mode, text);
        let plugins = Plugins::load(directory, options).await;
        assert!(plugins.registry.agent(name).is_none());
        let problem = plugins.problem();
        assert!(problem.contains(words), "{words}: {problem}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_ours_of_no_use_or_for_several_machines_is_no_trouble() {
    let directory = open_directory();
    let here = directory.path();
    let mut ruby = ddl("ruby", "1.0.0", &["greet"]);
    ruby["metadata"]["provider"] = json!("ruby");
    put(&here.join("ruby.json"), &ruby.to_string(), 0o644);
    place(here, "idle", 0o755, "#!/bin/sh\necho '{\"activate\": false}' > $2\n");
    let both = here.join("both");
    std::fs::create_dir(&both).unwrap();
    let architecture = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
    let find_program = both.join(format!("both-linux_{architecture}"));
    put(&find_program, &format!("{HEAD}reply '{{}}'\n"), 0o755);
    let document = ddl("both", "1.0.0", &["greet"]);
    put(&here.join("both.json"), &document.to_string(), 0o644);
    let plugins = Plugins::load(directory, json!({})).await;
    assert_eq!(plugins.shelf.problems(), []);
    assert_eq!(plugins.registry.names(), ["both"]);
}
