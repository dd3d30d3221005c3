//! Policies through their public door, with files as they lie on a disk.

use std::fs;

use muster_wire::identity::{Identity, Name};
use muster_wire::state::{Facts, NodeView};
use proptest::prelude::*;
use serde_json::json;

use super::{Decision, PolicyFault, PolicyProblem, PolicySet};
use crate::config::Verdict;

fn load(files: &[(&str, &str)], default: Verdict) -> (PolicySet, Vec<PolicyProblem>) {
    let scratch = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(scratch.path().join(name), text).unwrap();
    }
    PolicySet::load(scratch.path(), default)
}

fn good(files: &[(&str, &str)]) -> PolicySet {
    let (set, problems) = load(files, Verdict::Deny);
    assert!(problems.is_empty(), "{problems:?}");
    set
}

/// Decides on a node of customer acme, in production, with two classes.
fn decide(set: &PolicySet, caller: &str, agent: &str, action: &str) -> Decision {
    let facts =
        json!({"customer": "acme", "environment": "production", "os": {"family": "Debian"}});
    let facts = Facts::from_value(facts).unwrap();
    let classes = ["mysql::master", "role::db"].map(str::to_owned);
    let node = NodeView {
        identity: "db1",
        facts: &facts,
        classes: &classes,
        agents: &[],
        collectives: &[],
    };
    let name = |text: &str| Name::parse(text).unwrap();
    set.decide(
        &Identity::parse(caller).unwrap(),
        &name(agent),
        &name(action),
        &node,
    )
}

/// The same, as `+rule` or `-rule`.
fn told(set: &PolicySet, caller: &str, agent: &str, action: &str) -> String {
    let decision = decide(set, caller, agent, action);
    format!(
        "{}{}",
        if decision.allowed { '+' } else { '-' },
        decision.rule
    )
}

#[test]
fn the_first_line_that_matches_decides_and_names_itself() {
    let set = good(&[
        (
            "service.policy",
            "# ours\r\npolicy default deny\r\n\r\nallow\trip\t*\t*\t*\n\
             deny\t*\trestart\tenvironment=production\n\
             allow\tcert=anna choria=joe\tstatus restart\tcustomer=acme os.family=Debian\tmysql::master\n\
             allow\t\tadmins\t\t*\t\t*\n\
             allow\t*\tping\t*\tMySQL::Master /^role::/\nallow\t*\tping\t*\tapache\n",
        ),
        ("groups", "admins eve caller=adam\n"),
    ]);
    for (caller, action, expected) in [
        ("rip", "restart", "+service.policy:4"),
        ("RIP", "Restart", "+service.policy:4"),
        ("anna", "restart", "-service.policy:5"),
        ("anna", "status", "+service.policy:6"),
        ("joe", "status", "+service.policy:6"),
        ("eve", "stop", "+service.policy:7"),
        ("adam", "stop", "+service.policy:7"),
        ("admins", "stop", "-service.policy:2 (default)"),
        ("mallory", "ping", "+service.policy:8"),
        ("mallory", "status", "-service.policy:2 (default)"),
    ] {
        assert_eq!(
            told(&set, caller, "service", action),
            expected,
            "{caller} {action}"
        );
    }
}

#[test]
fn facts_and_classes_of_another_node_do_not_match() {
    let set = good(&[(
        "service.policy",
        "allow\trip\t*\tcustomer=globex\nallow\trip\t*\tnothing=1\nallow\trip\t*\t*\tapache\n\
         allow\trip\t*\tcustomer=acme customer=globex\n",
    )]);
    assert_eq!(
        told(&set, "rip", "service", "stop"),
        "-service.policy (no line matches)"
    );
}

#[test]
fn an_agent_without_a_file_has_the_default_policy_then_the_configurations() {
    let set = good(&[("default.policy", "policy default deny\nallow\trip\t*\t*\n")]);
    assert_eq!(told(&set, "rip", "service", "stop"), "+default.policy:2");
    assert_eq!(
        told(&set, "eve", "rpcutil", "ping"),
        "-default.policy:1 (default)"
    );

    let set = good(&[]);
    assert_eq!(
        told(&set, "rip", "service", "stop"),
        "-default (no service.policy)"
    );
    assert_eq!(
        told(&set, "rip", "rpcutil", "ping"),
        "+built-in rpcutil.policy:1 (default)"
    );
    assert_eq!(
        told(&set, "rip", "rpcutil", "cancel_any"),
        "-built-in rpcutil.policy:2"
    );

    let set = good(&[("rpcutil.policy", "policy default deny")]);
    assert_eq!(
        told(&set, "rip", "rpcutil", "ping"),
        "-rpcutil.policy:1 (default)"
    );

    let (set, _) = load(&[], Verdict::Allow);
    assert_eq!(
        told(&set, "rip", "service", "stop"),
        "+default (no service.policy)"
    );
    let (set, problems) = PolicySet::load(std::path::Path::new("/nonexistent"), Verdict::Deny);
    assert!(problems.is_empty());
    assert_eq!(
        told(&set, "rip", "service", "stop"),
        "-default (no service.policy)"
    );
}

#[test]
fn one_malformed_line_denies_everything_for_that_agent_and_only_for_it() {
    for line in [
        "alow\trip\t*\t*",
        "allow rip * *",
        "allow\trip\t*",
        "allow\trip\t*\t*\t*\t*",
        "policy default perhaps",
        "policy default allow\npolicy default deny",
        "deny\t/bob/\t*\t*",
        "deny\tuid=0\t*\t*",
        "deny\tb*b\t*\t*",
        "deny\trip\tre*\t*",
        "deny\trip\t*\tcustomer",
        "deny\trip\t*\tcustomer=",
        "deny\trip\t*\tcustomer=acme and x=y",
        "deny\trip\t*\t(puppet().enabled=false)",
        "deny\trip\t*\t*\tcustomer=acme",
        "deny\trip\t*\t*\tapache or mysql::master",
        "deny\trip\t*\t*\t!apache",
        "deny\trip\t*\t!customer=acme",
        "deny\trip\t*\t*\t/[/",
        "deny\t* rip\t*\t*",
    ] {
        let text = format!("allow\trip\t*\t*\n{line}\n");
        let files = [
            ("service.policy", text.as_str()),
            ("package.policy", "policy default allow"),
        ];
        let (set, problems) = load(&files, Verdict::Allow);
        let decision = told(&set, "rip", "service", "stop");
        assert!(
            decision.starts_with("-service.policy:") && decision.ends_with(": malformed"),
            "{line:?}: {decision}"
        );
        assert_eq!(problems.len(), 1, "{line:?}");
        assert!(problems[0].line >= Some(2), "{line:?}");
        assert!(
            problems[0].to_string().contains("service.policy:"),
            "{}",
            problems[0]
        );
        assert!(decide(&set, "rip", "package", "stop").allowed);
    }
}

#[test]
fn files_that_cannot_be_read_deny_what_they_speak_of() {
    let scratch = tempfile::tempdir().unwrap();
    fs::create_dir(scratch.path().join("service.policy")).unwrap();
    fs::write(
        scratch.path().join("package.policy"),
        b"policy default allow\n# \xff\n",
    )
    .unwrap();
    fs::write(
        scratch.path().join("puppet.policy"),
        "#".repeat((1 << 20) + 1),
    )
    .unwrap();
    fs::write(scratch.path().join("Nrpe.policy"), "policy default allow").unwrap();
    fs::write(scratch.path().join("nrpe.policy"), "policy default allow").unwrap();
    fs::write(
        scratch.path().join("no.name.policy"),
        "policy default allow",
    )
    .unwrap();
    fs::write(scratch.path().join(".service.policy.swp"), "rubbish").unwrap();
    let (set, problems) = PolicySet::load(scratch.path(), Verdict::Allow);
    assert_eq!(problems.len(), 5, "{problems:#?}");
    for agent in ["service", "package", "puppet", "nrpe"] {
        assert_eq!(
            told(&set, "rip", agent, "stop"),
            format!("-{agent}.policy: unusable")
        );
    }
    let file = scratch.path().join("package.policy");
    let (set, problems) = PolicySet::load(&file, Verdict::Allow);
    assert!(matches!(problems[0].fault, PolicyFault::Read(_)));
    assert_eq!(
        told(&set, "rip", "rpcutil", "ping"),
        "-package.policy: unusable"
    );
}

#[test]
fn broken_groups_deny_everything() {
    let files = [
        ("groups", "admins rip\nadmins eve\n"),
        ("service.policy", "policy default allow\n"),
    ];
    let (set, problems) = load(&files, Verdict::Allow);
    assert!(matches!(problems[0].fault, PolicyFault::SecondGroup(_)));
    for agent in ["service", "rpcutil", "other"] {
        assert_eq!(told(&set, "rip", agent, "ping"), "-groups:2: malformed");
    }
}

fn caller() -> impl Strategy<Value = String> {
    prop_oneof![
        "bob",
        "bobby",
        "ob",
        "b",
        "bob\\.x",
        "x\\.bob",
        "bob-1",
        "[a-c]{1,3}"
    ]
}

proptest! {
    #[test]
    fn a_caller_is_admitted_exactly_when_it_is_named(
        named in prop::collection::vec(caller(), 1..6),
        asking in caller(),
    ) {
        let text = format!("allow\t{}\t*\t*\n", named.join(" "));
        let set = good(&[("service.policy", &text)]);
        prop_assert_eq!(decide(&set, &asking, "service", "stop").allowed, named.contains(&asking));
    }

    #[test]
    fn rules_decide_as_a_list_read_from_the_top(
        rules in prop::collection::vec((any::<bool>(), caller(), "(start|stop|\\*)"), 0..8),
        default in any::<Option<bool>>(),
        asking in caller(),
        action in "(start|stop)",
    ) {
        let word = |allow: bool| if allow { "allow" } else { "deny" };
        let mut lines: Vec<String> = rules
            .iter()
            .map(|(allow, caller, action)| format!("{}	{caller}	{action}	*", word(*allow)))
            .collect();
        lines.extend(default.map(|default| format!("policy default {}", word(default))));
        let text = lines.join("\n");
        let first = rules.iter().find(|(_, caller, act)| *caller == asking && (act == "*" || *act == action));
        let expected = first.map(|(allow, ..)| *allow).or(default).unwrap_or(false);
        let set = good(&[("service.policy", &text)]);
        prop_assert_eq!(decide(&set, &asking, "service", &action).allowed, expected);
    }

    #[test]
    fn no_text_makes_the_parser_panic_or_allow_by_accident(
        text in "(\\PC|\t|\n|deny|rip|\\*|policy default deny){0,40}"
    ) {
        let (set, _) = load(&[("service.policy", &text), ("groups", &text)], Verdict::Deny);
        if !text.contains("allow") {
            prop_assert!(!decide(&set, "rip", "service", "stop").allowed);
        }
    }
}
