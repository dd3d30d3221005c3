//! Properties of query documents: the printed text parses to the same query, evaluation never fails, and necessary conditions
//! hold for every node that matches.

use muster_filter::state::{MapField, NodeFacts, NodeView};
use muster_filter::{DocumentQuery, NodeFilter, TruthValue};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

const KEYS: [&str; 6] = ["a", "b", "c", "a.b", "0", "$d"];
const PATHS: [&str; 18] = [
    "facts.a",
    "facts.b",
    "facts.c",
    "facts.a.b",
    "facts.a.0",
    "facts.a.0.b",
    "facts.b.a.c",
    "facts.\"a.b\"",
    "facts.$d",
    "facts.a.\"$d\"",
    "facts",
    "state.a",
    "state",
    "classes",
    "classes.0",
    "agents",
    "collectives",
    "identity",
];
const ELEMENT_PATHS: [&str; 5] = ["a", "b", "a.b", "a.0", "\"a.b\""];
const TEXTS: [&str; 14] = [
    "a",
    "b",
    "B",
    "Ä",
    "ä",
    "5",
    "05",
    "5.0",
    "-3",
    "true",
    "True",
    "2026-01-01",
    "x\"y\\/'\n",
    "",
];
const EXPRESSIONS: [&str; 5] = ["/a/", "/B/i", "/^[/5]/m", "/\\//", "/./sx"];

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-4_i64..8).prop_map(Value::from),
        Just(Value::from(9_007_199_254_740_993_u64)),
        (-8_i32..12).prop_map(|halves| Value::from(f64::from(halves) / 2.0)),
        select(&TEXTS[..]).prop_map(Value::from),
    ]
}

fn nested_value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(select(&KEYS[..]).prop_map(str::to_owned), inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn facts() -> impl Strategy<Value = NodeFacts> {
    btree_map(select(&KEYS[..]).prop_map(str::to_owned), nested_value(), 0..5)
        .prop_map(|map| NodeFacts::from_map(map.into_iter().collect()).unwrap())
}

/// A literal without keys that begin with `$`, which literals refuse.
fn literal() -> impl Strategy<Value = String> {
    nested_value().prop_map(|value| without_dollars(value).to_string())
}

fn without_dollars(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_dollars).collect(),
        Value::Object(map) => {
            let map = map.into_iter().filter(|(key, _)| !key.starts_with('$'));
            Value::Object(map.map(|(key, value)| (key, without_dollars(value))).collect())
        }
        other => other,
    }
}

fn item() -> impl Strategy<Value = String> {
    prop_oneof![4 => literal(), 1 => select(&EXPRESSIONS[..]).prop_map(str::to_owned)]
}

/// A document of operators.
fn operators() -> impl Strategy<Value = String> {
    let list = || vec(item(), 0..4).prop_map(|items| items.join(","));
    let scalar = || scalar().prop_map(|value| value.to_string());
    let leaf = prop_oneof![
        literal().prop_map(|value| format!("$eq: {value}")),
        literal().prop_map(|value| format!("$ne: {value}")),
        (select(&["$gt", "$gte", "$lt", "$lte"][..]), scalar())
            .prop_map(|(operator, value)| format!("{operator}: {value}")),
        (select(&["$in", "$nin", "$all"][..]), list())
            .prop_map(|(operator, list)| format!("{operator}: [{list},]").replace("[,]", "[]")),
        any::<bool>().prop_map(|wanted| format!("$exists: {wanted}")),
        (0..4).prop_map(|count| format!("$size: {count}")),
        select(&["array", "number", "int", "string", "null", "object"][..])
            .prop_map(|name| format!("$type: {name}")),
        (1..4, -1..3).prop_map(|(divisor, rest)| format!("$mod: [{divisor}, {rest}]")),
        select(&EXPRESSIONS[..]).prop_map(|regex| format!("$regex: {regex}")),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| format!("$not: {{{inner}}}")),
            inner.clone().prop_map(|inner| format!("$elemMatch: {{{inner}}}")),
            (select(&ELEMENT_PATHS[..]), inner)
                .prop_map(|(path, inner)| format!("$elemMatch: {{{path}: {{{inner}}}}}")),
        ]
    })
}

/// A query document of equalities, which a node of [`node`] often satisfies.
fn equalities() -> impl Strategy<Value = String> {
    let value = || {
        select(
            &["5", "'5'", "'05'", "-3", "true", "'True'", "'b'", "'B'", "'Ä'", "1.0", "null"][..],
        )
    };
    let test = prop_oneof![
        value().prop_map(str::to_owned),
        (select(&["$in", "$all"][..]), vec(value(), 1..4))
            .prop_map(|(operator, list)| format!("{{{operator}: [{}]}}", list.join(", "))),
    ];
    let path = select(
        &["facts.a", "facts.a.b", "facts.a.0", "classes", "agents", "identity", "classes.0"][..],
    );
    let field = (path, test).prop_map(|(path, test)| format!("{{{path}: {test}}}"));
    field.prop_recursive(2, 4, 2, |inner| {
        prop_oneof![
            (select(&["$and", "$or"][..]), vec(inner.clone(), 1..3))
                .prop_map(|(operator, list)| format!("{{{operator}: [{}]}}", list.join(", "))),
            inner.prop_map(|inner| format!("{{$loose: {inner}}}")),
        ]
    })
}

/// Facts whose names and values are those of [`equalities`].
fn similar_facts() -> impl Strategy<Value = NodeFacts> {
    let value = || {
        let values = [
            json!(5),
            json!("5"),
            json!("05"),
            json!(5.0),
            json!(-3),
            json!(true),
            json!("TRUE"),
            json!("b"),
            json!("ä"),
            json!("Ä"),
            json!(1),
        ];
        select(values.to_vec())
    };
    let shape = (value(), value(), 0..6_u8).prop_map(|(first, second, shape)| match shape {
        0 => json!([first, second]),
        1 => json!({ "b": first }),
        2 => json!([{ "b": first }, { "b": second }]),
        3 => json!({ "5": first }),
        _ => first,
    });
    shape.prop_map(|value| NodeFacts::from_value(json!({ "a": value })).unwrap())
}

/// A query document with one clause, or several in `$and`, `$or` and `$nor`.
fn document() -> impl Strategy<Value = String> {
    let test = prop_oneof![
        2 => item(),
        3 => operators().prop_map(|operators| format!("{{{operators}}}")),
    ];
    let field = (select(&PATHS[..]), test).prop_map(|(path, test)| format!("{{{path}: {test}}}"));
    field.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            3 => (select(&["$and", "$or", "$nor"][..]), vec(inner.clone(), 1..4))
                .prop_map(|(operator, list)| format!("{{{operator}: [{}]}}", list.join(", "))),
            1 => inner.prop_map(|inner| format!("{{$loose: {inner}}}")),
        ]
    })
}

#[derive(Debug)]
struct Node {
    facts: NodeFacts,
    classes: Vec<String>,
    agents: Vec<String>,
    state: NodeFacts,
}

impl Node {
    fn view(&self) -> NodeView<'_> {
        NodeView::new("b", &self.facts)
            .with_classes(Some(&self.classes))
            .with_agents(&self.agents)
            .with_collectives(&self.agents)
            .with_map(MapField::State, Some(&self.state))
    }
}

fn node() -> impl Strategy<Value = Node> {
    let names = || vec(select(&["a", "b", "ä", "5", "true"][..]).prop_map(str::to_owned), 0..3);
    (facts(), names(), names(), facts()).prop_map(|(facts, classes, agents, state)| Node {
        facts,
        classes,
        agents,
        state,
    })
}

/// The document of a node as plain JSON.
fn to_json(node: &Node) -> Value {
    json!({
        "identity": "b", "facts": node.facts, "classes": node.classes,
        "agents": node.agents, "collectives": node.agents, "state": node.state,
    })
}

/// An independent evaluation of equality with a scalar, over plain JSON: collect all values of a path, then compare.
mod model {
    use super::{Map, Value};

    pub(crate) fn equals_scalar(document: &Value, path: &[&str], literal: &Value) -> bool {
        let mut values = Vec::new();
        collect(document, path, &mut values);
        values.iter().any(|value| match value {
            None => literal.is_null(),
            Some(Value::Array(items)) => items.iter().any(|item| same(item, literal)),
            Some(value) => same(value, literal),
        })
    }

    fn same(a: &Value, b: &Value) -> bool {
        match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => {
                a.total_cmp(&b).is_eq() || (a.abs() + b.abs()).total_cmp(&0.0).is_eq()
            }
            _ => a == b,
        }
    }

    fn collect<'a>(value: &'a Value, path: &[&str], found: &mut Vec<Option<&'a Value>>) {
        let Some((key, rest)) = path.split_first() else { return found.push(Some(value)) };
        let mut below_map = |map: &'a Map<String, Value>| match map.get(*key) {
            Some(value) => collect(value, rest, found),
            None => found.push(None),
        };
        match value {
            Value::Object(map) => below_map(map),
            Value::Array(items) => items.iter().filter_map(Value::as_object).for_each(below_map),
            _ => found.push(None),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a4_2_printed_query_parses_to_the_same_query(text in document()) {
        let query = DocumentQuery::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        let printed = query.to_string();
        let read = DocumentQuery::parse(&printed).unwrap_or_else(|error| panic!("{error}"));
        prop_assert_eq!(&read, &query);
        prop_assert_eq!(read.to_string(), printed);
        let loose = DocumentQuery::parse_loose(&text).unwrap();
        prop_assert_eq!(&DocumentQuery::parse(&loose.to_string()).unwrap(), &loose);
    }

    #[test]
    fn a4_2_evaluation_is_total_and_negation_is_exact(text in document(), node in node()) {
        let view = node.view();
        let query = DocumentQuery::parse(&text).unwrap();
        let negated = DocumentQuery::parse(&format!("{{$nor: [{text}]}}")).unwrap();
        prop_assert_eq!(negated.evaluate(&view), !query.evaluate(&view));
        prop_assert!(query.evaluate(&view) != TruthValue::Unknown);
        let filter = NodeFilter::default().with_query(&text).unwrap();
        prop_assert_eq!(filter.matches(&view), query.matches(&view));
        let wire: NodeFilter =
            serde_json::from_str(&serde_json::to_string(&filter).unwrap()).unwrap();
        prop_assert_eq!(&wire, &filter);
        prop_assert!(!filter.explain().contains(char::is_control));
    }

    /// Only for paths whose first name has no dot, since an exact name takes precedence over nested ones.
    #[test]
    fn a4_2_equality_agrees_with_a_model(
        path in vec(select(&["a", "b", "c"][..]), 1..4), literal in scalar(), node in node(),
    ) {
        prop_assume!(!node.facts.as_map().contains_key(&path.join(".")) || path.len() == 1);
        let text = format!("{{facts.{}: {literal}}}", path.join("."));
        let query = DocumentQuery::parse(&text).unwrap();
        let full_path: Vec<&str> = ["facts"].into_iter().chain(path).collect();
        let expected = model::equals_scalar(&to_json(&node), &full_path, &literal);
        prop_assert_eq!(query.matches(&node.view()), expected, "{} {}", text, to_json(&node));
    }

    #[test]
    fn necessary_conditions_hold_for_matching_nodes(
        documents in vec(prop_oneof![3 => equalities(), 1 => document()], 0..3), loose in any::<bool>(),
        facts in prop_oneof![3 => similar_facts(), 1 => facts()], node in node(),
        terms in vec(select(&["a=5", "a=true", "a=1", "a.b=Ä", "a.b=05", "a=b", "a=05", "a!=1", "a=~b"][..]), 0..2),
        names in select(&["", "a", "b", "/a/"][..]),
    ) {
        let node = Node { facts, ..node };
        let with = if loose { NodeFilter::with_loose_query } else { NodeFilter::with_query };
        let mut filter = NodeFilter::default();
        for text in &documents {
            filter = with(filter, text).unwrap();
        }
        for term in terms {
            filter = filter.with_fact(term).unwrap();
        }
        if !names.is_empty() {
            filter = filter.with_class(names).unwrap().with_identity("b").unwrap();
        }
        if filter.matches(&node.view()) {
            for condition in filter.necessary_conditions() {
                prop_assert!(condition.holds(&node.view()), "{} {:?}", filter.explain(), condition);
            }
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in "[{}\\[\\]:,a-c$./'\" \\\\0-9*-]{0,40}", wild in any::<String>()) {
        for text in [text, wild] {
            if let Ok(query) = DocumentQuery::parse(&text) {
                prop_assert_eq!(DocumentQuery::parse(&query.to_string()).unwrap(), query);
            }
        }
    }
}

/// The conditions are not only sound: equality, `$in` and `$all` are found, through `$and` and `$loose`.
#[test]
fn equality_has_necessary_conditions() {
    let listed = |text: &str| {
        let filter = NodeFilter::default().with_query(text).unwrap();
        let conditions = filter.necessary_conditions();
        conditions.iter().map(|condition| format!("{condition:?}")).collect::<Vec<_>>().join(" ")
    };
    for (text, expected) in [
        ("{identity: 'DB1'}", r#"Identity(["db1"])"#),
        ("{classes: {$in: ['A', 'b']}}", r#"Class(["a", "b"])"#),
        ("{classes: {$all: ['A', /x/]}, agents: 'c'}", r#"Class(["a"]) Agent(["c"])"#),
        (
            "{$and: [{collectives: 'UK'}, {$or: [{classes: a}]}]}",
            r#"Collective(["UK"]) Class(["a"])"#,
        ),
        ("{$or: [{classes: a}, {classes: b}]}", ""),
        ("{$nor: [{classes: a}]}", ""),
        ("{classes: {$in: [a, /b/]}}", ""),
        ("{classes: {$ne: a}}", ""),
        ("{classes: {$nin: []}}", ""),
        ("{facts.a: {$not: {$eq: 1}}}", ""),
        ("{facts.a: null}", ""),
        ("{facts.a: {$in: [1, null]}}", ""),
        ("{facts.a: [1]}", ""),
        ("{facts: {$elemMatch: {a: 1}}}", ""),
    ] {
        assert_eq!(listed(text), expected, "{text}");
    }
    for (text, key) in [
        ("{facts.a.b: 'Acme'}", "Text(\"acme\")"),
        ("{facts.a.b: 0}", "Number(0)"),
        ("{$loose: {facts.a.b: true}}", "Boolean(true)"),
        ("{$loose: {facts.a.b: '0'}}", "Number(0)"),
    ] {
        let found = listed(text);
        assert!(found.starts_with("Value(Facts, ") && found.contains(key), "{text}: {found}");
    }
}
