//! The history of a fleet: what nodes report of requests and runs, and what `rpc history` answers.

#![expect(clippy::indexing_slicing, reason = "documents are indexed; tests end by panic")]

mod kills;
pub(crate) mod past_runs;
mod puppet_runs;

use std::fs;
use std::path::Path;
use std::time::Duration;

use muster_tests::command::{RpcCommand, describe_output};
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::{Organisation, connect};
use muster_tests::poll_until_ok;
use muster_tests::rpcd::{DaemonHome, Rpcd};
use muster_wire::history::{HistoryBatch, HistoryEvent, HistoryRecord, compress_records};
use muster_wire::identity::Identity;
use muster_wire::sign::{EnvelopeKind, Signer, sign_envelope};
use muster_wire::stores::HISTORY_BUCKET;
use muster_wire::token::{ServiceRight, UserCredentials};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::monitoring::METRICS_CONFIG;
use crate::packages::walk;

const NODE: &str = "web1.acme.net";
const TIMEOUT: Duration = Duration::from_mins(3);

/// Everything of the engine is in the daemon's directory.
const NODE_OPTIONS: &str = "[plugins.puppetral]\ndeny_types = []\n[plugins.catalog]\nenabled = true\nstate_dir = \"../engine\"\npuppet_state = []\n";

pub(crate) struct HistoryFleet {
    pub(crate) organisation: Organisation,
    pub(crate) server: NatsServer,
    pub(crate) rpc: RpcCommand,
    pub(crate) history: Rpcd,
}

impl HistoryFleet {
    /// A broker with its stores, a host that keeps the history, and the files of a node.
    pub(crate) async fn start() -> (Self, DaemonHome) {
        Self::start_with(|_| String::new()).await
    }

    /// The same with these options of the host, by its files.
    pub(crate) async fn start_with(
        options: impl FnOnce(&DaemonHome) -> String,
    ) -> (Self, DaemonHome) {
        let mut organisation = Organisation::new(&["muster"]);
        organisation.list_services(ServiceRight::History, &["history1"]);
        let server = organisation.start_broker_with_stores().await;
        let host = organisation.node("history1.acme.net");
        let home = DaemonHome::new(&organisation, &host, &server.url(), "");
        let service = organisation.service(ServiceRight::History, "history1");
        let creds = UserCredentials::new(&service.token(), service.key_pair().clone()).unwrap();
        home.write("service.creds", &creds.to_text(), 0o600);
        let policy = "policy default deny\nallow\trip\t*\t*\t*\n";
        home.write("policies/history.policy", policy, 0o644);
        let index = home.path("index");
        let history = format!(
            "[plugins.history]\nenabled = true\ncredentials = \"../service.creds\"\ndirectory = \"{}\"\n",
            index.display()
        );
        home.write("conf.d/history.toml", &history, 0o644);
        home.write("conf.d/metrics.toml", METRICS_CONFIG, 0o644);
        home.write("conf.d/more.toml", &options(&home), 0o644);
        let signer = organisation.node(NODE);
        let node = DaemonHome::new(&organisation, &signer, &server.url(), NODE_OPTIONS);
        let rpc = RpcCommand::new(&server, &organisation, &organisation.caller("rip"), "");
        (Self { history: home.start(), organisation, server, rpc }, node)
    }

    /// What `rpc history` prints with these arguments, once it has this many rows.
    async fn await_rows(&self, arguments: &[&str], count: usize) -> Vec<Value> {
        let arguments = [&["history"], arguments, &["-j"]].concat();
        poll_until_ok("the history has the rows", TIMEOUT, async || {
            let output = self.rpc.run(&arguments).await;
            let found: Value =
                serde_json::from_slice(&output.stdout).map_err(|_| describe_output(&output))?;
            let rows = found["rows"].as_array().unwrap().clone();
            if rows.len() == count { Ok(rows) } else { Err(found.to_string()) }
        })
        .await
    }

    /// Requests the content of a file from the node.
    pub(crate) async fn set_file(&self, path: &str, content: &str) {
        let content = format!("content={content}");
        let words = ["do", "puppetral", "type=file", path, &content, "-I", NODE];
        let output = self.rpc.run(&words).await;
        assert!(output.status.success(), "{}", describe_output(&output));
    }

    /// Requests that the node applies a catalog; the request ends with the task.
    pub(crate) fn begin_apply(&self, file: &str) -> tokio::task::JoinHandle<()> {
        let words = ["do", "catalog", "apply", file, "-I", NODE, "--timeout", "60"];
        let mut request = self.rpc.prepare_command(&words);
        request.kill_on_drop(true);
        tokio::spawn(async move {
            let output = request.output().await.unwrap();
            assert!(output.status.success(), "{}", describe_output(&output));
        })
    }

    pub(crate) async fn await_node(&self) {
        poll_until_ok("the node answers", TIMEOUT, async || {
            let output = self.rpc.run(&["ping", "-I", NODE]).await;
            if output.status.success() { Ok(()) } else { Err(describe_output(&output)) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn change_is_found_by_resource_user_request_and_words() {
    let (fleet, home) = HistoryFleet::start().await;
    let path = home.path("motd");
    let _node = home.start();
    fleet.await_node().await;
    let name = format!("name={}", path.display());
    fleet.set_file(&name, "one").await;
    fleet.set_file(&name, "two").await;
    let resource = format!("File[{}]", path.display());
    let rows = fleet.await_rows(&["resource", &resource], 2).await;
    let [last, first] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&first["property"], &last["property"]), (&json!("ensure"), &json!("content")));
    assert_eq!((&last["who"], &last["node"]), (&json!("rip"), &json!(NODE)));
    assert_eq!((&last["agent"], &last["status"]), (&json!("puppetral"), &json!("success")));
    assert!(last["before"].is_string() && last["before"] != last["after"], "{last}");
    let request = last["request"].as_str().unwrap();
    // The request and its change.
    let of_request = fleet.await_rows(&["request", request], 2).await;
    assert_eq!(of_request[0]["kind"], "request");
    assert_eq!(of_request[0]["status"], "executed");
    fleet.await_rows(&["who", "rip", "--changed", "--since", "yesterday"], 4).await;
    fleet.await_rows(&["who", "anna"], 0).await;
    fleet.await_rows(&["--text", "motd", "--kind", "change", "-I", NODE], 2).await;
    fleet.await_rows(&["--text", "motd", "-I", "other"], 0).await;
    fleet.await_rows(&["--until", "yesterday"], 0).await;
    // The page of the node has the changes and their jobs.
    let (page, code) = fleet.rpc.run_json(&["node", NODE]).await;
    let count = |section: &str| page[section].as_array().map(Vec::len);
    assert_eq!((code, count("history"), count("jobs")), (0, Some(4), Some(2)), "{page:#}");
    assert_eq!((&page["runs"], &page["jobs"][0]["statuscode"]), (&json!([]), &json!(0)));
    // A refusal.
    let output =
        fleet.rpc.run(&["do", "puppetral", "type=file", "name=relative", "-I", NODE]).await;
    assert!(!output.status.success());
    fleet.await_rows(&["--failed"], 1).await;
}

/// Writes a catalog that waits for the file `go`, between two messages and 20 more.
fn write_waiting_catalog(home: &DaemonHome) -> String {
    let go = home.path("go");
    let wait = format!("until test -e '{}'; do sleep 0.02; done", go.display());
    let wait = json!({"command": wait, "provider": "shell", "path": "/usr/bin:/bin", "timeout": 0});
    let notify = |number: usize| json!({"type": "Notify", "title": format!("message {number}"), "tags": [], "exported": false});
    let mut resources: Vec<Value> = (0..2).map(notify).collect();
    resources.push(
        json!({"type": "Exec", "title": "wait", "tags": [], "exported": false, "parameters": wait}),
    );
    resources.extend((2..22).map(notify));
    write_catalog(home, &resources)
}

/// A catalog with a file whose content is a secret.
fn write_secret_catalog(home: &DaemonHome, path: &Path) -> String {
    let parameters = json!({"content": "verysecret", "mode": "0600"});
    let file = json!({
        "type": "File", "title": path, "tags": [], "exported": false,
        "parameters": parameters, "sensitive_parameters": ["content"],
    });
    write_catalog(home, &[file])
}

/// Writes a catalog of these resources; returns the input that names it.
pub(crate) fn write_catalog(home: &DaemonHome, resources: &[Value]) -> String {
    let text = json!({
        "name": NODE, "version": 1, "environment": "production", "catalog_format": 1,
        "resources": resources, "edges": [], "classes": [],
    });
    let path = home.path("catalog.json");
    fs::write(&path, text.to_string()).unwrap();
    format!("file={}", path.display())
}

#[tokio::test(flavor = "multi_thread")]
async fn run_is_shown_as_it_goes_and_delivered_when_the_broker_is_back() {
    let (mut fleet, home) = HistoryFleet::start().await;
    let file = write_waiting_catalog(&home);
    let node = home.start();
    fleet.await_node().await;
    let request = fleet.begin_apply(&file);
    // The events before the end of the run are there.
    let started = poll_until_ok("the run is shown", TIMEOUT, async || {
        let output = fleet.rpc.run(&["report", "show", NODE, "-j"]).await;
        let shown: Value =
            serde_json::from_slice(&output.stdout).map_err(|_| describe_output(&output))?;
        let statuses = shown["report"]["resource_statuses"].as_object().map_or(0, Map::len);
        if statuses == 2 { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await;
    assert_eq!(started["run"]["status"], "running", "{started}");
    let run = started["run"]["run"].as_str().unwrap();
    fleet.server.kill();
    node.home().write("go", "", 0o644);
    let summary = node.home().path("engine/last_run_report.json");
    poll_until_ok("the run has ended", TIMEOUT, async || fs::metadata(&summary)).await;
    fleet.server.revive().await;
    let changes = fleet.await_rows(&["run", run, "--kind", "change"], 23).await;
    let last = changes.first().unwrap()["resource"].as_str().unwrap();
    assert_eq!(last, "Notify[message 21]");
    fleet.await_rows(&["--kind", "gap"], 0).await;
    let (shown, _) = fleet.rpc.run_json(&["report", "show", NODE, run]).await;
    assert_eq!((&shown["run"]["status"], &shown["run"]["who"]), (&json!("changed"), &json!("rip")));
    let own: Value = serde_json::from_slice(&fs::read(&summary).unwrap()).unwrap();
    assert_eq!(shown["report"]["resource_statuses"], own["resource_statuses"]);
    assert_eq!(
        (&shown["report"]["metrics"], &shown["report"]["logs"]),
        (&own["metrics"], &own["logs"])
    );
    request.abort();
}

/// Only those whom the policy of the history names.
#[tokio::test(flavor = "multi_thread")]
async fn users_without_the_right_read_nothing() {
    let (fleet, home) = HistoryFleet::start().await;
    let path = home.path("motd");
    let _node = home.start();
    fleet.await_node().await;
    fleet.set_file(&format!("name={}", path.display()), "one").await;
    let resource = format!("File[{}]", path.display());
    fleet.await_rows(&["resource", &resource], 1).await;
    let mallory = RpcCommand::new(
        &fleet.server,
        &fleet.organisation,
        &fleet.organisation.caller("mallory"),
        "",
    );
    for words in [
        &["history"][..],
        &["report", "list"],
        &["report", "show", NODE],
        &["drift"],
        &["history", "-f"],
    ] {
        let output = mallory.run(words).await;
        let text = describe_output(&output);
        assert!(!output.status.success() && text.contains("not allowed"), "{words:?}: {text}");
        assert!(!text.contains("File["), "{text}");
    }
    // The page of a node names what this user may not read.
    let output = mallory.run(&["node", NODE]).await;
    let text = describe_output(&output);
    let is_denied = text.contains("History: the history denied the request");
    assert!(output.status.success() && is_denied && !text.contains("File["), "{text}");
    fleet.await_rows(&["resource", &resource], 1).await;
}

/// Runs of a node that is missing are closed by the service, and go on when it returns.
#[tokio::test(flavor = "multi_thread")]
async fn run_of_a_missing_node_is_aborted_until_it_returns() {
    let (fleet, home) = HistoryFleet::start().await;
    home.write("conf.d/heartbeat.toml", "[registration]\nheartbeat_seconds = 2\n", 0o644);
    let file = write_waiting_catalog(&home);
    let node = home.start();
    fleet.await_node().await;
    let request = fleet.begin_apply(&file);
    fleet.await_progress(1, 2).await;
    node.freeze().await;
    let of_status = async |status: &str| {
        poll_until_ok("the run has this status", Duration::from_mins(3), async || {
            let (shown, _) = fleet.rpc.run_json(&["report", "show", NODE]).await;
            if shown["run"]["status"] == status { Ok(shown) } else { Err(shown["run"].to_string()) }
        })
        .await
    };
    let shown = of_status("aborted").await;
    assert_eq!(shown["run"]["problem"], "the node is missing");
    fleet.await_rows(&["--kind", "run", "--failed"], 1).await;
    node.thaw();
    node.home().write("go", "", 0o644);
    let shown = of_status("changed").await;
    assert_eq!(shown["run"]["problem"], Value::Null);
    fleet.await_rows(&["--kind", "run", "--failed"], 0).await;
    fleet.await_rows(&["--kind", "gap"], 0).await;
    request.abort();
}

/// A password is neither in the journal of the node nor in the broker nor in the index.
#[tokio::test(flavor = "multi_thread")]
async fn password_is_in_no_file_of_the_history() {
    let (fleet, home) = HistoryFleet::start().await;
    let _node = home.clone().start();
    fleet.await_node().await;
    // The daemon works on this machine's own files, so the user is not created.
    let user = ["type=user", "name=history-test", "password=$6$verysecret", "noop=true"];
    let words = [&["do", "puppetral", "-I", NODE], user.as_slice()].concat();
    let output = fleet.rpc.run(&words).await;
    assert!(output.status.success(), "{}", describe_output(&output));
    fleet.await_rows(&["resource", "User[history-test]"], 1).await;
    let path = home.path("token");
    let file = write_secret_catalog(&home, &path);
    fleet.begin_apply(&file).await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "verysecret");
    fleet.await_rows(&["resource", &format!("File[{}]", path.display())], 1).await;
    let directories = [
        home.path("state/history"),
        fleet.history.home().path("index"),
        fleet.server.streams_path(),
    ];
    let mut files = 0;
    for directory in directories {
        for entry in walk(&directory) {
            files += 1;
            let text = fs::read(&entry).unwrap();
            let is_in = text.windows(10).any(|part| part == b"verysecret");
            assert!(!is_in, "{}", entry.display());
        }
    }
    assert!(files > 4, "{files}");
}

/// The bucket is lost with its revisions, and created again: what nodes report from then on is read.
#[tokio::test(flavor = "multi_thread")]
async fn bucket_that_was_created_again_is_read_from_its_beginning() {
    read_after_loss(1).await;
}

/// The same, when the new bucket has higher revisions than the service had read of the old one.
#[tokio::test(flavor = "multi_thread")]
async fn bucket_that_was_created_again_and_grew_is_read_from_its_beginning() {
    read_after_loss(15).await;
}

/// Loses the bucket after three changes. The service does not run while the new one receives further changes.
async fn read_after_loss(changes: u64) {
    let (mut fleet, home) = HistoryFleet::start().await;
    let _node = home.clone().start();
    fleet.await_node().await;
    let path = home.path("motd");
    let resource = format!("File[{}]", path.display());
    let name = format!("name={}", path.display());
    for number in 1..=3 {
        fleet.set_file(&name, &number.to_string()).await;
    }
    fleet.await_rows(&["resource", &resource], 3).await;
    fleet.history.freeze().await;
    fleet.server.kill();
    fleet.server.remove_streams();
    fleet.server.revive().await;
    fleet.organisation.declare_stores(&fleet.server, 1).await;
    fleet.await_node().await;
    for number in 1..=changes {
        fleet.set_file(&name, &format!("again {number}")).await;
    }
    let administrator = connect(&fleet.server, &fleet.organisation.administrator()).await;
    let bucket = administrator.bucket(HISTORY_BUCKET.name);
    poll_until_ok("the node has delivered all", TIMEOUT, async || {
        let entries = bucket.list(">").await.unwrap();
        let newest = entries.iter().map(|entry| entry.revision).max().unwrap_or_default();
        if newest >= changes { Ok(()) } else { Err(format!("revision {newest}")) }
    })
    .await;
    fleet.history.thaw();
    let rows = 3 + usize::try_from(changes).unwrap();
    fleet.await_rows(&["resource", &resource], rows).await;
}

/// Another user has no saved job of the request. The history shows it, by the beginning of its id, and what it changed can be undone.
#[tokio::test(flavor = "multi_thread")]
async fn request_of_another_user_is_shown_and_undone() {
    let (fleet, home) = HistoryFleet::start().await;
    home.write("motd", "before\n", 0o644);
    let path = home.path("motd");
    let _node = home.clone().start();
    fleet.await_node().await;
    fleet.set_file(&format!("name={}", path.display()), "after").await;
    let rows = fleet.await_rows(&["--kind", "change"], 1).await;
    let id = rows[0]["request"].as_str().unwrap().to_owned();
    let colleague = fleet.organisation.caller("rip");
    let colleague = RpcCommand::new(&fleet.server, &fleet.organisation, &colleague, "");
    let shown = colleague.run(&["job", "show", &id[..13]]).await;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.status.success(), "{}", describe_output(&shown));
    for part in
        [&*id, "User", "rip", "puppetral do", "1 (1 executed)", "1 resource property on 1 node"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let undone = colleague.run(&["job", "undo", &id[..13], "--yes"]).await;
    assert!(undone.status.success(), "{}", describe_output(&undone));
    assert_eq!(fs::read_to_string(&path).unwrap(), "before\n");
    let unknown = colleague.run(&["job", "show", "00000000-0000"]).await;
    assert!(describe_output(&unknown).contains("there is no job"), "{}", describe_output(&unknown));
}

/// A message of a history, as a node sends it.
fn message(sender: &Signer, name: &Identity, segment: Uuid, first: u64) -> Vec<u8> {
    let line = json!({"verdict": "executed", "caller": "mallory", "agent": "puppetral", "action": "do", "statuscode": 0});
    let line: Map<String, Value> = line.as_object().unwrap().clone();
    let event = HistoryEvent::Audit { refused: false, line };
    let time = muster_tests::now();
    message_of(sender, name, segment, &[HistoryRecord { seq: first, time, number: None, event }])
}

/// A message with these records.
fn message_of(
    sender: &Signer,
    name: &Identity,
    segment: Uuid,
    records: &[HistoryRecord],
) -> Vec<u8> {
    let (records, _) = compress_records(records).unwrap();
    let batch = HistoryBatch { sender: name.clone(), segment, previous: None, records };
    sign_envelope(EnvelopeKind::History, &batch, sender).unwrap()
}

/// Only the node itself can write its history: forged, foreign and replayed messages are not taken.
#[tokio::test(flavor = "multi_thread")]
async fn forged_foreign_and_replayed_messages_are_refused() {
    let (fleet, _home) = HistoryFleet::start().await;
    let (node, other) = (fleet.organisation.node(NODE), fleet.organisation.node("db1.acme.net"));
    let administrator = connect(&fleet.server, &fleet.organisation.administrator()).await;
    let bucket = administrator.bucket(HISTORY_BUCKET.name);
    let segment = Uuid::now_v7();
    let genuine = message(&node, node.identity(), segment, 1);
    let mut altered = genuine.clone();
    let last = altered.len() - 10;
    altered[last] ^= 1;
    // Written by the administrator of the broker, who may write every key.
    let attempts = [
        (NODE, altered),
        // Of another node, under this one's name and in it.
        (NODE, message(&other, other.identity(), Uuid::now_v7(), 1)),
        (NODE, message(&other, node.identity(), Uuid::now_v7(), 1)),
        ("db1.acme.net", genuine.clone()),
        // A caller is no node.
        (
            NODE,
            message(
                &fleet.organisation.caller("rip"),
                &Identity::parse("rip").unwrap(),
                Uuid::now_v7(),
                1,
            ),
        ),
        (NODE, b"{}".to_vec()),
        (NODE, genuine.clone()),
        (NODE, genuine),
    ];
    for (key, bytes) in attempts {
        bucket.put(key, bytes.into()).await.unwrap();
    }
    fleet.await_rows(&["who", "mallory"], 1).await;
    // An earlier segment comes too late.
    let late = message(&node, node.identity(), Uuid::now_v7(), 1);
    bucket.put(NODE, late.into()).await.unwrap();
    let rows = fleet.await_rows(&["who", "mallory"], 2).await;
    assert_eq!(rows.len(), 2);
    // A node cannot write under another name, and reads nothing.
    let stolen = connect(&fleet.server, &other).await;
    let bucket = stolen.bucket(HISTORY_BUCKET.name);
    assert!(bucket.put_once(NODE, "x".into()).await.is_err());
    assert!(bucket.get_once(NODE).await.is_err());
}
