//! Refreshes that a stock Puppet loses, and that are not lost through the agent: each scenario runs once without the
//! agent, which proves the loss, and once with it.

#![expect(clippy::indexing_slicing, reason = "the structure of the documents is known")]

use std::fmt::Write as _;

use muster_api::system::StateDir;
use muster_engine::ledger::RefreshLedger;
use muster_engine::ledger::expiry::read_expired;
use muster_tests::ledger::age_absence;
use muster_tests::tier::is_long;
use serde_json::{Value, json};

use super::puppet_daemon::PuppetDaemonFixture;
use super::puppet_node::{PuppetNode, has_puppet, run_once};

/// What happens between a change and its refresh.
#[derive(Debug, Clone, Copy, PartialEq)]
enum LossCause {
    /// Another dependency of the target fails (M1).
    Dependency,
    /// The refresh itself fails (M2).
    Refresh,
    /// The run is limited to a tag that the source has and the target has not (M3).
    Tags,
    /// The target is in noop, the source is not (M4).
    Noop,
    /// The target is outside its schedule (M5).
    Schedule,
    /// Puppet is killed (M6).
    Kill,
}

impl LossCause {
    /// Whether a file on the node is the cause; otherwise it is in the catalog or in the options.
    fn is_file(self) -> bool {
        matches!(self, Self::Dependency | Self::Refresh | Self::Kill)
    }

    /// Options of the first run.
    fn options(self) -> &'static [&'static str] {
        if self == Self::Tags { &["--tags", "source"] } else { &[] }
    }

    /// The result of the first run.
    fn result(self) -> &'static str {
        match self {
            Self::Dependency | Self::Refresh => "failed+changed",
            Self::Tags | Self::Noop | Self::Schedule => "pending",
            Self::Kill => "killed",
        }
    }

    /// How the reason begins for which the refresh of Y is pending after the first run.
    fn reason(self) -> &'static str {
        match self {
            Self::Dependency | Self::Tags | Self::Schedule => {
                "it was skipped, or a dependency failed"
            }
            Self::Refresh => "refresh: '",
            Self::Noop => "noop",
            Self::Kill => "",
        }
    }
}

/// A changed file notifies Y, and Y notifies Z. In the second run, only the cause is removed.
fn catalog(node: &PuppetNode, cause: LossCause, is_blocked: bool) -> Value {
    let w = node.path("w").display().to_string();
    let shell = |line: String| json!(["/bin/sh", "-c", line]);
    let broken = format!("{w}/broken");
    let command = match cause {
        LossCause::Refresh => format!("test ! -e {broken} && echo Y >> {w}/log"),
        _ => format!("echo Y >> {w}/log"),
    };
    let mut y = json!({"command": shell(command), "refreshonly": true, "notify": "Exec[Z]"});
    match cause {
        LossCause::Noop if is_blocked => y["noop"] = json!(true),
        LossCause::Schedule if is_blocked => y["schedule"] = json!("closed"),
        _ => {}
    }
    let between = match cause {
        LossCause::Kill => format!("if test -e {broken}; then kill -9 $PPID; fi"),
        LossCause::Dependency => format!("test ! -e {broken}"),
        _ => "true".to_owned(),
    };
    let exec = |title: &str, parameters: Value| json!({"type": "Exec", "title": title, "tags": ["exec", "target"], "parameters": parameters});
    json!({
        "name": "n1", "version": "1", "environment": "production", "catalog_format": 1,
        "resources": [
            {"type": "Stage", "title": "main", "parameters": {"name": "main"}},
            {"type": "Class", "title": "main", "parameters": {"name": "main"}},
            {"type": "Schedule", "title": "closed", "parameters": {"period": "never"}},
            {"type": "File", "title": format!("{w}/source"), "tags": ["file", "source"],
             "parameters": {"ensure": "file", "content": "x-1.0\n", "notify": "Exec[Y]", "before": "Exec[between]"}},
            exec("between", json!({"command": shell(between), "unless": format!("/usr/bin/test ! -e {broken}"), "before": "Exec[Y]"})),
            exec("Y", y),
            exec("Z", json!({"command": shell(format!("echo Z >> {w}/log")), "refreshonly": true})),
        ],
        "edges": [
            {"source": "Stage[main]", "target": "Class[main]"},
            {"source": "Class[main]", "target": "Schedule[closed]"},
            {"source": "Class[main]", "target": format!("File[{w}/source]")},
            {"source": "Class[main]", "target": "Exec[between]"},
            {"source": "Class[main]", "target": "Exec[Y]"},
            {"source": "Class[main]", "target": "Exec[Z]"},
        ],
    })
}

/// The same as a manifest. If a dependency fails, the file notifies a defined type, too.
fn manifest(node: &PuppetNode, cause: LossCause, is_blocked: bool) -> String {
    let catalog = catalog(node, cause, is_blocked);
    let mut text = String::new();
    let puppet_value = |value: &Value| match value {
        Value::Array(items) => {
            let items: Vec<String> =
                items.iter().map(|item| format!("'{}'", item.as_str().unwrap())).collect();
            format!("[{}]", items.join(", "))
        }
        // Quotes are not part of any value.
        Value::String(text) if text.starts_with("Exec[") => {
            text.replace('[', "['").replace(']', "']")
        }
        Value::String(text) => format!("'{text}'"),
        other => other.to_string(),
    };
    let resources = catalog["resources"].as_array().unwrap();
    for resource in resources
        .iter()
        .filter(|found| !["Stage", "Class"].contains(&found["type"].as_str().unwrap()))
    {
        let (kind, title) =
            (resource["type"].as_str().unwrap(), resource["title"].as_str().unwrap());
        writeln!(text, "{} {{ '{title}':", kind.to_lowercase()).unwrap();
        for (name, value) in resource["parameters"].as_object().unwrap() {
            writeln!(text, "  {name} => {},", puppet_value(value)).unwrap();
        }
        let tags = resource["tags"].as_array().and_then(|tags| tags.last());
        if let Some(tag) = tags {
            writeln!(text, "  tag => '{}',", tag.as_str().unwrap()).unwrap();
        }
        text.push_str("}\n");
    }
    if cause == LossCause::Dependency {
        let source = node.path("w/source").display().to_string();
        write!(
            text,
            "define common::again::delta() {{\n  exec {{ \"${{title}} changed\": command => '/bin/true', refreshonly => true }}\n}}\n\
             common::again::delta {{ 'd': }}\nFile['{source}'] ~> Common::Again::Delta['d']\n"
        )
        .unwrap();
    }
    text
}

fn write_applied(node: &PuppetNode, cause: LossCause, is_blocked: bool) {
    match &node.options.manifest {
        Some(path) => std::fs::write(path, manifest(node, cause, is_blocked)).unwrap(),
        None => node.write_catalog(&catalog(node, cause, is_blocked)),
    }
}

/// A node that applies a manifest instead of a catalog.
fn manifest_node() -> PuppetNode {
    let mut node = PuppetNode::new("n1");
    node.options.catalog = None;
    node.options.manifest = Some(node.path("site.pp"));
    node
}

fn prepare_node(cause: LossCause) -> PuppetNode {
    block_refresh(PuppetNode::new("n1"), cause)
}

fn block_refresh(node: PuppetNode, cause: LossCause) -> PuppetNode {
    write_applied(&node, cause, true);
    if cause.is_file() {
        std::fs::write(node.path("w/broken"), "").unwrap();
    }
    node
}

fn remove_cause(node: &PuppetNode, cause: LossCause) {
    write_applied(node, cause, false);
    if cause.is_file() {
        std::fs::remove_file(node.path("w/broken")).unwrap();
    }
}

/// Without the agent: the second run is clean, and Y and Z never run.
fn assert_lost_by_stock_puppet(cause: LossCause) {
    let node = prepare_node(cause);
    let output = node.run_stock_puppet(cause.options());
    assert!(node.path("w/source").exists(), "{output}");
    assert_eq!(node.log(), [""; 0], "{cause:?}: {output}");
    remove_cause(&node, cause);
    let output = node.run_stock_puppet(&[]);
    assert_eq!(node.report_status(), "unchanged", "{cause:?}: {output}");
    assert_eq!(node.log(), [""; 0], "{cause:?} does not lose the refresh any more: {output}");
}

/// Through the agent: while the refresh is pending, no run is a success; it is made once in the next run that can.
async fn assert_kept_by_agent(cause: LossCause, node: PuppetNode) {
    let fixture = PuppetDaemonFixture::start(&node).await;
    let (first, exit) = fixture.run_puppet(cause.options()).await;
    assert_eq!((exit, &first["class"]), (2, &json!(cause.result())), "{first}");
    let pending = first["pending"].as_array().unwrap();
    assert!(pending.contains(&json!("Exec[Y]")), "{first}");
    let ledger = fixture.list_ledger().await;
    let (_, reason) = ledger.iter().find(|(target, _)| target == "Exec[Y]").unwrap();
    assert!(reason.starts_with(cause.reason()), "{reason}");
    assert_eq!(reason.is_empty(), cause == LossCause::Kill, "{reason}");
    assert_eq!(node.log(), [""; 0]);
    if cause != LossCause::Kill {
        // The cause remains: still pending, and still not a success.
        let (again, exit) = fixture.run_puppet(cause.options()).await;
        assert_eq!((exit, &again["pending"]), (2, &json!(["Exec[Y]"])), "{again}");
        assert_ne!(again["class"], "clean", "{again}");
        assert_eq!(node.log(), [""; 0]);
    }
    remove_cause(&node, cause);
    let (second, exit) = fixture.run_puppet(&[]).await;
    let result = (exit, &second["class"], &second["pending"]);
    assert_eq!(result, (0, &json!("changed"), &json!([])), "{second}");
    assert_eq!(node.log(), ["Y", "Z"], "{second}");
    assert_eq!(second["replayed"], json!(["Exec[Y]"]), "{second}");
    let (third, exit) = fixture.run_puppet(&[]).await;
    assert_eq!((exit, &third["class"]), (0, &json!("clean")), "{third}");
    assert_eq!(node.log(), ["Y", "Z"], "a further run must not repeat them");
}

macro_rules! scenarios {
    ($($cause:ident: $name:ident;)*) => {$(
        #[tokio::test]
        async fn $name() {
            if has_puppet() {
                assert_lost_by_stock_puppet(LossCause::$cause);
                assert_kept_by_agent(LossCause::$cause, prepare_node(LossCause::$cause)).await;
                // A13.1b (ii): with a manifest, too.
                let node = block_refresh(manifest_node(), LossCause::$cause);
                assert_kept_by_agent(LossCause::$cause, node).await;
            }
        }
    )*};
}

/// A13.1b with a manifest: Puppet stores the catalog that it compiles, so refreshes of a run that lost one are known and made by the next.
#[tokio::test]
async fn a13_1b_lost_refreshes_of_a_manifest_are_made_by_the_next_run() {
    if !has_puppet() {
        return;
    }
    let node = block_refresh(manifest_node(), LossCause::Dependency);
    let puppet = node.without_permits();
    let first = run_once(&puppet, json!({})).await;
    assert_eq!(first["pending"], json!(["Exec[Y]"]), "no entry for the defined type: {first}");
    remove_cause(&node, LossCause::Dependency);
    let second = run_once(&puppet, json!({})).await;
    let result = (&second["class"], &second["pending"], &second["replayed"]);
    assert_eq!(result, (&json!("changed"), &json!([]), &json!(["Exec[Y]"])), "{second}");
    assert_eq!(node.log(), ["Y", "Z"], "{second}");
    // Another manifest is compiled again.
    let manifest = node.options.manifest.clone().unwrap();
    std::fs::write(
        manifest,
        format!("file {{ '{}': ensure => file }}", node.path("w/new").display()),
    )
    .unwrap();
    run_once(&puppet, json!({})).await;
    assert!(node.path("w/new").exists());
}

/// Run by `make test-all`.
mod long {
    use super::{
        LossCause, PuppetNode, assert_kept_by_agent, assert_lost_by_stock_puppet, block_refresh,
        has_puppet, json, manifest_node, prepare_node, run_once,
    };

    scenarios! {
        Dependency: m1_failed_dependency_keeps_the_refresh;
        Refresh: m2_failed_refresh_is_repeated;
        Tags: m3_run_with_other_tags_keeps_the_refresh;
        Noop: m4_noop_target_keeps_the_refresh;
        Schedule: m5_target_outside_its_schedule_keeps_the_refresh;
        Kill: m6_killed_puppet_keeps_the_refresh;
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

    /// A manifest or a catalog that cannot be parsed is reported with file, line and reason.
    #[tokio::test]
    async fn parse_errors_name_file_line_and_reason() {
        if !has_puppet() {
            return;
        }
        let mut node = PuppetNode::new("n1");
        let manifest = node.path("bad.pp");
        std::fs::write(&manifest, "file { '/x':\n  ensure => file\n  content => 'x',\n}\n")
            .unwrap();
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
}

/// The catalog, with `creates` for Y.
fn guarded_catalog(node: &PuppetNode, cause: LossCause) -> Value {
    let mut catalog = catalog(node, cause, true);
    let y = position_of_y(&catalog);
    catalog["resources"][y]["parameters"]["creates"] = json!(node.path("w/done"));
    catalog
}

/// A13.8: what the lint says of guards: besides `refreshonly`, `creates` does not run the command later.
#[test]
fn a13_8_stock_puppet_loses_the_refresh_of_a_guarded_exec() {
    if !has_puppet() {
        return;
    }
    let node = prepare_node(LossCause::Dependency);
    node.write_catalog(&guarded_catalog(&node, LossCause::Dependency));
    let output = node.run_stock_puppet(&[]);
    assert_eq!(node.report_status(), "failed", "{output}");
    std::fs::remove_file(node.path("w/broken")).unwrap();
    let output = node.run_stock_puppet(&[]);
    assert_eq!((node.report_status().as_str(), node.log().len()), ("unchanged", 0), "{output}");
}

/// A13.9 with the real Puppet: the command failed, and its work was done by hand; `creates` now holds. The entry is
/// cleared, and the command does not run.
#[tokio::test]
async fn a13_9_satisfied_guard_clears_the_entry_of_a_puppet_run() {
    if !has_puppet() {
        return;
    }
    let node = prepare_node(LossCause::Refresh);
    node.write_catalog(&guarded_catalog(&node, LossCause::Refresh));
    let puppet = node.without_permits();
    let first = run_once(&puppet, json!({})).await;
    assert_eq!(first["pending"], json!(["Exec[Y]"]), "{first}");
    std::fs::write(node.path("w/done"), "").unwrap();
    std::fs::remove_file(node.path("w/broken")).unwrap();
    let second = run_once(&puppet, json!({})).await;
    assert_eq!(second["pending"], json!([]), "{second}");
    assert!(!node.log().contains(&"Y".to_owned()), "{second}");
    if is_long() {
        let third = run_once(&puppet, json!({})).await;
        assert_eq!(third["class"], "clean", "{third}");
    }
}

/// A13.4 with the real Puppet: a target with another definition is flagged, while it is pending and when only its
/// relations change it is not; one that left the catalog is kept, and expires after 30 days.
#[tokio::test]
async fn a13_4_changed_and_vanished_targets_of_puppet_runs() {
    if !has_puppet() {
        return;
    }
    let node = prepare_node(LossCause::Refresh);
    let puppet = node.without_permits();
    run_once(&puppet, json!({})).await;
    let owed = || {
        let state = StateDir::open(&node.path("muster/engine")).unwrap();
        let mut owed = RefreshLedger::read_owed(&state).unwrap();
        assert_eq!(owed.len(), 1, "{owed:?}");
        owed.remove(0)
    };
    assert!(!owed().target_changed);
    let mut catalog = catalog(&node, LossCause::Refresh, true);
    let y = position_of_y(&catalog);
    if is_long() {
        catalog["resources"][y]["parameters"]["schedule"] = json!("closed");
        node.write_catalog(&catalog);
        run_once(&puppet, json!({})).await;
        assert!(!owed().target_changed, "the schedule is not part of the definition");
    }
    catalog["resources"][y]["parameters"]["command"] = json!(["/bin/false"]);
    node.write_catalog(&catalog);
    let outcome = run_once(&puppet, json!({})).await;
    assert!(owed().target_changed, "{outcome}");

    let without_y = json!({"name": "n1", "catalog_format": 1, "environment": "production",
        "resources": [{"type": "Class", "title": "main"}], "edges": []});
    node.write_catalog(&without_y);
    let outcome = run_once(&puppet, json!({})).await;
    assert_eq!(outcome["pending"], json!(["Exec[Y]"]), "{outcome}");
    assert_eq!(owed().reason.as_deref(), Some("it is not in the catalog"));
    age_absence(&node.path("muster/engine"), 31 * 24 * 3600);
    let outcome = run_once(&puppet, json!({})).await;
    assert_eq!(outcome["pending"], json!([]), "{outcome}");
    let expired = read_expired(&node.path("muster/engine")).unwrap();
    assert_eq!(expired.iter().map(|one| one.target.as_str()).collect::<Vec<_>>(), ["Exec[Y]"]);
}

fn position_of_y(catalog: &Value) -> usize {
    let mut resources = catalog["resources"].as_array().unwrap().iter();
    resources.position(|resource| resource["title"] == "Y").unwrap()
}

/// `rpc do ledger replay` makes the refreshes that a run of the real Puppet left, and those that follow from them.
#[tokio::test]
async fn a13_1_ledger_replays_refreshes_of_real_puppet_runs() {
    if !has_puppet() {
        return;
    }
    let node = prepare_node(LossCause::Refresh);
    let fixture = PuppetDaemonFixture::start(&node).await;
    let (first, exit) = fixture.run_puppet(&[]).await;
    assert_eq!((exit, &first["class"]), (2, &json!("failed+changed")), "{first}");
    let (failed, exit) = fixture.rpc.run_json(&["do", "ledger", "replay"]).await;
    assert_eq!(exit, 2, "the cause is still there: {failed}");
    remove_cause(&node, LossCause::Refresh);
    let (replayed, exit) = fixture.rpc.run_json(&["do", "ledger", "replay"]).await;
    assert_eq!(exit, 0, "{replayed}");
    assert_eq!(replayed["replies"][0]["data"]["pending"], 0, "{replayed}");
    assert_eq!(node.log(), ["Y", "Z"], "{replayed}");
    let (last, exit) = fixture.run_puppet(&[]).await;
    assert_eq!((exit, &last["class"]), (0, &json!("clean")), "{last}");
    assert_eq!(node.log(), ["Y", "Z"], "a further run must not repeat them");
}
