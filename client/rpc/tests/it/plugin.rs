//! `rpc plugin generate` with the real command: the generated agents pass their own tests.

#![expect(clippy::disallowed_types, reason = "runs what is tested")]

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
        let generate =
            ["plugin", "generate", "disk", "--lang", language, "--actions", "usage,top_ten"];
        let made = rpc(scratch.path(), &generate);
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        let listed = String::from_utf8(made.stdout).unwrap();
        assert_eq!(listed, "disk/disk.json\ndisk/disk\ndisk/test_disk\n");
        let test = Command::new(scratch.path().join("disk/test_disk")).output().unwrap();
        assert!(test.status.success(), "{test:?}");
        // The generated test fails if the agent returns a wrong value.
        let program = scratch.path().join("disk/disk");
        let lying = std::fs::read_to_string(&program)
            .unwrap()
            .replace("\"statuscode\": 0", "\"statuscode\": 1");
        std::fs::write(&program, lying).unwrap();
        let test = Command::new(scratch.path().join("disk/test_disk")).output().unwrap();
        assert!(!test.status.success(), "{test:?}");
        let again = rpc(scratch.path(), &generate);
        assert_eq!(again.status.code(), Some(1), "{again:?}");
    }
    let scratch = tempfile::tempdir().unwrap();
    let refused = rpc(scratch.path(), &["plugin", "generate", "../disk"]);
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
}

#[test]
fn shell_agent_runs_the_authorised_action_whatever_the_inputs() {
    let scratch = tempfile::tempdir().unwrap();
    let actions = "status,wipe";
    let made =
        rpc(scratch.path(), &["plugin", "generate", "disk", "--lang", "sh", "--actions", actions]);
    assert!(made.status.success(), "{made:?}");
    let program = scratch.path().join("disk/disk");
    let marked = std::fs::read_to_string(&program)
        .unwrap()
        .replace("wipe) reply", "wipe) : > \"$reply_file.wiped\"; reply");
    std::fs::write(&program, marked).unwrap();
    let (request, reply) = (scratch.path().join("request"), scratch.path().join("reply"));
    let hostile = r#"{"agent":"disk","action":"status","data":{"opts":{"action":"wipe"},"x":"\"action\":\"wipe\""}}"#;
    std::fs::write(&request, hostile).unwrap();
    let run = |action: Option<&str>| {
        let mut command = Command::new(&program);
        command.args([&request, &reply]).arg("io.choria.mcorpc.external.v1.rpc_request");
        command.env_remove("MUSTER_ACTION");
        if let Some(action) = action {
            command.env("MUSTER_ACTION", action);
        }
        command.status().unwrap().success()
    };
    let wiped = scratch.path().join("reply.wiped");
    assert!(run(Some("status")) && !wiped.exists());
    assert!(std::fs::read_to_string(&reply).unwrap().contains("\"statuscode\": 0"));
    // Without the daemon's variable the agent does nothing; an authorised action runs.
    assert!(!run(None) && !wiped.exists());
    assert!(run(Some("wipe")) && wiped.exists());
}

#[test]
fn check_reports_agents_of_the_former_shell_template() {
    let scratch = tempfile::tempdir().unwrap();
    let made =
        rpc(scratch.path(), &["plugin", "generate", "disk", "--lang", "sh", "--actions", "status"]);
    assert!(made.status.success(), "{made:?}");
    let check = ["plugin", "check", "disk/disk.json"];
    assert_eq!(rpc(scratch.path(), &check).status.code(), Some(0));
    let program = scratch.path().join("disk/disk");
    let former = std::fs::read_to_string(&program).unwrap()
        + r#"action=$(sed -n 's/.*"action": *"\([a-z0-9_]*\)".*/\1/p' "$request")"#;
    std::fs::write(&program, former).unwrap();
    let found = rpc(scratch.path(), &check);
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    let told = String::from_utf8(found.stdout).unwrap();
    assert!(told.contains("disk/disk: it finds its action by a text search"), "{told}");
}

/// Run by `make test-all`.
mod long {
    use std::path::Path;
    use std::{env, fs};

    use super::{Command, rpc};

    #[test]
    fn generated_crate_passes_its_tests_and_prints_a_ddl_without_warnings() {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
        if scratch.exists() {
            fs::remove_dir_all(&scratch).unwrap();
        }
        fs::create_dir_all(&scratch).unwrap();
        let generate = ["plugin", "generate", "disk_usage", "--lang", "rust"];
        let made = rpc(&scratch, &[&generate[..], &["--actions", "usage,top_ten,type"]].concat());
        assert_eq!(made.status.code(), Some(0), "{made:?}");
        let hints = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(hints.contains("disk_usage ddl > disk_usage.json"), "{hints}");
        let directory = scratch.join("disk_usage");
        // The versions of this workspace, because they are here already.
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
        fs::copy(lock, directory.join("Cargo.lock")).unwrap();
        let cargo = |arguments: &[&str]| {
            Command::new(env!("CARGO"))
                .args(arguments)
                .current_dir(&directory)
                .env("CARGO_TARGET_DIR", scratch.join("target"))
                .output()
                .unwrap()
        };
        let output = cargo(&["test", "--offline", "--quiet"]);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && told.contains("3 passed"), "{output:?}");

        let printed = cargo(&["run", "--offline", "--quiet", "--", "ddl"]);
        fs::write(directory.join("disk_usage.json"), printed.stdout).unwrap();
        let checked = rpc(&directory, &["plugin", "check", "--strict", "disk_usage.json"]);
        assert_eq!(checked.status.code(), Some(0), "{checked:?}");
        // The generated tests fail if an action does not answer.
        let actions = directory.join("src/actions.rs");
        let right = fs::read_to_string(&actions).unwrap();
        fs::write(&actions, right.replace("input.message.is_empty()", "!input.message.is_empty()"))
            .unwrap();
        let output = cargo(&["test", "--offline", "--quiet"]);
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.contains("2 passed; 1 failed"), "{output:?}");
    }
}

#[test]
fn ruby_ddl_is_converted_and_other_commands_name_the_conversion() {
    let scratch = tempfile::tempdir().unwrap();
    let ddl = "metadata :name => 'disk', :description => 'Disk', :version => '1', :timeout => 5\n\
               action 'usage' do\n  input :'mount-point', :type => :string\nend\n";
    std::fs::write(scratch.path().join("disk.ddl"), ddl).unwrap();
    let convert = ["plugin", "convert", "disk.ddl", "--into", "ddl"];
    let converted = rpc(scratch.path(), &convert);
    let talk = String::from_utf8_lossy(&converted.stderr);
    assert_eq!(converted.status.code(), Some(0), "{talk}");
    assert!(talk.contains("disk.ddl:3: the input \"mount-point\" is renamed"), "{talk}");
    assert_eq!(converted.stdout, b"ddl/disk.json\n");
    let checked = rpc(scratch.path(), &["plugin", "check", "ddl/disk.json"]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    let again = rpc(scratch.path(), &convert);
    assert_eq!(again.status.code(), Some(1), "an existing file is not overwritten: {again:?}");
    let refused = rpc(scratch.path(), &["plugin", "check", "disk.ddl"]);
    let text = String::from_utf8_lossy(&refused.stdout);
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("rpc plugin convert disk.ddl"), "{text}");
    std::fs::write(scratch.path().join("disk.ddl"), format!("{ddl}system('id')\n")).unwrap();
    let code = rpc(scratch.path(), &["plugin", "convert", "disk.ddl"]);
    let talk = String::from_utf8_lossy(&code.stderr);
    assert_eq!((code.status.code(), code.stdout.as_slice()), (Some(1), b"".as_slice()));
    assert!(talk.contains("disk.ddl:5: `system` is Ruby code"), "{talk}");
}
