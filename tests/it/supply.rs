//! What the programs are made of: the bill of materials is whole and true, and the check for advisories tells "none known" from "not known".

#![expect(clippy::disallowed_types, reason = "runs the project's own tools")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn tool(name: &str) -> Command {
    let mut command = Command::new(project().join("tools").join(name));
    let path = std::env::var("PATH").unwrap_or_default();
    let tools = project().join("target/tools");
    command.env("PATH", format!("{}:{path}", tools.display()));
    command
}

fn bill() -> String {
    let output = tool("sbom").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    String::from_utf8(output.stdout).unwrap()
}

/// The names of what is in an array of objects.
fn names<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    let items = list.as_array().unwrap().iter();
    items.map(|item| item[key].as_str().unwrap()).collect()
}

/// The checksums of Cargo.lock, by name and version.
fn locked() -> BTreeMap<(String, String), String> {
    let text = fs::read_to_string(project().join("Cargo.lock")).unwrap();
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim_start_matches(" = ").trim_matches('"').to_owned())
    };
    let package = |block: &str| {
        let name = (value(block, "name")?, value(block, "version")?);
        Some((name, value(block, "checksum")?))
    };
    text.split("[[package]]").filter_map(package).collect()
}

#[test]
fn the_bill_of_materials_is_whole_and_true() {
    let text = bill();
    let bill: Value = serde_json::from_str(&text).unwrap();

    let schema: Value = serde_json::from_str(include_str!("supply/bom.schema.json")).unwrap();
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    compiler.add_resource("bom.json", schema).unwrap();
    let index = compiler.compile("bom.json", &mut schemas).unwrap();
    if let Err(fault) = schemas.validate(&bill, index) {
        panic!("{fault}");
    }

    // Every part is named once, and its place in the graph is told.
    let parts = names(&bill["components"], "bom-ref");
    let whole = bill["metadata"]["component"]["bom-ref"].as_str().unwrap();
    let referred: BTreeSet<&str> = parts.iter().copied().chain([whole]).collect();
    assert_eq!(referred.len(), parts.len() + 1, "a part is there twice");
    let graph = names(&bill["dependencies"], "ref");
    assert_eq!(graph.len(), referred.len());
    assert_eq!(graph.iter().copied().collect::<BTreeSet<_>>(), referred);
    let mut needed = BTreeSet::from([whole]);
    for one in bill["dependencies"].as_array().unwrap() {
        for other in one["dependsOn"].as_array().unwrap() {
            needed.insert(other.as_str().unwrap());
        }
    }
    assert_eq!(needed, referred, "a part that nobody needs, or one that is not there");

    // What comes from a registry carries the checksum that Cargo.lock has; what is ours has none.
    let locked = locked();
    for part in bill["components"].as_array().unwrap() {
        let (name, version) = (part["name"].as_str().unwrap(), part["version"].as_str().unwrap());
        let told = part["hashes"][0]["content"].as_str();
        let ours = name.starts_with("muster-") || ["rpc", "rpcd"].contains(&name);
        let known = locked.get(&(name.to_owned(), version.to_owned()));
        assert_eq!(told, known.map(String::as_str), "{name} {version}");
        assert_eq!(told.is_none(), ours, "{name}");
    }

    // Linked, and not what only tests or the compiler need.
    let parts: BTreeSet<&str> = names(&bill["components"], "name").into_iter().collect();
    for linked in
        ["rpc", "rpcd", "muster-wire", "tokio", "rustls", "ring", "async-nats", "ed25519-dalek"]
    {
        assert!(parts.contains(linked), "{linked} is missing");
    }
    for other in ["muster-tests", "proptest", "insta", "boon", "serde_derive", "syn", "cc"] {
        assert!(!parts.contains(other), "{other} is linked into nothing");
    }
}

#[test]
fn the_same_sources_have_the_same_bill() {
    assert_eq!(bill(), bill());
}

/// A database in which one advisory is about this crate.
fn database(about: &str) -> TempDir {
    let place = TempDir::new().unwrap();
    // The name that cargo-deny derives from the address of RustSec's database.
    let database = place.path().join("advisory-db-3157b0e258782691");
    let crates = database.join("crates").join(about);
    fs::create_dir_all(&crates).unwrap();
    let advisory = format!(
        "```toml\n[advisory]\nid = \"RUSTSEC-2026-9999\"\npackage = \"{about}\"\ndate = \"2026-01-01\"\n\
         [versions]\npatched = []\n```\n\n# Made up\n\nFor a test.\n"
    );
    fs::write(crates.join("RUSTSEC-2026-9999.md"), advisory).unwrap();
    for words in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["-c", "user.name=t", "-c", "user.email=t@example.net", "commit", "-qm", "one"],
    ] {
        let made = Command::new("git").arg("-C").arg(&database).args(words).output().unwrap();
        assert!(made.status.success(), "{words:?}: {made:?}");
    }
    place
}

fn audit(databases: &Path) -> (Option<i32>, String) {
    let Output { status, stderr, .. } =
        tool("audit").env("ADVISORY_DBS", databases).output().unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn no_advisory_no_database_and_one_that_concerns_us_are_told_apart() {
    let nothing = TempDir::new().unwrap();
    let (code, told) = audit(nothing.path());
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("nothing was checked") && told.contains("cargo deny fetch db"), "{told}");

    let (code, told) = audit(database("tokio").path());
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("RUSTSEC-2026-9999"), "{told}");

    let (code, told) = audit(database("a-crate-of-nobodys").path());
    assert_eq!(code, Some(0), "{told}");
}
