//! Directories of a static catalog: their entries, what is purged, the choice of sources, and undo.

use muster_engine::EngineError;
use muster_engine::ResourceEngine;
use muster_engine::apply::ApplyHooks;
use muster_engine::plan::ResourcePlan;
use muster_engine::resource::Resource;
use muster_engine::undo::{UndoRecord, prepare_targets};
use muster_system::command::CancelFlag;
use serde_json::{Value as Json, json};

use super::fixture::{Node, at, catalog, catalog_of_tree, digits, directory, events, file, link};

const SOURCE: &str = "puppet:///modules/web/d";

/// A directory with a file, a directory with a file, and a link.
fn entries() -> Json {
    json!([
        at(".", directory()),
        at("a", file("a")),
        at("link", link("a")),
        at("sub", directory()),
        at("sub/b", file("b")),
    ])
}

/// Writes what differs from [`entries`].
fn write_other_files(node: &Node) {
    for path in ["a", "old", "deep/old", "sub"] {
        node.scratch.write(&format!("/tmp/d/{path}"), "other");
    }
}

/// Every event and every file is that of the same directory on the node.
#[test]
fn tree_is_copied_and_purged_as_one_on_the_node() {
    let (local, node) = (Node::new(), Node::new());
    local.scratch.write("/srv/d/a", "a");
    local.scratch.write("/srv/d/sub/b", "b");
    std::os::unix::fs::symlink("a", local.scratch.path("/srv/d/link")).unwrap();
    node.store_all(["a", "b"]);
    let parameters = |source: &str| json!({"ensure": "directory", "source": source, "recurse": true, "purge": true, "force": true});
    let mut reports = Vec::new();
    for (node, source) in [(&local, "/srv/d"), (&node, SOURCE)] {
        write_other_files(node);
        let catalog = catalog_of_tree("/tmp/d", parameters(source), &json!({SOURCE: entries()}));
        reports.push(events(&node.run(&catalog)));
        let again = node.run(&catalog);
        assert_eq!((again.exit_code(), events(&again)), (0, Vec::new()), "{source}");
    }
    assert_eq!(reports[0], reports[1]);
    assert!(reports[1].contains(&"File[/tmp/d/deep]: removed".to_owned()), "{reports:?}");
    let listing: Vec<String> =
        node.listing("/tmp/d").into_iter().map(|(name, line)| format!("{name} {line}")).collect();
    assert_eq!(
        listing,
        ["a file 0644 \"a\"", "link link to a", "sub directory 0755", "sub/b file 0644 \"b\"",]
    );
    assert_eq!(local.listing("/tmp/d"), node.listing("/tmp/d"));
}

#[test]
fn entries_have_the_mode_of_the_directory_and_local_files_stay() {
    let node = Node::new();
    node.store_all(["a", "b"]);
    node.scratch.write("/tmp/d/own", "own");
    let parameters = json!({"source": SOURCE, "recurse": "remote", "purge": true, "mode": "0640"});
    node.run(&catalog_of_tree("/tmp/d", parameters, &json!({SOURCE: entries()})));
    let listing = node.listing("/tmp/d");
    let line = |name: &str| listing[name].as_str();
    assert_eq!(line("a"), "file 0640 \"a\"");
    assert_eq!(line("sub"), "directory 0750");
    assert_eq!(line("sub/b"), "file 0640 \"b\"");
    assert_eq!(line("own"), "file 0644 \"own\"");
}

#[test]
fn sourceselect_uses_the_first_source_or_all_in_order() {
    let node = Node::new();
    node.store_all(["1", "2"]);
    let sources = json!({
        "puppet:///modules/web/one": [at(".", directory()), at("a", file("1"))],
        "puppet:///modules/web/two": [at(".", directory()), at("a", file("2")), at("b", file("2"))],
    });
    let urls = ["none", "one", "two"].map(|name| format!("puppet:///modules/web/{name}"));
    let parameters =
        |select: &str| json!({"source": urls, "recurse": true, "sourceselect": select});
    node.run(&catalog_of_tree("/tmp/d", parameters("first"), &sources));
    assert_eq!(node.listing("/tmp/d").into_keys().collect::<Vec<_>>(), ["a"]);
    node.run(&catalog_of_tree("/tmp/d", parameters("all"), &sources));
    assert_eq!([node.scratch.text("/tmp/d/a"), node.scratch.text("/tmp/d/b")], ["1", "2"]);
}

#[test]
fn file_of_the_catalog_replaces_an_entry() {
    let node = Node::new();
    node.store_all(["a", "b"]);
    let files = [
        ("/tmp/d", json!({"source": SOURCE, "recurse": true, "purge": true})),
        ("/tmp/d/a", json!({"content": "of the catalog"})),
    ];
    let report = node.run(&catalog(files, &json!({}), &json!({"/tmp/d": {SOURCE: entries()}})));
    assert_eq!(report.status, "changed");
    assert_eq!(node.scratch.text("/tmp/d/a"), "of the catalog");
    assert_eq!(node.scratch.text("/tmp/d/sub/b"), "b");
}

/// Keeps the record of a request.
struct RecordingHooks<'a> {
    engine: &'a ResourceEngine,
    record: Option<UndoRecord>,
}

impl ApplyHooks for RecordingHooks<'_> {
    fn before_changes(&mut self, plans: &[&ResourcePlan]) -> Result<(), EngineError> {
        self.record = Some(UndoRecord::from_plans(self.engine, plans));
        Ok(())
    }
}

#[test]
fn undo_restores_replaced_and_purged_files() {
    let node = Node::new();
    let engine = &node.scratch.engine;
    write_other_files(&node);
    let before = node.listing("/tmp/d");
    for text in ["a", "b"] {
        node.scratch.write(&format!("/var/lib/muster/engine/content/{}", digits(text)), text);
    }
    let parameters = json!({"source": SOURCE, "recurse": true, "purge": true, "backup": false});
    let catalog = catalog_of_tree("/tmp/d", parameters, &json!({SOURCE: entries()}));
    let mut hooks = RecordingHooks { engine, record: None };
    let resource = node.first_resource(&catalog);
    let outcome = engine.apply_resources(&[resource], CancelFlag::default(), false, &mut hooks);
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    let changed = node.listing("/tmp/d");
    assert_eq!((changed["a"].as_str(), changed["link"].as_str()), ("file 0644 \"a\"", "link to a"));
    assert!(!changed.contains_key("old"));
    let mut record = hooks.record.unwrap();
    record.record_result(engine);
    let prepared = prepare_targets(engine, &record.into_targets().unwrap(), false).unwrap();
    assert!(
        prepared.iter().all(|target| target.conflict.is_none() && target.unrestored.is_empty())
    );
    let resources: Vec<Resource> =
        prepared.into_iter().filter_map(|target| target.resource).collect();
    let outcome = engine.apply_resources(&resources, CancelFlag::default(), false, &mut ());
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    assert_eq!(node.listing("/tmp/d"), before);
}
