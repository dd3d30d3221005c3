//! Files with `puppet:` sources, from the metadata of a static catalog and a directory of contents.

mod fixture;
mod puppet_apply;
mod refusals;
mod trees;

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use muster_engine::run::RunOptions;
use serde_json::json;

use crate::file::{ABC, ABD, mode};
use fixture::{Node, catalog, catalog_of, digits, directory, events, failure, file, link, with};

const SOURCE: &str = "puppet:///modules/web/x";

#[test]
fn file_is_written_from_its_content_and_then_unchanged() {
    let node = Node::new();
    node.store("abc");
    let parameters = json!({"source": ["puppet:///modules/web/none", SOURCE], "mode": "0640"});
    let catalog = catalog_of("/tmp/x", parameters, &file("abc"));
    assert_eq!(events(&node.run(&catalog)), [format!("File[/tmp/x]: defined content as '{ABC}'")]);
    assert_eq!(
        (node.scratch.text("/tmp/x").as_str(), mode(&node.scratch, "/tmp/x")),
        ("abc", 0o640)
    );
    // A file in sync needs no content.
    std::fs::remove_dir_all(node.scratch.path("/var/state/content")).unwrap();
    let report = node.run(&catalog);
    assert_eq!((report.exit_code(), events(&report)), (0, Vec::new()));
}

#[test]
fn changed_content_is_backed_up_and_replaced() {
    let node = Node::new();
    node.store("abc");
    node.scratch.write("/tmp/x", "abd");
    let parameters = json!({"source": SOURCE, "backup": ".bak", "checksum": "mtime"});
    let catalog = catalog_of("/tmp/x", parameters, &file("abc"));
    assert_eq!(
        events(&node.run(&catalog)),
        [format!("File[/tmp/x]: content changed '{ABD}' to '{ABC}'")]
    );
    let texts = [node.scratch.text("/tmp/x"), node.scratch.text("/tmp/x.bak")];
    assert_eq!(texts, ["abc", "abd"]);
    assert_eq!(node.run(&catalog).exit_code(), 0);
}

#[test]
fn kind_of_the_source_is_that_of_the_file() {
    let node = Node::new();
    node.scratch.write("/tmp/link", "x");
    let files = [
        ("/tmp/link", json!({"source": SOURCE})),
        ("/tmp/directory", json!({"source": SOURCE, "mode": "0640"})),
        ("/tmp/absent", json!({"source": SOURCE, "ensure": "absent"})),
        ("/tmp/kept", json!({"source": SOURCE, "replace": false})),
    ];
    node.scratch.write("/tmp/absent", "x");
    node.scratch.write("/tmp/kept", "x");
    let metadata = json!({
        "/tmp/link": link("../target"), "/tmp/directory": directory(), "/tmp/absent": file("abc"),
        "/tmp/kept": file("abc"),
    });
    let catalog = catalog(files, &metadata, &json!({}));
    assert_eq!(
        events(&node.run(&catalog)),
        [
            "File[/tmp/link]: ensure changed 'file' to 'link'",
            "File[/tmp/directory]: created",
            "File[/tmp/absent]: removed",
        ]
    );
    let listing: Vec<(String, String)> = node.listing("/tmp").into_iter().collect();
    let expected = [
        ("directory", "directory 0750"),
        ("kept", "file 0644 \"x\""),
        ("link", "link to ../target"),
    ];
    assert_eq!(listing, expected.map(|(name, line)| (name.to_owned(), line.to_owned())));
    assert_eq!(node.run(&catalog).exit_code(), 0);
}

#[test]
fn content_must_also_match_checksum_value() {
    let node = Node::new();
    node.store("abc");
    let md5 = "900150983cd24fb0d6963f7d28e17f72";
    let parameters = |sum: &str| json!({"source": SOURCE, "ensure": "file", "checksum": "md5", "checksum_value": sum});
    let run = |sum| node.run(&catalog_of("/tmp/x", parameters(sum), &file("abc")));
    assert_eq!(run(md5).exit_code(), 2);
    assert_eq!(run(md5).exit_code(), 0);
    let message = failure(&run("4911e516e5aa21d327512e0c8b197616"));
    assert!(message.contains("did not match desired checksum; discarding changes"), "{message}");
    assert_eq!(node.scratch.text("/tmp/x"), "abc");
}

#[test]
fn source_permissions_take_owner_and_mode_from_the_catalog() {
    let node = Node::new();
    node.store("abc");
    let me = std::fs::metadata("/proc/self").unwrap();
    let values = json!({"mode": 0o4600, "owner": me.uid(), "group": me.gid()});
    let run = |title: &str, parameters| {
        let entry = with(file("abc"), &values);
        events(&node.run(&catalog_of(title, with(parameters, &json!({"source": SOURCE})), &entry)))
    };
    run("/tmp/ignore", json!({}));
    run("/tmp/use", json!({"source_permissions": "use"}));
    run("/tmp/creating", json!({"source_permissions": "use_when_creating"}));
    run("/tmp/explicit", json!({"source_permissions": "use", "mode": "0640"}));
    let modes = ["ignore", "use", "creating", "explicit"]
        .map(|name| mode(&node.scratch, &format!("/tmp/{name}")));
    assert_eq!(modes, [0o644, 0o4600, 0o4600, 0o640]);
    for name in ["use", "creating"] {
        node.scratch.write(&format!("/tmp/{name}"), "abc");
        let public = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(node.scratch.path(&format!("/tmp/{name}")), public).unwrap();
    }
    assert!(run("/tmp/creating", json!({"source_permissions": "use_when_creating"})).is_empty());
    assert_eq!(
        run("/tmp/use", json!({"source_permissions": "use"})),
        ["File[/tmp/use]: mode changed '0644' to '4600' (corrective)"]
    );
    // The compiler keeps the owner only if a resource takes it over.
    let parameters = json!({"source": SOURCE, "source_permissions": "use"});
    let message = failure(&node.run(&catalog_of("/tmp/new", parameters, &file("abc"))));
    assert!(message.contains("has no owner of the source"), "{message}");
    assert!(!node.scratch.path("/tmp/new").exists());
}

#[test]
fn noop_reports_the_change_and_needs_no_content() {
    let node = Node::new();
    node.scratch.write("/tmp/x", "abd");
    let catalog = catalog_of("/tmp/x", json!({"source": SOURCE}), &file("abc"));
    let report = node.run_with(&catalog, &RunOptions { noop: true, ..RunOptions::default() });
    assert_eq!(
        events(&report),
        [format!("File[/tmp/x]: current_value '{ABD}', should be '{ABC}' (noop)")]
    );
    assert_eq!(node.scratch.text("/tmp/x"), "abd");
}

#[test]
fn run_reads_contents_from_the_directory_of_its_options() {
    let node = Node::new();
    node.scratch.write(&format!("/srv/contents/{}", digits("abc")), "abc");
    let catalog = catalog_of("/tmp/x", json!({"source": SOURCE}), &file("abc"));
    let content_directory = Some(PathBuf::from("/srv/contents"));
    let options = RunOptions { content_directory, ..RunOptions::default() };
    assert_eq!(node.run_with(&catalog, &options).exit_code(), 2);
    assert_eq!(node.scratch.text("/tmp/x"), "abc");
}

/// Metadata of a source on the node is not used: its file may be another one than that of the compiling machine.
#[test]
fn sources_on_the_node_are_read_from_it() {
    let node = Node::new();
    node.scratch.write("/srv/from", "abc");
    for source in ["/srv/from", "file:///srv/from"] {
        let catalog = catalog_of("/tmp/x", json!({"source": source}), &file("other"));
        node.run(&catalog);
        assert_eq!(node.scratch.text("/tmp/x"), "abc");
        std::fs::remove_file(node.scratch.path("/tmp/x")).unwrap();
    }
}
