//! The bill of materials is complete and correct, and the check for advisories distinguishes "no advisory" from "no
//! database".

#![expect(clippy::disallowed_types, reason = "runs the project's own tools")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn tool_command(name: &str) -> Command {
    let mut command = Command::new(project_root().join("tools").join(name));
    let path = std::env::var("PATH").unwrap_or_default();
    let tools = project_root().join("target/tools");
    command.env("PATH", format!("{}:{path}", tools.display()));
    command
}

fn generate_bill() -> String {
    let output = tool_command("sbom").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// The values of this key in an array of objects.
fn values_of<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    let items = list.as_array().unwrap().iter();
    items.map(|item| item[key].as_str().unwrap()).collect()
}

/// The checksums in Cargo.lock, by name and version.
fn lock_checksums() -> BTreeMap<(String, String), String> {
    let text = fs::read_to_string(project_root().join("Cargo.lock")).unwrap();
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
fn bill_of_materials_is_complete_and_correct() {
    let text = generate_bill();
    let bill: Value = serde_json::from_str(&text).unwrap();

    let schema: Value = serde_json::from_str(include_str!("supply/bom.schema.json")).unwrap();
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    compiler.add_resource("bom.json", schema).unwrap();
    let index = compiler.compile("bom.json", &mut schemas).unwrap();
    if let Err(error) = schemas.validate(&bill, index) {
        panic!("{error}");
    }

    // Each part is listed once, and has an entry in the graph.
    let parts = values_of(&bill["components"], "bom-ref");
    let root = bill["metadata"]["component"]["bom-ref"].as_str().unwrap();
    let referred: BTreeSet<&str> = parts.iter().copied().chain([root]).collect();
    assert_eq!(referred.len(), parts.len() + 1, "a part is listed twice");
    let graph = values_of(&bill["dependencies"], "ref");
    assert_eq!(graph.len(), referred.len());
    assert_eq!(graph.iter().copied().collect::<BTreeSet<_>>(), referred);
    let mut needed = BTreeSet::from([root]);
    for one in bill["dependencies"].as_array().unwrap() {
        for other in one["dependsOn"].as_array().unwrap() {
            needed.insert(other.as_str().unwrap());
        }
    }
    assert_eq!(needed, referred, "a part is not needed by any other, or a needed part is missing");

    // Parts from a registry have the checksum of Cargo.lock; workspace crates have none.
    let locked = lock_checksums();
    for part in bill["components"].as_array().unwrap() {
        let (name, version) = (part["name"].as_str().unwrap(), part["version"].as_str().unwrap());
        let stated = part["hashes"][0]["content"].as_str();
        let is_workspace_crate = name.starts_with("muster-") || ["rpc", "rpcd"].contains(&name);
        let known = locked.get(&(name.to_owned(), version.to_owned()));
        assert_eq!(stated, known.map(String::as_str), "{name} {version}");
        assert_eq!(stated.is_none(), is_workspace_crate, "{name}");
    }

    // Only linked crates are listed, not those that only tests or the compiler need.
    let parts: BTreeSet<&str> = values_of(&bill["components"], "name").into_iter().collect();
    for linked in
        ["rpc", "rpcd", "muster-wire", "tokio", "rustls", "ring", "async-nats", "ed25519-dalek"]
    {
        assert!(parts.contains(linked), "{linked} is missing");
    }
    for other in ["muster-tests", "proptest", "insta", "boon", "serde_derive", "syn", "cc"] {
        assert!(!parts.contains(other), "{other} is not linked into the programs");
    }
}

#[test]
fn bill_of_materials_is_reproducible() {
    assert_eq!(generate_bill(), generate_bill());
}

/// A database with one advisory, which affects this crate.
fn create_database(crate_name: &str) -> TempDir {
    let directory = TempDir::new().unwrap();
    // The directory name that cargo-deny derives from the URL of RustSec's database.
    let database = directory.path().join("advisory-db-3157b0e258782691");
    let crates = database.join("crates").join(crate_name);
    fs::create_dir_all(&crates).unwrap();
    let advisory = format!(
        "```toml\n[advisory]\nid = \"RUSTSEC-2026-9999\"\npackage = \"{crate_name}\"\ndate = \"2026-01-01\"\n\
         [versions]\npatched = []\n```\n\n# Made up\n\nFor a test.\n"
    );
    fs::write(crates.join("RUSTSEC-2026-9999.md"), advisory).unwrap();
    for arguments in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["-c", "user.name=t", "-c", "user.email=t@example.net", "commit", "-qm", "one"],
    ] {
        let output = Command::new("git").arg("-C").arg(&database).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    directory
}

fn run_audit(databases: &Path) -> (Option<i32>, String) {
    let Output { status, stderr, .. } =
        tool_command("audit").env("ADVISORY_DBS", databases).output().unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn audit_distinguishes_missing_database_and_relevant_advisories() {
    let nothing = TempDir::new().unwrap();
    let (code, stderr) = run_audit(nothing.path());
    assert_eq!(code, Some(3), "{stderr}");
    assert!(
        stderr.contains("nothing was checked") && stderr.contains("cargo deny fetch db"),
        "{stderr}"
    );

    let (code, stderr) = run_audit(create_database("tokio").path());
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("RUSTSEC-2026-9999"), "{stderr}");

    let (code, stderr) = run_audit(create_database("a-crate-of-nobodys").path());
    assert_eq!(code, Some(0), "{stderr}");
}
