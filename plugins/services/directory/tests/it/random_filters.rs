//! Random filters of all kinds without data sources.

use muster_filter::NodeFilter;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::random_fleet::{TEXTS, scalar};

const PATHS: [&str; 10] = ["a", "b", "c", "a.b", "a.0", "0", "os", "os.family", "a.a.b", "nosuch"];
const DOCUMENT_PATHS: [&str; 17] = [
    "facts.a",
    "facts.b",
    "facts.c",
    "facts.a.b",
    "facts.a.0",
    "facts.\"a.b\"",
    "facts.$d",
    "facts.os.family",
    "facts",
    "state.a",
    "state.a.b",
    "state.os.family",
    "state",
    "classes",
    "agents",
    "collectives",
    "identity",
];
const CLASS_CONDITIONS: [&str; 6] = ["common", "Mysql::Master", "apache", "/^my/", "/:/", "nosuch"];
const AGENT_CONDITIONS: [&str; 4] = ["rpcutil", "Puppetral", "/^p/", "nosuch"];
const IDENTITY_CONDITIONS: [&str; 6] =
    ["node7.acme.net", "NODE8.acme.net", "/^node1/", "/5/", "/./", "nosuch.acme.net"];
const OPERATORS: [&str; 6] = ["=", "!=", "<", "<=", ">", ">="];
const EXPRESSIONS: [&str; 4] = ["/a/", "/B/i", "/^[-5]/", "/./"];

/// One condition as on the command line: the flag and its value.
#[derive(Debug, Clone)]
pub(crate) struct FilterFlag(char, String);

fn fact() -> impl Strategy<Value = String> {
    let literal = (select(&PATHS[..]), select(&OPERATORS[..]), select(&TEXTS[..11]));
    let regex = (select(&PATHS[..]), select(&EXPRESSIONS[..]));
    prop_oneof![
        3 => literal.prop_map(|(path, operator, value)| format!("{path}{operator}{value}")),
        1 => regex.prop_map(|(path, regex)| format!("{path}=~{}", regex.trim_end_matches('i'))),
    ]
}

fn select_expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![fact(), select(&CLASS_CONDITIONS[..]).prop_map(str::to_owned),];
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| format!("not ({inner})")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one} and {other})")),
            (inner.clone(), inner).prop_map(|(one, other)| format!("({one} or {other})")),
        ]
    })
}

fn document() -> impl Strategy<Value = String> {
    let value = || scalar().prop_map(|value| value.to_string());
    let list = || vec(value(), 0..4).prop_map(|items| format!("[{}]", items.join(", ")));
    let operator = prop_oneof![
        4 => value(),
        1 => value().prop_map(|value| format!("{{$ne: {value}}}")),
        1 => (select(&["$gt", "$gte", "$lt", "$lte"][..]), value())
            .prop_map(|(name, value)| format!("{{{name}: {value}}}")),
        2 => (select(&["$in", "$nin", "$all"][..]), list())
            .prop_map(|(name, list)| format!("{{{name}: {list}}}")),
        1 => any::<bool>().prop_map(|wanted| format!("{{$exists: {wanted}}}")),
        1 => (0..4).prop_map(|size| format!("{{$size: {size}}}")),
        1 => value().prop_map(|value| format!("{{$not: {{$eq: {value}}}}}")),
        1 => (select(&["a", "b", "os"][..]), value())
            .prop_map(|(path, value)| format!("{{$elemMatch: {{{path}: {value}}}}}")),
        1 => select(&EXPRESSIONS[..]).prop_map(str::to_owned),
        1 => select(&["'rpcutil'", "'mysql::master'", "'second'", "'node7.acme.net'"][..])
            .prop_map(str::to_owned),
    ];
    let field = (select(&DOCUMENT_PATHS[..]), operator)
        .prop_map(|(path, operator)| format!("{{{path}: {operator}}}"));
    field.prop_recursive(2, 6, 3, |inner| {
        (select(&["$and", "$or", "$nor"][..]), vec(inner, 1..4))
            .prop_map(|(name, parts)| format!("{{{name}: [{}]}}", parts.join(", ")))
    })
}

fn flag() -> impl Strategy<Value = FilterFlag> {
    prop_oneof![
        2 => fact().prop_map(|text| FilterFlag('F', text)),
        1 => select(&CLASS_CONDITIONS[..]).prop_map(|text| FilterFlag('C', text.to_owned())),
        1 => select(&AGENT_CONDITIONS[..]).prop_map(|text| FilterFlag('A', text.to_owned())),
        1 => select(&IDENTITY_CONDITIONS[..]).prop_map(|text| FilterFlag('I', text.to_owned())),
        1 => (fact(), select(&CLASS_CONDITIONS[..]))
            .prop_map(|(fact, class)| FilterFlag('W', format!("{fact} {class}"))),
        2 => select_expression().prop_map(|text| FilterFlag('S', text)),
        4 => document().prop_map(|text| FilterFlag('Q', text)),
        1 => document().prop_map(|text| FilterFlag('L', text)),
    ]
}

pub(crate) fn flags() -> impl Strategy<Value = Vec<FilterFlag>> {
    vec(flag(), 0..3)
}

/// The filter of these flags, as a command builds it; `None` if the command would be refused.
pub(crate) fn build_filter(flags: &[FilterFlag]) -> Option<NodeFilter> {
    let mut filter = NodeFilter::default();
    for FilterFlag(kind, text) in flags {
        filter = match kind {
            'F' => filter.with_fact(text),
            'C' => filter.with_class(text),
            'A' => filter.with_agent(text),
            'I' => filter.with_identity(text),
            'W' => filter.with_words(text),
            'S' => filter.with_select(text),
            'L' => filter.with_loose_query(text),
            _ => filter.with_query(text),
        }
        .ok()?;
    }
    Some(filter)
}
