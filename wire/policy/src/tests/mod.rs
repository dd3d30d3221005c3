//! Tests of policies as texts, through the public functions.

mod properties;
mod unknown;

use std::path::PathBuf;

use muster_filter::state::{NodeFacts, NodeView};
use muster_filter::{EvaluationProgress, KnownLookups};
use muster_wire::Millis;
use muster_wire::identity::SubjectName;
use serde_json::json;

use super::{
    PolicyDecision, PolicyFault, PolicyPrincipal, PolicyProblem, PolicyQuery, PolicySet,
    PolicySource, RuleVerdict, parse_instant,
};

fn load(files: &[(&str, &str)], default: RuleVerdict) -> (PolicySet, Vec<PolicyProblem>) {
    let source = |(name, text): &(&str, &str)| PolicySource {
        path: PathBuf::from(name),
        text: Ok((*text).to_owned()),
    };
    let (groups, policies): (Vec<_>, Vec<_>) =
        files.iter().partition(|(name, _)| *name == "groups");
    let groups = groups.first().map(source);
    PolicySet::new(policies.iter().map(source), groups, default)
}

fn load_valid(files: &[(&str, &str)]) -> PolicySet {
    let (set, problems) = load(files, RuleVerdict::Deny);
    assert!(problems.is_empty(), "{problems:?}");
    set
}

/// Queries for a node of customer acme, in production, with two classes.
fn with_query<T>(words: [&str; 3], now: Millis, answer: impl FnOnce(&PolicyQuery<'_>) -> T) -> T {
    let facts =
        json!({"customer": "acme", "environment": "production", "os": {"family": "Debian"}});
    let facts = NodeFacts::from_value(facts).unwrap();
    let classes = ["mysql::master", "role::db"].map(str::to_owned);
    let node = NodeView::new("db1", &facts).with_classes(Some(&classes));
    let [caller, agent, action] = words;
    answer(&PolicyQuery {
        caller: &PolicyPrincipal::parse(caller).unwrap(),
        agent: &SubjectName::parse(agent).unwrap(),
        action: &SubjectName::parse(action).unwrap(),
        node: &node,
        inputs: None,
        now,
    })
}

fn decide(set: &PolicySet, caller: &str, agent: &str, action: &str) -> PolicyDecision {
    with_query([caller, agent, action], 0, |asked| {
        set.decide_query(asked, &KnownLookups::default())
    })
}

/// The decision as `+rule` or `-rule`.
fn decision_text(set: &PolicySet, caller: &str, agent: &str, action: &str) -> String {
    let decision = decide(set, caller, agent, action);
    format!("{}{}", if decision.allowed { '+' } else { '-' }, decision.rule)
}

#[test]
fn first_matching_line_decides_and_is_named() {
    let set = load_valid(&[
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
        assert_eq!(decision_text(&set, caller, "service", action), expected, "{caller} {action}");
    }
}

#[test]
fn facts_and_classes_of_another_node_do_not_match() {
    let set = load_valid(&[(
        "service.policy",
        "allow\trip\t*\tcustomer=globex\nallow\trip\t*\tnothing=1\nallow\trip\t*\t*\tapache\n\
         allow\trip\t*\tcustomer=acme customer=globex\n",
    )]);
    assert_eq!(decision_text(&set, "rip", "service", "stop"), "-service.policy (no line matches)");
}

#[test]
fn agent_without_a_file_uses_the_default_policy_and_then_the_configuration() {
    let set = load_valid(&[("default.policy", "policy default deny\nallow\trip\t*\t*\n")]);
    assert_eq!(decision_text(&set, "rip", "service", "stop"), "+default.policy:2");
    assert_eq!(decision_text(&set, "eve", "rpcutil", "ping"), "-default.policy:1 (default)");

    let set = load_valid(&[]);
    assert_eq!(decision_text(&set, "rip", "service", "stop"), "-default (no service.policy)");
    assert_eq!(
        decision_text(&set, "rip", "rpcutil", "ping"),
        "+built-in rpcutil.policy:1 (default)"
    );
    assert_eq!(decision_text(&set, "rip", "rpcutil", "cancel_any"), "-built-in rpcutil.policy:2");
    assert_eq!(decision_text(&set, "rip", "data", "fstat"), "-built-in data.policy:2");
    assert_eq!(decision_text(&set, "rip", "data", "service"), "+built-in data.policy:1 (default)");

    let set = load_valid(&[("rpcutil.policy", "policy default deny")]);
    assert_eq!(decision_text(&set, "rip", "rpcutil", "ping"), "-rpcutil.policy:1 (default)");

    let (set, _) = load(&[], RuleVerdict::Allow);
    assert_eq!(decision_text(&set, "rip", "service", "stop"), "+default (no service.policy)");
}

#[test]
fn malformed_line_denies_everything_for_its_agent_only() {
    for line in [
        "alow\trip\t*\t*",
        "allow rip * *",
        "allow\trip\t*",
        "allow\trip\t*\t*\t*\t*",
        "policy default perhaps",
        "policy default allow\npolicy default deny",
        "deny\t/bob\t*\t*",
        "deny\t/(/\t*\t*",
        "deny\t/a)|(b/\t*\t*",
        "deny\t//\t*\t*",
        "deny\tuid=0\t*\t*",
        "deny\tb*b\t*\t*",
        "deny\trip\tre*\t*",
        "deny\trip\t*\tcustomer",
        "deny\trip\t*\tcustomer=",
        "deny\trip\t*\tcustomer=acme and",
        "deny\trip\t*\t(puppet().enabled=false and environment=production",
        "deny\trip\t*\t*\tpuppet() and apache",
        "deny\trip\t*\t(customer=acme",
        "deny\trip\t*\tcustomer=acme x=y and z=1",
        "deny\trip\t*\tcustomer=acme and and x=y",
        "deny\trip\t*\t*\tcustomer=acme",
        "deny\trip\t*\t*\tapache or",
        "deny\trip\t*\t*\t!",
        "deny\trip\t*\t*\tapache in",
        "allow\trip\t*\t*\t*\tuntil=tomorrow",
        "allow\trip\t*\t*\tuntil=2026-11-22T10:00Z until=2026-11-22T10:00Z",
        "allow\trip\t*\t*\t*\tuntil=2026-11-22T10:00Z soon=1",
        "deny\trip\t*\t*\tapproved-by=eve",
        "allow\trip\t*\t*\tapproved-by=",
        "allow\trip\t*\t*\tapproved-by=eve,",
        "deny\trip\t*\t*\t/[/",
        "deny\t* rip\t*\t*",
    ] {
        let text = format!("allow\trip\t*\t*\n{line}\n");
        let files = [("service.policy", text.as_str()), ("package.policy", "policy default allow")];
        let (set, problems) = load(&files, RuleVerdict::Allow);
        let decision = decision_text(&set, "rip", "service", "stop");
        assert!(
            decision.starts_with("-service.policy:") && decision.ends_with(": malformed"),
            "{line:?}: {decision}"
        );
        assert_eq!(problems.len(), 1, "{line:?}");
        assert!(problems[0].line_number() >= Some(2), "{line:?}");
        assert!(problems[0].to_string().contains("service.policy:"), "{}", problems[0]);
        assert!(decide(&set, "rip", "package", "stop").allowed);
    }
}

/// A line as in the documentation, where the columns are aligned by spaces.
#[test]
fn fields_can_be_separated_by_spaces() {
    let text = "policy default deny\n\
                # allow|deny  callers         actions         facts                    classes\n\
                allow         rip sysadmins   *               *                        *\n\
                deny          *               stop            customer=acme and environment=production\n\
                allow         /ci-\\d+/        stop start      customer=acme os.family=Debian   mysql::master /^role::/\n\
                allow         oncall          start           *                        *                  approved-by=sysadmins\n\
                allow  up=joe  start  *\n";
    let set = load_valid(&[("service.policy", text), ("groups", "sysadmins eve\n")]);
    for (caller, action, expected) in [
        ("rip", "stop", "+service.policy:3"),
        ("eve", "stop", "+service.policy:3"),
        ("ci-1", "stop", "-service.policy:4"),
        ("ci-1", "start", "+service.policy:5"),
        ("oncall", "start", "+service.policy:6"),
        ("joe", "start", "+service.policy:7"),
        ("mallory", "start", "-service.policy:1 (default)"),
    ] {
        assert_eq!(decision_text(&set, caller, "service", action), expected, "{caller} {action}");
    }
    // Spaces in a line with tabs separate words: nothing is guessed.
    for line in ["allow\trip  anna\t*", "allow\trip  *  *", "allow rip * *"] {
        let (_, problems) = load(&[("service.policy", line)], RuleVerdict::Deny);
        assert_eq!(problems.len(), 1, "{line:?}: {problems:?}");
    }
}

#[test]
fn all_faults_of_a_line_and_of_all_files_are_reported() {
    let files = [
        ("service.policy", "deny\tr!p\tre*\tcustomer\tapache or\nalow\n"),
        ("package.policy", "allow\trip\n"),
        ("groups", "admins rip\nadmins eve\n"),
    ];
    let (set, problems) = load(&files, RuleVerdict::Allow);
    let places: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(places.len(), 7, "{places:#?}");
    assert_eq!(decision_text(&set, "rip", "package", "status"), "-groups:2: malformed");
}

#[test]
fn broken_groups_deny_everything() {
    let files =
        [("groups", "admins rip\nadmins eve\n"), ("service.policy", "policy default allow\n")];
    let (set, problems) = load(&files, RuleVerdict::Allow);
    assert!(matches!(problems[0].fault, PolicyFault::SecondGroup(_)));
    for agent in ["service", "rpcutil", "other"] {
        assert_eq!(decision_text(&set, "rip", agent, "ping"), "-groups:2: malformed");
    }
}

#[test]
fn groups_are_lists_of_names() {
    let set = load_valid(&[
        ("groups", "# ours\nsysadmins rip cert=Anna\n\ndba\tchoria=joe\n"),
        ("service.policy", "allow\tsysadmins\tstop\t*\nallow\tDBA caller=sysadmins\tstart\t*\n"),
    ]);
    for (caller, action, rule) in [
        ("anna", "stop", "+service.policy:1"),
        ("rip", "stop", "+service.policy:1"),
        ("joe", "stop", "-service.policy (no line matches)"),
        ("joe", "start", "+service.policy:2"),
        ("sysadmins", "start", "+service.policy:2"),
        ("sysadmins", "stop", "-service.policy (no line matches)"),
    ] {
        assert_eq!(decision_text(&set, caller, "service", action), rule, "{caller} {action}");
    }
    for (text, line, column) in [
        ("a rip\nb", 2, 1),
        ("a rip\n#\na joe", 3, 1),
        ("a b\nb rip", 1, 3),
        ("a rip /rip/", 1, 7),
        ("a uid=0", 1, 3),
        ("a! rip", 1, 1),
        ("a r!p", 1, 3),
    ] {
        let (_, problems) = load(&[("groups", text)], RuleVerdict::Allow);
        assert_eq!(problems[0].location, Some((line, column)), "{text:?}: {problems:?}");
    }
}

#[test]
fn facts_and_classes_can_be_expressions() {
    for (fields, holds) in [
        ("(customer=globex and environment=production) or environment=production", true),
        ("customer=acme and environment=development", false),
        ("customer=acme and not environment=development", true),
        ("!customer=acme", false),
        ("not customer=globex", true),
        ("customer=acme && role::db", true),
        ("customer=acme\tapache or mysql::master", true),
        ("customer=acme\t!apache", true),
        ("*\tnot role::db", false),
        ("*\t(apache or customer=acme) and mysql::master", true),
        ("customer in [acme, globex]", true),
        ("customer=/^(acme|globex)$/", true),
        ("customer=\"acme and sons\"", false),
        ("os.family=Debian environment=production\tmysql::master /^role::/", true),
    ] {
        let set = load_valid(&[("service.policy", &format!("allow\trip\t*\t{fields}\n"))]);
        assert_eq!(decide(&set, "rip", "service", "stop").allowed, holds, "{fields}");
    }
}

#[test]
fn caller_expression_matches_whole_names() {
    for (field, caller, holds) in [
        ("/bob/", "bob", true),
        ("/bob/", "bobby", false),
        ("/bob/", "x.bob", false),
        (r"/ci-\d+/", "ci-12", true),
        (r"/ci-\d+/", "ci-12x", false),
        ("/a|b/", "ab", false),
        ("/a|b/", "b", true),
        ("/BOB/", "bob", false),
        ("/BOB/i", "bob", true),
        ("/.*/", "anybody", true),
        ("rip /bo./", "bob", true),
    ] {
        let set = load_valid(&[("service.policy", &format!("allow\t{field}\t*\t*\n"))]);
        assert_eq!(decide(&set, caller, "service", "stop").allowed, holds, "{field} {caller}");
    }
}

#[test]
fn rule_applies_to_requests_with_its_inputs() {
    let set = load_valid(&[(
        "tunnel.policy",
        "deny\teve\topen\t*\tinput:port=22\n\
         allow\trip\topen\t*\t*\tinput:port=22,2222\n\
         allow\tanna\topen\t*\t*\tinput:port=5432 input:tls=true\n\
         allow\teve\topen\t*\t*\n",
    )]);
    let decide = |caller: &str, inputs: serde_json::Value| {
        with_query([caller, "tunnel", "open"], 0, |asked| {
            let asked = PolicyQuery { inputs: inputs.as_object(), ..*asked };
            set.decide_query(&asked, &KnownLookups::default()).allowed
        })
    };
    for (caller, inputs, allowed) in [
        ("rip", json!({"port": 22}), true),
        ("rip", json!({"port": "2222"}), true),
        ("rip", json!({"port": 222}), false),
        ("rip", json!({"port": [22]}), false),
        ("rip", json!({"port": null}), false),
        ("rip", json!({}), false),
        ("rip", json!(null), false),
        ("anna", json!({"port": 5432, "tls": true}), true),
        ("anna", json!({"port": 5432}), false),
        ("anna", json!({"port": 22, "tls": true}), false),
        ("eve", json!({"port": 22}), false),
        ("eve", json!({"port": 23}), true),
    ] {
        assert_eq!(decide(caller, inputs.clone()), allowed, "{caller} {inputs}");
    }
    let explained = with_query(["anna", "tunnel", "open"], 0, |asked| {
        set.explain(asked, &KnownLookups::default())
    });
    let reasons: Vec<String> = explained
        .steps
        .iter()
        .filter_map(|step| step.mismatch.as_ref().map(ToString::to_string))
        .collect();
    assert!(reasons.contains(&"it applies to requests with port=5432 tls=true".to_owned()));
}

#[test]
fn condition_on_an_input_has_a_name_and_values() {
    for option in [
        "input:",
        "input:port",
        "input:port=",
        "input:=22",
        "input:a.b=1",
        "input:port=22,",
        "input:port=22 input:port=23",
    ] {
        let line = format!("allow\trip\topen\t*\t*\t{option}\n");
        let (_, problems) = load(&[("tunnel.policy", &line)], RuleVerdict::Deny);
        assert_eq!(problems.len(), 1, "{option}");
        let text = problems[0].to_string();
        assert!(text.contains("is not a condition on an input"), "{text}");
    }
}

#[test]
fn rule_expires_at_its_time() {
    let text = "deny\teve\tstop\t*\tuntil=2026-11-22T09:00:00+01:00\nallow\teve\tstop\t*\t*\tuntil=2026-11-22T10:00Z\n";
    let set = load_valid(&[("service.policy", text)]);
    let at = |text: &str| {
        let now = parse_instant(text).unwrap();
        with_query(["eve", "service", "stop"], now, |asked| {
            set.decide_query(asked, &KnownLookups::default()).rule
        })
    };
    assert_eq!(at("2026-11-22T07:59:59.999Z"), "service.policy:1");
    assert_eq!(at("2026-11-22T08:00Z"), "service.policy:2");
    assert_eq!(at("2026-11-22T09:59:59Z"), "service.policy:2");
    assert_eq!(at("2026-11-22T10:00Z"), "service.policy (no line matches)");
}

#[test]
fn rule_can_name_its_approvers() {
    let set = load_valid(&[
        ("groups", "sysadmins rip anna\n"),
        (
            "service.policy",
            "allow\toncall\tstop\t*\t*\tapproved-by=sysadmins,eve\nallow\toncall joe\t*\t*\n",
        ),
    ]);
    let decided = decide(&set, "oncall", "service", "stop");
    assert_eq!((decided.allowed, decided.approved_by.as_deref()), (true, Some("sysadmins eve")));
    let may = |approver: &str, action: &str| {
        with_query([approver, "service", action], 0, |other| {
            with_query(["oncall", "service", action], 0, |asked| {
                set.may_approve(asked, other, &KnownLookups::default())
                    == EvaluationProgress::Decided(true)
            })
        })
    };
    assert!(may("anna", "stop") && may("eve", "stop"));
    assert!(!may("joe", "stop") && !may("oncall", "stop") && !may("sysadmins", "stop"));
    // Without a line that names approvers, an approver must be allowed to send the same request.
    assert!(may("joe", "start") && !may("anna", "start"));
}

#[test]
fn problems_have_a_line_and_a_column() {
    for (line, column, said) in [
        ("allow rip * *", 1, "separated by spaces"),
        ("allow\trip * *", 1, "separated by spaces"),
        ("  allow\trip\t*", 3, "3 fields"),
        ("allow\trip r!p\t*\t*", 11, "`r!p` is not a caller"),
        ("allow\trip\tstop re*\t*", 16, "`re*` is not an action"),
        ("allow\trip\t*\tcustomer=acme and", 30, "expected a condition"),
        ("allow\té\t*\t*", 7, "`é`"),
        ("allow\trip\t*\tcustomer", 13, "put classes in the fifth field"),
        ("allow\trip\t*\t*\t*\tuntil=x", 17, "not a time"),
        ("permit\trip\t*\t*", 1, "`allow` or `deny` followed by"),
        ("deny\tuid=500\t*\t*", 6, "a user id of an unnamed machine"),
        ("deny\t/^cert=ops/\t*\t*", 6, "write `/ops.*/`"),
        ("deny\t/choria=ops-\\d+$/i\t*\t*", 6, "write `/ops-\\d+/i`"),
        ("deny\trip /^up=(a|b)$/\t*\t*", 10, "write `/(a|b)/`"),
        ("deny\t/^service=prov.*/\t*\t*", 6, "write `service=/prov.*/`"),
        ("deny\t/(cert|choria)=ops/\t*\t*", 6, "write the expression for the name alone"),
        ("deny\t/[^a]=ops/\t*\t*", 6, "the name alone"),
    ] {
        let (_, problems) = load(&[("x.policy", line)], RuleVerdict::Deny);
        assert_eq!(problems[0].location, Some((1, column)), "{line:?}: {}", problems[0]);
        assert!(problems[0].to_string().contains(said), "{line:?}: {}", problems[0]);
    }
    let (set, problems) =
        load(&[("x.policy", "alow\n\nallow\trip\t*\t*\nalow\n")], RuleVerdict::Deny);
    let places: Vec<_> = problems.iter().map(PolicyProblem::line_number).collect();
    assert_eq!(places, [Some(1), Some(4)]);
    assert_eq!(decision_text(&set, "rip", "x", "y"), "-x.policy:1: malformed");
}

#[test]
fn explanation_states_why_earlier_rules_did_not_match() {
    let text = "allow\teve\t*\t*\nallow\t*\tstatus start\t*\nallow\t*\t*\tcustomer=globex\n\
                allow\t*\t*\t*\tapache or nginx\nallow\t*\t*\t*\tuntil=1970-01-01T00:00Z\n\
                deny\trip\t*\t*\nallow\t*\t*\t*\n";
    let set = load_valid(&[("service.policy", text)]);
    let explained = with_query(["rip", "service", "stop"], 5, |asked| {
        set.explain(asked, &KnownLookups::default())
    });
    assert_eq!(explained.policy.as_deref(), Some("service.policy"));
    let said: Vec<_> = explained
        .steps
        .iter()
        .map(|step| step.mismatch.as_ref().map(ToString::to_string).unwrap_or_default())
        .collect();
    assert_eq!(
        said,
        [
            "it applies to the callers eve",
            "it applies to the actions start status",
            "it applies to nodes whose fact customer equals \"globex\"",
            "it applies to nodes that have class apache or that have class nginx",
            "it expired at 1970-01-01 00:00:00Z",
            "",
        ]
    );
    assert_eq!(explained.decision.rule, "service.policy:6");
}

#[test]
fn rule_covered_by_an_earlier_one_is_detected() {
    for (first, second, covered) in [
        ("allow\t*\t*\t*", "deny\trip\tstop\tcustomer=acme", true),
        ("allow\trip eve\t*\t*", "deny\teve\tstop\t*", true),
        ("allow\t/e.*/\t*\t*", "deny\teve\tstop\t*", true),
        ("allow\teve\t*\t*", "deny\t*\tstop\t*", false),
        ("allow\t*\tstop\t*", "deny\teve\tstop start\t*", false),
        ("allow\t*\t*\tcustomer=acme", "deny\teve\t*\tcustomer=acme\tapache", true),
        ("allow\t*\t*\tcustomer=acme", "deny\teve\t*\tcustomer=globex", false),
        ("allow\t*\t*\t*\tuntil=2026-11-22T10:00Z", "deny\teve\t*\t*", false),
        ("allow\t/a|b/\t*\t*", "deny\t/a/\t*\t*", false),
    ] {
        let set = load_valid(&[("x.policy", &format!("{first}\n{second}\n"))]);
        let (_, _, file) = set.readable_policies().find(|(agent, ..)| *agent == "x").unwrap();
        assert_eq!(file.rules()[0].covers_rule(&file.rules()[1]), covered, "{first} / {second}");
    }
}

#[test]
fn plain_name_means_a_caller_and_a_service_needs_its_prefix() {
    let set = load_valid(&[
        (
            "service.policy",
            "allow\tprov cert=anna /^ci-.*/\tstatus\t*\nallow\tservice=prov service=/^svc-.*/\trestart\t*\n\
             allow\tcentral\tstop\t*\nallow\t*\tping\t*\nallow\trip\tapprove\t*\t*\tapproved-by=prov\n",
        ),
        ("groups", "central joe service=enroller\n"),
    ]);
    for (caller, action, allowed) in [
        ("prov", "status", true),
        ("service=prov", "status", false),
        ("caller=prov", "status", true),
        ("service=anna", "status", false),
        ("ci-1", "status", true),
        ("service=ci-1", "status", false),
        ("service=prov", "restart", true),
        ("prov", "restart", false),
        ("service=svc-1", "restart", true),
        ("svc-1", "restart", false),
        ("joe", "stop", true),
        ("service=joe", "stop", false),
        ("service=enroller", "stop", true),
        ("enroller", "stop", false),
        ("rip", "ping", true),
        ("service=rip", "ping", true),
    ] {
        let decision = decide(&set, caller, "service", action);
        assert_eq!(decision.allowed, allowed, "{caller} {action}: {}", decision.rule);
    }
    let may = |approver: &str| {
        with_query(["rip", "service", "approve"], 0, |asked| {
            with_query([approver, "service", "approve"], 0, |by| {
                set.may_approve(asked, by, &KnownLookups::default())
            })
        })
    };
    assert_eq!(may("prov"), EvaluationProgress::Decided(true));
    assert_eq!(may("service=prov"), EvaluationProgress::Decided(false));
    for (wrong, column) in [("node=prov", 7), ("service=", 7), ("service=/(/", 7)] {
        let text = format!("allow\t{wrong}\tstatus\t*\n");
        let (_, problems) = load(&[("service.policy", text.as_str())], RuleVerdict::Deny);
        assert_eq!(problems[0].location, Some((1, column)), "{wrong}: {problems:?}");
    }
    let (_, problems) = load(
        &[("service.policy", "policy default deny\n"), ("groups", "a service=/x/\n")],
        RuleVerdict::Deny,
    );
    assert!(problems[0].to_string().contains("a group cannot contain"), "{problems:?}");
}

#[test]
fn who_lists_named_callers_expressions_and_all_others() {
    let groups = ("groups", "admins rip service=provisioner\n");
    let policy = "policy default deny\n\
        deny\teve\t*\t*\t*\n\
        allow\tadmins\t*\tcustomer=acme\t*\n\
        allow\tanna\t*\tcustomer=globex\t*\n\
        allow\tcarol\trestart\t*\t*\tapproved-by=admins\n\
        allow\tbob\tstart\t*\t*\n\
        allow\t/ci-\\d+/\trestart\t*\t*\n";
    let set = load_valid(&[groups, ("service.policy", policy)]);
    let told = |set: &PolicySet| {
        let decisions = with_query(["rip", "service", "restart"], 0, |asked| {
            set.decide_callers(asked.agent, asked.action, asked.node, asked.now)
        });
        let text = |found: super::CallerDecision| {
            let sign = if found.decision.allowed { '+' } else { '-' };
            let approvers = found.decision.approved_by.map(|names| format!(" by {names}"));
            let (caller, rule) = (found.caller, found.decision.rule);
            format!("{sign}{caller} {rule}{}", approvers.unwrap_or_default())
        };
        decisions.into_iter().map(text).collect::<Vec<_>>()
    };
    assert_eq!(
        told(&set),
        [
            "-anna service.policy:1 (default)",
            "+carol service.policy:5 by admins",
            "-eve service.policy:2",
            "+rip service.policy:3",
            "+service=provisioner service.policy:3",
            "+/ci-\\d+/ service.policy:7",
            "-* service.policy:1 (default)",
            "-service=* service.policy:1 (default)",
        ]
    );
    let open = load_valid(&[("service.policy", "allow\t*\t*\t*\t*\n")]);
    assert_eq!(told(&open), ["+* service.policy:1", "+service=* service.policy:1"]);
    let (refused, _) = load(&[("groups", "admins /x/\n")], RuleVerdict::Allow);
    assert_eq!(told(&refused), ["-* groups:1: malformed", "-service=* groups:1: malformed"]);
}
