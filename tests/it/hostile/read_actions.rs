//! No action that its DDL marks as `read` starts a program that the caller names: each such action of each built-in
//! agent in a real daemon, with the path of a canary in every input, in forms that shells and tools would execute.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use muster_ddl::BUILTIN_AGENTS;
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::DaemonHome;
use muster_tests::tier::case_step;
use muster_wire::identity::SubjectName;
use muster_wire::request::Request;
use muster_wire::status::ReplyStatus;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::enrolled_names::await_log;
use crate::node_fixture::TestCaller;

/// Actions that this daemon cannot execute, because their agent needs a service or a program that this test does not
/// provide. Their inputs are tried nevertheless.
const UNAVAILABLE: [&str; 39] = [
    "again note_missing",
    "compiler catalog",
    "compiler check",
    "compiler content",
    "compiler diff",
    "compiler environments",
    "compiler list",
    "compiler release",
    "compiler releases",
    "compiler show",
    "compiler verify",
    "directory changes",
    "directory facets",
    "directory find",
    "directory list",
    "directory show",
    "directory status",
    "history drift",
    "history query",
    "history report",
    "history runs",
    "history statistics",
    "permit list",
    "provisioner status",
    "puppet last_run_report",
    "puppet last_run_summary",
    "puppet locks",
    "puppet runs",
    "puppet status",
    "puppetca list",
    "puppetca status",
    "release held",
    "release plan",
    "release status",
    "schedule history",
    "schedule list",
    "schedule show",
    "package checkupdates",
    "ssh login",
];

/// A program that creates a file when it is started.
struct Canary(TempDir);

impl Canary {
    fn new() -> Self {
        let canary = Self(tempfile::tempdir().unwrap());
        let script = format!("#!/bin/sh\n: > '{}'\n", canary.mark().display());
        std::fs::write(canary.program(), script).unwrap();
        let runnable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(canary.program(), runnable).unwrap();
        let catalog = canary.catalog().to_string();
        std::fs::write(canary.0.path().join("catalog.json"), catalog).unwrap();
        canary
    }

    fn mark(&self) -> PathBuf {
        self.0.path().join("started")
    }

    fn program(&self) -> PathBuf {
        self.0.path().join("canary")
    }

    /// A catalog in which every command is the program.
    fn catalog(&self) -> Value {
        let program = self.program();
        json!([
            {"type": "exec", "title": program, "unless": program, "onlyif": program, "refresh": program},
            {"type": "exec", "title": "guarded", "command": "/bin/true", "onlyif": program, "provider": "shell"},
            {"type": "service", "title": "canary", "ensure": "running", "provider": "base", "start": program,
             "stop": program, "status": program, "restart": program, "binary": program},
            {"type": "file", "title": "/tmp/canary-file", "ensure": "file", "content": "x", "validate_cmd": program},
            {"type": "package", "title": "canary", "ensure": "installed", "source": program, "install_options": [program]},
        ])
    }

    /// The values that replace a text input.
    fn spellings(&self) -> Vec<String> {
        let program = self.program().display().to_string();
        let catalog = self.0.path().join("catalog.json").display().to_string();
        let mut spellings: Vec<String> =
            ["", "../../../../..", "file:", "file://", "-", "--", "!", "|"]
                .iter()
                .map(|prefix| format!("{prefix}{program}"))
                .collect();
        spellings.extend([
            format!("$({program})"),
            format!("`{program}`"),
            format!("x; {program}"),
            format!("x\n{program}\n"),
            format!("x | {program}"),
            format!("x && {program}"),
            format!("'; {program} #"),
            format!("-oProxyCommand={program}"),
            format!("--use-compress-program={program}"),
            format!("-Oapt::Update::Pre-Invoke::={program}"),
            catalog,
        ]);
        spellings
    }
}

/// An action that its DDL marks as `read`.
struct ReadAction {
    agent: String,
    action: String,
    /// The inputs of its first example.
    sample: Map<String, Value>,
    inputs: BTreeSet<String>,
}

fn read_actions() -> Vec<ReadAction> {
    let mut found = Vec::new();
    for (agent, text) in BUILTIN_AGENTS {
        let document: Value = serde_json::from_str(text).unwrap();
        for action in document.get("actions").and_then(Value::as_array).unwrap() {
            if action["class"] != "read" {
                continue;
            }
            let object = |value: &Value| value.as_object().cloned().unwrap_or_default();
            let more = ["params", "canary", "command", "unless", "onlyif", "provider", "status"];
            let more = more.iter().filter(|_| action["additional_input"] == true);
            let inputs = object(&action["input"]).into_iter().map(|(name, _)| name);
            found.push(ReadAction {
                agent: (*agent).to_owned(),
                action: action["action"].as_str().unwrap().to_owned(),
                sample: object(action.pointer("/examples/0/input").unwrap_or(&Value::Null)),
                inputs: inputs.chain(more.map(|name| (*name).to_owned())).collect(),
            });
        }
    }
    found
}

impl ReadAction {
    /// The example unchanged, with each input replaced by each value, and with all inputs replaced at once.
    fn build_inputs(&self, canary: &Canary) -> Vec<Map<String, Value>> {
        let mut inputs = vec![self.sample.clone()];
        if self.inputs.is_empty() {
            return inputs;
        }
        let mut values: Vec<Value> = canary.spellings().into_iter().map(Value::from).collect();
        values.push(canary.catalog().to_string().into());
        values.push(json!([canary.program()]));
        values.push(json!({"command": canary.program()}));
        for value in values {
            for name in &self.inputs {
                let mut data = self.sample.clone();
                data.insert(name.clone(), value.clone());
                inputs.push(data);
            }
            inputs.push(self.inputs.iter().map(|name| (name.clone(), value.clone())).collect());
        }
        inputs
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_actions_start_no_program_that_the_caller_names() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let config = "[requests]\nplain_secrets = true\n[plugins.puppetral]\ndeny_types = []\n\
                  [plugins.catalog]\nenabled = true\n[plugins.shell]\nenabled = true\n\
                  [plugins.provision]\nenabled = true\n[plugins.filecopy]\nread = [\"/\"]\nwrite = [\"/\"]\n";
    let node = organisation.node("web1.example.com");
    let home = DaemonHome::new(&organisation, &node, &server.url(), config);
    let checks = "dont_blame_nrpe=1\ncommand[check_load]=/bin/echo $ARG1$ \"$ARG2$\"\n";
    home.write("nrpe.cfg", checks, 0o644);
    let options = format!("[plugins.nrpe]\nconfig = \"{}\"\n", home.path("nrpe.cfg").display());
    home.write("conf.d/nrpe.toml", &options, 0o644);
    let mut daemon = home.start();
    await_log(&mut daemon, "ready identity=").await;
    let signer = organisation.caller("rip");
    let caller = TestCaller::connect(&organisation, &server, signer).await;
    let canary = Canary::new();
    let command = json!({"command": ["/bin/true"]});
    let started = caller.call_action("web1.example.com", "shell", "start", command);
    let job = started.await.reply.data;
    let job = job["job"].clone();
    let mut actions = read_actions();
    for action in &mut actions {
        action.sample.extend(action.inputs.get("job").map(|name| (name.clone(), job.clone())));
    }
    assert!(actions.len() > 40, "{}", actions.len());

    let mut executed: BTreeMap<String, usize> = BTreeMap::new();
    for read_action in &actions {
        let name = format!("{} {}", read_action.agent, read_action.action);
        let count = executed.entry(name.clone()).or_default();
        for data in read_action.build_inputs(&canary).into_iter().step_by(case_step(7)) {
            let request = Request {
                agent: SubjectName::parse(&read_action.agent).unwrap(),
                action: SubjectName::parse(&read_action.action).unwrap(),
                data: data.clone(),
                ..caller.ping_request()
            };
            let reply = caller.send(&request).await;
            *count +=
                usize::from(matches!(reply.statuscode, ReplyStatus::Ok | ReplyStatus::Failed));
            assert!(!canary.mark().exists(), "{name} {data:?} started the canary");
        }
    }
    let not_reached: Vec<&str> = executed
        .iter()
        .filter(|(name, count)| **count == 0 && !UNAVAILABLE.contains(&name.as_str()))
        .map(|(name, _)| name.as_str())
        .collect();
    assert!(not_reached.is_empty(), "no input reached the action: {not_reached:?}");
}

/// Verifies the canary: an action that may run programs starts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exec_action_starts_the_canary() {
    let organisation = Organisation::new(&["muster"]);
    let server = organisation.start_broker().await;
    let config = "[plugins.puppetral]\ndeny_types = []\n";
    let node = organisation.node("web1.example.com");
    let mut daemon = DaemonHome::new(&organisation, &node, &server.url(), config).start();
    await_log(&mut daemon, "ready identity=").await;
    let signer = organisation.caller("rip");
    let caller = TestCaller::connect(&organisation, &server, signer).await;
    let canary = Canary::new();
    let data = json!({"type": "exec", "name": canary.program()});
    let answer = caller.call_action("web1.example.com", "puppetral", "do", data).await;
    assert_eq!(answer.reply.statuscode, ReplyStatus::Ok, "{:?}", answer.reply);
    assert!(canary.mark().exists());
}
