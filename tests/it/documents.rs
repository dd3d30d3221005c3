//! The documents that `rpc` prints for programs are complete and valid in every case; lines are printed early.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_api::{ActionError, Agent, CallContext};
use muster_tests::await_state;
use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::fleet::{NodeSetup, TestNode};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::published_schemas::{self, SchemaMode, check_schema};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use tokio::sync::Semaphore;

/// The node that works until the test permits it to end.
const SLOW: &str = "slow";

/// An action that returns its input; on the slow node only after a permit was added.
#[derive(Clone)]
struct WorkAction {
    end_permits: Arc<Semaphore>,
    working_nodes: Arc<AtomicUsize>,
}

#[derive(Deserialize)]
struct WorkInput {
    what: String,
}

#[derive(Serialize)]
struct WorkOutput {
    done: String,
}

async fn run_work(
    action: WorkAction,
    cx: CallContext,
    given: WorkInput,
) -> Result<WorkOutput, ActionError> {
    let node = cx.node.identity().as_str();
    if node == SLOW && given.what != "quick" {
        action.working_nodes.fetch_add(1, Ordering::Relaxed);
        // The semaphore is never closed.
        action.end_permits.acquire().await.unwrap().forget();
    }
    if node == "bad" && given.what == "fail" {
        return Err(ActionError::failed("it did not work"));
    }
    Ok(WorkOutput { done: given.what })
}

fn ddl() -> Value {
    json!({
        "default_action": "do",
        "metadata": {"name": "work", "description": "d", "author": "a", "license": "l", "version": "1.0.0", "url": "u", "timeout": 600},
        "actions": [{"action": "do", "description": "d", "display": "always",
                     "input": {"what": {"prompt": "p", "description": "d", "type": "string", "validation": ".", "maxlength": 20, "optional": false}},
                     "output": {"done": {"description": "d", "display_as": "Done", "type": "string"}}}],
    })
}

struct OutputFixture {
    _server: NatsServer,
    nodes: Vec<TestNode>,
    rpc: RpcCommand,
    end_permits: Arc<Semaphore>,
    working_nodes: Arc<AtomicUsize>,
}

impl OutputFixture {
    /// A fleet with these nodes. The node called `strict` denies everything except ping.
    async fn new(names: &[&str]) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker().await;
        let (end_permits, working_nodes) = (Arc::new(Semaphore::new(0)), Arc::default());
        let mut nodes = Vec::new();
        for name in names {
            let mut setup = NodeSetup::new(organisation.node(name));
            setup.facts = json!({"name": name});
            if *name == "strict" {
                let text = "policy default deny\nallow\t*\tping\t*\n".to_owned();
                setup.policies = vec![("default.policy".to_owned(), text)];
            }
            let work = WorkAction {
                end_permits: Arc::clone(&end_permits),
                working_nodes: Arc::clone(&working_nodes),
            };
            let agent = Agent::builder(&ddl().to_string()).unwrap();
            setup.agents = vec![agent.action("do", &work, run_work).build().unwrap()];
            nodes.push(TestNode::start(&organisation, &server, setup).await);
        }
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
        rpc.add_schema("work", &ddl());
        Self { _server: server, nodes, rpc, end_permits, working_nodes }
    }

    /// Waits until the slow node is working.
    async fn await_slow_node(&self) {
        let working_nodes = || self.working_nodes.load(Ordering::Relaxed) > 0;
        await_state("the slow node is working", working_nodes).await;
    }

    /// Writes a file to the caller's home; returns its path as an argument.
    fn write_file(&self, name: &str, text: &str) -> String {
        self.rpc.write(name, text);
        self.path(name)
    }

    fn path(&self, name: &str) -> String {
        self.rpc.path(name).into_os_string().into_string().unwrap()
    }
}

/// Validates a document against the schema that it names; returns the name.
fn validate(document: &Value) -> String {
    let name = document["schema"].as_str().unwrap_or_default().to_owned();
    check_schema(&name, document, SchemaMode::Strict).unwrap();
    name
}

/// Reads the next line and validates it.
async fn read_line(lines: &mut Lines<BufReader<ChildStdout>>) -> Option<Value> {
    let line = lines.next_line().await.unwrap()?;
    let line: Value = serde_json::from_str(&line).unwrap();
    check_schema("muster.request.lines.v1", &line, SchemaMode::Strict).unwrap();
    Some(line)
}

fn send_interrupt(child: &Child) {
    let process = i32::try_from(child.id().unwrap()).unwrap();
    kill(Pid::from_raw(process), Signal::SIGINT).unwrap();
}

/// All documents for programs, with the files that the commands need; only some commands use the network.
async fn collect_documents(fixture: &OutputFixture) -> Vec<Value> {
    let rpc = &fixture.rpc;
    let lost = fixture.write_file("lost", "good\ngone\n");
    let good_ddl = fixture.write_file("good.json", &ddl().to_string());
    let bad_ddl = fixture.write_file("bad.json", "{\"metadata\": 7}");
    let policies = fixture.path("policies");
    std::fs::create_dir(&policies).unwrap();
    fixture.write_file("policies/work.policy", "policy default deny\nallow\tanna\t*\t*\n");
    fixture.write_file("policies/odd.policy", "policy default perhaps\n");
    std::fs::create_dir(fixture.path("rules")).unwrap();
    fixture.write_file("rules/work.policy", "policy default allow\n");
    let cases = fixture.write_file(
        "cases.toml",
        "policies = \"rules\"\n[[cases]]\ncaller = \"rip\"\nagent = \"work\"\naction = \"do\"\nexpect = \"deny\"\n",
    );
    let log = fixture.nodes[0].audit_file().display().to_string();
    let unknown_request = "01890a5d-ac96-774b-bcce-b302099a8057";
    let fleet = fixture.path("fleet.json");
    let exported = rpc.run(&["inventory", "--export", &fleet]).await;
    assert!(exported.status.code() != Some(1), "{}", describe_output(&exported));
    let commands: &[&[&str]] = &[
        &["do", "work", "what=fail", "--trace"],
        &["do", "work", "what=x", "--nodes", &lost, "--expect", "1"],
        &["do", "rpcutil", "ping", "-F", "name=nobody"],
        &["cancel", unknown_request],
        &["ping", "--trace"],
        &["ping", "-F", "name=nobody"],
        &["find", "-W", "name=good"],
        &["facts", "name"],
        &["facts"],
        &["filter", "test", &fleet, "name=good and puppet().enabled"],
        &["inventory", "good"],
        &["node", "good"],
        &["inventory", "--collectives"],
        &["explain", "work", "what=x"],
        &["explain", "work", "what=x", "-I", "good"],
        &["job", "list"],
        &["doctor"],
        &["stats"],
        &["plugin", "list"],
        &["plugin", "doc", "rpcutil"],
        &["whoami"],
        &["context", "list"],
        &["plugin", "check", &good_ddl, &bad_ddl],
        &["policy", "check", &policies],
        &[
            "policy", "explain", "--caller", "rip", "--agent", "work", "--action", "do", "--dir",
            &policies,
        ],
        &["policy", "test", &cases],
        &["audit", "verify", &log],
    ];
    let mut all = Vec::new();
    for arguments in commands {
        all.push(rpc.run_json(arguments).await.0);
    }
    let jobs = &rpc.run_json(&["job", "list"]).await.0["jobs"];
    let ids: Vec<&str> = jobs.as_array().unwrap().iter().map(job_id).collect();
    all.push(rpc.run_json(&["job", "show", ids[0]]).await.0);
    all.push(rpc.run_json(&["job", "diff", ids[1], ids[0]]).await.0);
    all
}

fn job_id(job: &Value) -> &str {
    job["id"].as_str().unwrap()
}

/// The documents of `rpc org`.
async fn collect_org_documents(fixture: &OutputFixture) -> Vec<Value> {
    let directory = fixture.path("acme");
    for arguments in [
        &["org", "init", &directory, "--no-tls"][..],
        &["org", "add", "user", "anna", "--org", &directory],
    ] {
        let output = fixture.rpc.run(arguments).await;
        assert!(output.status.success(), "{}", describe_output(&output));
    }
    let mut all = Vec::new();
    for words in [&["list"][..], &["show"], &["program", "list"]] {
        let arguments = [&["org"], words, &["--org", &directory]].concat();
        all.push(fixture.rpc.run_json(&arguments).await.0);
    }
    let arguments = ["org", "show", "anna", "--org", &directory];
    let (users, _) = fixture.rpc.run_json(&arguments).await;
    all.extend(users.as_array().unwrap().clone());
    all
}

/// Schemas whose documents other tests print: `runs.rs`, `checks/`, `provisioning/mod.rs`, `run_and_copy.rs`, `events.rs`, `clusters/`,
/// `directory/`, `catalogs/` and `schedules/`.
const OTHERS: [&str; 43] = [
    "muster.history.v1",
    "muster.drift.v1",
    "muster.statistics.v1",
    "muster.runs.v1",
    "muster.report.v1",
    "muster.compile.v1",
    "muster.compile.check.v1",
    "muster.content.v1",
    "muster.content.collected.v1",
    "muster.content.verified.v1",
    "muster.compile.announced.v1",
    "muster.catalogs.v1",
    "muster.catalog.v1",
    "muster.catalog.why.v1",
    "muster.catalog.environments.v1",
    "muster.check.v1",
    "muster.checks.v1",
    "muster.registered-facets.v1",
    "muster.verified-nodes.v1",
    "muster.node-history.v1",
    "muster.node-difference.v1",
    "muster.registered-nodes.v1",
    "muster.schedules.v1",
    "muster.schedule.v1",
    "muster.schedule.added.v1",
    "muster.schedule.history.v1",
    "muster.schedule.simulation.v1",
    "muster.again.v1",
    "muster.again.history.v1",
    "muster.permits.v1",
    "muster.provision.v1",
    "muster.config.deploy.v1",
    "muster.config.status.v1",
    "muster.policy.who.v1",
    "muster.copy.v1",
    "muster.event.line.v1",
    "muster.broker.balance.v1",
    "muster.release.created.v1",
    "muster.release.diff.v1",
    "muster.release.plan.v1",
    "muster.release.status.v1",
    "muster.releases.v1",
    "muster.broker.status.v1",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_document_is_valid_by_its_published_schema() {
    let fixture = OutputFixture::new(&["good", "bad", "strict"]).await;
    let mut seen = BTreeSet::new();
    for document in collect_documents(&fixture).await {
        seen.insert(validate(&document));
    }
    for document in collect_org_documents(&fixture).await {
        seen.insert(validate(&document));
    }
    let lines = ["do", "work", "what=fail", "--jsonl"];
    let output = fixture.rpc.run(&lines).await;
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        check_schema("muster.request.lines.v1", &line, SchemaMode::Strict).unwrap();
    }
    seen.insert("muster.request.lines.v1".to_owned());
    let is_other =
        |name: &String| name.starts_with("muster.puppet.") || OTHERS.contains(&name.as_str());
    let published: BTreeSet<String> =
        published_schemas::schema_names().into_iter().filter(|name| !is_other(name)).collect();
    assert_eq!(seen, published, "every published schema must be printed by a command");

    let listed = fixture.rpc.run(&["schema"]).await;
    let listed = String::from_utf8(listed.stdout).unwrap();
    for name in &published {
        assert!(listed.contains(name.as_str()), "{name}: {listed}");
        let printed = fixture.rpc.run(&["schema", name]).await;
        let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
        assert_eq!(printed["$id"], name.as_str());
    }
}

#[test]
fn schemas_reject_renamed_fields_and_accept_added_ones() {
    let name = "muster.ping.v1";
    let document = json!({"schema": name, "replies": [{"sender": "a", "time_ms": 1.5, "clock_skew_ms": 0}],
                          "statistics_ms": null, "incomplete": false});
    assert_eq!(check_schema(name, &document, SchemaMode::Strict), Ok(()));
    let mut renamed = document.clone();
    renamed["replies"][0] = json!({"node": "a", "time_ms": 1.5, "clock_skew_ms": 0});
    assert!(check_schema(name, &renamed, SchemaMode::Tolerant).is_err());
    let mut other = document.clone();
    other["schema"] = json!("muster.ping.v2");
    assert!(check_schema(name, &other, SchemaMode::Tolerant).is_err());
    let mut added = document;
    added["replies"][0]["colour"] = json!("blue");
    assert_eq!(check_schema(name, &added, SchemaMode::Tolerant), Ok(()));
    assert!(check_schema(name, &added, SchemaMode::Strict).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_are_printed_while_a_node_is_still_working() {
    let fixture = OutputFixture::new(&["good", SLOW]).await;
    let request = ["do", "work", "what=x", "--jsonl"];
    let mut child = fixture.rpc.prepare_command(&request).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = read_line(&mut lines).await.unwrap();
    assert_eq!(first["kind"], "discovered");
    assert_eq!(first["nodes"], json!(["good", SLOW]));
    assert_eq!(read_line(&mut lines).await.unwrap()["kind"], "job");
    // The slow node is released only after this line was read.
    let second = read_line(&mut lines).await.unwrap();
    assert_eq!((&second["kind"], &second["sender"]), (&json!("result"), &json!("good")));
    assert_eq!(child.try_wait().unwrap(), None, "the command must wait for the slow node");
    fixture.await_slow_node().await;
    fixture.end_permits.add_permits(1);
    let third = read_line(&mut lines).await.unwrap();
    assert_eq!((&third["kind"], &third["sender"]), (&json!("result"), &json!(SLOW)));
    assert_eq!(read_line(&mut lines).await.unwrap()["kind"], "summaries");
    assert_eq!(read_line(&mut lines).await.unwrap()["request_stats"]["ok"], 2);
    assert_eq!(read_line(&mut lines).await, None);
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prints_one_complete_document_in_every_case() {
    let fixture = OutputFixture::new(&["good", "bad", "strict", SLOW]).await;
    let lost = fixture.write_file("lost", "good\nbad\nstrict\ngone\n");
    let request = ["do", "work", "what=fail", "--nodes", &lost];
    let (document, exit) = fixture.rpc.run_json(&request).await;
    assert_eq!(exit, 2, "{document:#}");
    validate(&document);
    let stats = &document["request_stats"];
    assert_eq!((&stats["ok"], &stats["failed"]), (&json!(1), &json!(2)));
    assert_eq!(stats["not_connected"], json!(["gone"]));
    let replies = document["replies"].as_array().unwrap();
    let denied = replies.iter().find(|reply| reply["sender"] == "strict");
    assert_eq!(denied.unwrap()["reason"]["kind"], "denied");

    let (document, exit) =
        fixture.rpc.run_json(&["do", "work", "what=x", "-F", "name=nobody"]).await;
    assert_eq!(exit, 1);
    validate(&document);
    assert_eq!(document["request_stats"]["discovered"], 0);

    let single_node = ["do", "work", "what=x", "-t", "1", "-I", SLOW];
    let (document, exit) = fixture.rpc.run_json(&single_node).await;
    assert_eq!(exit, 2);
    validate(&document);
    assert_eq!(document["replies"][0]["reason"]["kind"], "timeout", "{document:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_request_prints_its_document() {
    let fixture = OutputFixture::new(&["good", SLOW]).await;
    let request = ["do", "work", "what=x", "-j"];
    let child = fixture.rpc.prepare_command(&request).spawn().unwrap();
    fixture.await_slow_node().await;
    send_interrupt(&child);
    let output = child.wait_with_output().await.unwrap();
    fixture.end_permits.add_permits(1);
    assert_eq!(output.status.code(), Some(130), "{}", describe_output(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    validate(&document);
    let stats = &document["request_stats"];
    assert_eq!(stats["incomplete"], true, "{stats:#}");
    assert_eq!(stats["gaps"], json!(["interrupted"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filtered_replies_select_the_nodes_of_the_next_command() {
    let fixture = OutputFixture::new(&["good", "bad"]).await;
    let filter = ["--filter-replies", "not ok()"];
    let request = [&["do", "work", "what=fail", "-j"], &filter[..]].concat();
    let mut first = fixture.rpc.prepare_command(&request).spawn().unwrap();
    let pipe: Stdio = first.stdout.take().unwrap().try_into().unwrap();
    let mut second =
        fixture.rpc.prepare_command(&["do", "work", "what=again", "--nodes", "-", "-j"]);
    let output = second.stdin(pipe).output().await.unwrap();
    assert_eq!(first.wait().await.unwrap().code(), Some(2));
    assert!(output.status.success(), "{}", describe_output(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let replies = document["replies"].as_array().unwrap();
    let senders: Vec<&Value> = replies.iter().map(|reply| &reply["sender"]).collect();
    assert_eq!(senders, ["bad"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn templates_are_rendered_for_nodes_and_inventories() {
    let fixture = OutputFixture::new(&["good", "bad"]).await;
    let printed = async |arguments: &[&str]| {
        let output = fixture.rpc.run(arguments).await;
        let code = output.status.code().unwrap();
        (String::from_utf8(output.stdout.clone()).unwrap(), code)
    };
    let found = printed(&["find", "--template", "{{ node }} user=root"]).await;
    assert_eq!(found, ("bad user=root\ngood user=root\n".to_owned(), 0));
    let line = "{{ node }}: {{ facts.name }} {{ 'work' in agents }}";
    let all = printed(&["inventory", "--template", line]).await;
    assert_eq!(all, ("bad: bad True\ngood: good True\n".to_owned(), 0));
    let file = fixture.write_file("line", line);
    let one = printed(&["inventory", "good", "--template", &format!("@{file}")]).await;
    assert_eq!(one, ("good: good True\n".to_owned(), 0));
    let filtered = ["inventory", "--template", line, "-F", "name=bad"];
    assert_eq!(printed(&filtered).await, ("bad: bad True\n".to_owned(), 0));

    for (invalid, code) in [
        (&["inventory", "--template", "{{ sender }}"][..], 4),
        (&["find", "--template", "{{ facts.name }}"], 4),
        (&["inventory", "gone", "--template", line], 3),
        (&["inventory", "--template", line, "-F", "name=nobody"], 1),
        (&["inventory", "-F", "name=bad"], 4),
        (&["inventory", "good", "--collectives"], 4),
        (&["inventory", "--template", line, "--collectives"], 4),
    ] {
        assert_eq!(printed(invalid).await, (String::new(), code), "{invalid:?}");
    }
}

/// What one node publishes or replies cannot end the output of the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn template_that_fails_for_one_node_is_rendered_for_the_others() {
    let fixture = OutputFixture::new(&["bad", "good"]).await;
    for (command, name, code) in
        [(&["inventory"][..], "facts.name", 2), (&["do", "work", "what=x"], "sender", 1)]
    {
        let template =
            format!("{{{{ {name} }}}}{{% if {name} == 'bad' %}}{{{{ {name} + 1 }}}}{{% endif %}}");
        let output = fixture.rpc.run(&[command, &["--template", &template]].concat()).await;
        assert_eq!(output.status.code(), Some(code), "{}", describe_output(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "good\n");
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(messages.contains("bad: --template: "), "{messages}");
    }
}
