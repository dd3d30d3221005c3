//! Tests of the project's own tools: what must stop a change stops it.

use std::path::Path;
use std::process::Output;
use std::{env, fs};

/// A workspace with one crate, whose only file is this text, and the tools that build it.
fn write_workspace(root: &Path, source: &str) {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for directory in ["tools", ".cargo", "src"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for file in ["tools/test", "tools/rustc-or-clippy", ".cargo/config.toml"] {
        fs::copy(project.join(file), root.join(file)).unwrap();
    }
    let manifest = "[package]\nname = \"sample\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    fs::write(root.join("Cargo.toml"), manifest).unwrap();
    let lock = "version = 4\n\n[[package]]\nname = \"sample\"\nversion = \"0.1.0\"\n";
    fs::write(root.join("Cargo.lock"), lock).unwrap();
    fs::write(root.join("src/lib.rs"), source).unwrap();
}

#[expect(clippy::disallowed_types, reason = "runs what is tested")]
fn run_build_phase(root: &Path) -> Output {
    std::process::Command::new(root.join("tools/test"))
        .args(["test", "build"])
        .env("CARGO_TARGET_DIR", root.join("target"))
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .unwrap()
}

#[test]
fn warning_of_the_compiler_fails_the_build_phase() {
    let scratch = tempfile::tempdir().unwrap();
    write_workspace(scratch.path(), "pub fn count() -> u8 {\n    let unused = 1;\n    2\n}\n");
    // The second build compiles nothing, and cargo repeats the warning.
    for _ in 0..2 {
        let output = run_build_phase(scratch.path());
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("unused variable"), "{told}");
        assert!(told.contains("warnings count as errors"), "{told}");
        assert!(told.contains("build: failed"), "{told}");
    }
    write_workspace(scratch.path(), "pub fn count() -> u8 {\n    2\n}\n");
    let output = run_build_phase(scratch.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
