//! Who may know whom: the Cargo graph is held against the table in ARCHITECTURE.md, and single words against their rooms.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

#[expect(clippy::disallowed_types, reason = "asks cargo for the graph")]
fn metadata() -> Value {
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(project())
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The table of ARCHITECTURE.md: crate, and what it may import of ours. Rows look like "| `dir/` | `muster-x` | y, z |".
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let page = std::fs::read_to_string(project().join("ARCHITECTURE.md")).unwrap();
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [_, room, may] = cells.as_slice() else {
            return None;
        };
        let room = room.strip_prefix("`muster-")?.strip_suffix('`')?;
        let may = may.split(", ").map(|name| format!("muster-{name}")).collect();
        Some((format!("muster-{room}"), may))
    });
    rows.collect()
}

#[test]
fn rooms_import_what_the_table_allows() {
    let allowed = table();
    let packages = metadata();
    let packages = packages["packages"].as_array().unwrap();
    assert_eq!(allowed.len(), packages.len(), "the table and the workspace have different rooms");
    for package in packages {
        let room = package["name"].as_str().unwrap();
        if room == "muster-tests" {
            continue;
        }
        let may = allowed.get(room).unwrap_or_else(|| panic!("{room} is not in the table"));
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
        assert!(manifest.contains("[lints]\nworkspace = true"), "{}", package["name"]);
    }
}

/// Words that belong to one room.
#[test]
fn only_the_bus_speaks_nats_and_only_the_doors_start_processes() {
    let home = [
        ("async_nats::", &["wire/bus/src/", "tests/"][..]),
        // Memory is given back in one place, and nothing else is worth it.
        ("unsafe {", &["agent/src/memory.rs", "tests/it/architecture.rs"]),
        ("unsafe_code", &["agent/src/memory.rs", "tests/it/architecture.rs"]),
        // Who may read a secret's file is judged in one place.
        ("0o077", &["wire/secret/", "tests/", "plugins/engine/system/tests/"][..]),
        (
            "process::Command",
            &[
                "plugins/engine/system/",
                "plugins/engine/tests/",
                "plugins/host/src/",
                // A process that is somebody else, for the watcher to find.
                "plugins/puppet/src/tests/",
                "client/request/src/external.rs",
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
        assert!(head.starts_with("//!"), "{place} does not say in its first line what it is for");
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

#[test]
fn the_glossary_names_types_and_files_that_exist() {
    let page = std::fs::read_to_string(project().join("docs/reference/glossary.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let mut missing = Vec::new();
    let mut count = 0;
    for row in rows {
        let cell = row.trim_matches('|').rsplit('|').next().unwrap();
        let (paths, types): (Vec<&str>, Vec<&str>) =
            cell.split('`').skip(1).step_by(2).partition(|word| word.contains('/'));
        let read = |path: &&str| std::fs::read_to_string(project().join(path)).unwrap_or_default();
        let code: String = paths.iter().map(read).collect();
        let is_defined = |name: &str| {
            ["struct", "enum", "trait", "type"]
                .iter()
                .flat_map(|kind| [" ", "(", "<", ";", ":"].map(|end| format!("{kind} {name}{end}")))
                .any(|definition| code.contains(&definition))
        };
        if code.is_empty() || !types.into_iter().all(is_defined) {
            missing.push(row);
        }
        count += 1;
    }
    assert!(count > 40, "only {count} terms");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Crates whose library has another name.
const LIBRARY_NAMES: [(&str, &str); 1] = [("md-5", "md5")];

#[test]
fn every_dependency_is_named_in_the_code() {
    let packages = metadata();
    let packages = packages["packages"].as_array().unwrap();
    let directory = |package: &Value| {
        let manifest = package["manifest_path"].as_str().unwrap();
        Path::new(manifest).parent().unwrap().to_owned()
    };
    let directories: BTreeSet<PathBuf> = packages.iter().map(directory).collect();
    let mut unused = Vec::new();
    for package in packages {
        let code = code_of(&directory(package), &directories);
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["name"].as_str().unwrap();
            let renamed = LIBRARY_NAMES.iter().find(|(package, _)| *package == name);
            let library = renamed.map_or(name, |(_, library)| library);
            if !names_crate(&code, &library.replace('-', "_")) {
                unused.push(format!("{}: {name}", package["name"].as_str().unwrap()));
            }
        }
    }
    assert!(unused.is_empty(), "dependencies that no code names: {unused:?}");
}

/// Whether code outside comments has a path into the crate or imports it: `tar::`, `use tar;`. A word that contains the name does not count.
fn names_crate(code: &str, library: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.lines().filter(|line| !line.trim_start().starts_with("//")).any(|line| {
        line.match_indices(library).any(|(at, _)| {
            let after = &line[at + library.len()..];
            !line[..at].ends_with(is_word)
                && (after.starts_with("::") || after.starts_with(';') || after.starts_with(" as "))
        })
    })
}

/// All Rust code of one crate, without that of crates below it.
fn code_of(directory: &Path, others: &BTreeSet<PathBuf>) -> String {
    let mut code = String::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let is_other = others.contains(&path) || path.ends_with("target") || path.ends_with("fuzz");
        if path.is_dir() && !is_other {
            code.push_str(&code_of(&path, others));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            code.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
    code
}
