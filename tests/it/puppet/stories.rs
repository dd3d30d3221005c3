//! Refreshes that a stock Puppet loses, and that it does not lose through the agent: each story is told once without us, which
//! proves that the cause is one, and once with.

#![expect(clippy::indexing_slicing, reason = "the test knows the documents that it reads")]

use serde_json::{Value, json};

use super::rig::{Node, has_puppet, run};

/// What comes between a change and its refresh.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cause {
    /// Something that the target needs fails (M1).
    Dependency,
    /// The refresh itself fails (M2).
    Refresh,
    /// Puppet is killed (M6).
    Kill,
}

/// A changed file tells Y, and Y tells Z. Nothing about the catalog is other in the second run but that the cause is gone.
fn catalog(node: &Node, cause: Cause) -> Value {
    let w = node.path("w").display().to_string();
    let shell = |line: String| json!(["/bin/sh", "-c", line]);
    let broken = format!("{w}/broken");
    let y = match cause {
        Cause::Refresh => format!("test ! -e {broken} && echo Y >> {w}/log"),
        _ => format!("echo Y >> {w}/log"),
    };
    let between = match cause {
        Cause::Kill => format!("if test -e {broken}; then kill -9 $PPID; fi"),
        Cause::Dependency => format!("test ! -e {broken}"),
        Cause::Refresh => "true".to_owned(),
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

fn world(cause: Cause) -> Node {
    let node = Node::new("n1");
    node.catalog(&catalog(&node, cause));
    std::fs::write(node.path("w/broken"), "").unwrap();
    node
}

fn mend(node: &Node) {
    std::fs::remove_file(node.path("w/broken")).unwrap();
}

/// Without us: the second run is content, and Y and Z never run.
fn lost(cause: Cause) {
    let node = world(cause);
    let words = node.plain();
    assert!(node.path("w/source").exists(), "{words}");
    mend(&node);
    let words = node.plain();
    assert_eq!(node.log(), [""; 0], "{cause:?} is no cause any more: {words}");
}

/// Through the agent: the debt is told, and paid in the next run, once.
async fn kept(cause: Cause) {
    let node = world(cause);
    let puppet = node.alone();
    let first = run(&puppet, json!({})).await;
    let class = match cause {
        Cause::Kill => "killed",
        _ => "failed+changed",
    };
    assert_eq!(first["class"], class, "{first}");
    let pending = first["pending"].as_array().unwrap();
    assert!(pending.contains(&json!("Exec[Y]")), "{first}");
    assert_eq!(node.log(), [""; 0]);
    mend(&node);
    let second = run(&puppet, json!({})).await;
    assert_eq!((&second["class"], &second["pending"]), (&json!("changed"), &json!([])), "{second}");
    assert_eq!(node.log(), ["Y", "Z"], "{second}");
    assert_eq!(second["replayed"], json!(["Exec[Y]"]), "{second}");
    let third = run(&puppet, json!({})).await;
    assert_eq!(third["class"], "clean", "{third}");
    assert_eq!(node.log(), ["Y", "Z"], "and not again");
}

#[tokio::test]
async fn m1_a_failed_dependency_costs_no_refresh() {
    if has_puppet() {
        lost(Cause::Dependency);
        kept(Cause::Dependency).await;
    }
}

#[tokio::test]
async fn m2_failed_refresh_is_repeated() {
    if has_puppet() {
        lost(Cause::Refresh);
        kept(Cause::Refresh).await;
    }
}

#[tokio::test]
async fn m6_a_killed_puppet_costs_no_refresh() {
    if has_puppet() {
        lost(Cause::Kill);
        kept(Cause::Kill).await;
    }
}

/// A real report is understood, and the exit code (0, for `puppet apply --catalog`) is not believed (M29).
#[tokio::test]
async fn m29_the_result_is_read_from_what_puppet_leaves() {
    if !has_puppet() {
        return;
    }
    let node = Node::new("n1");
    let resource = |command: &str| {
        json!({"name": "n1", "catalog_format": 1, "environment": "production", "resources": [
            {"type": "Exec", "title": "x", "parameters": {"command": command}}], "edges": []})
    };
    let puppet = node.alone();
    for (command, class) in [("/bin/true", "changed"), ("/bin/false", "failed")] {
        node.catalog(&resource(command));
        let outcome = run(&puppet, json!({})).await;
        assert_eq!(outcome["class"], class, "{outcome}");
        assert_eq!(outcome["exitcode"], 0, "{outcome}");
        assert!(outcome["transaction_uuid"].is_string(), "{outcome}");
    }
    std::fs::write(node.path("catalog.json"), "{").unwrap();
    let outcome = run(&puppet, json!({})).await;
    assert_eq!(
        (&outcome["state"], &outcome["class"]),
        (&json!("aborted"), &json!("not_started")),
        "{outcome}"
    );
}
