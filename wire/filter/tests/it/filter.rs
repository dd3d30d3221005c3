//! Filters: the evaluator compared with an independent model, round trips, and arbitrary input. No node and no broker is involved.

use muster_filter::state::NodeFacts;
use muster_filter::{FactOperator, FactTerm, FilterPattern, NodeFilter};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use regex::Regex;
use serde_json::Value;

const OPERATORS: [FactOperator; 8] = [
    FactOperator::Equal,
    FactOperator::NotEqual,
    FactOperator::Match,
    FactOperator::NotMatch,
    FactOperator::AtMost,
    FactOperator::AtLeast,
    FactOperator::Less,
    FactOperator::Greater,
];

/// A small set, so that random facts and terms match often.
const TEXTS: [&str; 16] = [
    "a", "B", "b", "debian", "Debian", "ÄRGER", "ärger", "1", "01", "1.0", "2", "10", "-3", "true",
    "True", "x y",
];
const KEYS: [&str; 6] = ["a", "b", "c", "a.b", "1", "true"];
const PATHS: [&str; 10] =
    ["a", "b", "c", "a.b", "a.b.c", "a.0", "b.1.a", "\"a.b\"", "\"a\".b", "c.\"a.b\".'1'"];
const EXPRESSIONS: [&str; 6] = ["^d", "b", "[0-9]+$", "^true$", ".", "Ä"];

fn fact_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-4_i64..12).prop_map(Value::from),
        (-8_i32..24).prop_map(|halves| Value::from(f64::from(halves) / 2.0)),
        select(&TEXTS[..]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(select(&KEYS[..]).prop_map(str::to_owned), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn facts() -> impl Strategy<Value = NodeFacts> {
    btree_map(select(&KEYS[..]).prop_map(str::to_owned), fact_value(), 0..6)
        .prop_map(|map| NodeFacts::from_map(map.into_iter().collect()).unwrap())
}

/// Fact, operator and value of a term; the value of a regex operator without its slashes.
fn condition() -> impl Strategy<Value = (&'static str, FactOperator, &'static str)> {
    (select(&PATHS[..]), select(&OPERATORS[..])).prop_flat_map(|(path, operator)| {
        let regex = matches!(operator, FactOperator::Match | FactOperator::NotMatch);
        let values = if regex { &EXPRESSIONS[..] } else { &TEXTS[..] };
        (Just(path), Just(operator), select(values))
    })
}

fn term((path, operator, value): (&str, FactOperator, &str)) -> FactTerm {
    match operator {
        FactOperator::Match | FactOperator::NotMatch => {
            FactTerm::new(path, operator, &format!("/{value}/")).unwrap()
        }
        _ => FactTerm::new(path, operator, value).unwrap(),
    }
}

/// The model: the rules of the documentation, implemented directly.
mod model {
    use super::{FactOperator, NodeFacts, Regex, Value};

    pub(crate) fn holds(
        facts: &NodeFacts,
        path: &str,
        operator: FactOperator,
        value: &str,
    ) -> bool {
        let positive = match operator {
            FactOperator::NotEqual => FactOperator::Equal,
            FactOperator::NotMatch => FactOperator::Match,
            other => other,
        };
        let mut scalars = Vec::new();
        if let Some(found) = find(facts, path) {
            flatten(&found, &mut scalars);
        }
        let any = scalars.iter().any(|scalar| scalar_holds(scalar, positive, value));
        if positive == operator { any } else { !any }
    }

    fn find(facts: &NodeFacts, path: &str) -> Option<Value> {
        let top = Value::Object(facts.as_map().clone());
        if let Some(exact) = top.get(path) {
            return Some(exact.clone());
        }
        // The only dots within a segment in these tests are those of the quoted `a.b`.
        let masked = path.replace("\"a.b\"", "a\u{0}b").replace(['"', '\''], "");
        masked.split('.').try_fold(top, |value, segment| {
            let key = segment.replace('\u{0}', ".");
            match &value {
                Value::Array(items) => items.get(key.parse::<usize>().ok()?).cloned(),
                other => other.get(&key).cloned(),
            }
        })
    }

    /// A list yields its elements, a map its keys, null nothing.
    fn flatten(value: &Value, scalars: &mut Vec<Value>) {
        match value {
            Value::Null => {}
            Value::Array(items) => items.iter().for_each(|item| flatten(item, scalars)),
            Value::Object(map) => scalars.extend(map.keys().map(|key| Value::from(key.as_str()))),
            scalar => scalars.push(scalar.clone()),
        }
    }

    fn scalar_holds(fact: &Value, operator: FactOperator, wanted: &str) -> bool {
        let shown = match fact {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if operator == FactOperator::Match {
            return Regex::new(&format!("(?i){wanted}")).unwrap().is_match(&shown);
        }
        let looks_numeric = Regex::new(r"^[+-]?[0-9]+(\.[0-9]+)?$").unwrap();
        let number =
            |text: &str| looks_numeric.is_match(text).then(|| text.parse::<f64>().unwrap());
        if let (Some(a), Some(b)) = (number(&shown), number(wanted)) {
            return match operator {
                FactOperator::Equal => a - b == 0.0,
                FactOperator::AtMost => a <= b,
                FactOperator::AtLeast => a >= b,
                FactOperator::Less => a < b,
                _ => a > b,
            };
        }
        let (a, b) = (shown.to_lowercase(), wanted.to_lowercase());
        match (fact, operator) {
            (Value::Number(_), _) => false,
            (Value::Bool(true), FactOperator::Equal) => ["true", "1", "t"].contains(&b.as_str()),
            (Value::Bool(false), FactOperator::Equal) => ["false", "0", "f"].contains(&b.as_str()),
            (_, FactOperator::Equal) => a == b,
            (Value::Bool(_), _) => false,
            (_, FactOperator::AtMost) => a <= b,
            (_, FactOperator::AtLeast) => a >= b,
            (_, FactOperator::Less) => a < b,
            _ => a > b,
        }
    }
}

/// Text of characters with a meaning to the parsers.
fn hostile_text() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{0,40}", "[ab =<>!~/\"'\\\\.i\t(é]{0,24}"]
}

/// Values that a term may contain: not empty, no control characters.
fn literal() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z =<>!~/\"'\\\\.i]{1,12}", "\\PC{1,12}"]
        .prop_filter("control characters are refused", |text| !text.contains(char::is_control))
}

fn filter() -> impl Strategy<Value = NodeFilter> {
    let name = || prop_oneof!["[a-zA-Z][a-z0-9:.-]{0,8}", "/\\^[a-z]{1,5}/i?"];
    (vec(condition(), 0..4), vec(name(), 0..3), vec(name(), 0..3), vec(name(), 0..3)).prop_map(
        |(facts, classes, agents, identities)| {
            let mut filter = NodeFilter::default();
            for fact in facts {
                filter = filter.with_fact(&term(fact).to_string()).unwrap();
            }
            for class in classes {
                filter = filter.with_class(&class).unwrap();
            }
            for agent in agents {
                filter = filter.with_agent(&agent).unwrap();
            }
            for identity in identities {
                filter = filter.with_identity(&identity).unwrap();
            }
            filter
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn evaluator_and_model_agree(facts in facts(), condition in condition()) {
        let (path, operator, value) = condition;
        let expected = model::holds(&facts, path, operator, value);
        prop_assert_eq!(term(condition).matches(&facts), expected);
    }

    #[test]
    fn negation_yields_the_opposite(facts in facts(), path in select(&PATHS[..]), text in select(&TEXTS[..])) {
        let equal = FactTerm::new(path, FactOperator::Equal, text).unwrap().matches(&facts);
        let not_equal = FactTerm::new(path, FactOperator::NotEqual, text).unwrap().matches(&facts);
        prop_assert_ne!(equal, not_equal);
    }

    #[test]
    fn path_of_every_leaf_finds_it(facts in facts()) {
        for (path, leaf) in facts.leaf_values() {
            prop_assert_eq!(facts.get(&path), Some(leaf), "{}", path);
        }
    }
}

proptest! {
    #[test]
    fn printed_terms_parse_to_equal_terms(
        path in select(&PATHS[..]), operator in select(&OPERATORS[..]), value in literal(),
    ) {
        let value = match operator {
            FactOperator::Match | FactOperator::NotMatch => format!("/{}/", regex::escape(&value)),
            _ => value,
        };
        // Escaping cannot exceed the size limit of compiled expressions, because these texts are short.
        let term = FactTerm::new(path, operator, &value).unwrap();
        let printed = term.to_string();
        prop_assert_eq!(&FactTerm::parse(&printed).unwrap(), &term, "{}", printed);
        prop_assert_eq!(term.value_text(), value);
    }

    #[test]
    fn literal_terms_round_trip_as_words(path in select(&PATHS[..]), value in literal()) {
        let term = FactTerm::new(path, FactOperator::Equal, &value).unwrap();
        let filter = NodeFilter::default().with_words(&format!("first {term} last=1")).unwrap();
        prop_assert_eq!(filter.facts().first(), Some(&term));
        prop_assert_eq!((filter.facts().len(), filter.classes().len()), (2, 1));
    }

    #[test]
    fn parsed_text_prints_and_parses_again(text in hostile_text()) {
        if let Ok(term) = FactTerm::parse(&text) {
            prop_assert_eq!(&FactTerm::parse(&term.to_string()).unwrap(), &term);
        }
        if let Ok(pattern) = FilterPattern::parse(&text) {
            prop_assert_eq!(&FilterPattern::parse(&pattern.to_string()).unwrap(), &pattern);
        }
        let _ = NodeFacts::default().get(&text);
    }

    #[test]
    fn text_of_a_flag_never_yields_the_empty_filter(text in hostile_text()) {
        let empty = NodeFilter::default;
        for read in [
            empty().with_fact(&text),
            empty().with_class(&text),
            empty().with_agent(&text),
            empty().with_identity(&text),
            empty().with_words(&text),
        ] {
            match read {
                Ok(filter) => {
                    prop_assert!(!filter.is_empty());
                    let json = serde_json::to_string(&filter).unwrap();
                    prop_assert_eq!(&serde_json::from_str::<NodeFilter>(&json).unwrap(), &filter);
                    prop_assert!(!filter.explain().contains(char::is_control));
                }
                Err(error) => prop_assert!((1..=text.chars().count() + 1).contains(&error.column())),
            }
        }
    }

    #[test]
    fn filters_round_trip_through_json(filter in filter()) {
        let json = serde_json::to_string(&filter).unwrap();
        prop_assert_eq!(&serde_json::from_str::<NodeFilter>(&json).unwrap(), &filter);
        prop_assert_eq!(filter.is_empty(), json == "{}");
    }

    #[test]
    fn broken_json_never_decodes_to_the_empty_filter(
        filter in filter(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut json = serde_json::to_vec(&filter).unwrap();
        let at = at.index(json.len());
        json[at] = byte;
        if let Ok(decoded) = serde_json::from_slice::<NodeFilter>(&json) {
            prop_assert_eq!(decoded.is_empty(), filter.is_empty());
        }
    }

    #[test]
    fn additional_conditions_narrow_a_filter(
        filter in filter(), facts in facts(), more in condition(), class in "[ab]",
    ) {
        let classes = ["a".to_owned()];
        let node = crate::view_of(&facts, &classes);
        let wider = filter.matches(&node);
        let narrower = filter.with_fact(&term(more).to_string()).unwrap().with_class(&class).unwrap();
        prop_assert!(wider || !narrower.matches(&node));
        prop_assert!(class == "a" || !narrower.matches(&node));
    }
}

/// A4.10: a word is a fact if it has an operator and a class otherwise, either may have a regular expression, and all must match.
#[test]
fn a4_10_words_are_facts_or_classes_and_all_must_match() {
    let facts = serde_json::json!({"environment": "development", "customer": "acme", "cpus": 8});
    let facts = NodeFacts::from_value(facts).unwrap();
    let classes = ["mysql::master".to_owned(), "common".to_owned()];
    let node = crate::view_of(&facts, &classes);
    for (words, expected) in [
        ("environment=development customer=acme mysql::master", true),
        ("environment=development customer=acme mysql::slave", false),
        ("environment=production customer=acme mysql::master", false),
        ("mysql::master", true),
        ("MySQL::Master", true),
        ("customer", false),
        ("/^mysql::/ customer=/^ac/", true),
        ("/^nginx/ customer=/^ac/", false),
        ("customer!=initech cpus>=8", true),
        ("cpus>8", false),
    ] {
        let filter = NodeFilter::default().with_words(words).unwrap();
        assert_eq!(filter.matches(&node), expected, "{words}");
    }
}

#[test]
fn regular_expressions_on_facts_and_classes_ignore_case_as_in_choria() {
    let map = serde_json::json!({"environment": "production", "os": {"name": "Debian"}});
    let facts = NodeFacts::from_value(map).unwrap();
    let (classes, agents) = (["role::web".to_owned()], ["rpcutil".to_owned()]);
    let view = crate::view_of(&facts, &classes).with_agents(&agents);
    let filter = NodeFilter::default;
    for (filter, expected) in [
        (filter().with_fact("environment=/^Prod/"), true),
        (filter().with_fact("environment=~^PROD"), true),
        (filter().with_fact("environment!~/^Prod/"), false),
        (filter().with_fact("os.name=/debian/"), true),
        (filter().with_fact("environment=/(?-i)^Prod/"), false),
        (filter().with_class("/^Role::/"), true),
        (filter().with_class("/(?-i)^Role::/"), false),
        (filter().with_words("environment=/^Prod/ /^Role::/"), true),
        (filter().with_select("environment=/^Prod/ and /^Role::/"), true),
        (filter().with_select("with('environment=/^Prod/') and with('/^Role/')"), true),
        (filter().with_select("fact('environment') matches 'PROD'"), true),
        (filter().with_identity("/^DB/"), false),
        (filter().with_identity("/^DB/i"), true),
        (filter().with_agent("/^RPC/"), false),
        (filter().with_select("agent('/^RPC/')"), false),
        (filter().with_query("{facts.environment: /^Prod/}"), false),
    ] {
        let filter = filter.unwrap();
        assert_eq!(filter.matches(&view), expected, "{}", filter.explain());
        let carried: NodeFilter =
            serde_json::from_str(&serde_json::to_string(&filter).unwrap()).unwrap();
        assert_eq!(carried.matches(&view), expected, "{}", filter.explain());
    }
}
