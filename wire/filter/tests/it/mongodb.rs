//! The meaning of query documents: a table of cases for the behaviour that `MongoDB`'s manual documents. Each group names its page.

use muster_filter::state::{NodeFacts, NodeView};
use muster_filter::{DocumentQuery, KnownLookups, NodeFilter, TruthValue};
use serde_json::json;

fn facts() -> NodeFacts {
    NodeFacts::from_value(json!({
        "n": 5, "f": 5.5, "neg": -7, "t": "abc", "five": "5", "b": true, "nul": null, "e": "",
        "big": 9_007_199_254_740_993_u64, "long": 5_000_000_000_u64,
        "list": [1, 5, 9], "texts": ["red", "blank"], "empty": [], "nested": [["a", "b"], "c"],
        "mixed": [1, "x", null, {"k": 1}],
        "map": {"h": 14, "w": 21, "uom": "cm"}, "bare": {},
        "disks": [{"name": "sda", "size": 10}, {"name": "sdb", "size": 20}, {"name": "sdc"}],
        "deep": {"a": [{"b": [{"c": 1}, {"c": 2}]}]},
        "a.b": 1, "$d": 2, "x": {"y.z": 3, "$w": 4}, "keys": {"0": "zero"},
        "multi": "First\nSecond", "since": "2026-11-26T08:00:00+01:00", "os": {"family": "Debian"},
        "word": "true", "code": "007",
    }))
    .unwrap()
}

/// Evaluates a query for a node with these facts.
fn evaluate(query: &DocumentQuery) -> TruthValue {
    let facts = facts();
    let classes = ["mysql::master".to_owned(), "role::db".to_owned()];
    let agents = ["puppetral".to_owned(), "rpcutil".to_owned()];
    let collectives = ["muster".to_owned(), "UK".to_owned()];
    query.evaluate(
        &NodeView::new("db1.acme.net", &facts)
            .with_classes(Some(&classes))
            .with_agents(&agents)
            .with_collectives(&collectives),
    )
}

fn check(cases: &[(&str, bool)]) {
    for (text, matches) in cases {
        let query = DocumentQuery::parse(text).unwrap();
        assert_eq!(evaluate(&query), TruthValue::from(*matches), "{text}");
        let read = DocumentQuery::parse(&query.to_string()).unwrap();
        assert_eq!(evaluate(&read), TruthValue::from(*matches), "{read}");
    }
}

/// reference/operator/query/eq, ne, and tutorial/query-documents.
#[test]
fn a4_2_equality() {
    check(&[
        ("{}", true),
        ("{'facts.t': 'abc'}", true),
        ("{'facts.t': 'ABC'}", false),
        ("{'facts.t': {$eq: 'abc'}}", true),
        ("{'facts.n': 5, 'facts.t': 'abc'}", true),
        ("{'facts.n': 5, 'facts.t': 'x'}", false),
        ("{'facts.n': 5.0}", true),
        ("{'facts.n': '5'}", false),
        ("{'facts.five': 5}", false),
        ("{'facts.big': 9007199254740993}", true),
        ("{'facts.big': 9007199254740992}", false),
        ("{'facts.b': true}", true),
        ("{'facts.b': 1}", false),
        ("{'facts.b': 'true'}", false),
        ("{'facts.e': ''}", true),
        ("{'facts.t': {$ne: 'abc'}}", false),
        ("{'facts.t': {$ne: 5}}", true),
        ("{'facts.missing': {$ne: 1}}", true),
        ("{'facts.missing': 1}", false),
        ("{'facts.list': {$ne: 5}}", false),
        ("{'facts.list': {$ne: 6}}", true),
    ]);
}

/// tutorial/query-for-null-fields, reference/operator/query/exists.
#[test]
fn a4_2_null_and_missing() {
    check(&[
        ("{'facts.nul': null}", true),
        ("{'facts.missing': null}", true),
        ("{'facts.n': null}", false),
        ("{'facts.e': null}", false),
        ("{'facts.nul': {$ne: null}}", false),
        ("{'facts.n': {$ne: null}}", true),
        ("{'facts.nul': {$type: 10}}", true),
        ("{'facts.missing': {$type: 'null'}}", false),
        ("{'facts.nul': {$exists: true}}", true),
        ("{'facts.missing': {$exists: true}}", false),
        ("{'facts.missing': {$exists: false}}", true),
        ("{'facts.n.x': {$exists: false}}", true),
        ("{'facts.n.x': null}", true),
        ("{'facts.missing': {$in: [null]}}", true),
        ("{'facts.missing': {$nin: [null]}}", false),
        ("{'facts.nul': {$gte: null}}", true),
        ("{'facts.nul': {$gt: null}}", false),
        ("{'facts.missing': {$lt: 5}}", false),
        ("{'facts.disks.size': null}", true),
        ("{'facts.disks.name': null}", false),
        ("{'facts.mixed': null}", true),
        ("{'facts.list': null}", false),
        ("{'facts.empty': null}", false),
        ("{'facts.empty.x': null}", false),
    ]);
}

/// reference/operator/query/gt, gte, lt, lte, and reference/method/db.collection.find (type bracketing).
#[test]
fn a4_2_order_within_one_type() {
    check(&[
        ("{'facts.n': {$gt: 4}}", true),
        ("{'facts.n': {$gt: 5}}", false),
        ("{'facts.n': {$gte: 5}}", true),
        ("{'facts.n': {$lt: 5.5}}", true),
        ("{'facts.f': {$lte: 5.5}}", true),
        ("{'facts.n': {$gt: 1, $lt: 6}}", true),
        ("{'facts.n': {$gt: 1, $lt: 5}}", false),
        ("{'facts.n': {$lt: 'a'}}", false),
        ("{'facts.five': {$gt: 1}}", false),
        ("{'facts.t': {$gt: 'abb'}}", true),
        ("{'facts.t': {$gt: 'ABD'}}", true),
        ("{'facts.t': {$lt: 'B'}}", false),
        ("{'facts.five': {$lt: '10'}}", false),
        ("{'facts.b': {$gt: false}}", true),
        ("{'facts.b': {$gte: 0}}", false),
        ("{'facts.since': {$gt: ISODate('2026-11-26T06:00:00Z')}}", true),
        ("{'facts.since': {$lt: ISODate('2026-11-26T07:00:00Z')}}", false),
        ("{'facts.since': ISODate('2026-11-26T07:00:00.000Z')}", true),
        ("{'facts.n': {$lt: ISODate('2026-11-26')}}", false),
    ]);
}

/// tutorial/query-arrays, tutorial/query-array-of-documents.
#[test]
fn a4_2_lists_and_paths() {
    check(&[
        ("{'facts.texts': 'red'}", true),
        ("{'facts.texts': ['red', 'blank']}", true),
        ("{'facts.texts': ['blank', 'red']}", false),
        ("{'facts.texts': ['red']}", false),
        ("{'facts.nested': ['a', 'b']}", true),
        ("{'facts.nested': 'a'}", false),
        ("{'facts.list': {$gt: 8}}", true),
        // Different elements may satisfy the two conditions.
        ("{'facts.list': {$gt: 6, $lt: 2}}", true),
        ("{'facts.list': {$elemMatch: {$gt: 6, $lt: 2}}}", false),
        ("{'facts.list.1': 5}", true),
        ("{'facts.list.1': {$gt: 8}}", false),
        ("{'facts.list.7': {$exists: false}}", true),
        ("{'facts.keys.0': 'zero'}", true),
        ("{'facts.empty': []}", true),
        ("{'facts.list': []}", false),
        ("{'facts.disks.name': 'sdb'}", true),
        ("{'facts.disks.1.name': 'sdb'}", true),
        ("{'facts.disks.0.name': 'sdb'}", false),
        ("{'facts.disks.size': {$lte: 10}}", true),
        ("{'facts.disks.name': {$ne: 'sdb'}}", false),
        ("{'facts.disks': {name: 'sda', size: 10}}", true),
        ("{'facts.disks': {size: 10, name: 'sda'}}", true),
        ("{'facts.disks': {name: 'sda'}}", false),
        // Different elements again.
        ("{'facts.disks.name': 'sda', 'facts.disks.size': 20}", true),
        ("{'facts.deep.a.b.c': 2}", true),
        ("{'facts.deep.a.0.b.1.c': 2}", true),
        ("{'facts.deep.a.b.0.c': 2}", false),
        ("{'facts.deep.a.x': {$exists: false}}", true),
    ]);
}

/// tutorial/query-embedded-documents. The order of keys does not matter here.
#[test]
fn a4_2_embedded_documents() {
    check(&[
        ("{'facts.map': {h: 14, w: 21, uom: 'cm'}}", true),
        ("{'facts.map': {w: 21, h: 14, uom: 'cm'}}", true),
        ("{'facts.map': {h: 14, w: 21}}", false),
        ("{'facts.map': {h: 14.0, w: 21, uom: cm}}", true),
        ("{'facts.map.h': {$lt: 15}}", true),
        ("{'facts.bare': {}}", true),
        ("{'facts.map': {}}", false),
        ("{facts: {}}", false),
        ("{facts: {$type: 'object'}}", true),
    ]);
}

/// reference/operator/query/in, nin, all, size, elemMatch.
#[test]
fn a4_2_list_operators() {
    check(&[
        ("{'facts.n': {$in: [4, 5]}}", true),
        ("{'facts.n': {$in: []}}", false),
        ("{'facts.n': {$in: ['5']}}", false),
        ("{'facts.list': {$in: [9, 10]}}", true),
        ("{'facts.t': {$in: [/^a/, 'x']}}", true),
        ("{'facts.t': {$in: [/^b/]}}", false),
        ("{'facts.n': {$nin: [4, 6]}}", true),
        ("{'facts.missing': {$nin: [4, 6]}}", true),
        ("{'facts.list': {$nin: [9]}}", false),
        ("{'facts.t': {$nin: [/^a/]}}", false),
        ("{'facts.texts': {$all: ['blank', 'red']}}", true),
        ("{'facts.texts': {$all: ['red', 'green']}}", false),
        ("{'facts.texts': {$all: [/^r/, 'blank']}}", true),
        ("{'facts.t': {$all: ['abc']}}", true),
        ("{'facts.nested': {$all: [['a', 'b']]}}", true),
        ("{'facts.list': {$all: []}}", false),
        (
            "{'facts.disks': {$all: [{$elemMatch: {name: sda, size: 10}}, {$elemMatch: {name: sdb}}]}}",
            true,
        ),
        ("{'facts.list': {$size: 3}}", true),
        ("{'facts.empty': {$size: 0}}", true),
        ("{'facts.n': {$size: 1}}", false),
        ("{'facts.nested': {$size: 2}}", true),
        ("{'facts.list': {$elemMatch: {$gte: 5, $lt: 6}}}", true),
        ("{'facts.n': {$elemMatch: {$gte: 5}}}", false),
        ("{'facts.disks': {$elemMatch: {name: 'sda', size: 20}}}", false),
        ("{'facts.disks': {$elemMatch: {name: 'sdb', size: {$gt: 15}}}}", true),
        ("{'facts.disks': {$elemMatch: {size: null}}}", true),
        ("{'facts.disks': {$elemMatch: {$or: [{name: 'x'}, {size: 20}]}}}", true),
        ("{'facts.deep.a': {$elemMatch: {b: {$elemMatch: {c: 2}}}}}", true),
        ("{'facts.nested': {$elemMatch: {$eq: 'a'}}}", false),
        ("{'facts.nested': {$elemMatch: {$elemMatch: {$eq: 'a'}}}}", true),
        ("{'facts.nested': {$elemMatch: {$size: 2}}}", true),
        ("{'facts.list': {$elemMatch: {$ne: 5}}}", true),
        ("{'facts.list': {$elemMatch: {$not: {$gt: 0}}}}", false),
    ]);
}

/// reference/operator/query/and, or, nor, not.
#[test]
fn a4_2_logic() {
    check(&[
        ("{$and: [{'facts.n': 5}, {'facts.t': 'abc'}]}", true),
        ("{$and: [{'facts.n': 5}, {'facts.n': 6}]}", false),
        ("{$and: [{'facts.list': 1}, {'facts.list': 9}]}", true),
        ("{$or: [{'facts.n': 6}, {'facts.t': 'abc'}]}", true),
        ("{$or: [{'facts.n': 6}, {'facts.t': 'x'}]}", false),
        ("{$or: [{'facts.n': 5}], 'facts.t': 'x'}", false),
        ("{$nor: [{'facts.n': 6}, {'facts.t': 'x'}]}", true),
        ("{$nor: [{'facts.n': 5}, {'facts.t': 'x'}]}", false),
        ("{$nor: [{'facts.missing': 5}]}", true),
        ("{'facts.n': {$not: {$gt: 5}}}", true),
        ("{'facts.missing': {$not: {$gt: 5}}}", true),
        ("{'facts.t': {$not: {$gt: 5}}}", true),
        ("{'facts.t': {$not: /^a/}}", false),
        ("{'facts.t': {$not: {$regex: '^b'}}}", true),
        ("{'facts.list': {$not: {$gt: 8}}}", false),
        ("{'facts.n': {$not: {$gt: 1, $lt: 5}}}", true),
        ("{'facts.n': {$not: {$not: {$eq: 5}}}}", true),
    ]);
}

/// reference/operator/query/regex, type, mod.
#[test]
fn a4_2_regex_type_and_mod() {
    check(&[
        ("{'facts.t': /B/i}", true),
        ("{'facts.t': /B/}", false),
        ("{'facts.t': {$regex: 'b'}}", true),
        ("{'facts.t': {$regex: 'B', $options: 'i'}}", true),
        ("{'facts.t': {$regex: /^A/, $options: 'i'}}", true),
        ("{'facts.t': {$regex: '^a', $ne: 'abc'}}", false),
        ("{'facts.multi': /^Second/}", false),
        ("{'facts.multi': /^Second/m}", true),
        ("{'facts.multi': /First.Second/}", false),
        ("{'facts.multi': /First.Second/s}", true),
        ("{'facts.t': /a b c # comment/x}", true),
        ("{'facts.n': /5/}", false),
        ("{'facts.texts': /^bl/}", true),
        ("{'facts.missing': /x/}", false),
        ("{'facts.n': {$type: 'number'}}", true),
        ("{'facts.n': {$type: 'int'}}", true),
        ("{'facts.long': {$type: 'int'}}", false),
        ("{'facts.long': {$type: 'long'}}", true),
        ("{'facts.f': {$type: 'double'}}", true),
        ("{'facts.f': {$type: 1}}", true),
        ("{'facts.five': {$type: ['number', 'bool']}}", false),
        ("{'facts.five': {$type: ['number', 'string']}}", true),
        ("{'facts.list': {$type: 'array'}}", true),
        ("{'facts.list': {$type: 'number'}}", true),
        ("{'facts.list': {$type: 'string'}}", false),
        ("{'facts.map': {$type: 'object'}}", true),
        ("{'facts.b': {$type: 'bool'}}", true),
        ("{'facts.n': {$mod: [4, 1]}}", true),
        ("{'facts.n': {$mod: [4, 0]}}", false),
        ("{'facts.neg': {$mod: [4, -3]}}", true),
        ("{'facts.f': {$mod: [5, 0]}}", true),
        ("{'facts.list': {$mod: [9, 0]}}", true),
        ("{'facts.five': {$mod: [4, 1]}}", false),
    ]);
}

/// The document of a node: names ignore case as with `-C`, `-A` and `-I`; collectives and facts do not.
#[test]
fn a4_1_document_of_a_node() {
    check(&[
        ("{'facts.os.family':Debian, 'facts.t':abc, classes: 'mysql::master'}", true),
        ("{classes: 'Mysql::Master'}", true),
        ("{classes: 'mysql'}", false),
        ("{classes: /^role::/}", true),
        ("{classes: /^Role::/}", false),
        ("{classes: {$all: ['role::db', 'mysql::master']}}", true),
        ("{classes: {$size: 2}}", true),
        ("{classes.1: 'role::db'}", true),
        ("{classes: ['mysql::master', 'role::db']}", true),
        ("{classes: {$ne: 'ROLE::db'}}", false),
        ("{agents: 'RPCUtil'}", true),
        ("{agents: {$nin: ['shell']}}", true),
        ("{identity: 'DB1.acme.net'}", true),
        ("{identity: {$in: [/^db/, 'web1']}}", true),
        ("{identity: {$lt: 'EB'}}", true),
        ("{identity: {$size: 1}}", false),
        ("{collectives: 'UK'}", true),
        ("{collectives: 'uk'}", false),
        ("{collectives: {$exists: true}}", true),
    ]);
}

/// Keys with dots and `$` are addressed with quoted segments.
#[test]
fn a4_3_keys_with_dots_and_dollars() {
    check(&[
        ("{'facts.\"a.b\"': 1}", true),
        ("{facts.\"a.b\": 1}", true),
        ("{'facts.a.b': 1}", true),
        ("{'facts.x.\"y.z\"': 3}", true),
        ("{'facts.x.y.z': {$exists: false}}", true),
        ("{facts.x.'$w': 4}", true),
        ("{'facts.$d': 2}", true),
        ("{'facts.\"$d\"': 2}", true),
        ("{'facts.x': {'y.z': 3}}", false),
    ]);
}

#[test]
fn loose_queries_compare_numbers_and_texts() {
    for (text, strict, loose) in [
        ("{'facts.five': 5}", false, true),
        ("{'facts.n': '5'}", false, true),
        ("{'facts.n': '5.0'}", false, true),
        ("{'facts.five': {$gt: 4}}", false, true),
        ("{'facts.five': {$lt: '10'}}", false, true),
        ("{'facts.five': {$ne: 5}}", true, false),
        ("{'facts.five': {$in: [4, 5]}}", false, true),
        ("{'facts.five': {$nin: [4, 5]}}", true, false),
        ("{'facts.code': 7}", false, true),
        ("{'facts.word': true}", false, true),
        ("{'facts.b': 'true'}", false, true),
        ("{'facts.b': 1}", false, false),
        ("{'facts.t': 'abc'}", true, true),
        ("{'facts.t': {$gt: 5}}", false, false),
        ("{'facts.map': {h: '14', w: 21, uom: cm}}", false, true),
        ("{'facts.disks': {$elemMatch: {size: '20'}}}", false, true),
        ("{'facts.missing': 5}", false, false),
        ("{'facts.missing': null}", true, true),
    ] {
        let query = DocumentQuery::parse(text).unwrap();
        assert_eq!(evaluate(&query), TruthValue::from(strict), "{text}");
        let query = DocumentQuery::parse_loose(text).unwrap();
        assert_eq!(evaluate(&query), TruthValue::from(loose), "loose {text}");
        let query = DocumentQuery::parse(&query.to_string()).unwrap();
        assert_eq!(evaluate(&query), TruthValue::from(loose), "{query}");
    }
}

/// Before facts and classes were read once, conditions on them are unknown, and so are their negations.
#[test]
fn unread_sources_are_unknown() {
    let facts = facts().with_known_names(["n".to_owned()].into());
    let node = NodeView::new("db1", &facts).with_classes(None);
    for (text, truth) in [
        ("{'facts.n': 5}", TruthValue::True),
        ("{'facts.t': 'abc'}", TruthValue::Unknown),
        ("{'facts.t': {$ne: 'abc'}}", TruthValue::Unknown),
        ("{facts: {$exists: true}}", TruthValue::Unknown),
        ("{classes: a}", TruthValue::Unknown),
        ("{$nor: [{classes: a}]}", TruthValue::Unknown),
        ("{$or: [{classes: a}, {'facts.n': 5}]}", TruthValue::True),
        ("{classes: a, 'facts.n': 6}", TruthValue::False),
        ("{$loose: {classes: {$nin: [a]}}}", TruthValue::Unknown),
    ] {
        assert_eq!(DocumentQuery::parse(text).unwrap().evaluate(&node), truth, "{text}");
        let filter = NodeFilter::default().with_query(text).unwrap();
        assert_eq!(filter.matches(&node), truth == TruthValue::True, "{text}");
    }
    let filter = NodeFilter::default().with_query("{classes: a, 'facts.n': 5}").unwrap();
    let conditions = filter.evaluate_conditions(&node, &KnownLookups::default());
    let truths: Vec<_> = conditions.iter().map(|(text, truth)| (text.as_str(), *truth)).collect();
    let class = ("-Q {\"classes\":\"a\"}", TruthValue::Unknown);
    assert_eq!(truths, [class, ("-Q {\"facts.n\":5}", TruthValue::True)]);
    assert_eq!(filter.unknown_conditions(&node, &KnownLookups::default()), ["{\"classes\":\"a\"}"]);
}
