//! Completion in a real bash, and manual pages that groff accepts without warnings.

#![expect(clippy::disallowed_types, reason = "runs the command that is tested")]

use std::path::Path;
use std::process::{Command, Output};

const RPC: &str = env!("CARGO_BIN_EXE_rpc");

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    let is_left_out = std::env::var("MUSTER_TESTS_WITHOUT")
        .is_ok_and(|tools| tools.split(',').any(|tool| tool == program));
    assert!(
        found || is_left_out,
        "there is no {program}: install it, or name it in MUSTER_TESTS_WITHOUT"
    );
    found
}

/// Runs `rpc` with this home directory and no other environment.
fn rpc(home: &Path, args: &[&str]) -> Output {
    Command::new(RPC).args(args).env_clear().env("HOME", home).output().unwrap()
}

/// The candidates that bash offers at the end of the line.
fn offered(home: &Path, line: &str) -> Vec<String> {
    let script = r#"
        source <(rpc completion bash)
        COMP_LINE=$1 COMP_POINT=${#1}
        _rpc
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let programs = Path::new(RPC).parent().unwrap().display().to_string();
    let output = Command::new("bash")
        .args(["-c", script, "bash", line])
        .current_dir(home)
        .env_clear()
        .env("HOME", home)
        .env("PATH", format!("{programs}:/usr/bin:/bin"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_agents_actions_inputs_and_values() {
    if !is_there("bash") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let offered = |line| offered(home.path(), line);
    assert_eq!(offered("rpc inv"), ["inventory"]);
    assert_eq!(offered("rpc rpcu"), ["rpcutil"]);
    assert_eq!(offered("rpc service sta"), ["status", "start"]);
    assert_eq!(offered("rpc service status s"), ["service="]);
    assert_eq!(offered("rpc puppetral do noop=t"), ["true"], "bash keeps the part before =");
    assert_eq!(offered("rpc find --with-i"), ["--with-identity"]);
    assert_eq!(offered("rpc service status --display n"), ["none"]);
    assert!(offered("rpc inventory ").is_empty(), "names were offered before any node was seen");
    let acme = r#"{"nodes": ["web1.acme.net", "db1.acme.net"], "classes": ["apache"],
                   "facts": {"os.family": ["Debian"]}}"#;
    configure_fleet(home.path(), "acme", acme);
    configure_fleet(home.path(), "umbrella", r#"{"nodes": ["web2.umbrella.net"]}"#);
    assert_eq!(offered("rpc -c acme.toml inventory w"), ["web1.acme.net"]);
    assert_eq!(offered("rpc -c acme.toml find -I db"), ["db1.acme.net"]);
    assert_eq!(offered("rpc -c acme.toml facts o"), ["os.family"]);
    assert_eq!(offered("rpc find -c acme.toml -C "), ["apache"]);
    assert_eq!(offered("rpc find -c acme.toml -F os.family="), ["Debian"]);
    assert_eq!(offered("rpc puppetral type=mail"), ["mailalias"]);
    // What was seen in one fleet is not offered for another.
    assert_eq!(offered("rpc -c umbrella.toml inventory w"), ["web2.umbrella.net"]);
    assert!(offered("rpc find -c umbrella.toml -C ").is_empty());
    assert!(offered("rpc inventory w").is_empty());
    let contexts = home.path().join(".config/muster/contexts");
    std::fs::create_dir_all(&contexts).unwrap();
    std::fs::copy(home.path().join("acme.toml"), contexts.join("acme.toml")).unwrap();
    assert_eq!(offered("rpc --context "), ["acme", "default"]);
    assert_eq!(offered("rpc context use a"), ["acme"]);
    assert_eq!(offered("rpc --context acme inventory w"), ["web1.acme.net"]);
    assert_eq!(offered("rpc find --context=acme -C "), ["apache"]);
    assert!(offered("rpc find --context=other -C ").is_empty());
}

const OPERATOR: &str = "OAAACAQDAQCQMBYIBEFAWDANBYHRAEISCMKBKFQXDAMRUGY4DUPB7JSU";

/// Writes the configuration of a fleet, which is its collective, and the names that were seen there.
fn configure_fleet(home: &Path, collective: &str, seen: &str) {
    let config = format!(
        "collective = \"{collective}\"\n[broker]\nurls = [\"tls://broker\"]\n[trust]\noperator = \"{OPERATOR}\"\n"
    );
    std::fs::write(home.join(format!("{collective}.toml")), config).unwrap();
    let fleet = home.join(format!(".cache/muster/fleets/{OPERATOR}/unknown/{collective}"));
    std::fs::create_dir_all(&fleet).unwrap();
    std::fs::write(fleet.join("seen.json"), seen).unwrap();
}

/// Nodes choose the names of their facts. Completion must insert such a name as a word that bash does not execute.
#[test]
fn fact_names_are_never_executed() {
    if !is_there("bash") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let mark = home.path().join("mark");
    let name = format!("x$(echo>{})`echo`;*", mark.display());
    let seen = serde_json::json!({"nodes": [], "facts": {&name: [], "x\u{1b}[2J": []}});
    configure_fleet(home.path(), "acme", &seen.to_string());
    let offered = offered(home.path(), "rpc -c acme.toml facts x");
    assert_eq!(offered.len(), 1, "{offered:?}");
    // Executes the line as after Tab and Enter.
    let script = format!("printf %s {}", offered[0]);
    let run = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&run.stdout), name);
    assert!(!mark.exists(), "a fact name was executed");
}

#[test]
fn every_shell_has_a_script() {
    let home = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = rpc(home.path(), &["completion", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8_lossy(&output.stdout).contains("rpc complete"));
    }
    assert_eq!(rpc(home.path(), &["completion", "csh"]).status.code(), Some(4));
}

#[test]
fn manual_pages_are_complete_and_valid() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("man");
    let output = rpc(home.path(), &["man", directory.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for page in ["rpc.1", "rpc-do.1", "rpc-find.1", "rpc-plugin-doc.1", "rpc-org-add.1"] {
        assert!(directory.join(page).is_file(), "{page}");
    }
    assert!(!directory.join("rpc-complete.1").exists(), "hidden");
    if !is_there("groff") {
        return;
    }
    for page in std::fs::read_dir(&directory).unwrap() {
        let page = page.unwrap().path();
        let output = Command::new("groff")
            .args(["-man", "-ww", "-Tascii", "-z"])
            .arg(&page)
            .output()
            .unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && complaints.is_empty(),
            "{}: {complaints}",
            page.display()
        );
    }
}

#[test]
fn agent_help_needs_no_configuration() {
    let home = tempfile::tempdir().unwrap();
    for (args, expected) in [
        (["service", "restart", "--help"].as_slice(), "Usage: rpc service restart"),
        (&["service", "--help"], "Usage: rpc service"),
        (&["help", "service"], "Usage: rpc service"),
        (&["help", "service", "restart"], "Usage: rpc service restart"),
        (&["do", "rpcutil", "ping", "-h"], "Usage: rpc rpcutil ping"),
    ] {
        let output = rpc(home.path(), args);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains('\u{1b}'), "a pipe has no colours");
    }
    let output = rpc(home.path(), &["servce", "--help"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`service`"));
}

#[test]
fn output_forms_are_validated_first() {
    let home = tempfile::tempdir().unwrap();
    let nowhere = home.path().join("out.json");
    for (args, expected) in [
        (["--jq", ".replies[] | nonsense"].as_slice(), "column 14"),
        (&["--template", "{{ sendr }}"], "unknown name `sendr`"),
        (&["--template", "{{ sender"], "line 1"),
        (&["--filter-replies", "ok() and"], "column"),
        (&["--filter-replies", "kode == 1"], "\"kode\""),
        (&["--table", "--json"], "cannot be used with"),
        (&["--group", "--jq", "."], "cannot be used with"),
    ] {
        let request = ["rpcutil", "ping", "--output-file", nowhere.to_str().unwrap()];
        let args: Vec<&str> = request.iter().chain(args).copied().collect();
        let output = rpc(home.path(), &args);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{args:?}: {talk}");
        assert!(talk.contains(expected), "{args:?}: {talk}");
    }
}

#[test]
fn one_spelling_has_one_meaning() {
    let home = tempfile::tempdir().unwrap();
    let explained = |args: &[&str], expected: &str| {
        let output = rpc(home.path(), args);
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{args:?}: {talk}");
        assert!(talk.contains(expected), "{args:?}: {talk}");
    };
    explained(&["rpcutil", "ping", "-o", "jsno"], "did you mean \"json\"?");
    explained(&["rpcutil", "ping", "-o", "yaml"], "only `rpc nodes`");
    explained(&["run", "true", "-o", "table"], "use text, json or jsonl");
    explained(&["rpcutil", "ping", "--canary", "10%"], "expected a number of nodes");
    explained(&["rpcutil", "ping", "-t", "-5"], "expected seconds from");
    explained(&["ping", "web[1-"], "a range has no `]`");
    explained(&["service", "restart", "httpd"], "write `rpc service restart service=httpd`");
    // Without a broker, the form is that of the error; no file is written.
    rpc(home.path(), &["rpcutil", "ping", "-o", "json"]);
    assert!(!home.path().join("json").exists());
}

#[test]
fn earlier_spellings_are_accepted_with_a_warning_for_files() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("results");
    for (args, is_warned) in [
        (["rpcutil", "ping", "-o", file.to_str().unwrap(), "--sort"].as_slice(), true),
        (&["rpcutil", "ping", "--output-file", file.to_str().unwrap(), "--group"], false),
        (&["find", "--one"], false),
        (&["check", "check_load", "--expect"], false),
        (&["events", "--identity", "db1"], false),
    ] {
        let output = rpc(home.path(), args);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(4), "{args:?}: {talk}");
        assert_eq!(talk.contains("--output-file"), is_warned, "{args:?}: {talk}");
    }
    assert!(file.exists());
}

#[test]
fn error_of_a_configuration_does_not_quote_the_file() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("user.creds");
    std::fs::write(&file, "-----BEGIN USER NKEY SEED-----\nSUAHUNTER22\n").unwrap();
    let output = rpc(home.path(), &["-c", file.to_str().unwrap(), "find"]);
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{talk}");
    assert!(talk.contains("user.creds:1:"), "{talk}");
    assert!(!talk.contains("BEGIN") && !talk.contains("HUNTER"), "{talk}");
}
