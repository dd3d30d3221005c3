//! Checks the structure of the code: the Cargo graph against the table in ARCHITECTURE.md, words that are restricted to
//! certain paths, and names in documents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

#[expect(clippy::disallowed_types, reason = "reads the graph from cargo")]
fn cargo_metadata() -> Value {
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(project_root())
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The table of ARCHITECTURE.md: each crate and the workspace crates that it may import. Rows look like "| `dir/` |
/// `muster-x` | y, z |".
fn allowed_imports() -> BTreeMap<String, BTreeSet<String>> {
    let page = std::fs::read_to_string(project_root().join("ARCHITECTURE.md")).unwrap();
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [_, crate_name, allowed_crates] = cells.as_slice() else {
            return None;
        };
        let crate_name = crate_name.strip_prefix("`muster-")?.strip_suffix('`')?;
        let allowed_crates =
            allowed_crates.split(", ").map(|name| format!("muster-{name}")).collect();
        Some((format!("muster-{crate_name}"), allowed_crates))
    });
    rows.collect()
}

#[test]
fn crates_import_only_what_the_table_allows() {
    let allowed = allowed_imports();
    let packages = cargo_metadata();
    let packages = packages["packages"].as_array().unwrap();
    assert_eq!(allowed.len(), packages.len(), "the table and the workspace have different crates");
    for package in packages {
        let crate_name = package["name"].as_str().unwrap();
        if crate_name == "muster-tests" {
            continue;
        }
        let allowed_crates =
            allowed.get(crate_name).unwrap_or_else(|| panic!("{crate_name} is not in the table"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["name"].as_str().unwrap();
            let in_tests = dependency["kind"] == "dev";
            assert!(
                !name.starts_with("muster-") || in_tests || allowed_crates.contains(name),
                "{crate_name} may not import {name}"
            );
        }
    }
}

/// The layers of ARCHITECTURE.md, from below: each folder of a crate's sources, and the folders beside it that it may import. Rows look like
/// "| `crate/src/dir/` | y, z |".
fn allowed_layers(page: &str) -> Vec<(String, BTreeSet<String>)> {
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [folder, allowed] = cells.as_slice() else {
            return None;
        };
        let folder = folder.strip_prefix('`')?.strip_suffix("/`")?;
        let (source, _) = folder.rsplit_once('/').filter(|(source, _)| source.ends_with("/src"))?;
        let allowed = allowed.split(", ").filter(|name| *name != "nothing");
        Some((folder.to_owned(), allowed.map(|name| format!("{source}/{name}")).collect()))
    });
    rows.collect()
}

/// What `tools/names --layers` finds below this root and these rows do not allow, and rows that allow an import upwards.
#[expect(clippy::disallowed_types, reason = "runs the tool")]
fn forbidden_imports(root: &Path, rows: &[(String, BTreeSet<String>)]) -> Vec<String> {
    let mut forbidden = Vec::new();
    for (place, (folder, allowed)) in rows.iter().enumerate() {
        let is_below = |name: &&String| rows.iter().take(place).any(|(below, _)| below == *name);
        let upwards = allowed.iter().filter(|name| !is_below(name));
        forbidden.extend(upwards.map(|name| format!("the row of {folder} allows {name}")));
    }
    let crates: BTreeSet<&str> =
        rows.iter().filter_map(|(folder, _)| folder.split_once("/src/")).map(|(c, _)| c).collect();
    let output = std::process::Command::new(project_root().join("tools/names"))
        .args(["--layers", "--root"])
        .arg(root)
        .args(crates)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = String::from_utf8(output.stdout).unwrap();
    let is_allowed = |line: &&str| {
        let (from, to) = line.split_once(": ").unwrap().0.split_once(" -> ").unwrap();
        rows.iter().any(|(folder, allowed)| folder == from && allowed.contains(to))
    };
    forbidden.extend(found.lines().filter(|line| !is_allowed(line)).map(str::to_owned));
    forbidden
}

#[test]
fn folders_import_only_from_layers_below() {
    let page = std::fs::read_to_string(project_root().join("ARCHITECTURE.md")).unwrap();
    let rows = allowed_layers(&page);
    assert!(rows.len() >= 10, "only {} rows", rows.len());
    assert_eq!(forbidden_imports(&project_root(), &rows), Vec::<String>::new());
    for (folder, _) in &rows {
        let source = project_root().join(folder).parent().unwrap().to_owned();
        for entry in std::fs::read_dir(source).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(project_root()).unwrap().display().to_string();
            let is_root = path.ends_with("lib.rs") || path.ends_with("main.rs");
            let is_listed = rows.iter().any(|(listed, _)| *listed == name);
            assert!(is_root || is_listed, "{name} is no layer in ARCHITECTURE.md");
        }
    }
}

/// However the path is written: absolute, relative, in a list, or through the crate's root.
#[test]
fn imports_from_an_upper_layer_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("planted/src");
    let write = |name: &str, text: &str| {
        let path = source.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("lib.rs", "pub mod low;\npub mod high;\npub use high::run;\n");
    write("high/mod.rs", "use crate::low::{list, path};\npub fn run() {}\n");
    write("low/mod.rs", "pub mod list;\npub mod path;\npub mod relative;\npub mod root;\n");
    write("low/path.rs", "fn f() { crate::high::run() }\n");
    write("low/list.rs", "use crate::{\n    high::{run},\n    low::path,\n};\n");
    write("low/relative.rs", "use super::super::high::run;\n");
    write("low/root.rs", "use crate::run;\n");
    std::fs::write(directory.path().join("planted/Cargo.toml"), "").unwrap();
    let page = "| `planted/src/low/` | nothing |\n| `planted/src/high/` | low |\n";
    let found = forbidden_imports(directory.path(), &allowed_layers(page));
    assert_eq!(
        found,
        [
            "planted/src/low -> planted/src: low/root.rs",
            "planted/src/low -> planted/src/high: low/list.rs, low/path.rs, low/relative.rs",
        ]
    );
    let upwards = page.replace("nothing", "high");
    let found = forbidden_imports(directory.path(), &allowed_layers(&upwards));
    assert_eq!(found[0], "the row of planted/src/low allows planted/src/high");
}

/// A module that imports from its own children, and they from it, is a circle like any other, however the path is written.
#[test]
#[expect(clippy::disallowed_types, reason = "runs the tool")]
fn names_reports_a_circle_through_bare_paths_of_child_modules() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("planted/src");
    std::fs::create_dir_all(source.join("limits")).unwrap();
    std::fs::write(directory.path().join("planted/Cargo.toml"), "").unwrap();
    let children = ["count", "size", "speed", "total"];
    let parent = children.map(|child| format!("mod {child};\npub use {child}::{child}_limit;\n"));
    std::fs::write(source.join("lib.rs"), "mod limits;\n").unwrap();
    std::fs::write(source.join("limits/mod.rs"), parent.concat()).unwrap();
    for child in children {
        let text = format!("use super::sum_limits;\npub fn {child}_limit() {{}}\n");
        std::fs::write(source.join(format!("limits/{child}.rs")), text).unwrap();
    }
    let output = std::process::Command::new(project_root().join("tools/names"))
        .args(["--check", "--root"])
        .arg(directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let planted = "largest_circle is 5, the limit is 4";
    assert!(text.contains(planted), "{text}");
}

#[test]
fn every_crate_uses_the_shared_lints() {
    for package in cargo_metadata()["packages"].as_array().unwrap() {
        let manifest = std::fs::read_to_string(package["manifest_path"].as_str().unwrap()).unwrap();
        assert!(manifest.contains("[lints]\nworkspace = true"), "{}", package["name"]);
    }
}

/// Words that may occur in certain paths only.
#[test]
fn restricted_words_occur_only_in_their_paths() {
    let restrictions = [
        ("async_nats::", &["wire/bus/src/", "tests/"][..]),
        // Only the memory release calls need unsafe code.
        ("unsafe {", &["agent/src/process/memory.rs", "tests/it/architecture.rs"]),
        ("unsafe_code", &["agent/src/process/memory.rs", "tests/it/architecture.rs"]),
        // The check of the mode of a secret file is in one place.
        ("0o077", &["wire/files/", "tests/", "plugins/engine/system/tests/"][..]),
        (
            "process::Command",
            &[
                "plugins/engine/system/",
                "plugins/engine/tests/",
                "plugins/host/src/",
                // Starts a process of another program, which the watcher must find.
                "plugins/puppet/src/tests/",
                // Its test runs the rendered script.
                "client/organisation/src/enrol_script.rs",
                "client/organisation/src/machines/",
                "client/src/external.rs",
                "client/rpc/",
                // Start PuppetDB, which its queries are compared with.
                "wire/filter/tests/",
                "tests/",
            ][..],
        ),
    ];
    for file in rust_files(&project_root()) {
        let path = file.strip_prefix(project_root()).unwrap().display().to_string();
        let text = std::fs::read_to_string(&file).unwrap();
        for (word, allowed_paths) in restrictions {
            let occurs = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .any(|line| line.contains(word));
            assert!(
                !occurs || allowed_paths.iter().any(|allowed| path.starts_with(allowed)),
                "{path} contains {word}"
            );
        }
        let head = text.lines().next().unwrap_or_default();
        assert!(head.starts_with("//!"), "{path} does not state its purpose in its first line");
    }
}

/// Places that read what a node said without escapes: for documents, stored records and comparisons. This number may only shrink.
const MAX_RAW_TEXTS: usize = 12;

#[test]
fn few_places_read_texts_of_nodes_without_escapes() {
    let mut found = Vec::new();
    for file in rust_files(&project_root()) {
        let path = file.strip_prefix(project_root()).unwrap().display().to_string();
        if path.contains("tests") || path.ends_with("testing.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        found.extend(code.lines().filter(|line| line.contains(".raw()")).map(|_| path.clone()));
    }
    assert!(found.len() <= MAX_RAW_TEXTS, "{found:#?}");
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    files_with_extension(directory, "rs")
}

/// All files below a directory with this extension, without build output and hidden directories.
fn files_with_extension(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(files_with_extension(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

#[test]
fn a8_2_glossary_names_types_and_files_that_exist() {
    let page = std::fs::read_to_string(project_root().join("docs/reference/glossary.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
    let mut missing = Vec::new();
    let mut count = 0;
    for row in rows {
        let cell = row.trim_matches('|').rsplit('|').next().unwrap();
        let (paths, types): (Vec<&str>, Vec<&str>) =
            cell.split('`').skip(1).step_by(2).partition(|word| word.contains('/'));
        let read =
            |path: &&str| std::fs::read_to_string(project_root().join(path)).unwrap_or_default();
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

/// Documents whose backticked names of Rust files must exist, in addition to those below `docs`.
const DOCUMENTS: [&str; 4] = ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md", "SECURITY.md"];

#[test]
fn documents_name_files_that_exist() {
    let root = project_root();
    let files: Vec<String> = rust_files(&root)
        .iter()
        .map(|file| file.strip_prefix(&root).unwrap().display().to_string())
        .collect();
    let exists = |name: &str| {
        let suffix = format!("/{name}");
        files.iter().any(|file| file == name || file.ends_with(&suffix))
    };
    let mut documents: Vec<PathBuf> = DOCUMENTS.map(|name| root.join(name)).into();
    documents.extend(files_with_extension(&root.join("docs"), "md"));
    let mut missing = Vec::new();
    let mut count = 0;
    for document in documents {
        let page = std::fs::read_to_string(&document).unwrap();
        let spans = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        let words = spans.flat_map(str::split_whitespace);
        for name in words.filter(|word| Path::new(word).extension().is_some_and(|end| end == "rs"))
        {
            count += 1;
            if !exists(name.trim_start_matches("../")) {
                missing
                    .push(format!("{}: {name}", document.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(count > 80, "only {count} names of files");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Crates whose library has a different name.
const LIBRARY_NAMES: [(&str, &str); 1] = [("md-5", "md5")];

#[test]
fn every_dependency_is_used_in_the_code() {
    let packages = cargo_metadata();
    let packages = packages["packages"].as_array().unwrap();
    let directory = |package: &Value| {
        let manifest = package["manifest_path"].as_str().unwrap();
        Path::new(manifest).parent().unwrap().to_owned()
    };
    let directories: BTreeSet<PathBuf> = packages.iter().map(directory).collect();
    let mut unused = Vec::new();
    for package in packages {
        let code = crate_code(&directory(package), &directories);
        for dependency in package["dependencies"].as_array().unwrap() {
            let name = dependency["name"].as_str().unwrap();
            let renamed = LIBRARY_NAMES.iter().find(|(package, _)| *package == name);
            let library = renamed.map_or(name, |(_, library)| library);
            if !names_crate(&code, &library.replace('-', "_")) {
                unused.push(format!("{}: {name}", package["name"].as_str().unwrap()));
            }
        }
    }
    assert!(unused.is_empty(), "dependencies that no code uses: {unused:?}");
}

/// Whether code outside comments contains a path into the crate or an import of it: `tar::`, `use tar;`. Longer words
/// that contain the name do not count.
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

/// All Rust code of one crate, without the crates below its directory.
fn crate_code(directory: &Path, others: &BTreeSet<PathBuf>) -> String {
    let mut code = String::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let is_other = others.contains(&path) || path.ends_with("target") || path.ends_with("fuzz");
        if path.is_dir() && !is_other {
            code.push_str(&crate_code(&path, others));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            code.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
    code
}
