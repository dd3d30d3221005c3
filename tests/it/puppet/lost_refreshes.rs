//! Refreshes that a stock Puppet loses, and that are not lost through the agent: each scenario runs once without the
//! agent, which proves the loss, and once with it.

#![expect(clippy::indexing_slicing, reason = "the structure of the documents is known")]

use muster_tests::command::RpcCommand;
use muster_tests::nats_server::NatsServer;
use muster_tests::organisation::Organisation;
use muster_tests::rpcd::Rpcd;
use serde_json::{Value, json};

use super::puppet_node::{PuppetNode, has_puppet, run_once};

/// What happens between a change and its refresh.
#[derive(Debug, Clone, Copy, PartialEq)]
enum LossCause {
    /// Another dependency of the target fails (M1).
    Dependency,
    /// The refresh itself fails (M2).
    Refresh,
    /// Puppet is killed (M6).
    Kill,
}

/// A changed file notifies Y, and Y notifies Z. The catalog is the same in the second run; only the cause is removed.
fn catalog(node: &PuppetNode, cause: LossCause) -> Value {
    let w = node.path("w").display().to_string();
    let shell = |line: String| json!(["/bin/sh", "-c", line]);
    let broken = format!("{w}/broken");
    let y = match cause {
        LossCause::Refresh => format!("test ! -e {broken} && echo Y >> {w}/log"),
        _ => format!("echo Y >> {w}/log"),
    };
    let between = match cause {
        LossCause::Kill => format!("if test -e {broken}; then kill -9 $PPID; fi"),
        LossCause::Dependency => format!("test ! -e {broken}"),
        LossCause::Refresh => "true".to_owned(),
    };
    let exec = |title: &str, parameters: Value| json!({"type": "Exec", "title": title, "tags": ["exec"], "parameters": parameters});
    json!({
        "name": "n1", "version": "1", "environment": "production", "catalog_format": 1,
        "resources": [
            {"type": "Stage", "title": "main", "parameters": {"name": "main"}},
            {"type": "Class", "title": "main", "parameters": {"name": "main"}},
            {"type": "File", "title": format!("{w}/source"), "tags": ["file"],
             "parameters": {"ensure": "file", "content": "x-1.0\n", "notify": "Exec[Y]", "before": "Exec[between]"}},
            exec("between", json!({"command": shell(between), "unless": format!("/usr/bin/test ! -e {broken}"), "before": "Exec[Y]"})),
            exec("Y", json!({"command": shell(y), "refreshonly": true, "notify": "Exec[Z]"})),
            exec("Z", json!({"command": shell(format!("echo Z >> {w}/log")), "refreshonly": true})),
        ],
        "edges": [
            {"source": "Stage[main]", "target": "Class[main]"},
            {"source": "Class[main]", "target": format!("File[{w}/source]")},
            {"source": "Class[main]", "target": "Exec[between]"},
            {"source": "Class[main]", "target": "Exec[Y]"},
            {"source": "Class[main]", "target": "Exec[Z]"},
        ],
    })
}

fn prepare_node(cause: LossCause) -> PuppetNode {
    let node = PuppetNode::new("n1");
    node.write_catalog(&catalog(&node, cause));
    std::fs::write(node.path("w/broken"), "").unwrap();
    node
}

fn remove_cause(node: &PuppetNode) {
    std::fs::remove_file(node.path("w/broken")).unwrap();
}

/// Without the agent: the second run is clean, and Y and Z never run.
fn assert_lost_by_stock_puppet(cause: LossCause) {
    let node = prepare_node(cause);
    let output = node.run_stock_puppet();
    assert!(node.path("w/source").exists(), "{output}");
    remove_cause(&node);
    let output = node.run_stock_puppet();
    assert_eq!(node.log(), [""; 0], "{cause:?} does not lose the refresh any more: {output}");
}

/// Through the agent: the pending refresh is reported and made once in the next run.
async fn assert_kept_by_agent(cause: LossCause) {
    let node = prepare_node(cause);
    let puppet = node.without_permits();
    let first = run_once(&puppet, json!({})).await;
    let class = match cause {
        LossCause::Kill => "killed",
        _ => "failed+changed",
    };
    assert_eq!(first["class"], class, "{first}");
    let pending = first["pending"].as_array().unwrap();
    assert!(pending.contains(&json!("Exec[Y]")), "{first}");
    assert_eq!(node.log(), [""; 0]);
    remove_cause(&node);
    let second = run_once(&puppet, json!({})).await;
    assert_eq!((&second["class"], &second["pending"]), (&json!("changed"), &json!([])), "{second}");
    assert_eq!(node.log(), ["Y", "Z"], "{second}");
    assert_eq!(second["replayed"], json!(["Exec[Y]"]), "{second}");
    let third = run_once(&puppet, json!({})).await;
    assert_eq!(third["class"], "clean", "{third}");
    assert_eq!(node.log(), ["Y", "Z"], "a further run must not repeat them");
}

#[tokio::test]
async fn m1_failed_dependency_keeps_the_refresh() {
    if has_puppet() {
        assert_lost_by_stock_puppet(LossCause::Dependency);
        assert_kept_by_agent(LossCause::Dependency).await;
    }
}

#[tokio::test]
async fn m2_failed_refresh_is_repeated() {
    if has_puppet() {
        assert_lost_by_stock_puppet(LossCause::Refresh);
        assert_kept_by_agent(LossCause::Refresh).await;
    }
}

#[tokio::test]
async fn m6_killed_puppet_keeps_the_refresh() {
    if has_puppet() {
        assert_lost_by_stock_puppet(LossCause::Kill);
        assert_kept_by_agent(LossCause::Kill).await;
    }
}

/// The result is read from the real report, not from the exit code, which is 0 for `puppet apply --catalog` (M29).
#[tokio::test]
async fn m29_result_is_read_from_the_report_of_puppet() {
    if !has_puppet() {
        return;
    }
    let node = PuppetNode::new("n1");
    let resource = |command: &str| {
        json!({"name": "n1", "catalog_format": 1, "environment": "production", "resources": [
            {"type": "Exec", "title": "x", "parameters": {"command": command}}], "edges": []})
    };
    let puppet = node.without_permits();
    for (command, class) in [("/bin/true", "changed"), ("/bin/false", "failed")] {
        node.write_catalog(&resource(command));
        let outcome = run_once(&puppet, json!({})).await;
        assert_eq!(outcome["class"], class, "{outcome}");
        assert_eq!(outcome["exitcode"], 0, "{outcome}");
        assert!(outcome["transaction_uuid"].is_string(), "{outcome}");
    }
    std::fs::write(node.path("catalog.json"), "{").unwrap();
    let outcome = run_once(&puppet, json!({})).await;
    assert_eq!(
        (&outcome["state"], &outcome["class"]),
        (&json!("finished"), &json!("compile_failed")),
        "{outcome}"
    );
}

/// A daemon with the real Puppet, its broker, and the real `rpc`.
struct PuppetDaemonFixture {
    _server: NatsServer,
    _daemon: Rpcd,
    rpc: RpcCommand,
}

impl PuppetDaemonFixture {
    async fn start(node: &PuppetNode) -> Self {
        let organisation = Organisation::new(&["muster"]);
        let server = organisation.start_broker_with_stores().await;
        let caller = organisation.caller("rip");
        let rpc = RpcCommand::new(&server, &organisation, &caller, "confirm = \"never\"");
        let daemon = node.start_daemon((&organisation, &server), &rpc).await;
        Self { _server: server, _daemon: daemon, rpc }
    }

    /// Runs Puppet; returns the outputs of its run, and the exit code of `rpc`.
    async fn run_puppet(&self, more: &[&str]) -> (Value, i32) {
        let (document, exit) = self.rpc.run_json(&[&["puppet", "runonce"], more].concat()).await;
        (document["nodes"][0]["data"].clone(), exit)
    }
}

/// `rpc do ledger replay` makes the refreshes that a run of the real Puppet left, and those that follow from them.
#[tokio::test]
async fn ledger_replays_refreshes_of_real_puppet_runs() {
    if !has_puppet() {
        return;
    }
    let node = prepare_node(LossCause::Refresh);
    let fixture = PuppetDaemonFixture::start(&node).await;
    let (first, exit) = fixture.run_puppet(&[]).await;
    assert_eq!((exit, &first["class"]), (2, &json!("failed+changed")), "{first}");
    let (failed, exit) = fixture.rpc.run_json(&["do", "ledger", "replay"]).await;
    assert_eq!(exit, 2, "the cause is still there: {failed}");
    remove_cause(&node);
    let (replayed, exit) = fixture.rpc.run_json(&["do", "ledger", "replay"]).await;
    assert_eq!(exit, 0, "{replayed}");
    assert_eq!(replayed["replies"][0]["data"]["pending"], 0, "{replayed}");
    assert_eq!(node.log(), ["Y", "Z"], "{replayed}");
    let (last, exit) = fixture.run_puppet(&[]).await;
    assert_eq!((exit, &last["class"]), (0, &json!("clean")), "{last}");
    assert_eq!(node.log(), ["Y", "Z"], "a further run must not repeat them");
}

/// A run without a failure does not succeed while refreshes are pending.
#[tokio::test]
async fn run_with_pending_refreshes_does_not_succeed() {
    if !has_puppet() {
        return;
    }
    let node = prepare_node(LossCause::Refresh);
    remove_cause(&node);
    let fixture = PuppetDaemonFixture::start(&node).await;
    let (run, exit) = fixture.run_puppet(&["--tags", "file"]).await;
    assert_eq!((exit, &run["class"]), (2, &json!("pending")), "{run}");
    assert_eq!(run["pending"], json!(["Exec[Y]"]), "{run}");
    let (run, exit) = fixture.run_puppet(&[]).await;
    assert_eq!((exit, &run["pending"]), (0, &json!([])), "{run}");
}

/// A manifest or a catalog that cannot be parsed is reported with file, line and reason.
#[tokio::test]
async fn parse_errors_name_file_line_and_reason() {
    if !has_puppet() {
        return;
    }
    let mut node = PuppetNode::new("n1");
    let manifest = node.path("bad.pp");
    std::fs::write(&manifest, "file { '/x':\n  ensure => file\n  content => 'x',\n}\n").unwrap();
    std::fs::write(node.path("catalog.json"), "{\"resources\": [\n  {,}\n]}").unwrap();
    for (is_manifest, place, reason) in [
        (true, format!("{}, line: 3", manifest.display()), "Syntax error at 'content'"),
        (false, format!("{}, line: 2", node.path("catalog.json").display()), "not valid JSON"),
    ] {
        node.options.manifest = is_manifest.then(|| manifest.clone());
        node.options.catalog = (!is_manifest).then(|| node.path("catalog.json"));
        let run = run_once(&node.without_permits(), json!({})).await;
        assert_eq!(run["class"], "compile_failed", "{run}");
        let error = run["error"].as_str().unwrap();
        assert!(error.contains(&place) && error.contains(reason), "{error}");
    }
}
