//! Properties of policies, compared with models.

use muster_filter::{DataLookupResult, EvaluationProgress, KnownLookups};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A policy line that may use a source: whether it allows, and which source it compares with which value.
type Line = (bool, Option<(usize, bool)>);

/// The deciding line according to the manual; `world` has the value of each source, or `None` without a result.
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
    prop_oneof!["bob", "bobby", "ob", "b", "bob\\.x", "x\\.bob", "bob-1", "[a-c]{1,3}"]
}

proptest! {
    #[test]
    fn caller_is_allowed_exactly_if_it_is_named(
        named in prop::collection::vec(caller(), 1..6),
        asking in caller(),
    ) {
        let text = format!("allow\t{}\t*\t*\n", named.join(" "));
        let set = load_valid(&[("service.policy", &text)]);
        prop_assert_eq!(decide(&set, &asking, "service", "stop").allowed, named.contains(&asking));
    }

    #[test]
    fn first_matching_rule_decides(
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
        let set = load_valid(&[("service.policy", &text)]);
        prop_assert_eq!(decide(&set, &asking, "service", &action).allowed, expected);
    }

    #[test]
    fn decision_equals_the_model_and_looks_up_only_required_sources(
        lines in prop::collection::vec((any::<bool>(), prop::option::of((0..3_usize, any::<bool>()))), 0..8),
        world in prop::collection::vec(any::<Option<bool>>(), 3),
    ) {
        let line = |(allow, demand): &Line| {
            let verdict = if *allow { "allow" } else { "deny" };
            let facts = demand.map_or("*".to_owned(), |(source, wanted)| format!("s('{source}').on={wanted}"));
            format!("{verdict}\trip\t*\t{facts}\n")
        };
        let text: String = lines.iter().map(line).collect();
        let set = load_valid(&[("service.policy", &text)]);
        let (decision, asked) = with_query(["rip", "service", "stop"], 0, |asked| {
            let mut known = KnownLookups::default();
            loop {
                match set.evaluate_query(asked, &known) {
                    EvaluationProgress::Decided(decision) => break (decision, known),
                    EvaluationProgress::Needs(lookup) => {
                        assert!(!known.contains_key(lookup), "{lookup} twice");
                        let source: usize = lookup.query.as_deref().unwrap().parse().unwrap();
                        let found = world[source].map_or(DataLookupResult::Unknown("slow".to_owned()), |on| {
                            DataLookupResult::Values(json!({"on": on}).as_object().cloned().unwrap())
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
        // Sources of lines after the deciding one are not looked up.
        let looked_at = &lines[..expected.map_or(lines.len(), |line| line + 1)];
        let sources: std::collections::BTreeSet<_> = looked_at.iter().filter_map(|(_, demand)| *demand).map(|(source, _)| source).collect();
        prop_assert_eq!(asked.len(), sources.len());
        // A decision without lookups equals a decision with all sources unknown.
        let blind = with_query(["rip", "service", "stop"], 0, |asked| set.decide_query(asked, &KnownLookups::default()));
        let expected = model(&lines, &[None, None, None]);
        prop_assert_eq!(blind.allowed, expected.is_some_and(|line| lines[line].0));
    }

    #[test]
    fn arbitrary_text_does_not_panic_and_allows_nothing_without_allow(
        text in "(\\PC|\t|\n|deny|rip|\\*|policy default deny){0,40}"
    ) {
        let (set, _) = load(&[("service.policy", &text), ("groups", &text)], RuleVerdict::Deny);
        let _ = with_query(["rip", "service", "stop"], 0, |asked| set.explain(asked, &KnownLookups::default()));
        if !text.contains("allow") {
            prop_assert!(!decide(&set, "rip", "service", "stop").allowed);
        }
    }
}
