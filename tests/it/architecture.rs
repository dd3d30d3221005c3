//! Who may know whom: the Cargo graph is held against the table in ARCHITECTURE.md, and single words against their rooms.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Room, and what it may import of ours.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("muster-ddl", &[]),
    ("muster-wire", &[]),
    ("muster-system", &[]),
    ("muster-bus", &["muster-wire"]),
    ("muster-engine", &["muster-wire", "muster-system"]),
    (
        "muster-api",
        &["muster-ddl", "muster-wire", "muster-system"],
    ),
    ("muster-host", &["muster-api", "muster-ddl", "muster-wire"]),
    ("muster-rpcutil", &["muster-api"]),
    ("muster-puppetral", &["muster-api", "muster-engine"]),
    (
        "muster-client",
        &["muster-ddl", "muster-wire", "muster-bus"],
    ),
    (
        "muster-rpc",
        &["muster-client", "muster-ddl", "muster-wire", "muster-bus"],
    ),
    (
        "muster-agent",
        &[
            "muster-api",
            "muster-bus",
            "muster-client",
            "muster-ddl",
            "muster-engine",
            "muster-host",
            "muster-puppetral",
            "muster-rpcutil",
            "muster-system",
            "muster-wire",
        ],
    ),
];

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

#[expect(clippy::disallowed_types, reason = "asks cargo for the graph")]
fn metadata() -> Value {
    let output = std::process::Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(project())
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn rooms_import_what_the_table_allows() {
    let allowed: BTreeMap<&str, BTreeSet<&str>> = MAY_IMPORT
        .iter()
        .map(|(room, may)| (*room, may.iter().copied().collect()))
        .collect();
    for package in metadata()["packages"].as_array().unwrap() {
        let room = package["name"].as_str().unwrap();
        if room == "muster-tests" {
            continue;
        }
        let may = allowed
            .get(room)
            .unwrap_or_else(|| panic!("{room} is not in the table"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["name"].as_str().unwrap();
            let in_tests = dependency["kind"] == "dev";
            assert!(
                !name.starts_with("muster-") || in_tests || may.contains(name),
                "{room} may not import {name}"
            );
        }
    }
}

#[test]
fn every_room_keeps_the_shared_lints() {
    for package in metadata()["packages"].as_array().unwrap() {
        let manifest = std::fs::read_to_string(package["manifest_path"].as_str().unwrap()).unwrap();
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{}",
            package["name"]
        );
    }
}

/// Words that belong to one room.
#[test]
fn only_the_bus_speaks_nats_and_only_the_doors_start_processes() {
    let home = [
        ("async_nats::", &["wire/bus/src/", "tests/"][..]),
        (
            "process::Command",
            &[
                "plugins/engine/system/",
                "plugins/host/src/",
                "client/rpc/",
                "tests/",
            ][..],
        ),
    ];
    for file in rust_files(&project()) {
        let place = file.strip_prefix(project()).unwrap().display().to_string();
        let text = std::fs::read_to_string(&file).unwrap();
        for (word, rooms) in home {
            let said = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .any(|line| line.contains(word));
            assert!(
                !said || rooms.iter().any(|room| place.starts_with(room)),
                "{place} says {word}"
            );
        }
        let head = text.lines().next().unwrap_or_default();
        assert!(
            head.starts_with("//!"),
            "{place} does not say in its first line what it is for"
        );
    }
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
