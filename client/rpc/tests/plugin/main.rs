//! `rpc plugin generate` through the real command: what it writes works, as its own test says.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_types,
    reason = "a test may end by panic, and runs what is tested"
)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn rpc(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rpc"))
        .args(arguments)
        .current_dir(directory)
        .env("NO_COLOR", "1")
        .env("HOME", directory)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn generated_agents_pass_their_own_tests_and_are_not_overwritten() {
    for language in ["python", "sh"] {
        let scratch = tempfile::tempdir().unwrap();
        let generate = [
            "plugin",
            "generate",
            "disk",
            "--lang",
            language,
            "--actions",
            "usage,top_ten",
        ];
        let made = rpc(scratch.path(), &generate);
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        let listed = String::from_utf8(made.stdout).unwrap();
        assert_eq!(listed, "disk/disk.json\ndisk/disk\ndisk/test_disk\n");
        let test = Command::new(scratch.path().join("disk/test_disk"))
            .output()
            .unwrap();
        assert!(test.status.success(), "{test:?}");
        // The test is one: it fails when the agent lies.
        let program = scratch.path().join("disk/disk");
        let lying = std::fs::read_to_string(&program)
            .unwrap()
            .replace("\"statuscode\": 0", "\"statuscode\": 1");
        std::fs::write(&program, lying).unwrap();
        let test = Command::new(scratch.path().join("disk/test_disk"))
            .output()
            .unwrap();
        assert!(!test.status.success(), "{test:?}");
        let again = rpc(scratch.path(), &generate);
        assert_eq!(again.status.code(), Some(1), "{again:?}");
    }
    let scratch = tempfile::tempdir().unwrap();
    let refused = rpc(scratch.path(), &["plugin", "generate", "../disk"]);
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
}
