//! Decisions while facts, classes or data sources are unknown.

use muster_filter::{DataLookupResult, DeclaredSources, EvaluationProgress, KnownLookups};
use serde_json::json;

use super::*;

/// Lookups in which the source `puppet` has this value of `enabled`.
fn puppet_lookup(enabled: bool) -> KnownLookups {
    let mut known = KnownLookups::default();
    let values = json!({"enabled": enabled}).as_object().cloned().unwrap();
    known.insert("puppet()".parse().unwrap(), DataLookupResult::Values(values));
    known
}

#[test]
fn unknown_conditions_deny_and_never_allow() {
    let set = load_valid(&[(
        "service.policy",
        "deny\t*\trestart\tcustomer=acme and puppet().enabled=false\n\
         allow\trip\t*\tpuppet().enabled\nallow\teve\t*\tcustomer=globex and puppet().enabled\n\
         allow\teve\tstatus\tcustomer=acme or puppet().enabled\n",
    )]);
    let told = |caller: &str, action: &str, known: &KnownLookups| {
        let decision =
            with_query([caller, "service", action], 0, |asked| set.decide_query(asked, known));
        format!("{}{}", if decision.allowed { '+' } else { '-' }, decision.rule)
    };
    let (on, off, unknown) = (puppet_lookup(true), puppet_lookup(false), KnownLookups::default());
    for (caller, action, known, expected) in [
        ("rip", "restart", &on, "+service.policy:2"),
        ("rip", "restart", &off, "-service.policy:1"),
        ("rip", "restart", &unknown, "-service.policy:1 (unknown: puppet().enabled==false)"),
        ("rip", "stop", &on, "+service.policy:2"),
        ("rip", "stop", &off, "-service.policy (no line matches)"),
        ("rip", "stop", &unknown, "-service.policy (no line matches)"),
        ("eve", "stop", &on, "-service.policy (no line matches)"),
        ("eve", "status", &unknown, "+service.policy:4"),
    ] {
        assert_eq!(told(caller, action, known), expected, "{caller} {action}");
    }
    let needs = |caller: &str, action: &str| {
        with_query([caller, "service", action], 0, |asked| {
            match set.evaluate_query(asked, &KnownLookups::default()) {
                EvaluationProgress::Decided(_) => None,
                EvaluationProgress::Needs(lookup) => Some(lookup.to_string()),
            }
        })
    };
    assert_eq!(needs("rip", "stop").as_deref(), Some("puppet()"));
    // Facts, callers and actions decide without a lookup.
    assert_eq!(needs("eve", "stop"), None);
    assert_eq!(needs("eve", "status"), None);
}

#[test]
fn explanation_lists_what_is_unknown() {
    let text = "allow\trip\t*\tpuppet().enabled\tservice('x').running and apache\n\
                allow\trip\t*\tpuppet().enabled\ndeny\t*\t*\tnot puppet().enabled\n";
    let set = load_valid(&[("service.policy", text)]);
    let explained = with_query(["rip", "service", "stop"], 0, |asked| {
        set.explain(asked, &KnownLookups::default())
    });
    let rule = "service.policy:3 (unknown: puppet().enabled==true)";
    assert_eq!(explained.decision.rule, rule);
    let unknown: Vec<_> = explained.unknown.iter().map(ToString::to_string).collect();
    assert_eq!(unknown, ["puppet()"]);
    let [first, second, third] = &explained.steps[..] else { panic!("{:?}", explained.steps) };
    let why = first.mismatch.as_ref().map(ToString::to_string).unwrap();
    assert!(why.contains("apache"), "{why}");
    let why = second.mismatch.as_ref().map(ToString::to_string).unwrap();
    assert!(why.ends_with("whether this node matches is unknown"), "{why}");
    assert_eq!(second.unknown, ["puppet().enabled==true"]);
    assert_eq!(third.mismatch, None);
    let known =
        with_query(["rip", "service", "stop"], 0, |asked| set.explain(asked, &puppet_lookup(true)));
    assert_eq!((known.decision.rule.as_str(), known.unknown.len()), ("service.policy:2", 0));
}

#[test]
fn data_source_lookups_are_counted_and_checked() {
    let lines = |count: usize| -> String {
        let line = |n| format!("deny\teve\t*\ta('{n}').b or a('{n}').c\n");
        (0..count).map(line).collect()
    };
    let (set, problems) = load(&[("x.policy", &lines(64))], RuleVerdict::Deny);
    assert!(problems.is_empty());
    let (_, _, file) = set.readable_policies().find(|(agent, ..)| *agent == "x").unwrap();
    assert_eq!(file.data_lookups().count(), 64);
    let wrong = file.rules()[3].undeclared_sources(&DeclaredSources::default());
    assert_eq!(wrong.len(), 1);
    assert_eq!(wrong[0].0, "deny\teve\t*\t".chars().count() + 1);
    let (_, problems) = load(&[("x.policy", &lines(65))], RuleVerdict::Deny);
    let told = "more than 64 different data source lookups";
    assert!(problems[0].to_string().contains(told), "{}", problems[0]);
}

#[test]
fn allow_rule_that_may_be_unknown_does_not_cover_later_rules() {
    for (first, second, covered) in [
        ("allow\t*\t*\ta().b", "deny\teve\t*\ta().b", false),
        ("deny\t*\t*\ta().b", "allow\teve\t*\ta().b", true),
    ] {
        let set = load_valid(&[("x.policy", &format!("{first}\n{second}\n"))]);
        let (_, _, file) = set.readable_policies().find(|(agent, ..)| *agent == "x").unwrap();
        assert_eq!(file.rules()[0].covers_rule(&file.rules()[1]), covered, "{first}");
    }
}

/// Queries for a node of whose facts only these top-level names are known, with or without known classes.
fn partly_known<T>(
    action: &str,
    (known_names, classes_known): (&[&str], bool),
    answer: impl FnOnce(&PolicyQuery<'_>) -> T,
) -> T {
    let facts = json!({"customer": "acme", "os": {"family": "Debian"}});
    let known_names = known_names.iter().map(|name| (*name).to_owned()).collect();
    let facts = NodeFacts::from_value(facts).unwrap().with_known_names(known_names);
    answer(&PolicyQuery {
        caller: &PolicyPrincipal::parse("rip").unwrap(),
        agent: &SubjectName::parse("service").unwrap(),
        action: &SubjectName::parse(action).unwrap(),
        node: &NodeView::new("db1", &facts).with_classes(classes_known.then_some(&[][..])),
        inputs: None,
        now: 0,
    })
}

#[test]
fn facts_and_classes_of_unread_sources_deny_in_both_verdicts() {
    let rules = "deny\t*\trestart\tenvironment=production\n\
                 deny\t*\trestart\tenvironment!=test\n\
                 deny\t*\tstop\tnot (os.family=RedHat)\n\
                 deny\t*\tstatus\t*\trole::db\n\
                 allow\t*\tenable\tcustomer=acme\n\
                 allow\t*\tdisable\tos.family!=RedHat\n\
                 allow\t*\tmask\t*\tnot role::db\n\
                 policy default allow\n";
    let open = load_valid(&[("service.policy", rules)]);
    let closed = rules.replace("default allow", "default deny");
    let closed = load_valid(&[("service.policy", closed.as_str())]);
    let told = |set: &PolicySet, action: &str, known: (&[&str], bool)| {
        let decision =
            partly_known(action, known, |asked| set.decide_query(asked, &KnownLookups::default()));
        let sign = if decision.allowed { '+' } else { '-' };
        format!("{sign}{}", decision.rule)
    };
    for (set, action, known, expected) in [
        (&open, "restart", (&[][..], true), "-service.policy:1 (unknown: environment==production)"),
        (&open, "restart", (&["environment"], true), "-service.policy:2"),
        (&open, "stop", (&[], true), "-service.policy:3 (unknown: os.family==RedHat)"),
        // A source that was never read could set the exact name `os.family`, which takes precedence over the nested one.
        (&open, "stop", (&["os"], true), "-service.policy:3 (unknown: os.family==RedHat)"),
        (&open, "stop", (&["os.family"], true), "-service.policy:3"),
        (&open, "status", (&[], false), "-service.policy:4 (unknown: role::db)"),
        (&open, "status", (&[], true), "+service.policy:8 (default)"),
        (&closed, "enable", (&[], true), "-service.policy:8 (default)"),
        (&closed, "enable", (&["customer"], true), "+service.policy:5"),
        (&closed, "disable", (&[], true), "-service.policy:8 (default)"),
        (&closed, "mask", (&[], false), "-service.policy:8 (default)"),
        (&closed, "mask", (&[], true), "+service.policy:7"),
    ] {
        assert_eq!(told(set, action, known), expected, "{action} {known:?}");
    }
}
