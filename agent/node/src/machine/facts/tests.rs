//! Tests of fact collection through its public interface, with a simulated machine and a directory of external facts.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use muster_filter::state::NodeFacts;
use muster_system::fake::FakeSystem;
use muster_system::{CommandOutput, System, SystemError};
use muster_wire::identity::Identity;
use serde_json::{Value, json};

use super::{FactError, FactMachines, FactProblem, FactSources, FactStore};

fn sources(directory: &Path) -> FactSources {
    FactSources::new(Identity::parse("db1.acme.net").unwrap(), directory.to_owned())
}

fn one(system: &dyn System) -> FactMachines<'_> {
    FactMachines { node: system, host: system }
}

fn collect(system: &dyn System, sources: &FactSources) -> (NodeFacts, Vec<FactProblem>) {
    super::collect_facts(one(system), sources)
}

fn put(directory: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

fn output(code: i32, stdout: &str) -> CommandOutput {
    CommandOutput { code, combined: stdout.into(), stdout: stdout.into(), truncated: false }
}

#[test]
fn built_in_facts_have_the_structure_of_facter() {
    let system = FakeSystem::new();
    system.add_file("/etc/os-release", "ID=debian\nVERSION_ID=\"12\"\n");
    system.add_file("/etc/debian_version", "12.4\n");
    let (facts, problems) = collect(&system, &sources(Path::new("/nonexistent")));
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(facts.get("os.family"), Some(&json!("Debian")));
    assert_eq!(facts.get("os.release.full"), Some(&json!("12.4")));
    assert_eq!(facts.get("identity"), Some(&json!("db1.acme.net")));
    for path in
        ["kernel", "kernelrelease", "networking.hostname", "networking.fqdn", "timezone", "virtual"]
    {
        let text = facts.get(path).and_then(|fact| fact.as_str()).unwrap_or_default();
        assert!(!text.is_empty(), "{path}");
    }
    for path in ["memory.system.total_bytes", "processors.count", "system_uptime.seconds"] {
        assert!(facts.get(path).and_then(Value::as_u64) > Some(0), "{path}");
    }
}

#[test]
fn later_files_override_earlier_ones_but_not_the_identity() {
    let scratch = tempfile::tempdir().unwrap();
    put(
        scratch.path(),
        "10.json",
        r#"{"customer": "acme", "os": "mine", "identity": "evil"}"#,
        0o644,
    );
    put(scratch.path(), "20.yaml", "customer: globex\nrole: {name: db}\n", 0o644);
    put(scratch.path(), "30.txt", "rack=r7\n", 0o644);
    put(scratch.path(), ".40.txt", "rack=hidden\n", 0o644);
    put(scratch.path(), "README", "neither run nor read", 0o644);
    let run = put(scratch.path(), "25-run", "#!/bin/sh\n", 0o755);
    let system = FakeSystem::new();
    system.script_output(&[run.to_str().unwrap()], output(0, "rack=r1\nlive=yes\n"));
    let (facts, problems) = collect(&system, &sources(scratch.path()));
    assert!(problems.is_empty(), "{problems:?}");
    for (path, value) in [
        ("customer", "globex"),
        ("role.name", "db"),
        ("rack", "r7"),
        ("live", "yes"),
        ("os", "mine"),
        ("identity", "db1.acme.net"),
    ] {
        assert_eq!(facts.get(path), Some(&json!(value)), "{path}");
    }
    assert_eq!(system.recorded_commands().len(), 1);
    assert_eq!(system.recorded_commands()[0].timeout.unwrap().as_secs(), 10);
}

#[test]
fn broken_source_keeps_its_last_valid_facts_and_affects_no_other() {
    let scratch = tempfile::tempdir().unwrap();
    let good = put(scratch.path(), "a.json", r#"{"a": 1}"#, 0o644);
    put(scratch.path(), "b.yaml", "b: 1\n", 0o644);
    let system = FakeSystem::new();
    let store = FactStore::new(sources(scratch.path()));
    assert!(store.current().is_empty());
    assert!(store.reload(one(&system)).is_empty());

    fs::write(&good, r#"{"a": "#).unwrap();
    put(scratch.path(), "b.yaml", "b: 2\n", 0o644);
    put(scratch.path(), "c.txt", "", 0o644);
    let problems = store.reload(one(&system));
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].uses_last_good && matches!(problems[0].error, FactError::Json(_)));
    assert!(problems[0].to_string().contains("a.json; the last valid ones are kept"));
    assert!(!problems[1].uses_last_good && matches!(problems[1].error, FactError::Empty));
    assert_eq!(store.current().get("a"), Some(&json!(1)));
    assert_eq!(store.current().get("b"), Some(&json!(2)));

    fs::remove_file(&good).unwrap();
    fs::remove_file(scratch.path().join("c.txt")).unwrap();
    assert!(store.reload(one(&system)).is_empty());
    assert_eq!(store.current().get("a"), None);
}

#[test]
fn executable_that_others_can_change_is_not_run() {
    let scratch = tempfile::tempdir().unwrap();
    put(scratch.path(), "evil", "#!/bin/sh\n", 0o757);
    let system = FakeSystem::new();
    let (_, problems) = collect(&system, &sources(scratch.path()));
    assert!(
        matches!(problems[0].error, FactError::Run(SystemError::Unprotected(_))),
        "{problems:?}"
    );
    assert!(system.recorded_commands().is_empty());
}

#[test]
fn error_of_a_failing_program_contains_its_output() {
    let scratch = tempfile::tempdir().unwrap();
    let run = put(scratch.path(), "fails", "#!/bin/sh\n", 0o755);
    let system = FakeSystem::new();
    system.script_output(&[run.to_str().unwrap()], output(3, "\nno database\nmore\n"));
    let (_, problems) = collect(&system, &sources(scratch.path()));
    assert_eq!(problems[0].error.to_string(), "the program ended with code 3: no database");
}

#[test]
fn runs_an_executable_on_the_real_machine() {
    let scratch = tempfile::tempdir().unwrap();
    put(scratch.path(), "facts.sh", "#!/bin/sh\necho '{\"from\": {\"shell\": true}}'\n", 0o755);
    let system = muster_system::real::RealSystem::new("/".into());
    let (facts, problems) = collect(&system, &sources(scratch.path()));
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(facts.get("from.shell"), Some(&json!(true)));
}

#[test]
fn external_facts_override_facter() {
    let scratch = tempfile::tempdir().unwrap();
    put(scratch.path(), "a.txt", "colour=red\n", 0o644);
    let system = FakeSystem::new();
    let argv = ["/opt/facter", "--json"];
    system.script_output(&argv, output(0, r#"{"colour": "blue", "ruby": {"version": "3.1"}}"#));
    let sources = FactSources { facter: Some("/opt/facter".into()), ..sources(scratch.path()) };
    let (facts, problems) = collect(&system, &sources);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(facts.get("colour"), Some(&json!("red")));
    assert_eq!(facts.get("ruby.version"), Some(&json!("3.1")));
}

#[test]
fn only_the_oversized_source_is_omitted() {
    let scratch = tempfile::tempdir().unwrap();
    let half = "x".repeat(700 * 1024);
    put(scratch.path(), "a.txt", &format!("a={half}\n"), 0o644);
    put(scratch.path(), "b.txt", &format!("b={half}\n"), 0o644);
    put(scratch.path(), "c.txt", "c=1\n", 0o644);
    put(scratch.path(), "d.txt", &"#\n".repeat(2 << 20), 0o644);
    let (facts, problems) = collect(&FakeSystem::new(), &sources(scratch.path()));
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(facts.get("a").is_some() && facts.get("b").is_none());
    assert_eq!(facts.get("c"), Some(&json!("1")));
}

#[test]
fn scratch_root_has_its_own_os_facts_and_runs_programs_of_the_host() {
    let scratch = tempfile::tempdir().unwrap();
    let run = put(scratch.path(), "run", "#!/bin/sh\n", 0o755);
    let (node, host) = (FakeSystem::new(), FakeSystem::new());
    node.add_file("/etc/os-release", "ID=alpine\nVERSION_ID=3.20.1\n");
    host.script_output(&[run.to_str().unwrap()], output(0, "a: 1\n"));
    let machines = FactMachines { node: &node, host: &host };
    let (facts, problems) = super::collect_facts(machines, &sources(scratch.path()));
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(facts.get("os.name"), Some(&json!("Alpine")));
    assert_eq!(facts.get("a"), Some(&json!(1)));
    assert!(node.recorded_commands().is_empty());
}

/// Whether the value of the fact at this path is known.
fn is_known(store: &FactStore, path: &str) -> bool {
    let path = muster_filter::state::FactPath::parse(path).unwrap();
    store.current().is_known(&path)
}

#[test]
fn facts_that_a_source_can_set_are_unknown_until_it_is_read() {
    let scratch = tempfile::tempdir().unwrap();
    let system = FakeSystem::new();
    put(scratch.path(), "10.json", r#"{"customer": "acme", "role": "db"}"#, 0o644);
    let broken = put(scratch.path(), "20.json", r#"{"customer": "#, 0o644);
    put(scratch.path(), "30.txt", "rack=r7\n", 0o644);

    // As after a restart: 20.json was never read. It overrides 10.json and is overridden by 30.txt.
    let store = FactStore::new(sources(scratch.path()));
    assert!(!is_known(&store, "customer") && !store.current().is_complete());
    let problems = store.reload(one(&system));
    assert!(problems[0].to_string().contains("unknown until it succeeds"), "{problems:?}");
    for (path, known) in [
        ("customer", false),
        ("role", false),
        ("environment", false),
        ("os.family", false),
        ("rack", true),
        ("identity", true),
    ] {
        assert_eq!(is_known(&store, path), known, "{path}");
    }

    // After a successful read, a failure keeps the last valid facts, and all facts stay known.
    fs::write(&broken, r#"{"customer": "globex"}"#).unwrap();
    assert!(store.reload(one(&system)).is_empty());
    assert!(store.current().is_complete() && is_known(&store, "environment"));
    fs::write(&broken, "").unwrap();
    assert_eq!(store.reload(one(&system)).len(), 1);
    assert!(store.current().is_complete());
    assert_eq!(store.current().get("customer"), Some(&json!("globex")));
}

#[test]
fn facts_are_unknown_while_the_directory_or_facter_fails() {
    let scratch = tempfile::tempdir().unwrap();
    let file = put(scratch.path(), "facts.d", "no directory", 0o644);
    let store = FactStore::new(sources(&file));
    assert_eq!(store.reload(one(&FakeSystem::new())).len(), 1);
    assert!(!is_known(&store, "environment"));

    let directory = scratch.path().join("none");
    let store =
        FactStore::new(FactSources { facter: Some("/opt/facter".into()), ..sources(&directory) });
    let system = FakeSystem::new();
    let argv = ["/opt/facter", "--json"];
    system.script_output(&argv, output(1, "no ruby\n"));
    assert_eq!(store.reload(one(&system)).len(), 1);
    assert!(!is_known(&store, "environment"));
    system.script_output(&argv, output(0, r#"{"environment": "production"}"#));
    assert!(store.reload(one(&system)).is_empty());
    assert!(is_known(&store, "environment"));

    // A missing directory means that there are no external facts; this is known.
    let store = FactStore::new(sources(&directory));
    assert!(store.reload(one(&FakeSystem::new())).is_empty());
    assert!(store.current().is_complete());
}
