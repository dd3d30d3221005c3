//! External agents as real programs: their environment, their limits, and that each violation affects one reply only.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_api::CallContext;
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

use crate::external_replies::MCOLLECTIVE_SCRIPT;

pub(crate) fn sandbox_helper() -> SandboxHelper {
    SandboxHelper { program: find_program("rpcd"), arguments: vec!["exec-sandboxed".into()] }
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

/// Replaces a file atomically, as an installation should.
pub(crate) fn replace_file(path: &Path, text: &str, mode: u32) {
    let fresh = path.with_extension("fresh");
    std::fs::write(&fresh, text).unwrap();
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(mode)).unwrap();
    std::fs::rename(&fresh, path).unwrap();
}

/// The beginning of every agent of these tests: confirms activation, and reads the action from the environment.
pub(crate) const AGENT_HEADER: &str = r#"#!/bin/sh
reply() { echo "$1" > "$CHORIA_EXTERNAL_REPLY"; }
if [ "$CHORIA_EXTERNAL_PROTOCOL" = io.choria.mcorpc.external.v1.activation_request ]; then
    [ "$3" = "$CHORIA_EXTERNAL_PROTOCOL" ] && reply '{"activate": true}'
    exit
fi
action=$MUSTER_ACTION
"#;

const ROGUE_SCRIPT: &str = r#"
here=$(dirname "$0")
case $action in
    hello) reply '{"statuscode": 0, "statusmsg": "OK", "data": {"count": 3}}' ;;
    refuse) reply '{"statuscode": 4, "statusmsg": "no such disk", "data": {"count": 1}}' ;;
    crash) kill -SEGV $$ ;;
    exits) echo "the disk is gone, password hunter22" >&2; exit 7 ;;
    hang) trap '' TERM; echo $$ > "$here/pid"; while :; do sleep 1; done ;;
    orphans) i=0; while [ $i -lt 30 ]; do sleep 1000 & echo $! >> "$here/orphans"; i=$((i + 1)); done
             reply '{"statuscode": 0, "data": {"said": "many"}}' ;;
    undeclared) reply '{"statuscode": 0, "data": {"lie": 1}}' ;;
    mistyped) reply '{"statuscode": 0, "data": {"count": "three"}}' ;;
    nojson) reply 'it went well' ;;
    silent) : ;;
    protocol) reply '{"protocol": "io.example.v9", "data": {}}' ;;
    status) reply '{"statuscode": 77}' ;;
    nostatus) reply '{"statusmsg": "OK", "data": {"count": 3}}' ;;
    trapped) trap 'reply "{\"statuscode\": 0, \"data\": {\"said\": \"stopped early\"}}"; exit 0' TERM
             : > "$here/begun"; while :; do sleep 0.05; done ;;
    trapfail) trap 'reply "{\"statuscode\": 1, \"statusmsg\": \"half done\", \"data\": {\"count\": 1}}"; exit 0' TERM
              : > "$here/begun"; while :; do sleep 0.05; done ;;
    untrapped) : > "$here/begun"; sleep 1000 ;;
    huge) head -c 6000000 /dev/zero > "$CHORIA_EXTERNAL_REPLY" ;;
    flood) head -c 30000000 /dev/zero | tr '\0' 'x'; reply '{"statuscode": 0, "data": {"said": "much"}}' ;;
    link) rm "$CHORIA_EXTERNAL_REPLY"; ln -s /etc/passwd "$CHORIA_EXTERNAL_REPLY" ;;
    pipe) rm "$CHORIA_EXTERNAL_REPLY"; mkfifo "$CHORIA_EXTERNAL_REPLY" ;;
    where) printf '{"statuscode": 0, "data": {"said": "%s %s %s %s"}}' "$(id -u)" "$(stat -c %a .)" "$(stat -c %a "$1")" "$(env | cut -d= -f1 | sort | tr '\n' ' ')" > "$2" ;;
    files) n=$(ulimit -n); if cat "$here/secret" > /dev/null 2>&1; then s=read; else s=closed; fi
           printf '{"statuscode": 0, "data": {"said": "%s %s"}}' "$n" "$s" > "$2" ;;
esac
"#;

const ACTIONS: [&str; 23] = [
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
    "nostatus",
    "trapped",
    "trapfail",
    "untrapped",
];

/// A directory of agents, and the registry of what a daemon offers from it.
pub(crate) struct AgentFixture {
    pub(crate) directory: TempDir,
    registry: AgentRegistry,
    agent_directory: AgentDirectory,
}

impl AgentFixture {
    async fn load(directory: TempDir, options: Value) -> Self {
        let options: ExternalOptions = serde_json::from_value(options).unwrap();
        let builtin = BTreeSet::from(["rpcutil".to_owned(), "package".to_owned()]);
        let config = PathBuf::from("/etc/muster/rpcd.toml");
        let mut agent_directory = AgentDirectory::new(
            directory.path().to_owned(),
            options,
            builtin,
            sandbox_helper(),
            config,
        );
        let mut registry = AgentRegistry::new();
        for change in agent_directory.scan(ScanMode::Complete).await {
            if let AgentChange::Offered(agent) = change {
                registry.add(agent, CallLimits::default()).unwrap();
            }
        }
        Self { directory, registry, agent_directory }
    }

    pub(crate) async fn with_rogue_agent(options: Value, change: impl FnOnce(&mut Value)) -> Self {
        let directory = create_world_readable_directory();
        let path = |name: &str| directory.path().join(name);
        let mut document = ddl("rogue", "1.0.0", &ACTIONS);
        let script = document.pointer_mut("/actions/18").unwrap();
        script.as_object_mut().unwrap().insert("implemented_by".to_owned(), json!("old.py"));
        change(&mut document);
        replace_file(&path("rogue"), &format!("{AGENT_HEADER}{ROGUE_SCRIPT}"), 0o755);
        replace_file(&path("old.py"), MCOLLECTIVE_SCRIPT, 0o755);
        replace_file(&path("secret"), "x", 0o644);
        replace_file(&path("rogue.json"), &document.to_string(), 0o644);
        let mut fixture = Self::load(directory, options.clone()).await;
        // The activation check has two seconds. A daemon repeats it, too.
        while let [problem] = fixture.agent_directory.problems().as_slice()
            && problem.problem.contains("did not end within")
        {
            fixture = Self::load(fixture.directory, options.clone()).await;
        }
        assert_eq!(fixture.agent_directory.problems(), []);
        fixture
    }

    pub(crate) fn context(action: &str, timeout: Duration) -> CallContext {
        let node = TestNode::named("node1").unwrap();
        let system = Arc::new(FakeSystem::new());
        let context = node.context("rogue", action, system).unwrap();
        CallContext { deadline: Instant::now() + timeout, ..context }
    }

    pub(crate) async fn dispatch(&self, context: CallContext, input: Value) -> CallOutcome {
        let input = input.as_object().cloned().unwrap();
        self.registry.dispatch_call(muster_host::ActionCall { context, input }).await
    }

    pub(crate) async fn call(&self, action: &str, input: Value, timeout: Duration) -> CallOutcome {
        self.dispatch(Self::context(action, timeout), input).await
    }

    pub(crate) async fn call_default(&self, action: &str) -> CallOutcome {
        self.call(action, json!({}), Duration::from_secs(30)).await
    }

    fn only_problem(&self) -> String {
        let problems = self.agent_directory.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.into_iter().map(|found| found.problem).collect()
    }
}

/// A directory that every user may enter, for programs of other users.
pub(crate) fn create_world_readable_directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), mode).unwrap();
    directory
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_get_the_choria_environment_and_return_replies() {
    let fixture = AgentFixture::with_rogue_agent(json!({}), |_| {}).await;
    let good = fixture.call_default("hello").await;
    assert_eq!(
        (good.status, Value::Object(good.data)),
        (ReplyStatus::Ok, json!({"count": 3, "said": "nothing"}))
    );
    let refused = fixture.call_default("refuse").await;
    assert_eq!(
        (refused.status, refused.message.as_str(), refused.data["count"].clone()),
        (ReplyStatus::InvalidData, "no such disk", json!(1))
    );
    let output = fixture.call_default("where").await.data["said"].to_string();
    let names = "CHORIA_EXTERNAL_CONFIG CHORIA_EXTERNAL_FACTS CHORIA_EXTERNAL_PROTOCOL CHORIA_EXTERNAL_REPLY \
                 CHORIA_EXTERNAL_REQUEST HOME LC_ALL MUSTER_ACTION MUSTER_REQUEST_ID PATH PWD TMPDIR";
    assert!(output.contains(&format!(" 700 600 {names}")), "{output}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_violation_fails_one_reply_with_its_reason() {
    let fixture = AgentFixture::with_rogue_agent(json!({}), |_| {}).await;
    for (action, expected) in [
        ("crash", "signal: 11"),
        ("exits", "exit status: 7"),
        ("undeclared", "does not declare"),
        ("mistyped", "count"),
        ("nojson", "not JSON"),
        ("silent", "wrote no reply"),
        ("protocol", "io.example.v9"),
        ("status", "status 77"),
        ("nostatus", "no `statuscode`"),
        ("link", "not a regular file"),
        ("pipe", "not a regular file"),
    ] {
        let outcome = fixture.call_default(action).await;
        assert_eq!(
            (outcome.status, &outcome.reason),
            (ReplyStatus::Other, &Some(ReplyReason::Broken)),
            "{action}: {outcome:?}"
        );
        assert!(outcome.message.contains(expected), "{action}: {outcome:?}");
    }
    let outcome = fixture.call_default("huge").await;
    assert_eq!(outcome.reason, Some(ReplyReason::Oversized { bytes: 6_000_000 }));
    assert_eq!(fixture.call_default("flood").await.data["said"], json!("much"));
    assert_eq!(fixture.call_default("hello").await.status, ReplyStatus::Ok);
    let password = json!({"password": "hunter22"});
    let outcome = fixture.call("exits", password, Duration::from_secs(30)).await;
    assert!(outcome.message.ends_with("the disk is gone, password [redacted]"), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_program_is_killed_with_its_children() {
    // The program writes to its own directory, which the user of the tests may do.
    let own = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let options = json!({"agents": {"rogue": {"user": own}}});
    let fixture = AgentFixture::with_rogue_agent(options, |_| {}).await;
    let outcome = fixture.call("hang", json!({}), Duration::from_secs(3)).await;
    assert!(
        matches!(outcome.reason, Some(ReplyReason::Timeout { after_ms: 1..=3000 })),
        "{outcome:?}"
    );
    let pid = std::fs::read_to_string(fixture.directory.path().join("pid")).unwrap();
    await_state("the program that ignores TERM has ended", || has_ended(&pid)).await;

    let outcome = fixture.call_default("orphans").await;
    assert_eq!(outcome.data["said"], json!("many"), "{outcome:?}");
    let pids = std::fs::read_to_string(fixture.directory.path().join("orphans")).unwrap();
    assert_eq!(pids.lines().count(), 30);
    await_state("its background processes have ended", || pids.lines().all(has_ended)).await;
}

/// Whether a process does not exist or is a zombie.
fn has_ended(pid: &str) -> bool {
    match std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')),
        Err(_) => true,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_user_and_confinement_follow_the_configuration() {
    let limited = json!({"agents": {"rogue": {"open_files": 77}}});
    let fixture = AgentFixture::with_rogue_agent(limited, |_| {}).await;
    assert_eq!(fixture.call_default("files").await.data["said"], json!("77 read"));
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    // An unprivileged user is the default.
    let other = json!({});
    let fixture = AgentFixture::with_rogue_agent(other, |_| {}).await;
    let outcome = fixture.call_default("where").await;
    let output = outcome.data.get("said").unwrap_or(&Value::Null).to_string();
    let user = |name| nix::unistd::User::from_name(name).unwrap();
    let unprivileged = user("muster-agent").or(user("nobody")).unwrap().uid;
    assert!(output.starts_with(&format!("\"{unprivileged} 700 600")), "{outcome:?}");
}

/// Where the kernel has no Landlock, an agent that requires confinement is not started, and the reason is reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn confined_program_reads_only_what_it_declares() {
    let outside = TempDir::new().unwrap();
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "x").unwrap();
    let required = json!({"agents": {"rogue": {"confine": "required"}}});
    let directory = create_world_readable_directory();
    let program = ROGUE_SCRIPT.replace("$here/secret", secret.to_str().unwrap());
    replace_file(&directory.path().join("rogue"), &format!("{AGENT_HEADER}{program}"), 0o755);
    let mut document = ddl("rogue", "1.0.0", &["files"]);
    replace_file(&directory.path().join("rogue.json"), &document.to_string(), 0o644);
    let fixture = AgentFixture::load(directory, required.clone()).await;
    if fixture.registry.agent("rogue").is_none() {
        let problem = fixture.only_problem();
        assert!(problem.contains("Landlock"), "{problem}");
        return;
    }
    assert_eq!(fixture.call_default("files").await.data["said"], json!("1024 closed"));
    document["metadata"]["capabilities"] = json!({"read": [outside.path()]});
    replace_file(&fixture.directory.path().join("rogue.json"), &document.to_string(), 0o644);
    let fixture = AgentFixture::load(fixture.directory, required).await;
    assert_eq!(fixture.call_default("files").await.data["said"], json!("1024 read"));
}

/// Installs an agent with one action and this program text.
fn install_agent(directory: &Path, name: &str, mode: u32, text: &str) {
    replace_file(&directory.join(name), text, mode);
    let document = ddl(name, "1.0.0", &["greet"]);
    replace_file(&directory.join(format!("{name}.json")), &document.to_string(), 0o644);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_agents_are_refused_with_a_reason() {
    let greet = format!("{AGENT_HEADER}reply '{{}}'\n");
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
    for (name, mode, text, options, expected) in cases {
        let directory = create_world_readable_directory();
        install_agent(directory.path(), name, mode, text);
        let fixture = AgentFixture::load(directory, options).await;
        assert!(fixture.registry.agent(name).is_none());
        let problem = fixture.only_problem();
        assert!(problem.contains(expected), "{expected}: {problem}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_inactive_and_multi_platform_agents_cause_no_problem() {
    let directory = create_world_readable_directory();
    let directory_path = directory.path();
    let mut ruby = ddl("ruby", "1.0.0", &["greet"]);
    ruby["metadata"]["provider"] = json!("ruby");
    replace_file(&directory_path.join("ruby.json"), &ruby.to_string(), 0o644);
    install_agent(directory_path, "idle", 0o755, "#!/bin/sh\necho '{\"activate\": false}' > $2\n");
    let both = directory_path.join("both");
    std::fs::create_dir(&both).unwrap();
    let architecture = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
    let program = both.join(format!("both-linux_{architecture}"));
    replace_file(&program, &format!("{AGENT_HEADER}reply '{{}}'\n"), 0o755);
    let document = ddl("both", "1.0.0", &["greet"]);
    replace_file(&directory_path.join("both.json"), &document.to_string(), 0o644);
    let fixture = AgentFixture::load(directory, json!({})).await;
    assert_eq!(fixture.agent_directory.problems(), []);
    assert_eq!(fixture.registry.names(), ["both"]);
}
