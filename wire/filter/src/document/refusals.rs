//! Tests of the parser: canonical texts, refusals with their column, limits, and descriptions in English.

use super::DocumentQuery;
use crate::NodeFilter;
use crate::limits::MAX_QUERY_BYTES;

#[test]
fn every_form_has_one_canonical_text() {
    for (text, printed) in [
        ("{}", "{}"),
        (
            "{'facts.customer': 'acme', 'facts.environment':development, classes: 'mysql::master'}",
            r#"{"facts.customer":"acme","facts.environment":"development","classes":"mysql::master"}"#,
        ),
        (" { identity : \"db1\" , } // end", r#"{"identity":"db1"}"#),
        ("/* a */ {classes: /* b */ [a, 'b',],}", r#"{"classes":["a","b"]}"#),
        ("{facts.\"a.b\".c: 1}", r#"{"facts.\"a.b\".c":1}"#),
        ("{'facts.\"a.b\"': 1}", r#"{"facts.\"a.b\"":1}"#),
        ("{facts.'$x': 1, facts.$y: 2}", r#"{"facts.'$x'":1,"facts.$y":2}"#),
        ("{facts.a::b: c::d}", r#"{"facts.a::b":"c::d"}"#),
        (
            "{facts.a:1,facts.b:-1.5e3,facts.c:true}",
            r#"{"facts.a":1,"facts.b":-1500.0,"facts.c":true}"#,
        ),
        (
            "{'facts.a': 'it\\'s \\\\ \\u00e9\\ud83d\\ude00\\n\\/'}",
            "{\"facts.a\":\"it's \\\\ é😀\\u000a/\"}",
        ),
        ("{classes: {$eq: 'a'}}", r#"{"classes":"a"}"#),
        ("{classes: {$regex: 'a/b'}}", r#"{"classes":/a\/b/}"#),
        ("{classes: /a\\/[/]b/i}", r#"{"classes":/a\/[\/]b/i}"#),
        ("{classes: /^a$/xmi}", r#"{"classes":/(?mx)^a$/i}"#),
        ("{classes: {$options: 's', $regex: 'a'}}", r#"{"classes":/(?s)a/}"#),
        (
            "{classes: {$ne: 'a', $regex: 'b', $options: 'i', $size: 2}}",
            r#"{"classes":{"$ne":"a","$regex":/b/i,"$size":2}}"#,
        ),
        ("{classes: {$not: {$regex: 'a'}}}", r#"{"classes":{"$not":/a/}}"#),
        ("{facts.a: {$type: 2}}", r#"{"facts.a":{"$type":["string"]}}"#),
        ("{facts.a: {$type: [int, 'null']}}", r#"{"facts.a":{"$type":["int","null"]}}"#),
        ("{facts.a: {$exists: 1}}", r#"{"facts.a":{"$exists":true}}"#),
        ("{facts.a: {$gt: ISODate('2026-01-01')}}", r#"{"facts.a":{"$gt":ISODate("2026-01-01")}}"#),
        ("{facts.a: {b: {c: [1, null]}}}", r#"{"facts.a":{"b":{"c":[1,null]}}}"#),
        ("{facts.a: {}}", r#"{"facts.a":{}}"#),
        (
            "{facts.a: {$elemMatch: {b: 1, 'c.d': {$lt: 2}}}}",
            r#"{"facts.a":{"$elemMatch":{"b":1,"c.d":{"$lt":2}}}}"#,
        ),
        ("{facts.a: {$elemMatch: {$gt: 1}}}", r#"{"facts.a":{"$elemMatch":{"$gt":1}}}"#),
        (
            "{facts.a: {$elemMatch: {$or: [{b: 1}, {}]}}}",
            r#"{"facts.a":{"$elemMatch":{"$or":[{"b":1},{}]}}}"#,
        ),
        ("{facts.a: {$all: [1, /b/, {$elemMatch: {c: 1}}]}}", ""),
        ("{facts.a: {$mod: [4, 0]}}", r#"{"facts.a":{"$mod":[4,0]}}"#),
        ("{$nor: [{classes: a}]}", r#"{"$nor":[{"classes":"a"}]}"#),
        ("{$loose: {facts.a: 1}}", r#"{"$loose":{"facts.a":1}}"#),
    ] {
        let query = DocumentQuery::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        if !printed.is_empty() {
            assert_eq!(query.to_string(), printed, "{text}");
        }
        assert_eq!(DocumentQuery::parse(&query.to_string()).unwrap(), query, "{text}");
    }
}

#[test]
fn invalid_queries_are_refused_with_their_column() {
    for (text, column, expected) in [
        ("", 1, "a value"),
        ("   ", 4, "a value"),
        ("classes", 1, "a query document"),
        ("'classes'", 1, "a query document"),
        ("[]", 1, "a query document"),
        ("{", 2, "a key, or the closing }"),
        ("{classes}", 9, "a colon"),
        ("{classes:}", 10, "a value"),
        ("{classes: a", 12, "a comma or the closing }"),
        ("{classes: a} x", 14, "the end of the query"),
        ("{classes: a b}", 13, "a comma or the closing }"),
        ("{classes: [a b]}", 14, "a comma or the closing ]"),
        ("{,}", 2, "a key"),
        ("{'a", 4, "the closing quote"),
        ("{é: 'a}", 8, "the closing quote"),
        ("{classes: 'a\tb'}", 13, "an escape"),
        ("{classes: '\\d'}", 12, "an escape of JSON"),
        ("{classes: '\\ud800'}", 12, "a valid character"),
        ("{classes: '\\u12'}", 12, "four hexadecimal digits"),
        ("{classes: /a", 13, "a closing /"),
        ("{classes: /a/g}", 12, "the flags i, m, s and x"),
        ("{classes: /(/}", 12, "a valid regular expression"),
        ("{classes: /(?=a)/}", 12, "a valid regular expression"),
        ("{classes: /\\w{500}/}", 12, "a smaller regular expression"),
        ("{classes: {$regex: ''}}", 21, "not empty"),
        ("{classes: a /* b", 17, "*/"),
        ("{facts.a: 1.2.3}", 11, "a text in quotes"),
        ("{facts.a: 007}", 11, "a text in quotes"),
        ("{facts.a: 1e999}", 11, "a text in quotes"),
        ("{facts.a: +1}", 11, "a text in quotes"),
        ("{facts.a: 12ab}", 11, "a text in quotes"),
        ("{facts.a: nil}", 11, "true, false or null"),
        ("{facts.a: True}", 11, "true, false or null"),
        ("{facts.a: undefined}", 11, "true, false or null"),
        ("{facts.a: $b}", 11, "needs quotes"),
        ("{facts.a: sleep(1)}", 11, "ISODate"),
        ("{facts.a: ISODate(1)}", 19, "a date in quotes"),
        ("{facts.a: ISODate('1.1.26')}", 20, "a date such as"),
        ("{facts.a: new Date()}", 11, "true, false or null"),
        ("{$where: 'this.a'}", 2, "queries contain no code"),
        ("{facts.a: {$where: 'x'}}", 12, "queries contain no code"),
        ("{facts.a: {$function: {}}}", 12, "queries contain no code"),
        ("{$expr: {$gt: [1, 2]}}", 2, "queries contain no code"),
        ("{$text: {$search: 'a'}}", 2, "use a regular expression"),
        ("{$gt: 1}", 2, "after the path of a field"),
        ("{facts.a: {$and: []}}", 12, "in place of a path"),
        ("{facts.a: {$gtt: 1}}", 12, "did you mean $gt"),
        ("{facts.a: {$near: 1}}", 12, "$near is unknown"),
        ("{facts.a: {$gt: 1, b: 2}}", 20, "an operator such as $gt"),
        ("{facts.a: {b: 2, $gt: 1}}", 18, "after a dotted path"),
        ("{facts.a: {b: {$gt: 1}}}", 16, "after a dotted path"),
        ("{classes: a, classes: b}", 14, "each key once"),
        ("{classes: a, 'classes': b}", 15, "each key once"),
        ("{facts.a: {b: 1, b: 1}}", 18, "each key once"),
        ("{facts.a: {$gt: 1, $gt: 2}}", 20, "each key once"),
        ("{$and: []}", 8, "at least one query document for $and"),
        ("{$or: []}", 7, "at least one query document for $or"),
        ("{$nor: []}", 8, "at least one query document for $nor"),
        ("{$or: {classes: a}}", 7, "at least one query document for $or"),
        ("{$or: [classes]}", 8, "a query document"),
        ("{customer: acme}", 2, "a fact is written facts.customer"),
        ("{fact.a: 1}", 2, "did you mean facts?"),
        ("{clases: a}", 2, "did you mean classes?"),
        ("{fqdn: a}", 2, "did you mean identity?"),
        ("{identity.a: 1}", 10, "identity is a text"),
        ("{classes.name: 1}", 10, "classes is a list of texts"),
        ("{facts.: 1}", 8, "the name of a fact"),
        ("{'facts.a b': 1}", 10, "a dot or the end"),
        ("{'facts.disks.#.size': 1}", 15, "without wildcards"),
        ("{facts.\"a: 1}", 8, "a closing quote"),
        ("{facts.a: {$not: 1}}", 18, "$ne for a value"),
        ("{facts.a: {$not: {}}}", 18, "operators or a /regex/"),
        ("{facts.a: {$in: 1}}", 17, "a list after $in"),
        ("{facts.a: {$in: [{$gt: 1}]}}", 18, "values and regular expressions"),
        ("{facts.a: {$all: [{$gt: 1}]}}", 19, "$elemMatch"),
        ("{facts.a: {$gt: [1]}}", 17, "after $gt"),
        ("{facts.a: {$gt: /a/}}", 17, "a value"),
        ("{facts.a: {$eq: /a/}}", 17, "a value"),
        ("{facts.a: {$ne: /a/}}", 17, "a value"),
        ("{facts.a: [/a/]}", 12, "a value"),
        ("{facts.a: {$exists: yes}}", 21, "true or false"),
        ("{facts.a: {$size: -1}}", 19, "a whole number"),
        ("{facts.a: {$size: 1.5}}", 19, "a whole number"),
        ("{facts.a: {$size: {$gt: 1}}}", 19, "the number of elements"),
        ("{facts.a: {$type: date}}", 19, "a type of JSON"),
        ("{facts.a: {$type: []}}", 19, "a type of JSON"),
        ("{facts.a: {$mod: [0, 1]}}", 18, "the first not 0"),
        ("{facts.a: {$mod: [4]}}", 18, "two whole numbers"),
        ("{facts.a: {$options: i}}", 12, "$regex before $options"),
        ("{facts.a: {$regex: /a/i, $options: m}}", 36, "not both"),
        ("{facts.a: {$elemMatch: 1}}", 24, "after $elemMatch"),
        ("{facts.a: {$elemMatch: {'b c': 1}}}", 27, "a dot or the end"),
    ] {
        let error = DocumentQuery::parse(text).unwrap_err();
        assert_eq!(error.column(), column, "{text:?}: {error}");
        assert!(error.expected().contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn size_depth_and_counts_are_limited() {
    let nested = |depth: usize| {
        let levels = depth - 1;
        format!("{{facts.a: {}{}}}", "[".repeat(levels), "]".repeat(levels))
    };
    assert!(DocumentQuery::parse(&nested(32)).is_ok());
    let error = DocumentQuery::parse(&nested(33)).unwrap_err();
    assert!(error.expected().contains("32 levels"), "{error}");
    assert!(DocumentQuery::parse_loose(&nested(31)).is_ok());
    assert!(DocumentQuery::parse_loose(&nested(32)).is_err());
    assert!(DocumentQuery::parse(&"[".repeat(60_000)).is_err());
    assert!(DocumentQuery::parse(&"{a:".repeat(20_000)).is_err());

    let sized = |bytes: usize| format!("{{\"facts.a\":'{}'}}", "x".repeat(bytes - 14));
    assert_eq!(sized(MAX_QUERY_BYTES).len(), MAX_QUERY_BYTES);
    assert!(DocumentQuery::parse(&sized(MAX_QUERY_BYTES)).is_ok());
    assert!(DocumentQuery::parse(&sized(MAX_QUERY_BYTES + 1)).is_err());
    // The canonical text is longer than this input, and a receiver must be able to parse it.
    let escapes = format!("{{facts.a: '{}'}}", "\\n".repeat(20_000));
    assert!(DocumentQuery::parse(&escapes).unwrap_err().expected().contains("65,536"));

    let values = |count: usize| format!("{{facts.a: {{$in: [{}]}}}}", "1,".repeat(count));
    assert!(DocumentQuery::parse(&values(1000)).is_ok());
    assert!(DocumentQuery::parse(&values(1001)).is_err());
    let regexes = |count: usize| format!("{{facts.a: {{$in: [{}]}}}}", "/a/,".repeat(count));
    assert!(DocumentQuery::parse(&regexes(64)).is_ok());
    assert!(DocumentQuery::parse(&regexes(65)).is_err());

    let half = NodeFilter::default().with_query(&values(600)).unwrap();
    assert!(half.clone().merge(half).is_err());
}

#[test]
fn several_queries_are_joined_by_and() {
    let filter = NodeFilter::default()
        .with_query("{classes: a}")
        .and_then(|filter| filter.with_query("{}"))
        .and_then(|filter| filter.with_query("{$and: [{classes: b}, {agents: c}]}"))
        .and_then(|filter| filter.with_loose_query("{facts.d: 1, facts.e: 2}"))
        .unwrap();
    let printed = r#"{"$and":[{"classes":"a"},{"classes":"b"},{"agents":"c"},{"$loose":{"facts.d":1,"facts.e":2}}]}"#;
    assert_eq!(filter.query().unwrap().to_string(), printed);
    let merged = NodeFilter::default().with_query("{classes: a}").unwrap();
    let other = NodeFilter::default().with_query("{$or: [{classes: b}, {classes: c}]}").unwrap();
    assert_eq!(
        merged.merge(other).unwrap().query().unwrap().to_string(),
        r#"{"$and":[{"classes":"a"},{"$or":[{"classes":"b"},{"classes":"c"}]}]}"#
    );
}

#[test]
fn queries_are_explained_in_english() {
    for (text, explained) in [
        (
            "{'facts.customer': 'acme', 'facts.environment':development, classes: 'mysql::master'}",
            r#"nodes whose fact customer equals "acme", whose fact environment equals "development" and that have class "mysql::master""#,
        ),
        (
            "{$or: [{facts.load: {$gte: 2, $lt: 8}}, {identity: /^db/}], agents: {$ne: x}}",
            r#"nodes (whose fact load is at least 2 and is less than 8 or whose identity matches /^db/) and that do not have agent "x""#,
        ),
        (
            "{classes: {$size: 2, $ne: a}, agents: {$in: [b, /c/]}, collectives: {$ne: d}}",
            r#"nodes whose class list is a list of 2 elements and does not equal "a", whose agent list is one of "b" or /c/ and that are not in collective "d""#,
        ),
        (
            "{facts.a: {$not: {$in: [1, /b/]}}, $nor: [{facts.c: null}]}",
            "nodes whose fact a does not satisfy (is one of 1 or /b/) and not (whose fact c is null or missing)",
        ),
        (
            "{facts.disks: {$elemMatch: {name: sda, size: {$exists: true}}}}",
            r#"nodes whose fact disks has an element (whose name equals "sda" and whose size exists)"#,
        ),
        (
            "{$loose: {facts.a: 1}}",
            "nodes whose fact a equals 1 (numbers equal texts of the same number)",
        ),
    ] {
        let filter = NodeFilter::default().with_query(text).unwrap();
        assert_eq!(filter.explain(), explained, "{text}");
    }
}
