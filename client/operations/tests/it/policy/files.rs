//! Policies are read with the daemon's rules, and tested with a file of cases.

use std::fs;

use muster_operations::policy::{PolicyError, PolicyTestSuite, read_directory, read_paths};
use muster_policy::RuleVerdict;

const POLICY: &str =
    "policy default deny\nallow\tadmins\t*\t*\nallow\toncall\tstatus\tos.family=Debian\n";

#[test]
fn hidden_files_are_ignored_and_a_single_file_uses_its_groups() {
    let scratch = tempfile::tempdir().unwrap();
    let empty = read_directory(scratch.path(), RuleVerdict::Deny).unwrap_err();
    assert!(matches!(empty, PolicyError::NoPolicy(_)), "{empty}");
    for (name, text) in [
        ("service.policy", POLICY),
        (".service.policy.swp", "nonsense"),
        (".package.policy", "nonsense"),
        ("groups", "admins rip\noncall joe\n"),
    ] {
        fs::write(scratch.path().join(name), text).unwrap();
    }
    let whole = read_directory(scratch.path(), RuleVerdict::Deny).unwrap();
    let service = scratch.path().join("service.policy");
    assert_eq!((&whole.files, whole.problems.len()), (&vec![service.clone()], 0));
    assert_eq!(whole.groups, Some(scratch.path().join("groups")));
    let single = read_paths(&[service], RuleVerdict::Deny).unwrap();
    assert_eq!((single[0].files.len(), &single[0].groups), (1, &whole.groups));
    let missing = read_paths(&[scratch.path().join("x.policy")], RuleVerdict::Deny).unwrap_err();
    assert!(matches!(missing, PolicyError::File(_)), "{missing}");
}

#[test]
fn cases_use_the_policies_in_their_directory() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("cases.toml");
    fs::write(scratch.path().join("service.policy"), POLICY).unwrap();
    fs::write(scratch.path().join("groups"), "admins rip\noncall joe\n").unwrap();
    let cases = r#"
        [nodes.db1]
        facts = { os = { family = "Debian" } }

        [[cases]]
        caller = "joe"
        agent = "service"
        action = "status"
        node = "db1"
        expect = "allow"

        [[cases]]
        name = "stops"
        caller = "joe"
        agent = "service"
        action = "stop"
        node = "db1"
        expect = "allow"
    "#;
    fs::write(&path, cases).unwrap();
    let suite = PolicyTestSuite::read(&path).unwrap();
    let policies = read_directory(&suite.policies, suite.default).unwrap();
    let outcomes = suite.run_cases(&policies.set, 1_800_000_000_000);
    let told: Vec<_> =
        outcomes.iter().map(|outcome| (outcome.name.as_str(), outcome.has_passed())).collect();
    assert_eq!(told, [("joe: service status on db1", true), ("stops", false)]);
    fs::write(&path, cases.replace("node = \"db1\"", "node = \"db2\"")).unwrap();
    let unknown = PolicyTestSuite::read(&path).unwrap_err();
    assert!(unknown.to_string().ends_with("the table [nodes.db2] is missing"), "{unknown}");
}
