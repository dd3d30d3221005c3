//! What is not applied: contents that are missing or altered, sources without metadata, and malformed metadata.

use muster_engine::catalog::{Catalog, MAX_RESOURCES};
use serde_json::{Value as Json, json};

use super::fixture::{
    Node, at, catalog, catalog_of, catalog_of_tree, digits, directory, events, failure, file, link,
    with,
};

const SOURCE: &str = "puppet:///modules/web/x";

fn parse_error(catalog: &Json) -> String {
    Catalog::parse(catalog.to_string().as_bytes(), "dev1").unwrap_err().to_string()
}

#[test]
fn missing_content_fails_its_file_and_no_other() {
    let node = Node::new();
    node.scratch.write("/tmp/x", "old");
    node.store("abd");
    let files = [("/tmp/x", json!({"source": SOURCE})), ("/tmp/y", json!({"source": SOURCE}))];
    let metadata = json!({
        "/tmp/x": with(file("abc"), &json!({"source": "puppet:///modules/web/one"})),
        "/tmp/y": file("abd"),
    });
    let catalog = catalog(files, &metadata, &json!({}));
    let events = events(&node.run(&catalog));
    let digits = digits("abc");
    let expected = format!(
        "failed: the content of the source puppet:///modules/web/one with the SHA-256 {digits} is not on this node; copy the file to /var/state/content/{digits}, and apply the catalog again"
    );
    assert!(
        events[0].starts_with("File[/tmp/x]: ") && events[0].ends_with(&expected),
        "{events:?}"
    );
    assert_eq!(events.len(), 2, "{events:?}");
    let names: Vec<String> = node.listing("/tmp").into_keys().collect();
    assert_eq!(names, ["x", "y"], "no other file is left");
    assert_eq!([node.scratch.text("/tmp/x"), node.scratch.text("/tmp/y")], ["old", "abd"]);
    node.store("abc");
    assert_eq!(node.run(&catalog).exit_code(), 2);
    assert_eq!(node.scratch.text("/tmp/x"), "abc");
}

#[test]
fn altered_content_is_not_used() {
    let node = Node::new();
    node.scratch.write("/tmp/x", "old");
    node.store_as(&digits("abc"), "altered");
    let catalog = catalog_of("/tmp/x", json!({"source": SOURCE}), &file("abc"));
    let message = failure(&node.run(&catalog));
    for part in [SOURCE, &digits("abc"), &digits("altered"), "was altered", "copy the original"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(node.scratch.text("/tmp/x"), "old");
    let catalog = catalog_of("/tmp/new", json!({"source": SOURCE}), &file("abc"));
    failure(&node.run(&catalog));
    assert_eq!(node.listing("/tmp").into_keys().collect::<Vec<_>>(), ["x"]);
}

#[test]
fn content_with_another_checksum_fails_its_file() {
    let node = Node::new();
    let checksum = json!({"type": "md5", "value": "{md5}900150983cd24fb0d6963f7d28e17f72"});
    let entry = with(file("abc"), &json!({"checksum": checksum}));
    let catalog = catalog_of("/tmp/x", json!({"source": SOURCE, "checksum": "md5"}), &entry);
    let message = failure(&node.run(&catalog));
    assert!(message.contains("contents are found by their SHA-256"), "{message}");
}

#[test]
fn source_without_metadata_fails_its_file() {
    let node = Node::new();
    let empty = json!({});
    let catalogs = [
        catalog([("/tmp/x", json!({"source": SOURCE}))], &empty, &empty),
        catalog([("/tmp/x", json!({"source": SOURCE}))], &json!({"/tmp/y": file("a")}), &empty),
        catalog_of_tree("/tmp/x", json!({"source": SOURCE, "recurse": true}), &empty),
    ];
    for catalog in catalogs {
        let message = failure(&node.run(&catalog));
        assert!(message.contains("the catalog has no metadata of it"), "{message}");
    }
    assert!(!node.scratch.path("/tmp/x").exists());
}

#[test]
fn paths_outside_of_the_directory_refuse_the_catalog() {
    let long = "a/".repeat(3000) + "a";
    for path in ["../x", "a/../../x", "/etc/x", "a//b", "a/./b", "a/", "", "..", "a\0b", &long] {
        let entries = json!([at(".", directory()), at(path, file("abc"))]);
        let parameters = json!({"source": SOURCE, "recurse": true});
        let error = parse_error(&catalog_of_tree("/tmp/d", parameters, &json!({SOURCE: entries})));
        assert!(
            error
                .starts_with("the metadata of File[/tmp/d] for `puppet:///modules/web/x`, entry `")
                && error.contains("`relative_path` must be a path below the directory"),
            "{path}: {error}"
        );
    }
}

#[test]
fn malformed_trees_refuse_the_catalog() {
    for (entries, expected) in [
        (json!([at("a", file("a"))]), "`relative_path` `.` is missing"),
        (json!([]), "`relative_path` `.` is missing"),
        (
            json!([at(".", directory()), at("a", link("/etc")), at("a/passwd", file("x"))]),
            "`relative_path` `a/passwd` is below `a`, which is no directory",
        ),
        (
            json!([at(".", directory()), at("a", file("1")), at("a", file("2"))]),
            "`relative_path` has been listed before",
        ),
        (json!([at(".", directory()), at(".", directory())]), "has been listed before"),
        (json!("x"), "not valid Puppet catalog JSON"),
    ] {
        let parameters = json!({"source": SOURCE, "recurse": true});
        let error = parse_error(&catalog_of_tree("/tmp/d", parameters, &json!({SOURCE: entries})));
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn malformed_metadata_refuses_the_catalog() {
    let sum = digits("abc");
    let checksum = |kind: &str, value: String| json!({"checksum": {"type": kind, "value": value}});
    for (values, expected) in [
        (json!({"type": "fifo"}), "`type` is `fifo`, must be file, directory or link"),
        (json!({"type": null}), "`type` is missing, must be file, directory or link"),
        (json!({"mode": 0o10000}), "`mode` must be a number from 0 to 4095, or null"),
        (json!({"mode": "0644"}), "`mode` must be a number from 0 to 4095, or null"),
        (json!({"owner": "root"}), "`owner` must be a number from 0 to 4294967295, or null"),
        (json!({"group": -1}), "`group` must be a number from 0 to 4294967295, or null"),
        (json!({"source": 1}), "`source` must be a string or null"),
        (json!({"checksum": null}), "`checksum` of a file must have the strings"),
        (checksum("sha256", sum.clone()), "`checksum` has the value"),
        (
            checksum("sha256", format!("{{sha256}}{}", sum.to_uppercase())),
            "`checksum` has the value",
        ),
        (checksum("sha256", "{sha256}../../etc/shadow".to_owned()), "`checksum` has the value"),
        (checksum("md5", format!("{{sha256}}{sum}")), "must be `{md5}` followed by"),
        (json!({"type": "link"}), "`destination` of a link must be a path"),
        (json!({"type": "link", "destination": "a\0b"}), "`destination` of a link must be a path"),
    ] {
        let entry = with(file("abc"), &values);
        let error = parse_error(&catalog_of("/tmp/x", json!({"source": SOURCE}), &entry));
        assert!(error.starts_with("the metadata of File[/tmp/x]: "), "{values}: {error}");
        assert!(error.contains(expected), "{values}: {error}");
    }
}

/// Each entry of a directory becomes a resource of the run.
#[test]
fn entries_count_as_resources() {
    let entry = |number: usize| json!({"type": "directory", "relative_path": number.to_string()});
    let mut entries: Vec<Json> = (0..MAX_RESOURCES).map(entry).collect();
    let of = |entries: &[Json]| {
        let mut all = vec![at(".", directory())];
        all.extend_from_slice(entries);
        let parameters = json!({"source": SOURCE, "recurse": true});
        catalog_of_tree("/tmp/d", parameters, &json!({SOURCE: all}))
    };
    let error = parse_error(&of(&entries));
    assert!(error.contains("has 50001 resources, containers and files in directories"), "{error}");
    entries.pop();
    assert!(Catalog::parse(of(&entries).to_string().as_bytes(), "dev1").is_ok());
}
