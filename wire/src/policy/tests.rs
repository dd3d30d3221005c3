//! Policies through their public door, as texts.

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::json;

use super::{Decision, PolicyFault, PolicyProblem, PolicySet, Question, Source, Verdict, instant};
use crate::Millis;
use crate::filter::{Found, Known, Progress, Sources};
use crate::identity::{Identity, Name};
use crate::state::{Facts, NodeView};

fn load(files: &[(&str, &str)], default: Verdict) -> (PolicySet, Vec<PolicyProblem>) {
    let source = |(name, text): &(&str, &str)| Source {
        path: PathBuf::from(name),
        text: Ok((*text).to_owned()),
    };
    let (groups, policies): (Vec<_>, Vec<_>) =
        files.iter().partition(|(name, _)| *name == "groups");
    let groups = groups.first().map(source);
    PolicySet::new(policies.iter().map(source), groups, default)
}

fn good(files: &[(&str, &str)]) -> PolicySet {
    let (set, problems) = load(files, Verdict::Deny);
    assert!(problems.is_empty(), "{problems:?}");
    set
}

/// Asks about a node of customer acme, in production, with two classes.
fn ask<T>(words: [&str; 3], now: Millis, answer: impl FnOnce(&Question<'_>) -> T) -> T {
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
    let [caller, agent, action] = words;
    answer(&Question {
        caller: &Identity::parse(caller).unwrap(),
        agent: &Name::parse(agent).unwrap(),
        action: &Name::parse(action).unwrap(),
        node: &node,
        now,
    })
}

fn decide(set: &PolicySet, caller: &str, agent: &str, action: &str) -> Decision {
    ask([caller, agent, action], 0, |asked| {
        set.decide(asked, &Known::default())
    })
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
    assert_eq!(
        told(&set, "rip", "data", "service"),
        "+built-in data.policy:1 (default)"
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
        assert!(problems[0].line() >= Some(2), "{line:?}");
        assert!(
            problems[0].to_string().contains("service.policy:"),
            "{}",
            problems[0]
        );
        assert!(decide(&set, "rip", "package", "stop").allowed);
    }
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

#[test]
fn groups_are_lists_of_names() {
    let set = good(&[
        (
            "groups",
            "# ours\nsysadmins rip cert=Anna\n\ndba\tchoria=joe\n",
        ),
        (
            "service.policy",
            "allow\tsysadmins\tstop\t*\nallow\tDBA caller=sysadmins\tstart\t*\n",
        ),
    ]);
    for (caller, action, rule) in [
        ("anna", "stop", "+service.policy:1"),
        ("rip", "stop", "+service.policy:1"),
        ("joe", "stop", "-service.policy (no line matches)"),
        ("joe", "start", "+service.policy:2"),
        ("sysadmins", "start", "+service.policy:2"),
        ("sysadmins", "stop", "-service.policy (no line matches)"),
    ] {
        assert_eq!(
            told(&set, caller, "service", action),
            rule,
            "{caller} {action}"
        );
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
        let (_, problems) = load(&[("groups", text)], Verdict::Allow);
        assert_eq!(
            problems[0].place,
            Some((line, column)),
            "{text:?}: {problems:?}"
        );
    }
}

#[test]
fn facts_and_classes_may_be_expressions() {
    for (fields, holds) in [
        (
            "(customer=globex and environment=production) or environment=production",
            true,
        ),
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
        (
            "os.family=Debian environment=production\tmysql::master /^role::/",
            true,
        ),
    ] {
        let set = good(&[("service.policy", &format!("allow\trip\t*\t{fields}\n"))]);
        assert_eq!(
            decide(&set, "rip", "service", "stop").allowed,
            holds,
            "{fields}"
        );
    }
}

#[test]
fn an_expression_for_callers_matches_whole_names() {
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
        let set = good(&[("service.policy", &format!("allow\t{field}\t*\t*\n"))]);
        assert_eq!(
            decide(&set, caller, "service", "stop").allowed,
            holds,
            "{field} {caller}"
        );
    }
}

#[test]
fn a_rule_ends_at_its_instant() {
    let text = "deny\teve\tstop\t*\tuntil=2026-11-22T09:00:00+01:00\nallow\teve\tstop\t*\t*\tuntil=2026-11-22T10:00Z\n";
    let set = good(&[("service.policy", text)]);
    let at = |text: &str| {
        let now = instant(text).unwrap();
        ask(["eve", "service", "stop"], now, |asked| {
            set.decide(asked, &Known::default()).rule
        })
    };
    assert_eq!(at("2026-11-22T07:59:59.999Z"), "service.policy:1");
    assert_eq!(at("2026-11-22T08:00Z"), "service.policy:2");
    assert_eq!(at("2026-11-22T09:59:59Z"), "service.policy:2");
    assert_eq!(at("2026-11-22T10:00Z"), "service.policy (no line matches)");
}

#[test]
fn a_rule_may_name_who_must_approve() {
    let set = good(&[
        ("groups", "sysadmins rip anna\n"),
        (
            "service.policy",
            "allow\toncall\tstop\t*\t*\tapproved-by=sysadmins,eve\nallow\toncall joe\t*\t*\n",
        ),
    ]);
    let decided = decide(&set, "oncall", "service", "stop");
    assert_eq!(
        (decided.allowed, decided.approved_by.as_deref()),
        (true, Some("sysadmins eve"))
    );
    let may = |approver: &str, action: &str| {
        ask([approver, "service", action], 0, |other| {
            ask(["oncall", "service", action], 0, |asked| {
                set.may_approve(asked, other, &Known::default()) == Progress::Decided(true)
            })
        })
    };
    assert!(may("anna", "stop") && may("eve", "stop"));
    assert!(!may("joe", "stop") && !may("oncall", "stop") && !may("sysadmins", "stop"));
    // Where no line names anybody, it takes one who may ask for the same.
    assert!(may("joe", "start") && !may("anna", "start"));
}

#[test]
fn what_is_wrong_has_a_line_and_a_column() {
    for (line, column, said) in [
        ("allow rip * *", 1, "separated by spaces"),
        ("allow\trip * *", 1, "separated by spaces"),
        ("  allow\trip\t*", 3, "3 fields"),
        ("allow\trip r!p\t*\t*", 11, "`r!p` is not a caller"),
        ("allow\trip\tstop re*\t*", 16, "`re*` is not an action"),
        (
            "allow\trip\t*\tcustomer=acme and",
            30,
            "expected a condition",
        ),
        ("allow\té\t*\t*", 7, "`é`"),
        ("allow\trip\t*\tcustomer", 13, "classes are the fifth field"),
        ("allow\trip\t*\t*\t*\tuntil=x", 17, "no instant"),
        ("permit\trip\t*\t*", 1, "begins with `allow` or `deny`"),
    ] {
        let (_, problems) = load(&[("x.policy", line)], Verdict::Deny);
        assert_eq!(
            problems[0].place,
            Some((1, column)),
            "{line:?}: {}",
            problems[0]
        );
        assert!(
            problems[0].to_string().contains(said),
            "{line:?}: {}",
            problems[0]
        );
    }
    let (set, problems) = load(
        &[("x.policy", "alow\n\nallow\trip\t*\t*\nalow\n")],
        Verdict::Deny,
    );
    let places: Vec<_> = problems.iter().map(PolicyProblem::line).collect();
    assert_eq!(places, [Some(1), Some(4)]);
    assert_eq!(told(&set, "rip", "x", "y"), "-x.policy:1: malformed");
}

#[test]
fn an_explanation_tells_why_each_earlier_rule_did_not_decide() {
    let text = "allow\teve\t*\t*\nallow\t*\tstatus start\t*\nallow\t*\t*\tcustomer=globex\n\
                allow\t*\t*\t*\tapache or nginx\nallow\t*\t*\t*\tuntil=1970-01-01T00:00Z\n\
                deny\trip\t*\t*\nallow\t*\t*\t*\n";
    let set = good(&[("service.policy", text)]);
    let explained = ask(["rip", "service", "stop"], 5, |asked| {
        set.explain(asked, &Known::default())
    });
    assert_eq!(explained.policy.as_deref(), Some("service.policy"));
    let said: Vec<_> = explained
        .steps
        .iter()
        .map(|step| {
            step.mismatch
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default()
        })
        .collect();
    assert_eq!(
        said,
        [
            "it is for the callers eve",
            "it is for the actions start status",
            "it is for nodes whose fact customer equals \"globex\"",
            "it is for nodes that have class apache or that have class nginx",
            "its time was over at 1970-01-01T00:00:00Z",
            "",
        ]
    );
    assert_eq!(explained.decision.rule, "service.policy:6");
}

#[test]
fn a_rule_that_can_never_decide_is_known() {
    for (first, second, covered) in [
        ("allow\t*\t*\t*", "deny\trip\tstop\tcustomer=acme", true),
        ("allow\trip eve\t*\t*", "deny\teve\tstop\t*", true),
        ("allow\t/e.*/\t*\t*", "deny\teve\tstop\t*", true),
        ("allow\teve\t*\t*", "deny\t*\tstop\t*", false),
        ("allow\t*\tstop\t*", "deny\teve\tstop start\t*", false),
        (
            "allow\t*\t*\tcustomer=acme",
            "deny\teve\t*\tcustomer=acme\tapache",
            true,
        ),
        (
            "allow\t*\t*\tcustomer=acme",
            "deny\teve\t*\tcustomer=globex",
            false,
        ),
        (
            "allow\t*\t*\t*\tuntil=2026-11-22T10:00Z",
            "deny\teve\t*\t*",
            false,
        ),
        ("allow\t/a|b/\t*\t*", "deny\t/a/\t*\t*", false),
    ] {
        let set = good(&[("x.policy", &format!("{first}\n{second}\n"))]);
        let (_, _, file) = set.policies().find(|(agent, ..)| *agent == "x").unwrap();
        assert_eq!(
            file.rules()[0].covers(&file.rules()[1]),
            covered,
            "{first} / {second}"
        );
    }
}

/// What is known of Puppet: whether it is enabled.
fn puppet(enabled: bool) -> Known {
    let mut known = Known::default();
    let values = json!({"enabled": enabled}).as_object().cloned().unwrap();
    known.insert("puppet()".parse().unwrap(), Found::Values(values));
    known
}

#[test]
fn what_is_unknown_is_denied_and_never_allowed() {
    let set = good(&[(
        "service.policy",
        "deny\t*\trestart\tcustomer=acme and puppet().enabled=false\n\
         allow\trip\t*\tpuppet().enabled\nallow\teve\t*\tcustomer=globex and puppet().enabled\n\
         allow\teve\tstatus\tcustomer=acme or puppet().enabled\n",
    )]);
    let told = |caller: &str, action: &str, known: &Known| {
        let decision = ask([caller, "service", action], 0, |asked| {
            set.decide(asked, known)
        });
        format!(
            "{}{}",
            if decision.allowed { '+' } else { '-' },
            decision.rule
        )
    };
    let (on, off, unknown) = (puppet(true), puppet(false), Known::default());
    for (caller, action, known, expected) in [
        ("rip", "restart", &on, "+service.policy:2"),
        ("rip", "restart", &off, "-service.policy:1"),
        (
            "rip",
            "restart",
            &unknown,
            "-service.policy:1 (unknown: puppet().enabled==false)",
        ),
        ("rip", "stop", &on, "+service.policy:2"),
        ("rip", "stop", &off, "-service.policy (no line matches)"),
        ("rip", "stop", &unknown, "-service.policy (no line matches)"),
        ("eve", "stop", &on, "-service.policy (no line matches)"),
        ("eve", "status", &unknown, "+service.policy:4"),
    ] {
        assert_eq!(told(caller, action, known), expected, "{caller} {action}");
    }
    let needs = |caller: &str, action: &str| {
        ask([caller, "service", action], 0, |asked| {
            match set.judge(asked, &Known::default()) {
                Progress::Decided(_) => None,
                Progress::Needs(lookup) => Some(lookup.to_string()),
            }
        })
    };
    assert_eq!(needs("rip", "stop").as_deref(), Some("puppet()"));
    // Facts, names of callers and of actions have decided already.
    assert_eq!(needs("eve", "stop"), None);
    assert_eq!(needs("eve", "status"), None);
}

#[test]
fn an_explanation_tells_what_is_unknown() {
    let text = "allow\trip\t*\tpuppet().enabled\tservice('x').running and apache\n\
                allow\trip\t*\tpuppet().enabled\ndeny\t*\t*\tnot puppet().enabled\n";
    let set = good(&[("service.policy", text)]);
    let explained = ask(["rip", "service", "stop"], 0, |asked| {
        set.explain(asked, &Known::default())
    });
    let rule = "service.policy:3 (unknown: puppet().enabled==true)";
    assert_eq!(explained.decision.rule, rule);
    let unknown: Vec<_> = explained.unknown.iter().map(ToString::to_string).collect();
    assert_eq!(unknown, ["puppet()"]);
    let [first, second, third] = &explained.steps[..] else {
        panic!("{:?}", explained.steps)
    };
    let why = first.mismatch.as_ref().map(ToString::to_string).unwrap();
    assert!(why.contains("apache"), "{why}");
    let why = second.mismatch.as_ref().map(ToString::to_string).unwrap();
    assert!(why.ends_with("and whether this is one is unknown"), "{why}");
    assert_eq!(second.unknown, ["puppet().enabled==true"]);
    assert_eq!(third.mismatch, None);
    let known = ask(["rip", "service", "stop"], 0, |asked| {
        set.explain(asked, &puppet(true))
    });
    assert_eq!(
        (known.decision.rule.as_str(), known.unknown.len()),
        ("service.policy:2", 0)
    );
}

#[test]
fn questions_to_data_sources_are_counted_and_checked() {
    let lines = |count: usize| -> String {
        let line = |n| format!("deny\teve\t*\ta('{n}').b or a('{n}').c\n");
        (0..count).map(line).collect()
    };
    let (set, problems) = load(&[("x.policy", &lines(64))], Verdict::Deny);
    assert!(problems.is_empty());
    let (_, _, file) = set.policies().find(|(agent, ..)| *agent == "x").unwrap();
    assert_eq!(file.lookups().count(), 64);
    let wrong = file.rules()[3].undeclared(&Sources::default());
    assert_eq!(wrong.len(), 1);
    assert_eq!(wrong[0].0, "deny\teve\t*\t".chars().count() + 1);
    let (_, problems) = load(&[("x.policy", &lines(65))], Verdict::Deny);
    let told = "more than 64 different questions";
    assert!(problems[0].to_string().contains(told), "{}", problems[0]);
}

#[test]
fn an_allowance_that_may_be_unknown_does_not_cover_what_follows() {
    for (first, second, covered) in [
        ("allow\t*\t*\ta().b", "deny\teve\t*\ta().b", false),
        ("deny\t*\t*\ta().b", "allow\teve\t*\ta().b", true),
    ] {
        let set = good(&[("x.policy", &format!("{first}\n{second}\n"))]);
        let (_, _, file) = set.policies().find(|(agent, ..)| *agent == "x").unwrap();
        assert_eq!(file.rules()[0].covers(&file.rules()[1]), covered, "{first}");
    }
}

/// One line of a policy that may ask a source, as a value: whether it allows, what it asks, and what it compares with.
type Line = (bool, Option<(usize, bool)>);

/// The line that decides, by the words of the manual; `world` says for each source whether it is on, if it answers.
fn model(lines: &[Line], world: &[Option<bool>]) -> Option<usize> {
    let matches = |(allow, demand): &Line| match demand {
        None => true,
        Some((source, wanted)) => match world[*source] {
            Some(value) => value == *wanted,
            None => !allow,
        },
    };
    lines.iter().position(matches)
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
    fn sources_decide_as_in_the_model_and_only_what_matters_is_asked(
        lines in prop::collection::vec((any::<bool>(), prop::option::of((0..3_usize, any::<bool>()))), 0..8),
        world in prop::collection::vec(any::<Option<bool>>(), 3),
    ) {
        let line = |(allow, demand): &Line| {
            let verdict = if *allow { "allow" } else { "deny" };
            let facts = demand.map_or("*".to_owned(), |(source, wanted)| format!("s('{source}').on={wanted}"));
            format!("{verdict}\trip\t*\t{facts}\n")
        };
        let text: String = lines.iter().map(line).collect();
        let set = good(&[("service.policy", &text)]);
        let (decision, asked) = ask(["rip", "service", "stop"], 0, |asked| {
            let mut known = Known::default();
            loop {
                match set.judge(asked, &known) {
                    Progress::Decided(decision) => break (decision, known),
                    Progress::Needs(lookup) => {
                        assert!(known.get(lookup).is_none(), "{lookup} twice");
                        let source: usize = lookup.query.as_deref().unwrap().parse().unwrap();
                        let found = world[source].map_or(Found::Unknown("slow".to_owned()), |on| {
                            Found::Values(json!({"on": on}).as_object().cloned().unwrap())
                        });
                        known.insert(lookup.clone(), found);
                    }
                }
            }
        });
        let expected = model(&lines, &world);
        prop_assert_eq!(decision.allowed, expected.is_some_and(|line| lines[line].0));
        let place = expected.map_or("service.policy (".to_owned(), |line| format!("service.policy:{}", line + 1));
        prop_assert!(decision.rule.starts_with(&place), "{} {}", decision.rule, place);
        // Nothing behind the line that decides is asked.
        let looked_at = &lines[..expected.map_or(lines.len(), |line| line + 1)];
        let sources: std::collections::BTreeSet<_> = looked_at.iter().filter_map(|(_, demand)| *demand).map(|(source, _)| source).collect();
        prop_assert_eq!(asked.len(), sources.len());
        // Who asks nobody decides as though nobody answered.
        let blind = ask(["rip", "service", "stop"], 0, |asked| set.decide(asked, &Known::default()));
        let expected = model(&lines, &[None, None, None]);
        prop_assert_eq!(blind.allowed, expected.is_some_and(|line| lines[line].0));
    }

    #[test]
    fn no_text_makes_the_parser_panic_or_allow_by_accident(
        text in "(\\PC|\t|\n|deny|rip|\\*|policy default deny){0,40}"
    ) {
        let (set, _) = load(&[("service.policy", &text), ("groups", &text)], Verdict::Deny);
        let _ = ask(["rip", "service", "stop"], 0, |asked| set.explain(asked, &Known::default()));
        if !text.contains("allow") {
            prop_assert!(!decide(&set, "rip", "service", "stop").allowed);
        }
    }
}
